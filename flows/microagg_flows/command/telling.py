"""A release from the command line, with all that is told of it: progress, a log, its account, and how it ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from microagg_core.errors import MicroaggError, StorageError, sanitized
from microagg_flows.accounts.log_lines import Log, LogLevel, LogWish, opened_log
from microagg_flows.outcome import Outcome, telling_if_published
from microagg_flows.process.limits import claim_limits
from microagg_flows.process.scratch import scratch

if TYPE_CHECKING:
    from microagg_flows.releasing import Order


class SaidError(MicroaggError):
    """How a command ends that has said so already, in the log that was asked for."""

    kind = "said"

    def __init__(self, exit_code: int) -> None:
        super().__init__("")
        self.exit_code = exit_code


@dataclass(frozen=True)
class Wish:
    """How a user wants to be told of a run."""

    quiet: bool = False
    as_json: bool = False
    #: A file for its outcome, besides that in the work area.
    results: Path | None = None
    log: LogWish = field(default_factory=LogWish)


def make_and_show(order: Order, direct: bool, wish: Wish) -> None:
    """Run a release and show it, also where something goes wrong after it was published."""
    claim_limits()
    with opened_log(wish.log) as log:
        outcome = _made(order, direct, wish, log)
        write_out(lambda: show_release(outcome.document(), wish.as_json))
        troubles = log.account.troubles if log.account else []
        for note in (*([outcome.note] if outcome.note else []), *troubles):
            log.write(LogLevel.warning, note)
            if not log.is_all_there_is:
                typer.echo(f"microagg: {note}", err=True)


def _made(order: Order, direct: bool, wish: Wish, log: Log) -> Outcome:
    from microagg_flows.accounts.account import accounted
    from microagg_flows.command.making import make_release

    try:
        with accounted(wish.results) as log.account, telling_if_published() as outcome, scratch():
            make_release(order, direct, log.progress(wish.quiet))
            return outcome
    except (Exception, KeyboardInterrupt) as error:
        said = (log.account.ended_by(error) if log.account else None) or sanitized(error, "microagg run")
        log.write(LogLevel.error, said.message)
        if log.is_all_there_is:
            raise SaidError(said.exit_code) from None
        raise
    return outcome


def write_out(show: Callable[[], None]) -> None:
    """Show something on standard output, to the last byte.

    Raises:
        StorageError: there is no room for it.
    """
    try:
        show()
        sys.stdout.flush()
    except OSError as error:
        raise StorageError(f"writing standard output failed ({error.strerror}); free some space there") from None


def show_release(document: dict[str, Any], as_json: bool) -> None:
    """The end of a run: one table, or one JSON document."""
    from microagg_flows.command.terminal import show_document

    if as_json:
        typer.echo(json.dumps(document, indent=1))
    else:
        show_document(document)
