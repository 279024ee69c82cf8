"""``cluster: none``: the process that was called does the work, one task after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from microagg_core.spec.release import NoCluster, ReleaseSpec
from microagg_flows.executors import Executor, InProcess
from microagg_flows.progress import Progress


@contextmanager
def connect(_cluster: NoCluster, _spec: ReleaseSpec, progress: Progress) -> Iterator[Executor]:
    """Nobody but this process."""
    yield InProcess(progress)
