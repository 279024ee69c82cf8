"""What stops a night besides its files: what is frozen in a series, and a ledger that is not as it was left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from microagg_core.errors import StorageError
from releasing.runs import run_stages
from seasons.population import Population
from seasons.walk import Walk

SERIES = {"mode": "atoms", "leavers": "ghosts"}


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """A series after three nights, on the morning of the fourth: whoever is refused leaves nothing."""
    walk = Walk(tmp_path_factory.mktemp("nights"), Population(90, seed=1), dict(SERIES))
    script = "night; night come=12 leave=1 move=1; night come=12 leave=1 move=1; pass_day come=12 leave=1"
    assert walk.walk(script) == []
    return walk


def refused(walk: Walk) -> tuple[int, str]:
    ended = walk.command(*walk.tonight())
    assert len(list(walk.folder.glob("release/*/*/manifest.json"))) == 3
    return ended.code, ended.sentence()


#: Keys of the spec that are others tonight.
FROZEN: dict[str, tuple[dict[str, Any], str]] = {
    "k": ({"k": 2}, "k was 3 and is 2"),
    "guarantee": ({"series": {**SERIES, "guarantee": "trace+changes", "key_file": "key"}}, "guarantee was 'trace'"),
    "rounding": ({"rounding": {"income": 1000}}, "rounding of 'income' was"),
    "missing": ({"missing": "separate"}, "missing was 'error'"),
    "roles": (
        {"roles": {"identifiers": ["id"], "blocking": ["region"], "quasi_identifiers": ["age", "income"],
                   "confidential": ["tag", "note", "score", "town"]}},
        "the released columns, their types or roles are others",
    ),
    "unit": (
        {"unit": ["id", "note"], "acknowledge": {},
         "roles": {"identifiers": ["id", "note"], "blocking": ["region", "town"],
                   "quasi_identifiers": ["age", "income"], "confidential": ["tag", "score"]}},
        "unit names other columns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FROZEN)
def test_what_is_frozen_stays(name: str, nights: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, says = FROZEN[name]
    monkeypatch.setattr(nights, "spec", changes)
    code, sentence = refused(nights)
    assert code == 2 and "was begun otherwise" in sentence and says in sentence


def ledger_files(walk: Walk, pattern: str) -> list[Path]:
    return sorted(path for path in walk.ledger.glob(pattern) if path.is_file())


def lost_generation(night: int) -> Callable[[Walk], None]:
    return lambda walk: ledger_files(walk, "generations/*.json")[night].unlink()


def lost_ranges(walk: Walk) -> None:
    for path in ledger_files(walk, "data/**/*.arrows"):
        path.unlink()


def damaged_ranges(walk: Walk) -> None:
    for path in ledger_files(walk, "data/**/*.arrows"):
        path.write_bytes(path.read_bytes()[:-1])


def stale(walk: Walk) -> None:
    """A copy from before the newest night is put back."""
    lost_generation(-1)(walk)
    shutil.rmtree(max((walk.ledger / "data").iterdir()))


def lost_ledger(walk: Walk) -> None:
    shutil.rmtree(walk.ledger)


def forked(walk: Walk) -> None:
    """The document of the night before the newest one is another's."""
    path = ledger_files(walk, "generations/*.json")[-2]
    path.write_bytes(path.read_bytes().replace(b'"k": 3', b'"k": 2'))


def another_key(walk: Walk) -> None:
    (walk.folder / "key").write_text("another secret of these nights")


def lost_releases(walk: Walk) -> None:
    for path in walk.folder.glob("release/*/*/data/*"):
        path.unlink()


DAMAGES: dict[str, tuple[Callable[[Walk], None], int, str]] = {
    "the first generation is lost": (lost_generation(0), 5, "is missing"),
    "a generation in the middle is lost": (lost_generation(1), 5, "is missing"),
    "the newest generation is lost": (lost_generation(-1), 4, "knows nothing of"),
    "an old copy": (stale, 4, "knows nothing of"),
    "ranges are lost": (lost_ranges, 5, "is missing from the ledger"),
    "ranges are damaged": (damaged_ranges, 5, "is damaged"),
    "the ledger is lost": (lost_ledger, 4, "knows nothing of"),
    "the chain is forked": (forked, 5, "does not follow"),
    "another key": (another_key, 2, "was begun with another key"),
    "files of earlier releases are lost": (lost_releases, 5, "survivors' values come from it"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_stops_the_night(name: str, nights: Walk, tmp_path: Path) -> None:
    damage, code, says = DAMAGES[name]
    kept = {place: tmp_path / place.name for place in (nights.ledger, nights.folder / "release")}
    key = (nights.folder / "key").read_text()
    for place, copy in kept.items():
        shutil.copytree(place, copy)
    damage(nights)
    ended = refused(nights)
    for place, copy in kept.items():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(copy, place)
    (nights.folder / "key").write_text(key)
    assert ended[0] == code and says in ended[1]


def test_a_night_that_was_committed_while_another_ran(tmp_path: Path) -> None:
    """Of two nights at a time one wins; the other publishes nothing."""
    walk = Walk(tmp_path, Population(90, seed=1), dict(SERIES))
    assert walk.walk("night; pass_day come=12 leave=1") == []
    slow = run_stages(walk.begin(), "survey", "plan", "scatter", "anonymize", "validate", "measure")
    walk.pass_day()
    run_stages(walk.begin())
    with pytest.raises(StorageError, match="another night of the series people was committed meanwhile"):
        run_stages(slow, "publish")
    assert len(list(tmp_path.glob("release/*/*/manifest.json"))) == 2
