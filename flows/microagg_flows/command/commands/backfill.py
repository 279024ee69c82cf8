"""``microagg backfill``: the days from one to another that have no release yet."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from microagg_core.errors import MicroaggError, SpecError
from microagg_flows.command.call import JsonOption, QuietOption, SetOption, SpecArgument, command
from microagg_flows.interrupts import INTERRUPTED
from microagg_flows.log import LogLevel
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord
    from microagg_flows.releasing import Order

_A_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@command("backfill", INTERRUPTED)
def backfill(
    record: RunRecord,
    spec: SpecArgument,
    first: Annotated[str, typer.Option("--from", help="The first day, such as 2026-11-01.", metavar="DAY")],
    last: Annotated[str, typer.Option("--to", help="The last day, at most today (UTC).", metavar="DAY")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell which days are missing.")] = False,
    direct: Annotated[bool, typer.Option("--direct", help="Without Prefect.")] = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make the releases of the days that have none yet, in order, up to the first that fails."""
    begin, end = _day("--from", first), _day("--to", last)
    days = [begin + datetime.timedelta(days=n) for n in range((end - begin).days + 1)]
    if not days:
        raise SpecError(f"--from: {first} is after {last}; name the earlier day first")
    if days[-1] > datetime.datetime.now(datetime.UTC).date():
        raise SpecError(f"--to: {last} is a day to come; name one up to today (UTC)")
    from microagg_core.spec.loading import load_spec

    record.about(load_spec(spec, settings or ()))
    table = _Days(record, as_json)
    try:
        if dry_run:
            table.list_missing(spec, days, settings or ())
        else:
            table.make_missing(spec, days, settings or (), direct)
    finally:
        table.show()


def _day(option: str, text: str) -> datetime.date:
    try:
        if _A_DAY.fullmatch(text):
            return datetime.date.fromisoformat(text)
    except ValueError:  # such as the 31st of November
        pass
    raise SpecError(f"{option}: must be a day such as 2026-11-01 (got {text!r})")


class _Days:
    """Make or list days, and show each: a line at once, or all of them as one document at the end."""

    def __init__(self, record: RunRecord, as_json: bool) -> None:
        self._record, self._as_json = record, as_json
        self._days: list[dict[str, Any]] = []

    def list_missing(self, spec: str, days: Sequence[datetime.date], settings: Sequence[str]) -> None:
        from microagg_core.spec.loading import load_spec
        from microagg_flows.backfilling import standing_of

        for day, is_done in standing_of(load_spec(spec, settings), days):
            self._add(day, "published already" if is_done else "missing")

    def make_missing(self, spec: str, days: Sequence[datetime.date], settings: Sequence[str], direct: bool) -> None:
        from microagg_flows.backfilling import backfill as release_days
        from microagg_flows.releasing import Order

        claim_limits()
        with scratch():
            release_days(
                Order(spec, settings=tuple(settings)), days, lambda order: self._make(order, direct), self._add
            )

    def show(self) -> None:
        if self._as_json:
            typer.echo(json.dumps({"days": self._days}, indent=1))

    def _add(self, day: str, standing: str, **others: Any) -> None:
        self._days.append({"id": day, "standing": standing, **others})
        if not self._as_json:
            typer.echo(f"{day} is {standing}")

    def _make(self, order: Order, direct: bool) -> None:
        """Make one day's release, a run of its own with a record of its own."""
        from microagg_flows.command.commands.release import make_release
        from microagg_flows.record import RunRecord

        log, whole = self._record.log, self._record
        whole.progress.say(f"{order.id}")
        whole.inner = log.record = day = RunRecord(progress=whole.progress, log=log)
        try:
            with day.kept(), day.publishing():
                make_release(order, direct, day)
        except MicroaggError as error:
            failed = {"exit_code": error.exit_code, "kind": error.kind, "sentence": error.message}
            self._days.append({"id": order.id, "standing": "failed", **failed})
            raise
        finally:
            log.record = whole
        if day.note:
            log.write(LogLevel.warning, day.note)
            typer.echo(f"microagg: {day.note}", err=True)
        whole.inner = None  # what fails later is no trouble of this day
