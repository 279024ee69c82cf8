"""Make a release, a plan alone, or the days that are missing: find workers, run the stages, record how it went."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from microagg_core.compare.drawing import MOST_ROWS
from microagg_core.errors import DataError, MicroaggError, SpecError, TransientStorageError
from microagg_core.pages.comparison_report import Expectation
from microagg_core.pages.plan_report import PlanReport
from microagg_core.release.cleaning import clean_due
from microagg_core.release.context import work_store
from microagg_core.release.facts import meant_moment, release_id, settled_spec
from microagg_core.release.revisions import committed_manifests
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import AuditLayout
from microagg_core.store.objects import Store
from microagg_flows.clusters import executor_for
from microagg_flows.executors import Executor
from microagg_flows.record import RunRecord, StageRunner
from microagg_flows.release import Release, new_release
from microagg_flows.stages import run_stage, run_until
from microagg_flows.trials import expect_release, full_budget


@dataclass(frozen=True)
class Order:
    """A release that is asked for."""

    #: Path or URL of the release spec.
    spec: str
    #: Instead of the spec's.
    id: str | None = None
    #: Publish a new revision where the id is taken by another release.
    replace: bool = False
    #: Fields of the spec that are set for once, each as ``path=value``.
    settings: tuple[str, ...] = ()


def now() -> datetime.datetime:
    """This moment in UTC, by which an id that is a date goes."""
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Settled:
    """A release before anything is looked at: its spec, its id, the moment that it is meant for."""

    spec: ReleaseSpec
    id: str
    moment: datetime.datetime
    replace: bool

    @classmethod
    def of(cls, order: Order, moment: datetime.datetime) -> Settled:
        """Load the spec of an order that is given at a moment.

        Raises:
            SpecError: the spec is none, or the id cannot be the name of a release.
        """
        spec = load_spec(order.spec, order.settings)
        identity = release_id(spec, moment, order.id)
        settled, meant = settled_spec(spec, identity, moment), meant_moment(spec, identity, moment)
        return cls(settled, identity, meant, order.replace)

    def release(self, workers: Executor) -> Release:
        return new_release(self.spec, workers, self.id, self.replace, self.moment)


def run_release(tonight: Settled, record: RunRecord, run: StageRunner) -> None:
    """Make and publish one release, each stage by ``run``; whoever made the record ends it."""
    record.begin(tonight.spec, tonight.id)
    try:
        with record.publishing(), executor_for(tonight.spec, record.progress) as workers:
            record.release = tonight.release(workers)
            run_until("report", record.release, record.following(run))
    except TransientStorageError:  # it would not answer now either
        raise
    except MicroaggError:
        # A run that fails before it comes to cleaning may do so night after night.
        if record.release is None or not record.release.key:
            clean_due(tonight.spec, record.progress.say)
        raise


@dataclass(frozen=True)
class PlannedRelease:
    """A plan, what is expected of it, and why a release would be refused."""

    report: PlanReport
    expectation: Expectation | None
    refusal: MicroaggError | None


def plan_release(order: Order, record: RunRecord, expecting: bool | None = None) -> PlannedRelease:
    """Survey and plan only, and look ahead where that is wanted, or costs little, and the plan is not refused."""
    tonight = Settled.of(order, now())
    record.begin(tonight.spec, tonight.id)
    with executor_for(tonight.spec, record.progress, plans_only=True) as workers:
        release = tonight.release(workers)
        release.ignore_published = True
        expectation = None
        try:
            run_until("plan", release, record.following(run_stage))
            if expecting is not False:
                budget = full_budget(MOST_ROWS, tonight.spec.k) if expecting else None
                expectation = expect_release(release, budget)
        except MicroaggError as error:
            if release.plan_report is None:
                raise
            return PlannedRelease(release.plan_report, None, error)
    report, asked = release.plan_report, expectation.asked if expectation else None
    if report is None:
        raise DataError("nothing was planned")
    return PlannedRelease(report.at_pace(asked.pace) if asked else report, expectation, None)


def standing_of(spec: ReleaseSpec, days: Iterable[datetime.date]) -> Iterator[tuple[str, bool]]:
    """Find for each day the id of its release, and whether it is published with nothing left to do."""
    if spec.id != "date":
        raise SpecError(f"id: is {spec.id!r}, so no day can be missing; days are known where the spec has id: date")
    output, work = Store(spec.output.url, dict(spec.output.storage_options)), work_store(spec)
    for day in days:
        committed = committed_manifests(output, day.isoformat())
        # The audit comes last: a run that was stopped before it is made again, which makes nothing new.
        is_done = bool(committed) and work.exists(AuditLayout(day.isoformat(), committed[-1].revision).digests())
        yield day.isoformat(), is_done


def backfill(
    order: Order, days: Iterable[datetime.date], make: Callable[[Order], object], say: Callable[[str, str], object]
) -> None:
    """Release the days that are missing, in order, up to the first that fails; ``say`` is told what each is now."""
    spec = load_spec(order.spec, order.settings)
    for day, is_done in standing_of(spec, days):
        if is_done:
            say(day, "published already")
            continue
        try:
            make(replace(order, id=day))
        except MicroaggError as error:
            raise type(error)(f"{day}: {error.message}") from None
        say(day, "published")
    # A run that was killed once its release was out left rows which no run comes to by itself.
    clean_due(spec, lambda _: None)
