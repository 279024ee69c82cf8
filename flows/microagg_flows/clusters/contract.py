"""What makes a kind of cluster: how its workers are had, where they are, and which packages that takes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from microagg_core.extras import needing
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.executors import Executor
from microagg_flows.progress import Progress


class Connect(Protocol):
    """The function ``connect`` of a kind's module."""

    def __call__(self, cluster: Any, spec: ReleaseSpec, progress: Progress, /) -> AbstractContextManager[Executor]:
        """The workers of the cluster that a model describes, while the block lasts.

        Raises:
            ClusterError: it cannot be started or reached, or a worker is not fit for the work.
        """


@dataclass(frozen=True)
class ClusterKind:
    """One kind of cluster.

    Args:
        module: where its ``connect`` is; loaded when it is wanted, because Dask takes a second and may be missing.
        on_this_machine: whether its workers share this machine's compiled kernels, which are then made beforehand.
        extra: the extra of the package that brings what it needs, or nothing.
    """

    module: str
    on_this_machine: bool
    extra: str = ""

    def load(self) -> Connect:
        """The kind's ``connect``.

        Raises:
            SpecError: what it needs is not installed.
        """
        with needing(self.extra, "a Dask cluster (without one: cluster: none)"):
            connect: Connect = import_module(self.module).connect
        return connect
