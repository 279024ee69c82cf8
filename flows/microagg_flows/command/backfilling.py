"""``microagg backfill``: the days from one to another that have no release yet."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Annotated

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.arguments import QuietOption, SetOption, SpecArgument
from microagg_flows.outcome import telling_if_published
from microagg_flows.process.limits import claim_limits
from microagg_flows.process.scratch import scratch

_A_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def backfill(
    spec: SpecArgument,
    first: Annotated[str, typer.Option("--from", help="The first day, such as 2026-11-01.", metavar="DAY")],
    last: Annotated[str, typer.Option("--to", help="The last day, at most today (UTC).", metavar="DAY")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell which days are missing.")] = False,
    direct: Annotated[bool, typer.Option("--direct", help="Without Prefect.")] = False,
    settings: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Make the releases of the days that have none yet, in order, up to the first that fails."""
    from microagg_flows.backfilling import days_between

    days = days_between(_day("--from", first), _day("--to", last))
    if not days:
        raise SpecError(f"--from: {first} is after {last}; name the earlier day first")
    if days[-1] > datetime.datetime.now(datetime.UTC).date():
        raise SpecError(f"--to: {last} is a day to come; name one up to today (UTC)")
    if dry_run:
        _tell_missing(spec, days, settings or ())
    else:
        _make_missing(spec, days, settings or (), direct, quiet)


def _day(option: str, text: str) -> datetime.date:
    try:
        if _A_DAY.fullmatch(text):
            return datetime.date.fromisoformat(text)
    except ValueError:  # such as the 31st of November
        pass
    raise SpecError(f"{option}: must be a day such as 2026-11-01 (got {text!r})")


def _tell_missing(spec: str, days: Sequence[datetime.date], settings: Sequence[str]) -> None:
    from microagg_core.spec.loading import load_spec
    from microagg_flows.backfilling import standing_of

    for day, is_done in standing_of(load_spec(spec, settings), days):
        typer.echo(f"{day} is published already" if is_done else f"{day} is missing")


def _make_missing(spec: str, days: Sequence[datetime.date], settings: Sequence[str], direct: bool, quiet: bool) -> None:
    from microagg_flows.backfilling import backfill as release_days
    from microagg_flows.command.making import make_release
    from microagg_flows.progress import terminal_progress
    from microagg_flows.releasing import Order

    progress = terminal_progress(quiet)

    def make(order: Order) -> None:
        with telling_if_published() as outcome:
            progress.say(f"{order.id}")
            make_release(order, direct, progress)
        if outcome.note:
            typer.echo(f"microagg: {outcome.note}", err=True)
        outcome.clear()  # what fails later is no trouble of this day

    claim_limits()
    with scratch():
        release_days(Order(spec, settings=tuple(settings)), days, make, typer.echo)
