"""``microagg plan``: the plan of a release, from its data or from a description of their size alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.call import IdOption, JsonOption, QuietOption, SetOption, command
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord
    from microagg_flows.releasing import Order

OptionalSpecArgument = Annotated[
    str | None, typer.Argument(help="The release spec: a path or any fsspec URL.", metavar="release.yaml")
]
DescribeOption = Annotated[
    str | None,
    typer.Option(
        "--describe",
        help="Read no data: what a release of rows=1e9,keys=3e6,workers=100,... takes in time, memory and money.",
        metavar="NAME=VALUE,...",
    ),
]


@command("plan")
def plan(
    record: RunRecord,
    spec: OptionalSpecArgument = None,
    release_id: IdOption = None,
    settings: SetOption = None,
    describe: DescribeOption = None,
    expected: Annotated[
        bool,
        typer.Option(
            "--expected/--no-expected",
            help="Group some blocks for the k asked and its neighbours, and show what they lose and give away.",
        ),
    ] = True,
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


def _plan(order: Order, record: RunRecord, expecting: bool, as_json: bool) -> None:
    from microagg_core.plain import to_plain
    from microagg_flows.releasing import plan_release

    claim_limits()
    with scratch():
        outcome = plan_release(order, record, expecting)
    if as_json:
        expected = outcome.expectation.document() if outcome.expectation else None
        refused = outcome.refusal.message if outcome.refusal else None
        typer.echo(json.dumps({**to_plain(outcome.report), "expected": expected, "refused": refused}, indent=1))
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
        typer.echo(json.dumps(expected.document(), indent=1))
    else:
        show_forecast(expected)
