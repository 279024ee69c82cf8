"""What makes a kind of cluster: how its workers are had, where they are, and which packages that takes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from microagg_core.extras import needing
from microagg_core.release.surroundings import Surroundings
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters.records import WorkerRecord
from microagg_flows.executors import Executor
from microagg_flows.progress import Progress


class Workers(Protocol):
    """Those who were had for a release: what is asked of them before it, and who does its tasks."""

    def records(self, spec: ReleaseSpec) -> list[WorkerRecord]:
        """What each says of itself: versions, memory, kernels, and whether the spec's places are in its reach.

        Raises:
            ClusterError: nobody comes, or nobody answers.
        """

    def surroundings(self, spec: ReleaseSpec, addresses: Sequence[str]) -> dict[str, Surroundings]:
        """What some of them, fit for the work by their records, find around them, by address.

        Raises:
            ClusterError: they do not answer.
        """

    def executor(self, spec: ReleaseSpec, progress: Progress) -> Executor:
        """Who does the tasks of the spec's release.

        Raises:
            ClusterError: one of them is not fit for the work.
        """


class Hire(Protocol):
    """The function ``hired`` of a kind's module."""

    def __call__(self, cluster: Any, progress: Progress, /) -> AbstractContextManager[Workers]:
        """The workers of the cluster that a model describes, while the block lasts.

        Raises:
            ClusterError: it cannot be started or reached.
        """


@dataclass(frozen=True)
class ClusterKind:
    """One kind of cluster.

    Args:
        module: where its ``hired`` is; loaded when it is wanted, because Dask takes a second and may be missing.
        on_this_machine: whether its workers share this machine's compiled kernels, which are then made beforehand.
        extra: the extra of the package that brings what it needs, or nothing.
        what: the kind in words.
    """

    module: str
    on_this_machine: bool
    extra: str = ""
    what: str = "a Dask cluster"

    def load(self) -> Hire:
        """The kind's ``hired``.

        Raises:
            SpecError: what it needs is not installed.
        """
        with needing(self.extra, f"{self.what} (without one: cluster: none)"):
            hired: Hire = import_module(self.module).hired
        return hired
