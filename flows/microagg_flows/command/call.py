"""Commands, and what they have in common: their options, the record of the call, and how it ends.

A command is a function in a module of :mod:`microagg_flows.command.commands`, made one by :func:`command`. These
modules are loaded for ``microagg --help``, so they import what takes time in their functions.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from microagg_core.errors import MicroaggError, StorageError, of_code, sanitized
from microagg_flows.interrupts import INTERRUPTED_EARLY
from microagg_flows.log import Log, LogFormat, LogLevel, opened_log

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord

SpecArgument = Annotated[
    str, typer.Argument(help="The release spec: a path or any fsspec URL.", metavar="release.yaml")
]
IdOption = Annotated[str | None, typer.Option("--id", help="The release's id, instead of the spec's.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="PATH=VALUE: a field of the spec for this call, such as output.url=s3://dev/people; may be given again.",
        metavar="PATH=VALUE",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Publish a new revision where the id is taken by another release.")
]
EndpointOption = Annotated[str | None, typer.Option(help="Endpoint of an S3 store other than AWS.")]
_ResultsOption = Annotated[
    Path | None, typer.Option("--results", help="Also write the run's outcome here, a JSON document, however it ends.")
]
_LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="Lines of the log; json: one object each.")]
_LogFileOption = Annotated[
    Path | None, typer.Option("--log-file", help="Append the log to this file; the terminal keeps its lines.")
]
_LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="The least that is worth a line.")]


@dataclass
class Call:
    """The command that this process was called for; the library that reads the command line hands it on."""

    interrupted: str = INTERRUPTED_EARLY
    record: RunRecord | None = None


@dataclass(frozen=True)
class Command:
    """A command: its name, of two words in a group, and the function with its options."""

    name: str
    function: Callable[..., None]


@dataclass(frozen=True)
class Group:
    """Commands whose names begin with the same word."""

    name: str
    help: str


def command(
    name: str, interrupted: str = INTERRUPTED_EARLY, recorded: bool = True, logged: bool = True
) -> Callable[[Callable[..., None]], Command]:
    """Make a function a command; its docstring is the help.

    ``interrupted`` is said where somebody interrupts it. A command that is recorded is given its record as the first
    argument; one that is logged has the options that say where its results and its log go.
    """

    def made(function: Callable[..., None]) -> Command:
        def call(
            context: typer.Context,
            results: _ResultsOption = None,
            log_format: _LogFormatOption = LogFormat.text,
            log_file: _LogFileOption = None,
            log_level: _LogLevelOption = LogLevel.info,
            **others: Any,
        ) -> None:
            under_way = context.find_object(Call) or Call()
            under_way.interrupted = interrupted
            if not recorded:
                function(**others)
                return
            with opened_log(log_format, log_file, log_level) as log:
                record = under_way.record = _new_record(name, interrupted, results, log, others.get("quiet", False))
                with _ended(record):
                    function(record, **others)

        context, *of_log, _others = inspect.signature(call, eval_str=True).parameters.values()
        functools.update_wrapper(call, function)
        # The library that reads the command line goes by these. The record is no option, and its type takes a second.
        function.__annotations__.pop("record", None)
        own = inspect.signature(function, eval_str=True)
        options = [*own.parameters.values()][recorded:]
        parameters = [context, *options, *(of_log if recorded and logged else [])]
        call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return Command(name, call)

    return made


def _new_record(name: str, interrupted: str, file: Path | None, log: Log, quiet: bool) -> RunRecord:
    from microagg_flows.record import RunRecord

    log.record = record = RunRecord(name, file, interrupted, progress=log.progress(quiet), log=log)
    record.open_file()
    return record


class SaidError(MicroaggError):
    """The end of a command that has said how it ended in the log that was asked for."""

    kind = "said"

    def __init__(self, exit_code: int) -> None:
        super().__init__("")
        self.exit_code = exit_code


@contextmanager
def _ended(record: RunRecord) -> Iterator[None]:
    """Write how the command in the block ended to its record, and as the last line of its log."""
    log, left = record.log, None
    try:
        yield
    except typer.Exit as end:  # it has said on standard output what is wrong
        left, record.error = end, of_code(end.exit_code, f"microagg {record.command} found something wrong")
    except BaseException as error:
        record.end(error)
        # Where the release is out, the command line makes a note of it.
        if record.is_finished or not isinstance(error, Exception | KeyboardInterrupt):
            raise
        ending = record.ending(error) or sanitized(error, f"microagg {record.command}")
        log.write(LogLevel.error, ending.message)
        if log.is_all_there_is:
            raise SaidError(ending.exit_code) from None
        raise
    record.end(None)
    for trouble in filter(None, (record.note, *record.troubles)):
        log.write(LogLevel.warning, trouble)
        if not log.is_all_there_is:
            typer.echo(f"microagg: {trouble}", err=True)
    if left is not None:
        if record.error is not None:
            log.write(LogLevel.error, record.error.message)
        raise left


@contextmanager
def writing_out() -> Iterator[None]:
    """Write to standard output in the block, to the last byte."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        raise StorageError(f"writing standard output failed ({error.strerror}); free some space there") from None


def echo_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=1))


def write_file(path: Path, data: bytes, rights: int, mode: int = os.O_TRUNC) -> None:
    """Write a file, which has these rights if it is new; with ``os.O_EXCL`` it has to be."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | mode, rights), "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(data)


def listed(text: str) -> list[str]:
    """Split words that are separated by commas.

    >>> listed("age, town,")
    ['age', 'town']
    """
    return [word.strip() for word in text.split(",") if word.strip()]


def storage_options(endpoint: str | None) -> dict[str, Any]:
    return {"client_kwargs": {"endpoint_url": endpoint}} if endpoint else {}
