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
    """Hold a worker's answers about itself, and why a release would not give it work.

    Args:
        number: from 1, in the order in which the scheduler names them.
        address: where it listens; empty for the process that was called.
        versions: of Python and of what sends tasks, as far as they are known.
        software: names and versions of what decides a release's bytes there; empty where it could not be asked.
        threads: how many tasks it does at a time.
        memory_limit: bytes; 0 where it has no limit.
        memory: bytes in use, as its scheduler knows them.
        access: what of input, work area and output is out of its reach, as a sentence; empty where all is in reach.
        kernels: why it can have no compiled kernels, as a sentence; empty where it can.
        unfit: why a release would not give it work; None where it would.
    """

    number: int
    address: str
    versions: Mapping[str, str]
    software: Mapping[str, str]
    threads: int
    memory_limit: int
    memory: int
    access: str
    kernels: str
    unfit: MicroaggError | None


class Workers(Protocol):
    """Workers of one release: asked before it, and given its tasks."""

    def records(self, spec: ReleaseSpec) -> list[WorkerRecord]:
        """Versions, memory, kernels of each, and whether the spec's places are in its reach.

        Raises:
            ClusterError: nobody comes, or nobody answers.
        """

    def surroundings(self, spec: ReleaseSpec, addresses: Sequence[str]) -> dict[str, Surroundings]:
        """Ask workers that are fit for the work what they find around them, by address."""

    def executor(self, spec: ReleaseSpec, progress: Progress) -> Executor:
        """An executor for the tasks of the spec's release."""


def cluster_for(spec: ReleaseSpec) -> Cluster:
    """Choose the spec's cluster, or where it names none: no cluster for a small input, a local one for others.

    Raises:
        MicroaggError: the input has to be looked at, and cannot be read.
    """
    if spec.cluster is not None:
        return spec.cluster
    return NoCluster() if count_rows(spec.input, SMALL_ROWS) < SMALL_ROWS else LocalCluster()


def hired_workers(cluster: Cluster, progress: Progress) -> AbstractContextManager[Workers]:
    """Workers of a cluster while the block lasts; a cluster that was started for it is stopped at the end.

    Raises:
        SpecError: what this kind of cluster needs is not installed.
        ClusterError: it cannot be started or reached.
    """
    kind = kind_of(cluster)
    with needing(kind.extra, f"{kind.what} (without one: cluster: none)"):
        module = import_module(kind.module or f"{__name__}.{kind.name}")
    workers: AbstractContextManager[Workers] = module.hired(cluster, progress)
    return workers


def kind_of(cluster: Cluster) -> ClusterKind:
    return next(kind for kind in KINDS.values() if kind.model is type(cluster))


@contextmanager
def connect(cluster: Cluster, spec: ReleaseSpec, progress: Progress) -> Iterator[Executor]:
    """Connect to the workers of a cluster, while the block lasts."""
    with hired_workers(cluster, progress) as workers:
        yield workers.executor(spec, progress)


def worker_records(cluster: Cluster, spec: ReleaseSpec, progress: Progress) -> list[WorkerRecord]:
    """Ask each worker of a cluster what it is; a cluster that a release would start is started for the question.

    Raises:
        SpecError: what this kind of cluster needs is not installed.
        ClusterError: it cannot be started or reached, or no worker comes or answers.
    """
    with hired_workers(cluster, progress) as workers:
        return workers.records(spec)


@contextmanager
def executor_for(spec: ReleaseSpec, progress: Progress) -> Iterator[Executor]:
    """Find workers for a release, while the block lasts."""
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
