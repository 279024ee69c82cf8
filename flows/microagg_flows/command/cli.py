"""The command line: thin commands over the stages and the core, and one place where errors become exit codes.

Exit codes: 0 done, 1 a bug of ours, 2 usage or spec, 3 data, 4 privacy gate, 5 storage, 6 cluster, 7 missing input,
130 interrupted. A release that is published is done, whatever comes afterwards.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from microagg_core.errors import EXIT_DONE, InterruptionError, MicroaggError, sanitized
from microagg_flows.accounts.log_lines import LogFormat, LogLevel, LogWish
from microagg_flows.command.arguments import (
    IdOption,
    JsonOption,
    LogFileOption,
    LogFormatOption,
    LogLevelOption,
    QuietOption,
    ResultsOption,
    SetOption,
    SpecArgument,
    VersionOption,
)
from microagg_flows.command.backfilling import backfill
from microagg_flows.command.deploying import deploy
from microagg_flows.command.planning import doctor, plan
from microagg_flows.command.receiving import keys, sign, verify
from microagg_flows.command.reporting import report, risk
from microagg_flows.command.series import series
from microagg_flows.command.starting import init
from microagg_flows.command.studies import attack, compare
from microagg_flows.command.telling import (
    SaidError,
    Wish,
    about,
    left_by_interruption,
    make_and_show,
    told,
    write_out,
)
from microagg_flows.outcome import Outcome, observed
from microagg_flows.process.interrupts import end_now, is_requested, orderly
from microagg_flows.process.limits import claim_limits
from microagg_flows.process.scratch import remove_current, scratch
from microagg_flows.process.streams import forgiving

if TYPE_CHECKING:
    pass


class _PublishedError(MicroaggError):
    """Trouble after the release was published: there is something to say, and the release is out."""

    exit_code = EXIT_DONE
    kind = "published"


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for; whatever ends it is one of ours, and is said once."""

        def give_up() -> None:
            said = _ended(KeyboardInterrupt(), str(ctx.invoked_subcommand), outcome)
            remove_current()
            end_now(f"microagg: {said.message}\n", said.exit_code)

        with observed() as outcome, orderly(give_up):
            try:
                return super().invoke(ctx)
            except SaidError:
                raise
            except BaseException as error:
                stopped = KeyboardInterrupt() if is_requested() else error
                if isinstance(stopped, SystemExit | typer.Exit) or not (
                    isinstance(stopped, KeyboardInterrupt) or outcome.is_finished()
                ):
                    raise
                raise _ended(stopped, str(ctx.invoked_subcommand), outcome) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, each with all of its first sentence, however narrow the terminal is."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(limit=1000)) for name, command in commands if command]
            )


def _ended(error: BaseException, command: str, outcome: Outcome) -> MicroaggError:
    """What a command that was stopped by an error or an interruption has to say."""
    if outcome.is_finished():
        return _PublishedError(outcome.noted(error))
    if outcome.published():
        return outcome.told(error)
    return InterruptionError(left_by_interruption(command))


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

app.add_typer(series, name="series")

ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Publish a new revision where the id is taken by another release.")
]

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


@app.callback()
def _all_commands(version: VersionOption = False) -> None:
    pass


@app.command()
def run(
    spec: SpecArgument,
    direct: Annotated[bool, typer.Option("--direct", help="The same stages without Prefect.")] = False,
    release_id: IdOption = None,
    replace: ReplaceOption = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    results: ResultsOption = None,
    log_format: LogFormatOption = LogFormat.text,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = LogLevel.info,
) -> None:
    """Make a release: survey, plan, scatter, anonymize, validate, measure, publish, report."""
    from microagg_flows.releasing import Order

    log = LogWish(log_format, log_file, log_level)
    order = Order(spec, release_id, replace, tuple(settings or ()))
    make_and_show(order, direct, Wish(quiet, as_json, results, log))


app.command()(backfill)
app.command()(deploy)
app.command()(doctor)
app.command()(plan)
app.command()(risk)
app.command()(report)


@app.command()
@told("step")
def step(
    name: Annotated[str, typer.Argument(help="With --number, the step of that task; else the stage to get to.")],
    spec: SpecArgument,
    number: Annotated[int | None, typer.Option(min=0, help="Do this task, and nothing else.")] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="The run's key, as printed; without --number: go on with no other.")
    ] = None,
    release_id: IdOption = None,
    replace: ReplaceOption = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a release step by step, each task by a call of its own: for job arrays, without Dask.

    Without --number: do what is left of all stages up to NAME but their tasks, and print the step whose tasks come
    next, their numbers as job arrays want them and the run's key, or "done". With it: do one of these tasks. Calls
    may be made again, in parallel, and wherever the work area is in reach; what is done is not done twice.
    """
    from microagg_flows.command.stepping import step_release
    from microagg_flows.releasing import Order

    claim_limits()
    order = Order(spec, release_id, replace, tuple(settings or ()))
    with observed() as outcome, scratch():
        line = step_release(name, number, run, order, as_json, quiet)
    if line:
        typer.echo(line)
    if outcome.note:
        typer.echo(f"microagg: {outcome.note}", err=True)


app.command()(verify)
app.command()(sign)
app.command()(keys)
app.command()(attack)
app.command()(init)


@app.command()
def schema(
    manifest: Annotated[bool, typer.Option("--manifest", help="that of a release's manifest.json instead")] = False,
) -> None:
    """Print the JSON schema of release.yaml."""
    from microagg_core.release.manifest import manifest_schema
    from microagg_core.spec.loading import spec_schema

    typer.echo(json.dumps(manifest_schema() if manifest else spec_schema(), indent=1))


@app.command()
def algorithms(as_json: JsonOption = False) -> None:
    """List the algorithms: what each is for, what it guarantees, what it costs."""
    from microagg_flows.command.terminal import show_algorithms

    show_algorithms(as_json)


app.command()(compare)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where the demo's files go.")] = Path("microagg-demo"),
    people: Annotated[int, typer.Option(min=1000, help="How many people.")] = 200_000,
    direct: Annotated[bool, typer.Option("--direct", help="Without Prefect.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Make a census-like file, anonymize it, and show the release."""
    from microagg_core.demo import write_demo
    from microagg_flows.releasing import Order

    spec = write_demo(folder, people)
    typer.echo(f"wrote {people:,} people and a spec to {folder}", err=True)
    make_and_show(Order(str(spec), replace=True), direct, Wish(quiet))
    typer.echo(f"\nthe spec:    {spec}\nverify it:   microagg verify {folder / 'release'}")


@app.command()
def warm(
    algorithms: Annotated[
        list[str] | None, typer.Option("--algorithm", help="An algorithm, by name; may be given again.")
    ] = None,
    refine: Annotated[str, typer.Option(help="The refinement: off, fast or thorough.")] = "fast",
    k: Annotated[int | None, typer.Option(min=2, help="Only what this k needs; default: any.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All algorithms and refinements.")] = False,
    into: Annotated[
        Path | None, typer.Option("--into", help="Keep them below this folder, to be copied or packed from there.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Compile the kernels and keep them, once for this machine: for images, and before the first release."""
    from microagg_flows.command.warming import warm_kernels

    typer.echo(warm_kernels(algorithms or ["mdav"], refine, k, everything, into, quiet))


@app.command()
def clean(
    spec: SpecArgument,
    everything: Annotated[bool, typer.Option("--all", help="Also what is not due yet.")] = False,
    settings: SetOption = None,
) -> None:
    """Remove rows of runs that died, or that failed and whose time is up, and what they left at the output."""
    from microagg_core.release.steps.cleaning import clean_work, remove_abandoned
    from microagg_core.release.steps.pruning import prune_audit
    from microagg_core.series.publications import clean_output
    from microagg_core.spec.loading import load_spec

    place = load_spec(spec, settings or ())
    removed, kept = clean_work(place, everything)
    typer.echo(f"removed {removed} failed runs, kept {kept} that are not due yet")
    if files := remove_abandoned(place, everything):
        typer.echo(f"removed {files} files that were never completed")
    if files := clean_output(place, everything):
        typer.echo(f"removed {files} files of runs that died from the output, which no manifest named")
    if pruned := prune_audit(place):
        typer.echo(f"removed {pruned} files of the audit, as their time was up")


@app.command()
@told("forget")
def forget(
    spec: SpecArgument,
    units: Annotated[str, typer.Option("--units", help="CSV or Parquet file with the columns of the unit.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only tell what it takes.")] = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Erase units from a series: the releases that hold them are withdrawn, the newest is published without them."""
    from microagg_core.spec.loading import load_spec
    from microagg_flows.forgetting import forget as forget_units
    from microagg_flows.releasing import now

    claim_limits()
    about(load_spec(spec, settings or ()), is_kept=yes)
    with scratch():
        report = forget_units(spec, units, yes, now(), settings or ())
    typer.echo(json.dumps(report.document(), indent=1) if as_json else "\n".join(report.sentences()))


def main() -> None:
    """Every error is a sentence and an exit code, never a traceback."""
    for name, value in _QUIET_SETTINGS.items():
        os.environ.setdefault(name, value)
    with forgiving() as complaints:
        try:
            write_out(_call)
        except MicroaggError as error:
            _stop(error, complaints)
        except Exception as error:
            _stop(sanitized(error, f"microagg {' '.join(sys.argv[1:2])}"), complaints)


def _call() -> None:
    """The command that was asked for; the library ends every call by leaving the process."""
    try:
        app()
    except SystemExit as end:
        if end.code:
            raise


def _stop(error: MicroaggError, complaints: TextIO) -> None:
    for line in error.message.splitlines():
        print(f"microagg: {line}", file=complaints, flush=True)
    sys.exit(error.exit_code)
