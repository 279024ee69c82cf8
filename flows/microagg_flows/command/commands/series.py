"""``microagg series``: a look at the private ledger of a series of releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.call import Group, JsonOption, QuietOption, SetOption, SpecArgument, command, echo_json
from microagg_flows.interrupts import INTERRUPTED
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord

SERIES = Group(
    "series", "The private ledger of a series of releases: its state, whether it is sound, and making it again."
)


@command("series status", INTERRUPTED)
def status(record: RunRecord, spec: SpecArgument, settings: SetOption = None, as_json: JsonOption = False) -> None:
    """Show how many nights and units the ledger knows, and the smallest trace."""
    from microagg_core.plain import to_plain
    from microagg_core.series.ledger import ledger_of
    from microagg_core.series.verification import status_of
    from microagg_core.spec.loading import load_spec
    from microagg_flows.command.terminal import show_series

    ledger = ledger_of(record.about(load_spec(spec, settings or ())))
    state = status_of(ledger)
    if as_json:
        echo_json(to_plain(state) if state else None)
    elif state is None:
        typer.echo(f"the series {ledger.series} has no night yet in {ledger.store}")
    else:
        show_series(state)


@command("series verify", INTERRUPTED)
def verify(record: RunRecord, spec: SpecArgument, settings: SetOption = None, as_json: JsonOption = False) -> None:
    """Read the whole ledger again (chain, checksums, units, counts, traces), and hold the output against it."""
    from microagg_core.plain import to_plain
    from microagg_core.series.ledger import ledger_of
    from microagg_core.series.verification import exit_code_of, verify_series
    from microagg_core.spec.loading import load_spec
    from microagg_core.store.objects import Store
    from microagg_flows.command.terminal import show_checks

    loaded = record.about(load_spec(spec, settings or ()))
    ledger = ledger_of(loaded)
    checks = verify_series(ledger, Store(loaded.output.url, dict(loaded.output.storage_options)))
    code = exit_code_of(checks)
    if as_json:
        document = {"series": ledger.series, "checks": [to_plain(check) for check in checks], "passed": not code}
        echo_json(document)
    elif checks:
        show_checks(checks)
    else:
        typer.echo(f"the series {ledger.series} has no night yet in {ledger.store}")
    if code:
        raise typer.Exit(code)


@command("series rebuild", INTERRUPTED)
def rebuild(
    record: RunRecord,
    spec: SpecArgument,
    night: Annotated[
        list[str] | None,
        typer.Option("--night", help="ID=INPUT: a release's input where it is not the spec's; may be given again."),
    ] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make the ledger again from the releases and their inputs; what is sound stays, the rest is moved aside."""
    from microagg_core.plain import to_plain
    from microagg_core.spec.loading import load_spec
    from microagg_flows.rebuilding import rebuild_ledger

    claim_limits()
    inputs = dict(text.split("=", 1) for text in night or () if "=" in text)
    loaded = load_spec(spec, settings or ())
    record.begin(loaded)
    if len(inputs) < len(night or ()):
        raise SpecError("--night: write ID=INPUT, once for each release")
    with scratch():
        rebuilt = rebuild_ledger(loaded, inputs, record.progress)
    if as_json:
        echo_json(to_plain(rebuilt))
    else:
        moved = f", {rebuilt.moved} objects moved to damaged" if rebuilt.moved else ""
        typer.echo(f"{rebuilt.kept} nights were sound, {rebuilt.again} were made again{moved}")
