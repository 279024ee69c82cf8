"""``microagg run``, ``demo``, ``step``, ``backfill`` and ``deploy``: a release, or those of many days."""

from __future__ import annotations

import datetime
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from microagg_core.errors import MicroaggError, SpecError
from microagg_core.extras import needing
from microagg_flows.command.call import (
    IdOption,
    JsonOption,
    QuietOption,
    ReplaceOption,
    SetOption,
    SpecArgument,
    command,
    echo_json,
    writing_out,
)
from microagg_flows.interrupts import INTERRUPTED
from microagg_flows.log import LogLevel
from microagg_flows.prefect_side import names_prefect_server, specs_of
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord
    from microagg_flows.releasing import Order


@command("run", INTERRUPTED)
def run(
    record: RunRecord,
    spec: SpecArgument,
    direct: Annotated[bool, typer.Option("--direct", help="The same stages without Prefect.")] = False,
    release_id: IdOption = None,
    replace: ReplaceOption = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a release: survey, plan, scatter, anonymize, validate, measure, publish, report."""
    from microagg_flows.releasing import Order

    claim_limits()
    with record.publishing(), scratch():
        make_release(Order(spec, release_id, replace, tuple(settings or ())), direct, record)
    _show(record, as_json)


@command("demo", "interrupted; nothing was released, and the same command starts afresh", logged=False)
def demo(
    record: RunRecord,
    folder: Annotated[Path, typer.Option(help="Where the demo's files go.")] = Path("microagg-demo"),
    people: Annotated[int, typer.Option(min=1000, help="How many people.")] = 200_000,
    direct: Annotated[bool, typer.Option("--direct", help="Without Prefect.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Make a census-like file, anonymize it, and show the release."""
    from microagg_core.demo import write_demo
    from microagg_flows.releasing import Order

    record.command = "run"
    spec = write_demo(folder, people)
    typer.echo(f"wrote {people:,} people and a spec to {folder}", err=True)
    claim_limits()
    with record.publishing(), scratch():
        make_release(Order(str(spec), replace=True), direct, record)
    _show(record, as_json=False)
    typer.echo(f"\nthe spec:    {spec}\nverify it:   microagg verify {folder / 'release'}")


@command("step", INTERRUPTED)
def step(
    record: RunRecord,
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
    from microagg_core.plain import to_plain
    from microagg_flows.releasing import Order
    from microagg_flows.stepping import do_task, go_on

    claim_limits()
    if number is None:
        with scratch():
            standing = go_on(name, Order(spec, release_id, replace, tuple(settings or ())), run, record)
        if as_json:
            echo_json(to_plain(standing))
        else:
            typer.echo(standing.line())
        return
    if run is None:
        raise SpecError("--run: is needed with --number; microagg step report, without --number, prints the run's key")
    if release_id is not None or replace:
        raise SpecError("--id, --replace: say which release is begun, and are not for a task; leave them out")
    with scratch():
        receipt = do_task(name, number, run, spec, record.progress, settings or ())
    if as_json:
        echo_json({"run": run, "step": name, "number": number, "rows": receipt.rows})


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
            echo_json({"days": shown})


def _day(option: str, text: str) -> datetime.date:
    with suppress(ValueError):  # such as the 31st of November
        day = datetime.date.fromisoformat(text)
        if day.isoformat() == text:
            return day
    raise SpecError(f"{option}: must be a day such as 2026-11-01 (got {text!r})")


def _make_day(order: Order, direct: bool, whole: RunRecord) -> None:
    """Make one day's release, a run of its own with a record of its own."""
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


@command("deploy", recorded=False)
def deploy(
    folder: Annotated[Path, typer.Argument(help="The folder with the specs, or with a folder for each.")],
    pool: Annotated[str, typer.Option(help="The work pool whose workers make the releases.")] = "microagg",
    seen_as: Annotated[
        str | None,
        typer.Option("--as", help="Where workers find that folder, if not under its path here.", metavar="URL"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only read the specs, and tell.")] = False,
    settings: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Make a Prefect deployment of each spec in a folder: its schedule, one run at a time, the others queued."""
    deployables = specs_of(folder, seen_as, settings or ())
    if not dry_run:
        with scratch(), needing("prefect", "a deployment"):
            from microagg_flows.prefect_side.deployments import deploy as deploy_specs
            from microagg_flows.prefect_side.flow_run import named_server
            from microagg_flows.progress import terminal_progress

            with named_server(terminal_progress(quiet)):
                deploy_specs(deployables, pool, settings or ())
    for deployable in deployables:
        typer.echo(deployable.in_words)


def make_release(order: Order, direct: bool, record: RunRecord) -> None:
    """Make a small release in this process alone, and any other through Prefect unless that is not wanted."""
    from microagg_core.spec.clusters import NoCluster
    from microagg_flows import stages
    from microagg_flows.clusters import cluster_for
    from microagg_flows.releasing import Settled, now, run_release

    tonight = Settled.of(order, now())  # errors of the spec come before anything is started
    is_plain = tonight.spec.cluster is None and not names_prefect_server(os.environ)
    if direct or (is_plain and isinstance(cluster_for(tonight.spec), NoCluster)):
        run_release(tonight, record, stages.run_stage)
        return
    with needing("prefect", "a release through Prefect (without it: --direct)"):
        from microagg_flows.prefect_side.embedded_server import settle_home

        if unusual := settle_home():
            record.progress.say(unusual)
        from microagg_flows.prefect_side.flow_run import release_through_prefect
    release_through_prefect(order, record)


def _show(record: RunRecord, as_json: bool) -> None:
    """Show a release as one table, or one JSON document; and its risk, where nobody but the operator looks."""
    from microagg_core.release.audit import read_risk
    from microagg_flows.command.terminal import show_document, show_risks

    document = record.release_document()
    with writing_out():
        if as_json:
            echo_json(document)
        else:
            show_document(document)
    release = record.release
    if as_json or record.log.is_all_there_is or release is None or release.committed is None:
        return
    if figures := read_risk(release.work, release.committed):
        with writing_out():
            show_risks(figures)
