"""Prefect's side of a release: the flow and its runs, deployments of specs, a server where none is named, artifacts.

Here without Prefect: it takes seconds to load, and need not be installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from microagg_core.errors import SpecError
from microagg_core.store.urls import join_url

if TYPE_CHECKING:
    from microagg_core.spec.release import ReleaseSpec

_ENDINGS = (".yaml", ".yml")


def prefect_home(environment: Mapping[str, str]) -> Path | None:
    """Find Prefect's folder: the one that is set, or in the user's home; None where the user has none."""
    try:
        return Path(environment.get("PREFECT_HOME") or "~/.prefect").expanduser()
    except RuntimeError:
        return None


def names_prefect_server(environment: Mapping[str, str]) -> bool:
    home = prefect_home(environment)
    if "PREFECT_API_URL" in environment or home is None:
        return "PREFECT_API_URL" in environment
    try:
        return "PREFECT_API_URL" in (home / "profiles.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


@dataclass(frozen=True)
class Deployable:
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
    places: dict[str, str] = {}
    for deployable in deployables:
        name, place = deployable.spec.name, deployable.place
        if (first := places.setdefault(name, place)) != place:
            raise SpecError(f"{first} and {place} are both of the series {name}; give one another name")
    return deployables
