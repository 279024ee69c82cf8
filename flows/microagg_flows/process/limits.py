"""What the system must let a process have before it is worth starting anything."""

from __future__ import annotations

import resource

from microagg_core.errors import ClusterError

#: Open files that a scheduler, a worker and the libraries' own files need, with some to spare.
_LEAST_FILES = 64


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
