"""``microagg init``, ``schema`` and ``algorithms``: a spec to start from, and what may stand in it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated

import typer

from microagg_flows.command.call import EndpointOption, JsonOption, command, echo_json, storage_options


@command("init", recorded=False)
def init(
    data: Annotated[str, typer.Argument(help="A Parquet, CSV or Arrow file (path, URL or glob).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the spec.")] = Path("release.yaml"),
    accept: Annotated[
        bool,
        typer.Option("--accept-proposals", help="Write the proposed roles as roles: for who reads each before a run."),
    ] = False,
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="What separates cells of CSV, where that is not clear.")
    ] = None,
    encoding: Annotated[str | None, typer.Option("--encoding", help="Of CSV, where that is not clear.")] = None,
    endpoint: EndpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Profile a file's columns, and write a commented starter spec with a proposal for each.

    A file that is not understood has no spec written for it, and exit code 3.
    """
    from microagg_core.errors import SpecError
    from microagg_core.profile.profile import WIDTH, profile_lines, profile_of
    from microagg_core.profile.starter import left_to_decide, starter_of

    if output.exists():
        raise SpecError(f"{output} exists already; remove it or choose another name with --output")
    profile = profile_of(data, delimiter, encoding, storage_options(endpoint) or None)
    text = starter_of(profile, data, output, accept)
    output.write_text(text, encoding="utf-8")
    if as_json:
        echo_json({"spec": str(output), **profile.document()})
        return
    typer.echo("\n".join(profile_lines(profile)))
    advice = "read every proposed role" if accept else "give every column a role"
    typer.echo(f"\nwrote {output}: {advice}, then run:\n    microagg plan {output}")
    for words in left_to_decide(profile):
        typer.echo(textwrap.fill(f"look at this: {words}", WIDTH))


@command("schema", recorded=False)
def schema(
    manifest: Annotated[bool, typer.Option("--manifest", help="that of a release's manifest.json instead")] = False,
) -> None:
    """Print the JSON schema of release.yaml."""
    from microagg_core.release.manifest import manifest_schema
    from microagg_core.spec.json_schema import spec_schema

    echo_json(manifest_schema() if manifest else spec_schema())


@command("algorithms", recorded=False)
def algorithms(as_json: JsonOption = False) -> None:
    """List the algorithms: what each is for, what it guarantees, what it costs."""
    from microagg_flows.command.terminal import show_algorithms

    show_algorithms(as_json)
