"""What is told of a command: progress, a log, its account, and how it ended."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from microagg_core.errors import MicroaggError, StorageError, of_code, sanitized
from microagg_flows.accounts.log_lines import Log, LogFormat, LogLevel, LogWish, opened_log
from microagg_flows.command.arguments import LogFileOption, LogFormatOption, LogLevelOption, ResultsOption
from microagg_flows.outcome import INTERRUPTED, Outcome, telling_if_published
from microagg_flows.process.interrupts import INTERRUPTED_EARLY
from microagg_flows.process.limits import claim_limits
from microagg_flows.process.scratch import scratch
from microagg_flows.progress import Progress

if TYPE_CHECKING:
    from microagg_core.spec.release import ReleaseSpec
    from microagg_flows.releasing import Order

#: What an interruption leaves, where that is more than nothing.
_INTERRUPTED = {
    "run": INTERRUPTED,
    "backfill": INTERRUPTED,
    "demo": "interrupted; nothing was released, and the same command starts afresh",
    "step": INTERRUPTED,
    "forget": "interrupted; with --yes the same command goes on from there",
    "series": INTERRUPTED,
    "clean": "interrupted; what was removed is gone, and the same command removes the rest",
}


def left_by_interruption(command: str) -> str:
    """What a command says that was interrupted.

    >>> left_by_interruption("series rebuild")
    'interrupted; what is finished is kept, and the same command goes on from there'
    """
    return _INTERRUPTED.get(command.partition(" ")[0], INTERRUPTED_EARLY)


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
        if not wish.as_json:
            write_out(lambda: _show_risk(outcome, log))
        _say_troubles(log, outcome.note)


def _show_risk(outcome: Outcome, log: Log) -> None:
    """What the release gives away, for whoever sits at the terminal: not in a log, nor in anything that others read."""
    from microagg_flows.command.reporting import figures_of
    from microagg_flows.command.terminal import show_risks

    figures = None if log.is_all_there_is else figures_of(outcome)
    if figures:
        show_risks(figures)


def _made(order: Order, direct: bool, wish: Wish, log: Log) -> Outcome:
    from microagg_flows.accounts.account import accounted
    from microagg_flows.command.making import make_release

    try:
        with accounted(wish.results) as log.account, telling_if_published() as outcome, scratch():
            make_release(order, direct, log.progress(wish.quiet))
            return outcome
    except (Exception, KeyboardInterrupt) as error:
        _say_last(log, error, "run")
        raise
    return outcome


_log: ContextVar[Log | None] = ContextVar("log", default=None)


def told(command: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a log and an account, and the options that say where they go.

    What the command is told to show as progress, it shows by :func:`told_progress`.
    """

    def with_options(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def call(
            *,
            results: Path | None = None,
            log_format: LogFormat = LogFormat.text,
            log_file: Path | None = None,
            log_level: LogLevel = LogLevel.info,
            **others: Any,
        ) -> None:
            with opened_log(LogWish(log_format, log_file, log_level)) as log, _told(command, results, log):
                function(**others)

        # The library that reads the command line goes by these.
        own = inspect.signature(function, eval_str=True)
        whole = own.replace(parameters=[*own.parameters.values(), *_OPTIONS])
        call.__signature__ = whole  # type: ignore[attr-defined]
        call.__annotations__ = {name: parameter.annotation for name, parameter in whole.parameters.items()}
        return call

    return with_options


_OPTIONS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option)
    for name, default, option in (
        ("results", None, ResultsOption),
        ("log_format", LogFormat.text, LogFormatOption),
        ("log_file", None, LogFileOption),
        ("log_level", LogLevel.info, LogLevelOption),
    )
]


def told_progress(quiet: bool) -> Progress:
    """Progress as it suits the terminal, and lines of the log of the command that is under way."""
    return current_log().progress(quiet)


def current_log() -> Log:
    """The log of the command that is under way; one of nothing where it has none."""
    return _log.get() or Log(LogWish(), None)


def about(spec: ReleaseSpec, is_kept: bool = False) -> ReleaseSpec:
    """Have the account of a command that makes no release know its series; kept, it is in the work area, too."""
    account = current_log().account
    if account is not None:
        account.series = spec.name
        if is_kept:
            account.begin(spec, account.command)
    return spec


@contextmanager
def _told(command: str, results: Path | None, log: Log) -> Iterator[None]:
    """The command in the block is accounted for; how it ends is the last line of its log."""
    from microagg_flows.accounts.account import accounted

    token, ended = _log.set(log), None
    try:
        with accounted(results, command, left_by_interruption(command)) as log.account:
            try:
                yield
            except typer.Exit as end:  # it has said on standard output what is wrong
                ended, log.account.error = end, of_code(end.exit_code, f"microagg {command} found something wrong")
    except (Exception, KeyboardInterrupt) as error:
        _say_last(log, error, command)
        raise
    finally:
        _log.reset(token)
    _say_troubles(log, "")
    if ended is not None:
        if log.account.error is not None:
            log.write(LogLevel.error, log.account.error.message)
        raise ended


def _say_last(log: Log, error: BaseException, command: str) -> None:
    """The last line of a log: the sentence with which a command ends.

    Raises:
        SaidError: the log is all that a user sees.
    """
    said = (log.account.ended_by(error) if log.account else None) or sanitized(error, f"microagg {command}")
    log.write(LogLevel.error, said.message)
    if log.is_all_there_is:
        raise SaidError(said.exit_code) from None


def _say_troubles(log: Log, note: str) -> None:
    """What went wrong without stopping the command."""
    for trouble in filter(None, (note, *(log.account.troubles if log.account else []))):
        log.write(LogLevel.warning, trouble)
        if not log.is_all_there_is:
            typer.echo(f"microagg: {trouble}", err=True)


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
