"""The specs of a folder: which series there are, and where a worker finds the spec of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from microagg_core.errors import SpecError
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.urls import join_url

_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True)
class Deployable:
    """A spec, and the path or URL under which workers find it."""

    spec: ReleaseSpec
    place: str

    @property
    def in_words(self) -> str:
        """Its series, when its releases are made, and from where."""
        schedule = self.spec.schedule
        when = f"{schedule.cron} {schedule.timezone}, catch_up {schedule.catch_up}" if schedule else "no schedule"
        return f"{self.spec.name}: {when}, {self.place}"


def specs_of(folder: Path, seen_as: str | None, settings: Sequence[str]) -> list[Deployable]:
    """The specs that lie in a folder, and each ``release.yaml`` in a folder of its own in it.

    Args:
        folder: on this machine.
        seen_as: where workers find the same folder, if not there.
        settings: fields of every spec that are set for the deployment.

    Raises:
        SpecError: there is none, two are of one series, or one is no spec; one line for each thing that is wrong.
    """
    if not folder.is_dir():
        raise SpecError(f"{folder}: is no folder; name the one that holds the specs")
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
    for one in deployables:
        if one.spec.name in first:
            raise SpecError(
                f"{first[one.spec.name]} and {one.place} are both of the series {one.spec.name}; give one another name"
            )
        first[one.spec.name] = one.place
