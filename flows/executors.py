"""Who does the work of a stage: this process, or the workers of a Dask cluster. A stage does not know which.

An executor maps a function over small items, tasks and receipts; rows never pass through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from flows.progress import Progress, shown
from microagg_core.spec import Cluster, LocalCluster, NoCluster, ReleaseSpec
from microagg_core.tables.reading import has_fewer_rows

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Below this many records a release takes seconds in one process, and less than starting a cluster.
SMALL_ROWS = 200_000
#: What a worker's process needs beside the rows it works on: Python with its libraries, and compiled kernels.
WORKER_BASE_BYTES = 300 * 2**20


class Executor(Protocol):
    """What a release asks of those who work for it."""

    progress: Progress

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """Apply a function to every item; results in the items' order.

        Raises:
            MicroaggError: the first that a task raised, or why the work cannot go on.
        """

    def memory_per_task(self) -> int | None:
        """Bytes that a task can count on for its rows; None where nobody sets a limit."""


class InProcess:
    """This process does the tasks, one after the other."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """Apply a function to every item, in order."""
        results = []
        with shown(self.progress, what, len(items)) as progress:
            for item in items:
                results.append(function(item))
                progress.advance()
        return results

    def memory_per_task(self) -> int | None:
        """Nobody limits this process."""
        return None


def cluster_for(spec: ReleaseSpec) -> Cluster:
    """The cluster that the spec names; where it names none, no cluster for a small input, and a local one for others.

    Raises:
        MicroaggError: the input has to be looked at, and cannot be read.
    """
    if spec.cluster is not None:
        return spec.cluster
    return NoCluster() if has_fewer_rows(spec.input, SMALL_ROWS) else LocalCluster()


@contextmanager
def executor_for(spec: ReleaseSpec, progress: Progress) -> Iterator[Executor]:
    """Those who work for a release, while the block lasts.

    Raises:
        ClusterError: the cluster cannot be started or reached, or a worker is not fit for the work.
    """
    cluster = cluster_for(spec)
    if isinstance(cluster, NoCluster):
        yield InProcess(progress)
        return
    # Dask takes a second to load, and a small release takes two in all.
    from flows.cluster import connect

    with connect(cluster, spec, progress) as executor:
        yield executor
