"""``microagg deploy``: the releases of a folder's specs, made by Prefect when they are due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from microagg_core.errors import SpecError
from microagg_core.extras import needing
from microagg_core.store.urls import join_url
from microagg_flows.command.call import QuietOption, SetOption, command
from microagg_flows.process import scratch

if TYPE_CHECKING:
    from microagg_core.spec.release import ReleaseSpec

_ENDINGS = (".yaml", ".yml")


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


@dataclass(frozen=True)
class Deployable:
    """A spec, and the path or URL under which workers find it."""

    spec: ReleaseSpec
    place: str

    @property
    def in_words(self) -> str:
        schedule = self.spec.schedule
        when = f"{schedule.cron} {schedule.timezone}, catch_up {schedule.catch_up}" if schedule else "no schedule"
        return f"{self.spec.name}: {when}, {self.place}"


def specs_of(folder: Path, seen_as: str | None, settings: Sequence[str]) -> list[Deployable]:
    """Load the specs in a folder, and each ``release.yaml`` in a folder of its own in it.

    Args:
        folder: on this machine.
        seen_as: where workers find the same folder, if not there.
        settings: fields of every spec that are set for the deployment.

    Raises:
        SpecError: there is none, two are of one series, or one is no spec; one line for each thing that is wrong.
    """
    from microagg_core.spec.loading import load_spec

    if not folder.is_dir():
        raise SpecError(f"{folder} is not a directory; pass the directory that holds the specs")
    paths = sorted({path for path in folder.iterdir() if path.suffix in _ENDINGS} | set(folder.glob("*/release.yaml")))
    if not paths:
        raise SpecError(f"{folder}: holds no spec; each is a .yaml file there, or release.yaml in a folder of its own")
    deployables, wrong = [], []
    for path in paths:
        place = join_url(seen_as, path.relative_to(folder).as_posix()) if seen_as else str(path.absolute())
        try:
            deployables.append(Deployable(load_spec(str(path), settings), place))
        except SpecError as error:
            wrong.append(error.message)
    if wrong:
        raise SpecError("\n".join(dict.fromkeys(wrong)))
    _refuse_one_name_twice(deployables)
    return deployables


def _refuse_one_name_twice(deployables: Sequence[Deployable]) -> None:
    first: dict[str, str] = {}
    for deployable in deployables:
        name, place = deployable.spec.name, deployable.place
        if name in first:
            raise SpecError(f"{first[name]} and {place} are both of the series {name}; give one another name")
        first[name] = place
