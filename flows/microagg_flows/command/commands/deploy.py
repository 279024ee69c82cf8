"""``microagg deploy``: the releases of a folder's specs, made by Prefect when they are due."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from microagg_core.extras import needing
from microagg_flows.command.call import QuietOption, SetOption, command
from microagg_flows.prefect_side import specs_of
from microagg_flows.process import scratch


@command("deploy", recorded=False)
def deploy(
    folder: Annotated[Path, typer.Argument(help="The folder with the specs, or with a folder for each.")],
    pool: Annotated[str, typer.Option(help="The work pool whose workers make the releases.")] = "microagg",
    seen_as: Annotated[
        str | None,
        typer.Option("--as", help="Where workers find that folder, if not under its path here.", metavar="URL"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only read the specs, and tell.")] = False,
    settings: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Make a Prefect deployment of each spec in a folder: its schedule, one run at a time, the others queued."""
    deployables = specs_of(folder, seen_as, settings or ())
    if not dry_run:
        with scratch(), needing("prefect", "a deployment"):
            from microagg_flows.prefect_side.deployments import deploy as deploy_specs
            from microagg_flows.prefect_side.flow_run import named_server
            from microagg_flows.progress import terminal_progress

            with named_server(terminal_progress(quiet)):
                deploy_specs(deployables, pool, settings or ())
    for deployable in deployables:
        typer.echo(deployable.in_words)
