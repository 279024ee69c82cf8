"""A scheduler in this process whose workers are started elsewhere, as many as there is work for.

Whoever reaches a Dask scheduler can run code in its workers. So it speaks TLS, with certificates that exist only in the
memory of this process and what each kind of cluster gives its workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from distributed import Adaptive, Client, Security, SpecCluster
from distributed.utils import get_ip

from microagg_core.errors import ClusterError
from microagg_core.spec.clusters import StartedWorkers

#: How often to look whether there are too many workers or too few, and how many looks long one must have had nothing
#: to do before it is given back: between two stages nobody has.
_LOOK, _IDLE_LOOKS = "1s", 60
#: How long a connection may take to begin.
_CONNECT_SECONDS = 30


class Refilling(Adaptive):
    """As many workers as there is work for, between two bounds; those that were lost are replaced."""

    async def adapt(self) -> None:
        """Look once."""
        await super().adapt()
        # Dask itself starts nobody in the place of one that was lost, as its plan still has it.
        cluster: Any = self.cluster
        cluster.scale(len(cluster.worker_spec))


def adapted(cluster: SpecCluster, wanted: StartedWorkers) -> None:
    """Have a cluster keep as many workers as a spec wants."""
    cluster.adapt(
        Adaptive=Refilling, minimum=wanted.n_least, maximum=wanted.n_most, interval=_LOOK, wait_count=_IDLE_LOOKS
    )


def scheduler_options(host: str | None, security: Security) -> dict[str, Any]:
    """A scheduler that listens where the workers reach this machine, and nowhere else."""
    return {
        "host": host or get_ip(),  # type: ignore[no-untyped-call]
        "port": 0,
        "protocol": "tls://",
        "security": security,
        "dashboard_address": "127.0.0.1:0",
    }


def tls_settings(security: Security) -> Mapping[str, str]:
    """The settings of Dask with which a worker is let in."""
    role: dict[str, str] = security.get_tls_config_for_role("worker")  # type: ignore[no-untyped-call]
    return {
        "distributed.comm.require-encryption": "true",
        "distributed.comm.tls.ca-file": role["ca_file"],
        "distributed.comm.tls.worker.cert": role["cert"],
        "distributed.comm.tls.worker.key": role["key"],
    }


@contextmanager
def client_of(cluster: Any, security: Security) -> Iterator[Client]:
    """A client of a cluster that was started here.

    Raises:
        ClusterError: its scheduler does not answer.
    """
    try:
        client = Client(  # type: ignore[no-untyped-call]
            cluster, security=security, timeout=_CONNECT_SECONDS, set_as_default=False
        )
    except (OSError, TimeoutError, RuntimeError, ValueError):
        raise ClusterError(
            "the scheduler that was started here does not answer; name the address at which this machine is reached in "
            "host, beside the workers"
        ) from None
    with client:
        yield client
