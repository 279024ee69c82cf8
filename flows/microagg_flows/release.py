"""A release on its way: what is settled of it, what was made, and how far it is.

The stages, and what a night of a series adds to them, hand it on; whatever a later stage needs after a restart lies
in the work area.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from microagg_core.blocks.memory import WORKER_BASE_BYTES
from microagg_core.compare.drawing import Drawn
from microagg_core.data.formats.reading import InputListing
from microagg_core.errors import DamagedWorkError
from microagg_core.inspect.check import Check
from microagg_core.inspect.gate import Inspected
from microagg_core.pages.plan_report import PlanReport
from microagg_core.release.audit import Origin
from microagg_core.release.cleaning import Running
from microagg_core.release.context import work_store
from microagg_core.release.facts import release_id
from microagg_core.release.manifest import Manifest
from microagg_core.release.minisign import SecretKey
from microagg_core.release.pieces import Place
from microagg_core.release.planned import Planned
from microagg_core.release.publish import Published
from microagg_core.release.signature import read_signing_key
from microagg_core.release.step import CompanionStep, Receipt, Step
from microagg_core.release.steps.measuring import Measured
from microagg_core.release.wiring import StepsDone
from microagg_core.runner import Damage, companions, run_task
from microagg_core.series.tonight import Tonight
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.objects import Store
from microagg_flows.executors import Executor
from microagg_flows.progress import Progress


def compared(estimate: float | None, actual: float | None) -> dict[str, float | None]:
    """Set what the plan said, or an earlier run took, beside what it came to; None where it did not come to it."""
    return {"estimate": estimate, "actual": actual}


@dataclass
class StageOutcome:
    """Outcome of a stage: its sentence, and the time and memory it took."""

    name: str
    says: str
    seconds: float = 0.0
    #: Of the threads that did its tasks; and of this process, be it these tasks' own or not.
    cpu_seconds: float = 0.0
    flow_cpu_seconds: float = 0.0
    kernel_seconds: float = 0.0
    peak_bytes: int = 0


@dataclass(kw_only=True)
class Release(StepsDone):
    """One release on its way; made by :func:`new_release`, handed from stage to stage."""

    workers: Executor
    spec: ReleaseSpec
    now: datetime.datetime
    identity: str
    replace: bool
    output: Store
    running: Running = field(default_factory=Running)
    outcomes: list[StageOutcome] = field(default_factory=list)
    #: Whatever is published under the id is no concern of this release, which is made aside or only planned.
    ignore_published: bool = False
    #: The ledger is being made again: the output has releases that it does not know yet.
    rebuilding: bool = False
    #: The spec as it was given, by which the run is known; in a series ``spec`` has the first night's rounding.
    given: ReleaseSpec = field(init=False)
    #: There once the survey has looked at the input, and at the ledger.
    listed: InputListing = field(init=False)
    origin: Origin | None = None
    tonight: Tonight = field(init=False)
    #: Which arrivals of a night wait for more.
    hold_until: int | None = None
    #: There once the plan stage is done: context, survey and plan.
    planned: Planned = field(init=False)
    plan_report: PlanReport | None = None
    #: What is tried for the operator's page: its rows are collected while rows are scattered.
    drawn: tuple[Drawn, tuple[str, ...]] | None = None
    #: There once the validate stage is done: what the gate's workers saw of the files that may be published.
    checked: list[Receipt] = field(default_factory=list)
    inspected: Inspected = field(init=False)
    checks: list[Check] = field(default_factory=list)
    #: Loss and risk; there once the measure stage is done.
    measured: Measured = field(init=False)
    #: The manifest, from the moment when the release is there for readers, whatever fails afterwards.
    committed: Manifest | None = None
    by_this_run: bool = False
    #: How publishing ended, once nothing of it is left to do.
    published: Published | None = None
    #: Where the operator's page lies, once it is written.
    page: str | None = None
    _account: list[Receipt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.given = self.spec

    @property
    def progress(self) -> Progress:
        return self.workers.progress

    @cached_property
    def signing_key(self) -> SecretKey | None:
        """Read the key that signs the release when it is first asked for; None where none is to."""
        sign = self.spec.output.sign
        return None if sign is None else read_signing_key(sign)

    def companions(self, step: str) -> Sequence[CompanionStep]:
        return companions(step)

    def do(self, step: Step, *, round_number: int = 0, seconds: Sequence[float] = ()) -> list[Receipt]:
        """Have the workers do all tasks of a step; see :meth:`tasks`.

        ``seconds`` are those that each task is expected to take: the longest come first.
        """
        tasks = self.tasks(step, round_number=round_number)
        if len(seconds):
            tasks.sort(key=lambda task: -seconds[task.number])
        if not tasks:
            return []
        answers = self.workers.map(run_task, tasks, step.name)
        damaged = [place for answer in answers if isinstance(answer, Damage) for place in answer.places]
        if damaged:
            raise DamagedWorkError(places=damaged)
        receipts = [answer for answer in answers if isinstance(answer, Receipt)]
        self._account += receipts
        self.note(step, receipts)
        return receipts

    def forget(self, places: Sequence[Place]) -> None:
        super().forget(places)
        self.take_receipts()

    def take_receipts(self) -> list[Receipt]:
        """Take all receipts since the last call, for the stage's account."""
        receipts, self._account = self._account, []
        return receipts

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
    return Release(
        work=work_store(spec),
        workers=workers,
        spec=spec,
        now=now,
        identity=release_id(spec, now, identity),
        replace=replace_published,
        output=Store(spec.output.url, dict(spec.output.storage_options)),
    )
