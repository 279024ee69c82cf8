"""A release on its way: what is settled of it, what was made, and how far it is.

The stages, and what a night of a series adds to them, hand it on; whatever a later stage needs after a restart lies
in the work area.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from microagg_core.blocks.memory import WORKER_BASE_BYTES
from microagg_core.compare.drawing import Drawn
from microagg_core.data.formats.reading import InputListing
from microagg_core.inspect.check import Check
from microagg_core.inspect.gate import Inspected
from microagg_core.pages.plan_report import PlanReport
from microagg_core.release.audit import Origin
from microagg_core.release.context import work_store
from microagg_core.release.facts import release_id
from microagg_core.release.manifest import Manifest
from microagg_core.release.minisign import SecretKey
from microagg_core.release.planned import Planned
from microagg_core.release.publish import Published
from microagg_core.release.signature import read_signing_key
from microagg_core.release.step import Receipt
from microagg_core.release.steps.measuring import Measured
from microagg_core.series.tonight import Tonight
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.objects import Store
from microagg_flows.executors import Executor
from microagg_flows.run_work import RunWork


def compared(estimate: float | None, actual: float | None) -> dict[str, float | None]:
    """Set what the plan said, or an earlier run took, beside what it came to; None where it did not come to it."""
    return {"estimate": estimate, "actual": actual}


@dataclass
class StageOutcome:
    """How a stage went: what it says, and what it took."""

    name: str
    says: str
    seconds: float = 0.0
    #: Of the threads that did its tasks; and of this process, be it these tasks' own or not.
    cpu_seconds: float = 0.0
    flow_cpu_seconds: float = 0.0
    kernel_seconds: float = 0.0
    peak_bytes: int = 0


@dataclass
class Release(RunWork):
    """One release on its way; made by :func:`new_release`, handed from stage to stage."""

    spec: ReleaseSpec
    now: datetime.datetime
    identity: str
    replace: bool
    output: Store
    outcomes: list[StageOutcome] = field(default_factory=list)
    plan_report: PlanReport | None = None
    checks: list[Check] = field(default_factory=list)
    #: Which arrivals of a night wait for more.
    hold_until: int | None = None
    origin: Origin | None = None
    ignore_published: bool = False
    #: The ledger is being made again: the output has releases that it does not know yet.
    rebuilding: bool = False
    #: What the gate's workers saw of the files that may be published.
    checked: list[Receipt] = field(default_factory=list)
    #: The manifest, from the moment when the release is there for readers, whatever fails afterwards.
    committed: Manifest | None = None
    by_this_run: bool = False
    #: How publishing ended, once nothing of it is left to do.
    published: Published | None = None
    #: What is tried for the operator's page: its rows are collected while rows are scattered.
    drawn: tuple[Drawn, tuple[str, ...]] | None = None
    #: Where the operator's page lies, once it is written.
    page: str | None = None
    #: The spec as it was given, by which the run is known; in a series ``spec`` has the first night's rounding.
    given: ReleaseSpec = field(init=False)
    _listed: InputListing | None = None
    _tonight: Tonight | None = None
    _planned: Planned | None = None
    _inspected: Inspected | None = None
    _measured: Measured | None = None
    _signing_key: SecretKey | None = None

    def __post_init__(self) -> None:
        self.given = self.spec

    @property
    def signing_key(self) -> SecretKey | None:
        """Read the key that signs the release when it is first asked for; None where none is to."""
        sign = self.spec.output.sign
        if sign is not None and self._signing_key is None:
            self._signing_key = read_signing_key(sign)
        return self._signing_key

    @property
    def listed(self) -> InputListing:
        if self._listed is None:
            raise RuntimeError("the survey stage has not run")
        return self._listed

    @property
    def tonight(self) -> Tonight:
        if self._tonight is None:
            raise RuntimeError("the survey stage has not run")
        return self._tonight

    @tonight.setter
    def tonight(self, tonight: Tonight) -> None:
        self._tonight = tonight

    @property
    def planned(self) -> Planned:
        """Context, survey and plan; there once the plan stage is done."""
        if self._planned is None:
            raise RuntimeError("the plan stage has not run")
        return self._planned

    @property
    def inspected(self) -> Inspected:
        if self._inspected is None:
            raise RuntimeError("the validate stage has not run")
        return self._inspected

    @property
    def measured(self) -> Measured:
        """Loss and risk; there once the measure stage is done."""
        if self._measured is None:
            raise RuntimeError("the measure stage has not run")
        return self._measured

    def compared(self) -> dict[str, dict[str, float | None]]:
        """Estimates of the plan beside what they came to."""
        plan, manifest = self.plan_report, self.committed
        kernels = [stage.kernel_seconds for stage in self.outcomes if stage.name == "anonymize"]
        peak = max((stage.peak_bytes for stage in self.outcomes), default=0)
        files = sum(part.bytes for part in manifest.parts) if manifest else None
        memory = WORKER_BASE_BYTES + plan.task_bytes if plan else None
        return {
            "kernel_seconds": compared(plan.seconds if plan else None, sum(kernels) if kernels else None),
            "memory_bytes": compared(memory, peak or None),
            "release_bytes": compared(plan.row_bytes if plan else None, files),
        }

    def note_commit(self, manifest: Manifest, by_this_run: bool) -> None:
        self.committed = manifest
        self.by_this_run = self.by_this_run or by_this_run


def new_release(
    spec: ReleaseSpec, workers: Executor, identity: str | None, replace_published: bool, now: datetime.datetime
) -> Release:
    work = work_store(spec)
    output = Store(spec.output.url, dict(spec.output.storage_options))
    identity = release_id(spec, now, identity)
    return Release(spec, now, identity, replace_published, output, workers=workers, work=work)
