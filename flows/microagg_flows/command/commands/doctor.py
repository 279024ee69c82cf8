"""``microagg doctor``: a look at a place before the night."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from microagg_flows.command.call import IdOption, JsonOption, QuietOption, SetOption, SpecArgument, command
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord


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
        typer.echo(json.dumps({"findings": [asdict(finding) for finding in findings], "exit_code": code}, indent=1))
    if code:
        raise typer.Exit(code)
