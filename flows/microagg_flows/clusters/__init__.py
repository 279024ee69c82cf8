"""Kinds of clusters, by the model that describes one in a release spec, and the workers that a release gets.

A kind is a model in :mod:`microagg_core.spec.clusters`, a module here whose ``hired`` gives workers while its block
lasts, and a line in ``KINDS``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from microagg_core.compiling import start_compiling
from microagg_core.data.formats.reading import has_fewer_rows
from microagg_core.errors import MicroaggError
from microagg_core.extras import needing
from microagg_core.release.steps.surroundings import Surroundings
from microagg_core.spec.release import (
    Cluster,
    KubernetesCluster,
    LocalCluster,
    NoCluster,
    ReleaseSpec,
    RunningCluster,
    SlurmCluster,
    SshCluster,
)
from microagg_flows.executors import Executor, OnceCompiled
from microagg_flows.progress import Progress

#: Below this many records a release takes seconds in one process, and less than starting a cluster.
SMALL_ROWS = 200_000


@dataclass(frozen=True)
class WorkerRecord:
    """What one worker says of itself, and why a release would not give it work.

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
        """What workers that are fit for the work find around them, by address; without those that left meanwhile.

        Raises:
            ClusterError: they do not answer.
        """

    def executor(self, spec: ReleaseSpec, progress: Progress) -> Executor:
        """An executor for the tasks of the spec's release.

        Raises:
            ClusterError: one of them is not fit for the work.
        """


@dataclass(frozen=True)
class ClusterKind:
    """One kind of cluster.

    Args:
        module: where its ``hired(cluster, progress)`` is, a context manager that gives :class:`Workers`; loaded when
            it is wanted, because Dask takes a second and may be missing.
        on_this_machine: whether its workers share this machine's compiled kernels, which are then made beforehand.
        extra: the extra of the package that brings what it needs, or nothing.
        what: the kind in words.
    """

    module: str
    on_this_machine: bool
    extra: str = ""
    what: str = "a Dask cluster"

    def hired(self, cluster: Any, progress: Progress) -> AbstractContextManager[Workers]:
        """Workers of the cluster that a model describes, while the block lasts.

        Raises:
            SpecError: what the kind needs is not installed.
            ClusterError: the cluster cannot be started or reached.
        """
        with needing(self.extra, f"{self.what} (without one: cluster: none)"):
            module = import_module(self.module)
        workers: AbstractContextManager[Workers] = module.hired(cluster, progress)
        return workers


def _elsewhere(name: str, what: str) -> ClusterKind:
    """A kind whose workers are started on other machines, with an extra of its name."""
    return ClusterKind(f"microagg_flows.clusters.{name}", on_this_machine=False, extra=name, what=what)


KINDS: dict[type[Cluster], ClusterKind] = {
    NoCluster: ClusterKind("microagg_flows.clusters.none", on_this_machine=True),
    LocalCluster: ClusterKind("microagg_flows.clusters.local", on_this_machine=True, extra="cluster"),
    RunningCluster: ClusterKind("microagg_flows.clusters.running", on_this_machine=False, extra="cluster"),
    SshCluster: _elsewhere("ssh", "workers through ssh"),
    SlurmCluster: _elsewhere("slurm", "workers by Slurm"),
    KubernetesCluster: _elsewhere("kubernetes", "workers on Kubernetes"),
}


def cluster_for(spec: ReleaseSpec) -> Cluster:
    """The spec's cluster; where it names none, no cluster for a small input, and a local one for others.

    Raises:
        MicroaggError: the input has to be looked at, and cannot be read.
    """
    if spec.cluster is not None:
        return spec.cluster
    return NoCluster() if has_fewer_rows(spec.input, SMALL_ROWS) else LocalCluster()


def hired_workers(cluster: Cluster, progress: Progress) -> AbstractContextManager[Workers]:
    """Workers of a cluster while the block lasts; a cluster that was started for it is stopped at the end.

    Raises:
        SpecError: what this kind of cluster needs is not installed.
        ClusterError: it cannot be started or reached.
    """
    return KINDS[type(cluster)].hired(cluster, progress)


@contextmanager
def connect(cluster: Cluster, spec: ReleaseSpec, progress: Progress) -> Iterator[Executor]:
    """An executor on the workers of a cluster, while the block lasts.

    Raises:
        SpecError: what this kind of cluster needs is not installed.
        ClusterError: it cannot be started or reached, or a worker is not fit for the work.
    """
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
    """An executor for a release, while the block lasts.

    Raises:
        SpecError: what the cluster needs is not installed.
        ClusterError: the cluster cannot be started or reached, or a worker is not fit for the work.
    """
    cluster = cluster_for(spec)
    if not KINDS[type(cluster)].on_this_machine:  # its machines compile for themselves
        with connect(cluster, spec, progress) as executor:
            yield executor
        return
    with (
        start_compiling(spec.algorithm.name, spec.effort, spec.k, say=progress.say) as compiling,
        connect(cluster, spec, progress) as executor,
    ):
        yield OnceCompiled(executor, compiling)
