"""``microagg backfill``: the days from one to another that have no release yet."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from microagg_core.errors import MicroaggError, SpecError
from microagg_flows.accounts.log_lines import LogLevel
from microagg_flows.command.arguments import JsonOption, QuietOption, SetOption, SpecArgument
from microagg_flows.command.telling import about, current_log, told, told_progress
from microagg_flows.outcome import telling_if_published
from microagg_flows.process.limits import claim_limits
from microagg_flows.process.scratch import scratch

if TYPE_CHECKING:
    from microagg_flows.progress import Progress
    from microagg_flows.releasing import Order

_A_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@told("backfill")
def backfill(
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
    from microagg_flows.backfilling import days_between

    days = days_between(_day("--from", first), _day("--to", last))
    if not days:
        raise SpecError(f"--from: {first} is after {last}; name the earlier day first")
    if days[-1] > datetime.datetime.now(datetime.UTC).date():
        raise SpecError(f"--to: {last} is a day to come; name one up to today (UTC)")
    from microagg_core.spec.loading import load_spec

    about(load_spec(spec, settings or ()))
    told_days = Days(as_json)
    try:
        if dry_run:
            told_days.tell_missing(spec, days, settings or ())
        else:
            told_days.make_missing(spec, days, settings or (), direct, quiet)
    finally:
        told_days.show()


def _day(option: str, text: str) -> datetime.date:
    try:
        if _A_DAY.fullmatch(text):
            return datetime.date.fromisoformat(text)
    except ValueError:  # such as the 31st of November
        pass
    raise SpecError(f"{option}: must be a day such as 2026-11-01 (got {text!r})")


class Days:
    """Report each day: a line at once, or all of them as one document at the end."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._told: list[dict[str, Any]] = []

    def tell_missing(self, spec: str, days: Sequence[datetime.date], settings: Sequence[str]) -> None:
        from microagg_core.spec.loading import load_spec
        from microagg_flows.backfilling import standing_of

        for day, is_done in standing_of(load_spec(spec, settings), days):
            self._tell(day, "published already" if is_done else "missing")

    def make_missing(
        self, spec: str, days: Sequence[datetime.date], settings: Sequence[str], direct: bool, quiet: bool
    ) -> None:
        from microagg_flows.backfilling import backfill as release_days
        from microagg_flows.releasing import Order

        progress = told_progress(quiet)

        def make(order: Order) -> None:
            progress.say(f"{order.id}")
            self._make(order, direct, progress)

        claim_limits()
        with scratch():
            release_days(Order(spec, settings=tuple(settings)), days, make, self._tell)

    def show(self) -> None:
        if self._as_json:
            typer.echo(json.dumps({"days": self._told}, indent=1))

    def _tell(self, day: str, standing: str, **others: Any) -> None:
        self._told.append({"id": day, "standing": standing, **others})
        if not self._as_json:
            typer.echo(f"{day} is {standing}")

    def _make(self, order: Order, direct: bool, progress: Progress) -> None:
        from microagg_flows.accounts.account import accounted, apart
        from microagg_flows.command.making import make_release

        log = current_log()
        whole = log.account
        try:
            # Each day is a run of its own, with an account of its own.
            with apart(), accounted() as log.account, telling_if_published() as outcome:
                make_release(order, direct, progress)
        except MicroaggError as error:
            failed = {"exit_code": error.exit_code, "kind": error.kind, "sentence": error.message}
            self._told.append({"id": order.id, "standing": "failed", **failed})
            raise
        finally:
            log.account = whole
        if outcome.note:
            log.write(LogLevel.warning, outcome.note)
            typer.echo(f"microagg: {outcome.note}", err=True)
        outcome.clear()  # what fails later is no trouble of this day
