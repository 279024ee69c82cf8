"""Nights that were missed, and runs that were lost, before a scheduled run makes its own night.

A run that waited until the next one was due is late. Where the spec catches up with nothing it is left out, as is one
whose night was released meanwhile; where the spec catches up with all, each run makes the nights that are missing
before its own. One that fails holds up no other: it is said, and later runs try it again for a week.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Crashed
from prefect.utilities.asyncutils import run_coro_as_sync

from microagg_core.errors import InterruptionError, MicroaggError
from microagg_core.release.context import work_store
from microagg_core.release.revisions import committed_revisions_in
from microagg_core.spec.release import ReleaseSpec
from microagg_core.spec.schedule import Schedule
from microagg_core.store.layout import AUDIT, RUNS, is_call_of
from microagg_core.store.objects import Store
from microagg_flows.releasing import Order, backfill, standing_of

#: How many days a night that failed is tried again.
TRIED_FOR_DAYS = 7
_A_MOMENT = datetime.timedelta(seconds=1)


def due(schedule: Schedule, after: datetime.datetime, until: datetime.datetime) -> list[datetime.datetime]:
    """Compute when runs are due after one moment and until another, in UTC, old to new; a thousand at most."""
    from prefect.server.schemas.schedules import CronSchedule  # a part of the server, which takes a while to load

    line = CronSchedule(cron=schedule.cron, timezone=schedule.timezone)
    times: Any = run_coro_as_sync(line.get_dates(start=after + _A_MOMENT, end=until))
    return [time.astimezone(datetime.UTC) for time in times]


def reason_to_leave_out(
    spec: ReleaseSpec, run: FlowRun | None, order: Order, meant_for: datetime.datetime, now: datetime.datetime
) -> str:
    """Say why a scheduled run has nothing to do any more; empty where it has.

    Who names an id, asks for a new revision or has the same run made again wants that very release.
    """
    schedule = spec.schedule
    if schedule is None or not is_scheduled(run, order) or (run is not None and run.run_count > 1):
        return ""
    if not due(schedule, meant_for, now):
        return ""
    if schedule.catch_up == "none":
        return f"the night of {meant_for:%Y-%m-%d} was missed: the next is due, and the spec says catch_up: none"
    ((day, is_done),) = standing_of(spec, [meant_for.date()])
    return f"{day} was released by a later run" if is_done else ""


def is_scheduled(run: FlowRun | None, order: Order) -> bool:
    """Tell a run of a deployment that goes by its schedule: nobody says which release it is to make."""
    return run is not None and run.deployment_id is not None and order.id is None and not order.replace


def missed_days(spec: ReleaseSpec, meant_for: datetime.datetime) -> list[datetime.date]:
    """Find days before a night on which others were due and have no release: since the newest release, and
    those of the week before that were tried and failed.

    There are none before the first release.
    """
    if spec.schedule is None or spec.schedule.catch_up == "none":
        return []
    tonight = meant_for.date()
    released = {day for day in _released_days(spec) if day < tonight}
    if not released:
        return []
    next_day = datetime.datetime.combine(max(released), datetime.time(), datetime.UTC) + datetime.timedelta(days=1)
    times = due(spec.schedule, next_day - _A_MOMENT, meant_for)
    week = {tonight - datetime.timedelta(days=n) for n in range(1, TRIED_FOR_DAYS + 1)}
    failed = {day for day in _tried_days(spec, week - released) if day > min(released)}
    return sorted(({time.date() for time in times} | failed) - {tonight})


def _tried_days(spec: ReleaseSpec, days: set[datetime.date]) -> set[datetime.date]:
    calls = work_store(spec).list(f"{AUDIT}/{RUNS}")
    return {day for day in days if any(is_call_of(name, spec.name, day.isoformat()) for name in calls)}


def _released_days(spec: ReleaseSpec) -> list[datetime.date]:
    output = Store(spec.output.url, dict(spec.output.storage_options))
    days = []
    for name in output.folders():
        try:
            day = datetime.date.fromisoformat(name)
        except ValueError:  # an id that the command gave
            continue
        if committed_revisions_in(output, name):
            days.append(day)
    return days


def catch_up(
    order: Order, days: Sequence[datetime.date], make: Callable[[Order], object], say: Callable[[str], object]
) -> list[str]:
    """Make the nights that were missed, in order; a sentence for each that failed, as it holds up no other."""
    if days:
        say(f"{len(days)} nights are missing; they are made first")
    failed = []
    for day in days:
        try:
            backfill(order, [day], make, lambda day, standing: say(f"{day} is {standing}"))
        except InterruptionError:
            raise
        except MicroaggError as error:
            last = day + datetime.timedelta(days=TRIED_FOR_DAYS)
            failed.append(f"{error.message} (the night is missing; runs up to that of {last} try it again)")
    return failed


_RUNNING = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING]))
_LOST = "it ended without a word: its process is gone, or its machine; a run of its id goes on from what is finished"


def end_lost_runs(client: Any, run: FlowRun) -> list[str]:
    """Have the other running runs of a run's deployment end as crashed; return their names.

    A deployment has one place for a running run. A run holds it by a lease, and Prefect ends the run that cannot renew
    that; so where this run has the place, whatever else is shown as running has lost it, and its process.
    """
    state = client.read_flow_run(run.id).state
    if run.deployment_id is None or state is None or state.state_details.deployment_concurrency_lease_id is None:
        return []
    limit = client.read_deployment(run.deployment_id).global_concurrency_limit
    if limit is None or limit.limit != 1:  # somebody has made room for more
        return []
    of_deployment = FlowRunFilterDeploymentId(any_=[run.deployment_id])
    running = client.read_flow_runs(flow_run_filter=FlowRunFilter(state=_RUNNING, deployment_id=of_deployment))
    lost = [other for other in running if other.id != run.id]
    if lost:  # with the nights that they were catching up with
        parents = FlowRunFilterParentFlowRunId(any_=[other.id for other in lost])
        lost += client.read_flow_runs(flow_run_filter=FlowRunFilter(state=_RUNNING, parent_flow_run_id=parents))
    for other in lost:
        client.set_flow_run_state(other.id, Crashed(message=_LOST), force=True)
    return [other.name for other in lost]
