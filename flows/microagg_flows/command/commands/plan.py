"""``microagg doctor`` and ``plan``: looks at a place and at a release before the night."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.call import (
    IdOption,
    JsonOption,
    QuietOption,
    SetOption,
    SpecArgument,
    command,
    echo_json,
)
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord
    from microagg_flows.releasing import Order


@command("doctor")
def doctor(
    record: RunRecord,
    spec: SpecArgument,
    release_id: IdOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Look at all that a run would meet: input, store, workers, credentials, Prefect; exit code as that run's."""
    from microagg_core.spec.loading import load_spec
    from microagg_flows.doctor import examine, exit_code_of
    from microagg_flows.releasing import Order

    claim_limits()
    record.about(load_spec(spec, settings or ()))
    findings = []
    with scratch():
        for finding in examine(Order(spec, release_id, settings=tuple(settings or ())), record.progress):
            findings.append(finding)
            if not as_json:
                typer.echo(finding.line())
    code = exit_code_of(findings)
    if as_json:
        echo_json({"findings": [asdict(finding) for finding in findings], "exit_code": code})
    if code:
        raise typer.Exit(code)


@command("plan")
def plan(
    record: RunRecord,
    spec: Annotated[
        str | None, typer.Argument(help="The release spec: a path or any fsspec URL.", metavar="release.yaml")
    ] = None,
    release_id: IdOption = None,
    settings: SetOption = None,
    describe: Annotated[
        str | None,
        typer.Option(
            "--describe",
            help="Read no data: what a release of rows=1e9,keys=3e6,workers=100,... takes in time, memory and money.",
            metavar="NAME=VALUE,...",
        ),
    ] = None,
    expected: Annotated[
        bool | None,
        typer.Option(
            "--expected/--no-expected",
            help="Group some blocks for the k asked and its neighbours, and show what they lose and give away; by "
            "default where it takes at most a twentieth of a run.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Survey the input and show the plan, for the operator alone; nothing is released."""
    if describe is not None:
        _forecast(spec, settings or [], describe, as_json)
    elif spec is None:
        raise SpecError("plan needs a spec, or with --describe the size of a release, such as --describe rows=1e9")
    else:
        from microagg_flows.releasing import Order

        _plan(Order(spec, release_id, settings=tuple(settings or ())), record, expected, as_json)


def _plan(order: Order, record: RunRecord, expecting: bool | None, as_json: bool) -> None:
    from microagg_core.plain import to_plain
    from microagg_flows.releasing import plan_release

    claim_limits()
    with scratch():
        outcome = plan_release(order, record, expecting)
    if as_json:
        expected = outcome.expectation.document() if outcome.expectation else None
        refused = outcome.refusal.message if outcome.refusal else None
        echo_json({**to_plain(outcome.report), "expected": expected, "refused": refused})
    else:
        from microagg_flows.command.terminal import show_expectation, show_plan

        show_plan(outcome.report, outcome.refusal.message if outcome.refusal else "")
        if outcome.expectation is not None:
            show_expectation(outcome.expectation)
    if outcome.refusal is not None:
        raise outcome.refusal


def _forecast(spec: str | None, settings: list[str], describe: str, as_json: bool) -> None:
    from microagg_core.release.sizing.description import described, read_description
    from microagg_core.release.sizing.forecast import forecast
    from microagg_core.spec.loading import load_spec
    from microagg_flows.command.terminal import show_forecast

    if spec is None and settings:
        raise SpecError("--set changes a spec's fields; name the spec before --describe")
    loaded = load_spec(spec, settings) if spec is not None else None
    if loaded is not None and loaded.several is not None:
        raise SpecError(
            "--describe: units of several rows cannot be forecast yet; name a spec of single records, or none"
        )
    expected = forecast(read_description(describe, described(loaded) if loaded is not None else {}))
    if as_json:
        echo_json(expected.document())
    else:
        show_forecast(expected)
