"""``microagg run``, ``step`` and ``demo``: a release, whole or task by task."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.call import (
    IdOption,
    JsonOption,
    QuietOption,
    ReplaceOption,
    SetOption,
    SpecArgument,
    command,
    writing_out,
)
from microagg_flows.interrupts import INTERRUPTED
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_core.spec.release import ReleaseSpec
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
        typer.echo(json.dumps(to_plain(standing), indent=1) if as_json else standing.line())
        return
    if run is None:
        raise SpecError("--run: is needed with --number; microagg step report, without --number, prints the run's key")
    if release_id is not None or replace:
        raise SpecError("--id, --replace: say which release is begun, and are not for a task; leave them out")
    with scratch():
        receipt = do_task(name, number, run, spec, record.progress, settings or ())
    if as_json:
        typer.echo(json.dumps({"run": run, "step": name, "number": number, "rows": receipt.rows}, indent=1))


def make_release(order: Order, direct: bool, record: RunRecord) -> None:
    """Make a small release in this process alone, and any other through Prefect unless that is not wanted."""
    from microagg_core.extras import needing
    from microagg_flows import stages
    from microagg_flows.releasing import Settled, now, run_release

    tonight = Settled.of(order, now())  # errors of the spec come before anything is started
    if direct or _needs_no_prefect(tonight.spec):
        run_release(tonight, record, stages.run_stage)
        return
    with needing("prefect", "a release through Prefect (without it: --direct)"):
        from microagg_flows.prefect_side.embedded_server import settle_home

        if unusual := settle_home():
            record.progress.say(unusual)
        from microagg_flows.prefect_side.flow_run import release_through_prefect
    release_through_prefect(order, record)


def _needs_no_prefect(spec: ReleaseSpec) -> bool:
    """Tell a release so small, and a spec so plain, that neither a cluster nor a Prefect server is wanted."""
    from microagg_core.spec.clusters import NoCluster
    from microagg_flows.clusters import cluster_for
    from microagg_flows.prefect_side import names_prefect_server

    if spec.cluster is not None or names_prefect_server(os.environ):
        return False
    return isinstance(cluster_for(spec), NoCluster)


def _show(record: RunRecord, as_json: bool) -> None:
    """Show a release as one table, or one JSON document; and its risk, where nobody but the operator looks."""
    from microagg_core.release.audit import read_risk
    from microagg_flows.command.terminal import show_document, show_risks

    document = record.release_document()
    with writing_out():
        if as_json:
            typer.echo(json.dumps(document, indent=1))
        else:
            show_document(document)
    release = record.release
    if as_json or record.log.is_all_there_is or release is None or release.committed is None:
        return
    if figures := read_risk(release.work, release.committed):
        with writing_out():
            show_risks(figures)
