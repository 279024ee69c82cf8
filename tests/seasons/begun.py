"""A series after its first night, which others break or go on with."""

from __future__ import annotations

from pathlib import Path

from seasons.population import Population
from seasons.season import Season, series_of


def begun(folder: Path, mode: str = "atoms-ghosts", changes: bool = False) -> Season:
    """A series after its first night; then a tenth comes, one person leaves, and one has another score."""
    season = Season(folder, Population(90, seed=1), series_of(mode, folder, changes), n_parts=1)
    season.spend(season.prepare())
    assert season.wrong == []
    pass_a_night(season)
    return season


def pass_a_night(season: Season) -> None:
    """Twelve people come, one leaves, and one has another score."""
    people = season.people
    season.day += 1
    people.here += [people._born() for _ in range(12)]
    people.gone.append(people.here.pop(0))
    people.score[people.here[0]] += 1
