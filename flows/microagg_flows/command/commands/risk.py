"""``microagg risk``: what a published release gives away, for the operator alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_flows.command.call import JsonOption, QuietOption, SetOption, SpecArgument, command
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord


@command("risk")
def risk(
    record: RunRecord,
    spec: SpecArgument,
    release: Annotated[
        str | None,
        typer.Option("--release", help="URL of a release, as for verify; default: the newest of the spec's."),
    ] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show what the published release gives away, every record asked; for the operator alone."""
    from microagg_core.spec.loading import load_spec
    from microagg_flows.aside import risk_of_release
    from microagg_flows.command.terminal import show_risk

    claim_limits()
    loaded = record.about(load_spec(spec, settings or ()))
    with scratch():
        manifest, figures = risk_of_release(loaded, release, record.progress)
    if as_json:
        typer.echo(json.dumps({"id": manifest.id, "revision": manifest.revision, **figures}, indent=1))
    else:
        show_risk(figures)
