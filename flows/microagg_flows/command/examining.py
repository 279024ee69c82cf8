"""``microagg doctor``: a look at a place before the night."""

from __future__ import annotations

import json

import typer

from microagg_flows.command.arguments import IdOption, JsonOption, QuietOption, SetOption, SpecArgument
from microagg_flows.command.telling import about, told, told_progress
from microagg_flows.process import claim_limits, scratch


@told("doctor")
def doctor(
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
    about(load_spec(spec, settings or ()))
    findings = []
    with scratch():
        for finding in examine(Order(spec, release_id, settings=tuple(settings or ())), told_progress(quiet)):
            findings.append(finding)
            if not as_json:
                typer.echo(finding.line())
    code = exit_code_of(findings)
    if as_json:
        typer.echo(json.dumps({"findings": [one.document() for one in findings], "exit_code": code}, indent=1))
    if code:
        raise typer.Exit(code)
