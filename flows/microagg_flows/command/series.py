"""``microagg series``: a look at the private ledger of a series of releases."""

from __future__ import annotations

import json

import typer

from microagg_flows.command.arguments import JsonOption, SpecArgument

series = typer.Typer(
    no_args_is_help=True, help="The private ledger of a series of releases: its state, and whether it is sound."
)


@series.command()
def status(spec: SpecArgument, as_json: JsonOption = False) -> None:
    """Show how many nights and units the ledger knows, and the smallest trace."""
    from microagg_core.series.ledger import ledger_of
    from microagg_core.series.verifying import status_of
    from microagg_core.spec.loading import load_spec
    from microagg_flows.command.terminal import show_series

    ledger = ledger_of(load_spec(spec))
    state = status_of(ledger)
    if as_json:
        typer.echo(json.dumps(state.document() if state else None, indent=1))
    elif state is None:
        typer.echo(f"the series {ledger.series} has no night yet in {ledger.store}")
    else:
        show_series(state)


@series.command()
def verify(spec: SpecArgument, as_json: JsonOption = False) -> None:
    """Read the whole ledger again: the chain of nights, checksums, units, counts, traces."""
    from microagg_core.plain import to_plain
    from microagg_core.series.ledger import ledger_of
    from microagg_core.series.verifying import exit_code_of, verify_ledger
    from microagg_core.spec.loading import load_spec
    from microagg_flows.command.terminal import show_checks

    ledger = ledger_of(load_spec(spec))
    checks = verify_ledger(ledger)
    code = exit_code_of(checks)
    if as_json:
        document = {"series": ledger.series, "checks": [to_plain(check) for check in checks], "passed": not code}
        typer.echo(json.dumps(document, indent=1))
    elif checks:
        show_checks(checks)
    else:
        typer.echo(f"the series {ledger.series} has no night yet in {ledger.store}")
    if code:
        raise typer.Exit(code)
