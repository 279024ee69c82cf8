"""What the system must let a process have before it is worth starting anything."""

from __future__ import annotations

import resource

from microagg_core.errors import ClusterError

#: Open files that a scheduler, a worker and the libraries' own files need, with some to spare.
_LEAST_FILES = 64
#: Addresses that a release takes, most of which it never uses: its libraries reserve them for every thread.
_LEAST_ADDRESSES = 3 * 2**30


def claim_limits() -> None:
    """Have this process and its children be allowed what a release takes.

    Raises:
        ClusterError: the system does not allow it.

    >>> claim_limits()
    """
    claim_open_files()
    refuse_few_addresses()


def refuse_few_addresses() -> None:
    """Refuse to start where addresses would run out on the way (``ulimit -v``).

    Libraries take that badly: some ask again for ever, others wait for threads that could not be started.

    Raises:
        ClusterError: a process may have too few.

    >>> refuse_few_addresses()
    """
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY and most < _LEAST_ADDRESSES:
        least = _LEAST_ADDRESSES // 2**20
        raise ClusterError(
            f"a process may have {most // 2**20} MiB of addresses here, and at least {least} MiB are needed, most of "
            "them never used; raise the limit (ulimit -v), and limit memory otherwise"
        )


def claim_open_files() -> None:
    """Have this process and its children open as many files as the system lets them.

    Raises:
        ClusterError: that is too few for anything to start.

    >>> claim_open_files()
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _LEAST_FILES:
        return
    if hard != resource.RLIM_INFINITY and hard < _LEAST_FILES:
        raise ClusterError(
            f"a process may open {hard} files here, and at least {_LEAST_FILES} are needed; raise the limit (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (_LEAST_FILES if hard < 0 else hard, hard))
