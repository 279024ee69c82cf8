"""``microagg backfill``: the days from one to another that have no release yet."""

from __future__ import annotations

import datetime
import json
import re
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
    from microagg_flows.releasing import Order, standing_of
    from microagg_flows.releasing import backfill as release_days

    loaded, shown = record.about(load_spec(spec, settings or ())), list[dict[str, Any]]()

    def show(day: str, standing: str) -> None:
        shown.append({"id": day, "standing": standing})
        if not as_json:
            typer.echo(f"{day} is {standing}")

    def make(order: Order) -> None:
        try:
            _make_day(order, direct, record)
        except MicroaggError as error:
            failed = {"exit_code": error.exit_code, "kind": error.kind, "sentence": error.message}
            shown.append({"id": order.id, "standing": "failed", **failed})
            raise

    try:
        if dry_run:
            for day, is_done in standing_of(loaded, days):
                show(day, "published already" if is_done else "missing")
        else:
            claim_limits()
            with scratch():
                release_days(Order(spec, settings=tuple(settings or ())), days, make, show)
    finally:
        if as_json:
            typer.echo(json.dumps({"days": shown}, indent=1))


def _day(option: str, text: str) -> datetime.date:
    try:
        if _A_DAY.fullmatch(text):
            return datetime.date.fromisoformat(text)
    except ValueError:  # such as the 31st of November
        pass
    raise SpecError(f"{option}: must be a day such as 2026-11-01 (got {text!r})")


def _make_day(order: Order, direct: bool, whole: RunRecord) -> None:
    """Make one day's release, a run of its own with a record of its own."""
    from microagg_flows.command.commands.release import make_release
    from microagg_flows.record import RunRecord

    log = whole.log
    whole.progress.say(f"{order.id}")
    whole.inner = log.record = day = RunRecord(progress=whole.progress, log=log)
    try:
        with day.kept(), day.publishing():
            make_release(order, direct, day)
    finally:
        log.record = whole
    if day.note:
        log.write(LogLevel.warning, day.note)
        typer.echo(f"microagg: {day.note}", err=True)
    whole.inner = None  # what fails later is no trouble of this day
