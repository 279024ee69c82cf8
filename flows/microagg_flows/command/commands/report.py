"""``microagg report``: the operator's page of a release, for the operator alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.call import IdOption, QuietOption, SetOption, SpecArgument, command
from microagg_flows.process import claim_limits, scratch

if TYPE_CHECKING:
    from microagg_flows.record import RunRecord


@command("report")
def report(
    record: RunRecord,
    spec: SpecArgument,
    release: Annotated[
        str | None,
        typer.Option("--release", help="URL of a release, as for verify; default: the newest of the spec's."),
    ] = None,
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

    _refuse_senseless(draft, release, release_id, output)
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


def _refuse_senseless(draft: bool, release: str | None, release_id: str | None, output: Path | None) -> None:
    """Stop where options do not go together."""
    if draft and output is None:
        raise SpecError("--draft: has no audit in which its page could lie; name a file with --output")
    if draft and release is not None:
        raise SpecError("--draft: is not published, so it has no --release; leave one of them out")
    if not draft and release_id is not None:
        raise SpecError("--id: is for --draft; name a published release with --release URL")
