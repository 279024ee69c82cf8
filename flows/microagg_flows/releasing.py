"""Make a release, or a plan alone, from a spec: find workers, run the stages, and record how it went."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from microagg_core.errors import DataError, MicroaggError, TransientStorageError
from microagg_core.pages.comparison_report import Expectation
from microagg_core.pages.plan_report import PlanReport
from microagg_core.release.cleaning import clean_due
from microagg_core.release.facts import meant_moment, release_id, settled_spec
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters import executor_for
from microagg_flows.record import RunRecord, StageRunner
from microagg_flows.release import new_release
from microagg_flows.stages import run_stage, run_until
from microagg_flows.trials import expect_release


@dataclass(frozen=True)
class Order:
    """A release that is asked for.

    Args:
        spec: path or URL of the release spec.
        id: the release's id, instead of the spec's.
        replace: publish a new revision where the id is taken by another release.
        settings: fields of the spec that are set for once, each as ``path=value``.
    """

    spec: str
    id: str | None = None
    replace: bool = False
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

    @classmethod
    def of(cls, order: Order, moment: datetime.datetime) -> Settled:
        """Load the spec of an order that is given at a moment.

        Raises:
            SpecError: the spec is none, or the id cannot be the name of a release.
        """
        spec = load_spec(order.spec, order.settings)
        identity = release_id(spec, moment, order.id)
        return cls(settled_spec(spec, identity, moment), identity, meant_moment(spec, identity, moment))


def run_release(order: Order, record: RunRecord, run: StageRunner, meant_for: datetime.datetime) -> None:
    """Make and publish one release.

    Args:
        order: which.
        record: of the run; whoever made it ends it.
        run: how a stage is run: :func:`microagg_flows.stages.run_stage`, or that within a task of Prefect.
        meant_for: the moment by which an id that is a date goes.
    """
    tonight = Settled.of(order, meant_for)
    record.begin(tonight.spec, tonight.id)
    with (
        _cleaning_all_the_same(record, tonight.spec),
        record.publishing(),
        executor_for(tonight.spec, record.progress) as workers,
    ):
        record.release = new_release(tonight.spec, workers, tonight.id, order.replace, tonight.moment)
        run_until("report", record.release, record.following(run))


@contextmanager
def _cleaning_all_the_same(record: RunRecord, spec: ReleaseSpec) -> Iterator[None]:
    """Remove what is due in the work area also where a run fails before it comes to that: night after night, maybe."""
    try:
        yield
    except TransientStorageError:  # it would not answer now either
        raise
    except MicroaggError:
        if record.release is None or not record.release.key:
            clean_due(spec, record.progress.say)
        raise


@dataclass(frozen=True)
class PlannedRelease:
    """A plan, what is expected of it, and why a release would be refused."""

    report: PlanReport
    expectation: Expectation | None
    refusal: MicroaggError | None


def plan_release(order: Order, record: RunRecord, expecting: bool = True) -> PlannedRelease:
    """Survey and plan only, and look ahead where that is wanted and the plan not refused."""
    tonight = Settled.of(order, now())
    record.begin(tonight.spec, tonight.id)
    with executor_for(tonight.spec, record.progress) as workers:
        # Whatever is published under the id is no concern of a plan.
        release = new_release(tonight.spec, workers, tonight.id, True, tonight.moment)
        release.ignore_published = True
        expectation = None
        try:
            run_until("plan", release, record.following(run_stage))
            if expecting:
                expectation = expect_release(release)
        except MicroaggError as error:
            if release.plan_report is None:
                raise
            return PlannedRelease(release.plan_report, None, error)
    report, asked = release.plan_report, expectation.asked if expectation else None
    if report is None:
        raise DataError("nothing was planned")
    return PlannedRelease(report.at_pace(asked.pace) if asked else report, expectation, None)
