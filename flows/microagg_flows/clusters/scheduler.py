"""Dask as a release uses it: its settings, and a scheduler in this process whose workers are started elsewhere.

Whoever reaches a Dask scheduler can run code in its workers. So it speaks TLS, with certificates that exist only in the
memory of this process and what each kind of cluster gives its workers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dask
import pyarrow as pa
from distributed import Adaptive, Client, Security, SpecCluster
from distributed.utils import get_ip

from microagg_core.errors import ClusterError
from microagg_core.spec.clusters import StartedWorkers

#: Loggers of callbacks that fail when a connection ends under them, as it does when a run is interrupted or a cluster
#: goes away. What matters of it is raised where the work is waited for, and said in a sentence.
_CALLBACKS = ("tornado.application", "asyncio", "distributed", "distributed.client")
#: Of Arrow's allocators this one keeps least of what is freed: 50 to 90 MiB less for each worker on rows that come
#: through S3, in the same time.
_ARROW = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"} if "jemalloc" in pa.supported_memory_backends() else {}
#: What every worker's environment holds, if the spec says nothing else. Dask has glibc give back whatever is freed
#: above 64 KiB, and by that every larger array is new pages: a third of what a release takes besides its kernels. With
#: these, smaller arrays are made of what was freed, of which at most the first stays. 12 million rows through S3 take
#: 119 CPU s instead of 151, and a worker 658 MiB instead of 620; eight times as much would be faster, with 822 MiB.
_MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(16 * 2**20), "MALLOC_MMAP_THRESHOLD_": str(2**20)}
_VARIABLES = {**_ARROW, **_MALLOC}
_SETTINGS = {
    # 30 s is dask's shortest patience that survives a busy machine.
    "distributed.comm.timeouts.connect": "30s",
    # A worker that is not heard of for so long is given up, and its tasks go to others.
    "distributed.scheduler.worker-ttl": "45s",
    "distributed.worker.daemon": True,
    # Dask looks every 10 ms at what its threads do: a hundredth of a worker's time, for a page of the dashboard.
    "distributed.worker.profile.interval": "100ms",
    # A process of Python's imports Arrow before Dask would set any other variables.
    **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in _VARIABLES.items()},
}


def worker_variables(wanted: Mapping[str, str]) -> dict[str, str]:
    """Add ours to the variables that a spec wants for its workers.

    >>> worker_variables({"ARROW_DEFAULT_MEMORY_POOL": "system"})["ARROW_DEFAULT_MEMORY_POOL"]
    'system'
    """
    return {**_VARIABLES, **wanted}


def pause_share() -> float:
    return float(dask.config.get("distributed.worker.memory.pause") or 1.0)


@contextmanager
def dask_settings() -> Iterator[None]:
    """Set Dask up for a release, while the block lasts."""
    for name in _CALLBACKS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set(_SETTINGS):
        yield


#: How often to look whether there are too many workers or too few, and how many looks long one must have had nothing
#: to do before it is given back: between two stages nobody has.
_LOOK, _IDLE_LOOKS = "1s", 60
#: How long a connection may take to begin.
_CONNECT_SECONDS = 30


class Refilling(Adaptive):
    """Keep as many workers as there is work for, between two bounds; replace those that were lost."""

    async def adapt(self) -> None:
        await super().adapt()
        # Dask itself starts nobody in the place of one that was lost, as its plan still has it.
        cluster: Any = self.cluster
        cluster.scale(len(cluster.worker_spec))


def adapted(cluster: SpecCluster, wanted: StartedWorkers) -> None:
    cluster.adapt(
        Adaptive=Refilling, minimum=wanted.n_least, maximum=wanted.n_most, interval=_LOOK, wait_count=_IDLE_LOOKS
    )


def scheduler_options(host: str | None, security: Security) -> dict[str, Any]:
    """Make options of a scheduler that listens where the workers reach this machine, and nowhere else."""
    return {
        "host": host or get_ip(),  # type: ignore[no-untyped-call]
        "port": 0,
        "protocol": "tls://",
        "security": security,
        "dashboard_address": "127.0.0.1:0",
    }


def tls_settings(security: Security) -> Mapping[str, str]:
    role: dict[str, str] = security.get_tls_config_for_role("worker")  # type: ignore[no-untyped-call]
    return {
        "distributed.comm.require-encryption": "true",
        "distributed.comm.tls.ca-file": role["ca_file"],
        "distributed.comm.tls.worker.cert": role["cert"],
        "distributed.comm.tls.worker.key": role["key"],
    }


@contextmanager
def started(
    kind: str, make: Callable[[Any, Security], SpecCluster], wanted: StartedWorkers
) -> Iterator[tuple[SpecCluster, Client]]:
    """Start a cluster of a kind whose workers come from elsewhere, and connect to it; it ends with the block."""
    security = Security.temporary()  # type: ignore[no-untyped-call]
    try:
        cluster = make(wanted, security)
    except (OSError, RuntimeError, TimeoutError, ValueError):
        raise ClusterError(
            f"no scheduler for the workers can be started here; name an address of this machine in cluster.{kind}.host"
        ) from None
    silent = (
        "the scheduler that was started here does not answer; name the address at which this machine is reached in "
        "host, beside the workers"
    )
    with cluster, connected(cluster, silent, security) as client:
        adapted(cluster, wanted)
        yield cluster, client


@contextmanager
def connected(place: Any, silent: str, security: Any = None) -> Iterator[Client]:
    """Connect to a scheduler, by its address or its cluster; ``silent`` says that it does not answer."""
    try:
        client = Client(  # type: ignore[no-untyped-call]
            place, security=security, timeout=_CONNECT_SECONDS, set_as_default=False
        )
    except (OSError, TimeoutError, RuntimeError, ValueError, TypeError):
        raise ClusterError(silent) from None
    with client:
        yield client
