"""Who does the work of a stage: this process, or the workers of a Dask cluster. A stage does not know which.

An executor maps a function over small items, tasks and receipts; rows never pass through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

from microagg_core.compiling import Compiling, start_compiling
from microagg_core.formats.reading import has_fewer_rows
from microagg_core.spec.release import Cluster, LocalCluster, NoCluster, ReleaseSpec, RunningCluster
from microagg_flows.progress import Progress, awaited, shown

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Below this many records a release takes seconds in one process, and less than starting a cluster.
SMALL_ROWS = 200_000


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


class OnceCompiled:
    """Those who work on this machine, from the moment when the kernels they need are compiled.

    A worker's memory is for rows, so none of them compiles. What is wrong with a spec or an input's columns is found
    before the first task, and waits for nothing.
    """

    def __init__(self, inner: Executor, compiling: Compiling) -> None:
        self.progress = inner.progress
        self._inner, self._compiling = inner, compiling

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """Apply a function to every item; results in the items' order."""
        with awaited(self.progress, "kernels to be compiled, once for this machine"):
            self._compiling.wait()
        return self._inner.map(function, items, what)

    def memory_per_task(self) -> int | None:
        """As those who work say."""
        return self._inner.memory_per_task()


@contextmanager
def executor_for(spec: ReleaseSpec, progress: Progress) -> Iterator[Executor]:
    """Those who work for a release, while the block lasts.

    Raises:
        ClusterError: the cluster cannot be started or reached, or a worker is not fit for the work.
    """
    cluster = cluster_for(spec)
    if isinstance(cluster, RunningCluster):  # its machines compile for themselves
        with _connected(cluster, spec, progress) as executor:
            yield executor
        return
    with start_compiling(spec.algorithm.name, spec.effort, spec.k, say=progress.say) as compiling:
        if isinstance(cluster, NoCluster):
            yield OnceCompiled(InProcess(progress), compiling)
        else:
            with _connected(cluster, spec, progress) as executor:
                yield OnceCompiled(executor, compiling)


def _connected(
    cluster: LocalCluster | RunningCluster, spec: ReleaseSpec, progress: Progress
) -> AbstractContextManager[Executor]:
    # Dask takes a second to load, and a small release takes two in all.
    from microagg_flows.cluster import connect

    return connect(cluster, spec, progress)
