"""How this process uses Dask: its patience, and which of its loggers have nothing to say to a user."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import dask

#: Loggers of callbacks that fail when a connection ends under them, as it does when a run is interrupted or a cluster
#: goes away. What matters of it is raised where the work is waited for, and said in a sentence.
_CALLBACKS = ("tornado.application", "asyncio", "distributed", "distributed.client")
_SETTINGS = {
    # 30 s is dask's shortest patience that survives a busy machine.
    "distributed.comm.timeouts.connect": "30s",
    # A worker that is not heard of for so long is given up, and its tasks go to others.
    "distributed.scheduler.worker-ttl": "45s",
    "distributed.worker.daemon": True,
}


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
