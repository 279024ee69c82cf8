"""What a scheduled run does before its own night: nights that were missed, as the spec has it.

A run that waited until the next one was due is late. Where the spec catches up with nothing it is left out, as is one
whose night was released meanwhile; where the spec catches up with all, each run makes the nights that are missing
before its own.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from prefect.client.schemas.objects import FlowRun
from prefect.utilities.asyncutils import run_coro_as_sync

from microagg_core.releases.latest import committed_revisions_in
from microagg_core.spec.release import ReleaseSpec
from microagg_core.spec.schedule import Schedule
from microagg_core.storage.objects import Store
from microagg_flows.backfilling import backfill, standing_of
from microagg_flows.releasing import Order

_A_MOMENT = datetime.timedelta(seconds=1)


def due(schedule: Schedule, after: datetime.datetime, until: datetime.datetime) -> list[datetime.datetime]:
    """When runs are due after one moment and until another, in UTC, old to new; a thousand at most."""
    from prefect.server.schemas.schedules import CronSchedule  # a part of the server, which takes a while to load

    line = CronSchedule(cron=schedule.cron, timezone=schedule.timezone)
    times: Any = run_coro_as_sync(line.get_dates(start=after + _A_MOMENT, end=until))
    return [time.astimezone(datetime.UTC) for time in times]


def reason_to_leave_out(
    spec: ReleaseSpec, run: FlowRun | None, order: Order, meant_for: datetime.datetime, now: datetime.datetime
) -> str:
    """Why a scheduled run has nothing to do any more; nothing where it has.

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
    """Whether a run of a deployment goes by its schedule: nobody says which release it is to make."""
    return run is not None and run.deployment_id is not None and order.id is None and not order.replace


def missed_days(spec: ReleaseSpec, meant_for: datetime.datetime) -> list[datetime.date]:
    """The days between the newest release before a night and that night on which others were due.

    There are none before the first release.
    """
    if spec.schedule is None or spec.schedule.catch_up == "none":
        return []
    newest = max((day for day in _released_days(spec) if day < meant_for.date()), default=None)
    if newest is None:
        return []
    next_day = datetime.datetime.combine(newest, datetime.time(), datetime.UTC) + datetime.timedelta(days=1)
    times = due(spec.schedule, next_day - _A_MOMENT, meant_for)
    return sorted({time.date() for time in times} - {meant_for.date()})


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
) -> None:
    """Make the nights that were missed, in order.

    Raises:
        MicroaggError: what the first that fails raises, with its day.
    """
    if days:
        say(f"{len(days)} nights were missed since the newest release; they are made first")
        backfill(order, days, make, say)
