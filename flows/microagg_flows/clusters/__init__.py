"""The workers that a release gets, of the kind of cluster that its spec describes.

A kind is an object of :mod:`microagg_core.spec.clusters`, and a module here whose ``hired`` gives workers while its
block lasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from microagg_core.compiling import start_compiling
from microagg_core.data.formats.reading import count_rows
from microagg_core.errors import MicroaggError
from microagg_core.extras import needing
from microagg_core.release.sizing.tasks import most_seconds, planned_seconds
from microagg_core.release.surroundings import Surroundings
from microagg_core.spec.clusters import KINDS, Cluster, ClusterKind, LocalCluster, NoCluster
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.executors import AloneAtFirst, Executor, OnceCompiled
from microagg_flows.progress import Progress

#: A release of which so many CPU seconds are planned at most is made by the process that was called: starting two
#: workers and a Prefect server takes ten.
ALONE_SECONDS = 60.0
#: Rows of a larger input are not counted, which takes a second for so many bytes of CSV.
_COUNTED_BYTES = 256 * 2**20


@dataclass(frozen=True)
class WorkerRecord:
    #: From 1, in the order in which the scheduler names them.
    number: int
    #: Where it listens; empty for the process that was called.
    address: str
    #: Of Python and of what sends tasks, as far as they are known.
    versions: Mapping[str, str]
    #: Names and versions of what decides a release's bytes there; empty where it could not be asked.
    software: Mapping[str, str]
    threads: int
    #: Bytes: the limit, 0 where it has none, and those in use as its scheduler knows them.
    memory_limit: int
    memory: int
    #: Sentences: what is out of its reach, and why it can have no compiled kernels; empty where all is well.
    access: str
    kernels: str
    #: Why a release would not give it work; None where it would.
    unfit: MicroaggError | None


class Workers(Protocol):
    """Workers of one release: asked before it, and given its tasks."""

    def records(self, spec: ReleaseSpec) -> list[WorkerRecord]:
        """Ask each for versions, memory and kernels, and whether the spec's places are in its reach."""

    def surroundings(self, spec: ReleaseSpec, addresses: Sequence[str]) -> dict[str, Surroundings]:
        """Ask workers that are fit for the work what they find around them, by address."""

    def executor(self, spec: ReleaseSpec, progress: Progress) -> Executor: ...


def cluster_for(spec: ReleaseSpec) -> Cluster:
    """Choose the spec's cluster; without one in it, this process for certainly little work, else local workers.

    How much it takes is known once it is planned; until then the most that it may take counts.
    """
    if spec.cluster is not None:
        return spec.cluster
    return NoCluster() if most_seconds(spec, _counted_rows(spec)) <= ALONE_SECONDS else LocalCluster()


def _counted_rows(spec: ReleaseSpec) -> int:
    """Count the input's rows, up to the number that takes too long for one process."""
    of_a_row = (planned_seconds(spec, 10**6) - planned_seconds(spec, 0)) / 10**6
    return count_rows(spec.input, int(ALONE_SECONDS / of_a_row), _COUNTED_BYTES)


def hired_workers(cluster: Cluster, progress: Progress) -> AbstractContextManager[Workers]:
    """Have workers of a cluster while the block lasts; a cluster that was started for it is stopped at the end."""
    kind = kind_of(cluster)
    with needing(kind.extra, f"{kind.what} (without one: cluster: none)"):
        module = import_module(kind.module or f"{__name__}.{kind.name}")
    workers: AbstractContextManager[Workers] = module.hired(cluster, progress)
    return workers


def kind_of(cluster: Cluster) -> ClusterKind:
    return next(kind for kind in KINDS.values() if kind.model is type(cluster))


@contextmanager
def connect(cluster: Cluster, spec: ReleaseSpec, progress: Progress) -> Iterator[Executor]:
    with hired_workers(cluster, progress) as workers:
        yield workers.executor(spec, progress)


def worker_records(cluster: Cluster, spec: ReleaseSpec, progress: Progress) -> list[WorkerRecord]:
    """Ask each worker of a cluster what it is; a cluster that a release would start is started for the question."""
    with hired_workers(cluster, progress) as workers:
        return workers.records(spec)


@contextmanager
def executor_for(spec: ReleaseSpec, progress: Progress, *, plans_only: bool = False) -> Iterator[Executor]:
    if spec.cluster is not None and not kind_of(spec.cluster).on_this_machine:  # its machines compile for themselves
        with connect(spec.cluster, spec, progress) as executor:
            yield executor
        return
    with start_compiling(spec.algorithm.name, spec.effort, spec.k, say=progress.say) as compiling, ExitStack() as stack:
        yield OnceCompiled(_executor(spec, progress, stack, plans_only), compiling)


def _executor(spec: ReleaseSpec, progress: Progress, stack: ExitStack, plans_only: bool) -> Executor:
    """Find who works on this machine, of what is known before the survey."""
    if spec.cluster is not None:
        return stack.enter_context(connect(spec.cluster, spec, progress))

    def workers() -> Executor:
        return stack.enter_context(connect(LocalCluster(), spec, progress))

    if planned_seconds(spec, _counted_rows(spec)) > ALONE_SECONDS:  # the survey alone takes long
        return workers()
    return AloneAtFirst(progress, ALONE_SECONDS, None if plans_only else workers)
