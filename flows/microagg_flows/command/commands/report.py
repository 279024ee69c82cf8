"""``microagg risk`` and ``report``: what a release gives away, and its page; for the operator alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.call import IdOption, JsonOption, QuietOption, SetOption, SpecArgument, command, echo_json
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord


ReleaseOption = Annotated[
    str | None,
    typer.Option("--release", help="URL of a release, as for verify; default: the newest of the spec's."),
]


@command("risk")
def risk(
    record: RunRecord,
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
    loaded = record.about(load_spec(spec, settings or ()))
    with scratch():
        manifest, figures = risk_of_release(loaded, release, record.progress)
    if as_json:
        echo_json({"id": manifest.id, "revision": manifest.revision, **figures})
    else:
        show_risk(figures)


@command("report")
def report(
    record: RunRecord,
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
    from microagg_flows.aside import page_of_draft, page_of_release
    from microagg_flows.record import write_private
    from microagg_flows.releasing import Order

    if draft and output is None:
        raise SpecError("--draft: has no audit in which its page could lie; name a file with --output")
    if draft and release is not None:
        raise SpecError("--draft: is not published, so it has no --release; leave one of them out")
    if not draft and release_id is not None:
        raise SpecError("--id: is for --draft; name a published release with --release URL")
    claim_limits()
    loaded, url = record.about(load_spec(spec, settings or ())), ""
    with scratch():
        if draft:
            html = page_of_draft(Order(spec, release_id, settings=tuple(settings or ())), record.progress)
        else:
            html, url = page_of_release(loaded, release, record.progress)
    if output is not None:
        write_private(output, html)
    typer.echo(output or url)
