"""Kinds of clusters, by the model that describes one in a release spec, and the workers that a release gets.

A kind is a model in :mod:`microagg_core.spec.clusters`, a module here whose ``hired`` follows
:class:`~microagg_flows.clusters.contract.Hire`, and a line in ``KINDS``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from microagg_core.compiling import start_compiling
from microagg_core.data.formats.reading import has_fewer_rows
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
from microagg_flows.clusters.contract import ClusterKind, Workers
from microagg_flows.clusters.records import WorkerRecord
from microagg_flows.executors import Executor, OnceCompiled
from microagg_flows.progress import Progress

#: Below this many records a release takes seconds in one process, and less than starting a cluster.
SMALL_ROWS = 200_000


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
    """The cluster that the spec names; where it names none, no cluster for a small input, and a local one for others.

    Raises:
        MicroaggError: the input has to be looked at, and cannot be read.
    """
    if spec.cluster is not None:
        return spec.cluster
    return NoCluster() if has_fewer_rows(spec.input, SMALL_ROWS) else LocalCluster()


@contextmanager
def connect(cluster: Cluster, spec: ReleaseSpec, progress: Progress) -> Iterator[Executor]:
    """The workers of a cluster, while the block lasts; one that was started for it is stopped at the end.

    Raises:
        SpecError: what this kind of cluster needs is not installed.
        ClusterError: it cannot be started or reached, or a worker is not fit for the work.
    """
    with hired_workers(cluster, progress) as workers:
        yield workers.executor(spec, progress)


def hired_workers(cluster: Cluster, progress: Progress) -> AbstractContextManager[Workers]:
    """Those of a cluster, to be asked and given work while the block lasts.

    Raises:
        SpecError: what this kind of cluster needs is not installed.
        ClusterError: it cannot be started or reached.
    """
    return KINDS[type(cluster)].load()(cluster, progress)


def worker_records(cluster: Cluster, spec: ReleaseSpec, progress: Progress) -> list[WorkerRecord]:
    """What each worker of a cluster says of itself, and why a release would not give it work, if so.

    A cluster that would be started for a release is started for the question, and stopped after it.

    Raises:
        SpecError: what this kind of cluster needs is not installed.
        ClusterError: it cannot be started or reached, or no worker comes or answers.
    """
    with KINDS[type(cluster)].load()(cluster, progress) as workers:
        return workers.records(spec)


@contextmanager
def executor_for(spec: ReleaseSpec, progress: Progress) -> Iterator[Executor]:
    """Those who work for a release, while the block lasts.

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
