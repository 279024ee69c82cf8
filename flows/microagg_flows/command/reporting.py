"""``microagg report`` and ``microagg risk``: the page of a release and what it gives away, for the operator alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.arguments import IdOption, JsonOption, QuietOption, SetOption, SpecArgument
from microagg_flows.command.telling import about, told, told_progress
from microagg_flows.process.limits import claim_limits
from microagg_flows.process.scratch import scratch

if TYPE_CHECKING:
    from microagg_flows.outcome import Outcome

ReleaseOption = Annotated[
    str | None, typer.Option("--release", help="URL of a release, as for verify; default: the newest of the spec's.")
]


@told("report")
def report(
    spec: SpecArgument,
    release: ReleaseOption = None,
    draft: Annotated[
        bool, typer.Option("--draft", help="Of a release as it would be published now; nothing is published.")
    ] = False,
    release_id: IdOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the page here, for this user alone.")
    ] = None,
    settings: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Make the page again by which a release is looked at: one file of HTML in the audit; for the operator alone."""
    from microagg_core.spec.loading import load_spec
    from microagg_flows.accounts.keeping import write_private
    from microagg_flows.aside import page_of_draft, page_of_release
    from microagg_flows.releasing import Order

    _refuse_senseless(draft, release, release_id, output)
    claim_limits()
    about(load_spec(spec, settings or ()))
    with scratch():
        progress = told_progress(quiet)
        if draft:
            page = page_of_draft(Order(spec, release_id, settings=tuple(settings or ())), progress)
        else:
            page = page_of_release(spec, release, progress, settings or ())
    if output is not None:
        write_private(output, page.html)
    typer.echo(output if output is not None else page.url)


def _refuse_senseless(draft: bool, release: str | None, release_id: str | None, output: Path | None) -> None:
    """Stop where options do not go together.

    Raises:
        SpecError: which.
    """
    if draft and output is None:
        raise SpecError("--draft: has no audit in which its page could lie; name a file with --output")
    if draft and release is not None:
        raise SpecError("--draft: is not published, so it has no --release; leave one of them out")
    if not draft and release_id is not None:
        raise SpecError("--id: is for --draft; name a published release with --release URL")


@told("risk")
def risk(
    spec: SpecArgument,
    release: ReleaseOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show what the published release gives away, every record asked; for the operator alone."""
    from microagg_core.spec.loading import load_spec
    from microagg_flows.aside import risk_of_release
    from microagg_flows.command.terminal import show_risk

    claim_limits()
    about(load_spec(spec, settings or ()))
    with scratch():
        manifest, figures = risk_of_release(spec, release, told_progress(quiet), settings or ())
    if as_json:
        typer.echo(json.dumps({"id": manifest.id, "revision": manifest.revision, **figures}, indent=1))
    else:
        show_risk(figures)


def figures_of(outcome: Outcome) -> dict[str, Any] | None:
    """Read the risk of the release that a run ended with; None where nobody measured it."""
    from microagg_core.release.steps.audit import read_risk

    release = outcome.release
    if release is None or release.published is None:
        return None
    return read_risk(release.work, release.published.manifest)
