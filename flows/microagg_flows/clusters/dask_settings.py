"""How this process uses Dask: its patience, and which of its loggers have nothing to say to a user."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dask
import pyarrow as pa

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
    """The variables that a worker starts with.

    >>> worker_variables({"ARROW_DEFAULT_MEMORY_POOL": "system"})["ARROW_DEFAULT_MEMORY_POOL"]
    'system'
    """
    return {**_VARIABLES, **wanted}


def pause_share() -> float:
    """The share of its memory limit at which Dask pauses a worker."""
    return float(dask.config.get("distributed.worker.memory.pause") or 1.0)


@contextmanager
def dask_settings() -> Iterator[None]:
    """Dask as a release uses it, while the block lasts."""
    for name in _CALLBACKS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set(_SETTINGS):
        yield
