"""The workers that a release gets, of the kind of cluster that its spec describes.

A kind is an object of :mod:`microagg_core.spec.clusters`, and a module here whose ``hired`` gives workers while its
block lasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from microagg_core.compiling import start_compiling
from microagg_core.data.formats.reading import count_rows
from microagg_core.errors import MicroaggError
from microagg_core.extras import needing
from microagg_core.release.surroundings import Surroundings
from microagg_core.spec.clusters import KINDS, Cluster, ClusterKind, LocalCluster, NoCluster
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.executors import Executor, OnceCompiled
from microagg_flows.progress import Progress

#: Below this many records a release takes seconds in one process, and less than starting a cluster.
SMALL_ROWS = 200_000


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
    """Choose the spec's cluster, or where it names none: no cluster for a small input, a local one for others."""
    if spec.cluster is not None:
        return spec.cluster
    return NoCluster() if count_rows(spec.input, SMALL_ROWS) < SMALL_ROWS else LocalCluster()


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
def executor_for(spec: ReleaseSpec, progress: Progress) -> Iterator[Executor]:
    cluster = cluster_for(spec)
    if not kind_of(cluster).on_this_machine:  # its machines compile for themselves
        with connect(cluster, spec, progress) as executor:
            yield executor
        return
    with (
        start_compiling(spec.algorithm.name, spec.effort, spec.k, say=progress.say) as compiling,
        connect(cluster, spec, progress) as executor,
    ):
        yield OnceCompiled(executor, compiling)
