"""The command line: commands found by their folder, and one place where errors become exit codes.

Exit codes: 0 done, 1 a bug of ours, 2 usage or spec, 3 data, 4 privacy gate, 5 storage, 6 cluster, 7 missing input,
130 interrupted. A release that is published is done, whatever comes afterwards.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from microagg_core.errors import EXIT_DONE, InterruptionError, MicroaggError, sanitized
from microagg_core.registry import members
from microagg_flows.command.call import Call, Command, Group, SaidError, writing_out
from microagg_flows.interrupts import end_now, is_requested, orderly
from microagg_flows.process import forgiving, remove_current

_COMMANDS = "microagg_flows.command.commands"
_QUIET_SETTINGS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # A named server keeps the run's log; the terminal has lines of progress instead.
    "PREFECT_LOGGING_LEVEL": "INFO",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_HANDLERS_DEBUG_LEVEL": "CRITICAL",
    "DASK_LOGGING__DISTRIBUTED": "critical",
}


class _PublishedError(MicroaggError):
    """Trouble after the release was published: there is something to say, and the release is out."""

    exit_code = EXIT_DONE
    kind = "published"


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for; whatever ends it is one of our errors, and is said once."""
        ctx.obj = call = Call()

        def give_up() -> None:
            ending = _ending(call, KeyboardInterrupt())
            remove_current()
            end_now(f"microagg: {ending.message}\n", ending.exit_code)

        with orderly(give_up):
            try:
                return super().invoke(ctx)
            except SaidError:
                raise
            except BaseException as error:
                stopped = KeyboardInterrupt() if is_requested() else error
                is_finished = call.record is not None and call.record.innermost().is_finished
                if isinstance(stopped, SystemExit | typer.Exit) or not (
                    isinstance(stopped, KeyboardInterrupt) or is_finished
                ):
                    raise
                raise _ending(call, stopped) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, each with all of its first sentence, however narrow the terminal is."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(limit=1000)) for name, command in commands if command]
            )


def _ending(call: Call, error: BaseException) -> MicroaggError:
    """Word the end of a command that was interrupted, or failed once its release was finished."""
    if call.record is None:
        return InterruptionError(call.interrupted)
    record = call.record.innermost()
    return record.ending(error) or _PublishedError(record.noted(error))


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(f"microagg {version('microagg')}")
        raise typer.Exit


def _all_commands(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def build_app() -> typer.Typer:
    """Gather the commands of the folder, those of two words in groups."""
    app = typer.Typer(
        cls=_Commands,
        no_args_is_help=True,
        add_completion=False,
        # Plain: no frame that shortens names on a narrow terminal, no colour where somebody reads a file.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Microaggregation at cluster scale: k-anonymous releases of microdata, planned, checked and published.",
        epilog="Exit codes: 0 done, 1 a bug of ours, 2 usage or spec, 3 data, 4 privacy gate, 5 storage, 6 cluster, "
        "7 missing input, 130 interrupted.",
    )
    app.callback()(_all_commands)
    groups = {group.name: typer.Typer(no_args_is_help=True, help=group.help) for group in members(_COMMANDS, Group)}
    for command in members(_COMMANDS, Command):
        group, _, name = command.name.rpartition(" ")
        (groups[group] if group else app).command(name)(command.function)
    for name, commands in groups.items():
        app.add_typer(commands, name=name)
    return app


def main() -> None:
    """Run the command; every error is a sentence and an exit code, never a traceback."""
    for name, value in _QUIET_SETTINGS.items():
        os.environ.setdefault(name, value)
    with forgiving() as complaints:
        try:
            app = build_app()
            with writing_out(), _going_on_after_success():
                app()
        except MicroaggError as error:
            _stop(error, complaints)
        except Exception as error:
            _stop(sanitized(error, f"microagg {' '.join(sys.argv[1:2])}"), complaints)


@contextmanager
def _going_on_after_success() -> Iterator[None]:
    """Go on where the library, which ends every call by leaving the process, leaves with exit code 0."""
    try:
        yield
    except SystemExit as end:
        if end.code:
            raise


def _stop(error: MicroaggError, complaints: TextIO) -> None:
    for line in error.message.splitlines():
        print(f"microagg: {line}", file=complaints, flush=True)
    sys.exit(error.exit_code)
