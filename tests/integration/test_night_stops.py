"""What stops a night besides its files: what is frozen in a series, and a ledger that is not as it was left."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from microagg_core.errors import GateError, MicroaggError, SpecError, StorageError
from microagg_flows import stages
from seasons.begun import begun, pass_a_night
from seasons.season import Season, Tonight, make_release

# --- What is frozen ----------------------------------------------------------------------------------------------


FROZEN: dict[str, tuple[dict[str, object], str]] = {
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
def test_what_is_frozen_stays(name: str, tmp_path: Path) -> None:
    season = begun(tmp_path)
    season.spec, says = FROZEN[name]
    with pytest.raises(SpecError, match="was begun otherwise") as stopped:
        season.spend(season.prepare())
    assert stopped.value.exit_code == 2 and says in stopped.value.message
    assert len(season.outsider.seen) == 1


def test_k_never_falls(tmp_path: Path) -> None:
    season = begun(tmp_path)
    season.k = 2
    with pytest.raises(SpecError, match="k was 3 and is 2"):
        season.spend(season.prepare())


@pytest.mark.parametrize("mode", ["atoms-withhold", "atoms-ghosts", "atoms-decoys", "disjoint"])
def test_k_may_rise(mode: str, tmp_path: Path) -> None:
    """Atoms that are too small for it are never released again; all others go on."""
    season = begun(tmp_path, mode)
    season.k = 4
    season.spend(season.prepare())
    assert len(season.outsider.seen) == 2 and season.wrong == []
    assert min(Counter(season.outsider.seen[-1].classes.values()).values()) >= 4
    season.verify()
    assert season.wrong == []


def test_the_promise_is_frozen(tmp_path: Path) -> None:
    season = begun(tmp_path)
    season.series = {**season.series, "guarantee": "trace+changes"}
    with pytest.raises(SpecError, match="was begun otherwise"):
        season.spend(season.prepare())


# --- The ledger --------------------------------------------------------------------------------------------------


def ledger_folder(season: Season) -> Path:
    return season.folder / "work" / "series" / "people"


def three_nights(folder: Path) -> Season:
    season = begun(folder)
    season.spend(season.prepare())
    pass_a_night(season)
    season.spend(season.prepare())
    pass_a_night(season)
    return season


def lost_first_generation(season: Season) -> None:
    sorted((ledger_folder(season) / "generations").glob("*.json"))[0].unlink()


def lost_middle_generation(season: Season) -> None:
    sorted((ledger_folder(season) / "generations").glob("*.json"))[1].unlink()


def lost_newest_generation(season: Season) -> None:
    sorted((ledger_folder(season) / "generations").glob("*.json"))[-1].unlink()


def lost_range(season: Season) -> None:
    for path in (ledger_folder(season) / "data").rglob("*.arrows"):
        path.unlink()


def damaged_range(season: Season) -> None:
    for path in (ledger_folder(season) / "data").rglob("*.arrows"):
        path.write_bytes(path.read_bytes()[:-1])


def stale(season: Season) -> None:
    """A copy from before the newest night is put back."""
    folder = ledger_folder(season)
    lost_newest_generation(season)
    newest = sorted(path for path in (folder / "data").iterdir())[-1]
    shutil.rmtree(newest) if newest.is_dir() else newest.unlink()


def lost_ledger(season: Season) -> None:
    shutil.rmtree(ledger_folder(season))


def forked(season: Season) -> None:
    """The document of the night before the newest one is another's."""
    path = sorted((ledger_folder(season) / "generations").glob("*.json"))[-2]
    path.write_bytes(path.read_bytes().replace(b'"k": 3', b'"k": 2'))


LEDGERS: list[tuple[Callable[[Season], None], type[MicroaggError], str]] = [
    (lost_first_generation, StorageError, "is missing"),
    (lost_middle_generation, StorageError, "is missing"),
    (lost_newest_generation, GateError, "knows nothing of"),
    (stale, GateError, "knows nothing of"),
    (lost_range, StorageError, "is missing from the ledger"),
    (damaged_range, StorageError, "is damaged"),
    (lost_ledger, GateError, "knows nothing of"),
    (forked, StorageError, "does not follow"),
]


@pytest.mark.parametrize(("damage", "kind", "says"), LEDGERS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_damaged_ledger_stops_the_night(
    damage: Callable[[Season], None], kind: type[MicroaggError], says: str, tmp_path: Path
) -> None:
    season = three_nights(tmp_path)
    damage(season)
    with pytest.raises(kind, match=says):
        season.spend(season.prepare())
    assert len(season.outsider.seen) == 3


def test_another_key(tmp_path: Path) -> None:
    season = begun(tmp_path)
    (tmp_path / "key").write_text("another secret of these nights")
    with pytest.raises(SpecError, match="was begun with another key"):
        season.spend(season.prepare())
    assert len(season.outsider.seen) == 1


def test_a_lost_part_of_an_earlier_release(tmp_path: Path) -> None:
    season = begun(tmp_path)
    for path in season.output.rglob("data/*"):
        path.unlink()
    with pytest.raises(StorageError, match="survivors' values come from it"):
        season.spend(season.prepare())


def test_a_night_that_was_committed_while_another_ran(tmp_path: Path) -> None:
    """Of two nights at a time one wins; the other publishes nothing."""
    season = begun(tmp_path)
    slow: Tonight = season.prepare()
    release = make_release(slow)
    for stage in stages.STAGES[:-2]:
        stages.run_stage(stage, release)
    season.day += 1
    season.spend(season.prepare(), is_hour_later=False)  # else the slow one counted as dead, and its rows were gone
    with pytest.raises(StorageError, match="another night of the series people was committed meanwhile"):
        for stage in stages.STAGES[-2:]:
            stages.run_stage(stage, release)
    assert len(list(season.output.glob("*/*/manifest.json"))) == 2
