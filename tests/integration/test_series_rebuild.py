"""A ledger that was lost or damaged is made again from the releases and their inputs, to the byte."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from covering import share
from microagg_core.errors import SpecError, StorageError
from microagg_core.series.eraser import forget
from microagg_core.series.ledger import Ledger
from microagg_core.spec.loading import load_spec
from microagg_core.store.layout import DAMAGED, GENERATIONS, LedgerLayout
from microagg_flows.progress import Silence
from microagg_flows.rebuilding import Rebuilt, rebuild_ledger
from releasing.small_series import K, SmallSeries, atoms
from seasons.deaths import ALIVE_FOR, Died, dying
from servers.s3_server import Place

NIGHTS = [range(40), range(2, 60), range(2, 70)]
NOW = datetime.datetime(2026, 11, 19, 3, 0, tzinfo=datetime.UTC)


def series_of(folder: Path, series: dict[str, Any] | None, n: int = 3, **changes: Any) -> SmallSeries:
    made = SmallSeries(folder, series, changes)
    for night, ids in enumerate(NIGHTS[:n]):
        made.night(ids, night)
    return made


def rebuild(series: SmallSeries, n: int = 3) -> Rebuilt:
    return rebuild_ledger(load_spec(str(series.path)), series.inputs(n), Silence())


def units_of_all(ledger: Ledger) -> list[tuple[str, ...]]:
    """For every night, the files of its units by content."""
    return [tuple(file.sha256 for file in ledger.generation(night).files) for night in ledger.nights()]


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> SmallSeries:
    """Three nights whose ledger each test damages, and has made again."""
    return series_of(tmp_path_factory.mktemp("nights"), atoms(leavers="decoys"))


MODES = {
    "ghosts": atoms(leavers="ghosts", guarantee="trace+changes"),
    "disjoint": {"mode": "disjoint", "hold": {"until": 12, "days": 2}},
    "independent": {"mode": "independent", "acknowledge": "overlapping_releases"},
}


@pytest.mark.parametrize("mode", share(MODES, 2))
def test_a_lost_ledger(mode: str, tmp_path: Path) -> None:
    series = series_of(tmp_path, MODES[mode])
    before, published = units_of_all(series.ledger), set(series.output.list())
    series.ledger.store.delete_all("")
    assert rebuild(series) == Rebuilt(0, 0, 3)
    assert units_of_all(series.ledger) == before and set(series.output.list()) == published
    series.assert_sound()
    assert rebuild(series) == Rebuilt(3, 0, 0)
    series.night(range(2, 80), 3)
    series.assert_sound()


@pytest.mark.server
def test_in_a_bucket(s3_bucket: Place, tmp_path: Path) -> None:
    """Nights, rebuilding and erasure, with ledger, work area and output there."""
    options = {"storage_options": s3_bucket.storage_options}
    places = {name: {"url": f"{s3_bucket.url}/{name}", **options} for name in ("ledger", "output", "work")}
    mode = atoms(leavers="decoys", ledger=places.pop("ledger"))
    series = series_of(tmp_path, mode, 2, **places)
    before = units_of_all(series.ledger)
    series.ledger.store.delete_all("")
    assert rebuild(series, 2) == Rebuilt(0, 0, 2)
    assert units_of_all(series.ledger) == before
    head = series.ledger.head()
    assert head is not None
    series.ledger.store.put(head.ranges[0][0].name, b"x")
    assert rebuild(series, 2).kept == 1 and units_of_all(series.ledger) == before
    assert forget(str(series.path), series.units([7, 8]), True, NOW).done
    series.keep()
    series.night(NIGHTS[2], 3)
    assert not series.readable_tags() & {"tag7", "tag8"} and series.smallest_history() >= K
    series.assert_sound()


def test_without_a_series(tmp_path: Path) -> None:
    series = series_of(tmp_path, None, 1)
    head = series.ledger.head()
    assert head is not None
    for name in [*series.ledger.store.list(GENERATIONS), head.ranges[0][0].name]:
        series.ledger.store.delete(name)
    assert rebuild(series, 1).again == 1
    assert series.ledger.generation(0).ranges == head.ranges
    series.assert_sound()


@pytest.mark.parametrize("what", ["document", "units", "gap", "all units"])
def test_what_is_sound_stays_and_nothing_is_deleted(what: str, nights: SmallSeries) -> None:
    ledger = nights.ledger
    before = units_of_all(ledger)
    kept_units = [file.name for night in (1, 2) for file in ledger.generation(night).files]
    if what == "document":
        ledger.store.put(LedgerLayout(2).generation(), b"{}")
    elif what == "gap":
        ledger.store.delete(LedgerLayout(1).generation())
    else:
        for name in kept_units if what == "all units" else kept_units[-1:]:
            ledger.store.put(name, b"damaged")
    n_objects, n_damaged = len(ledger.store.list()), len(ledger.store.list(DAMAGED))
    rebuilt = rebuild(nights)
    assert rebuilt.kept == {"document": 2, "units": 2, "gap": 0, "all units": 0}[what]
    assert rebuilt.kept + rebuilt.again == 3 and rebuilt.moved > 0
    assert len(ledger.store.list(DAMAGED)) - n_damaged == rebuilt.moved <= n_objects
    assert units_of_all(ledger) == before
    nights.assert_sound()


def test_another_input_stops_it_and_the_right_one_goes_on(nights: SmallSeries) -> None:
    before = units_of_all(nights.ledger)
    nights.ledger.store.delete_all("")
    wrong = {**nights.inputs(3), "day-1": nights.inputs(3)["day-2"]}
    with pytest.raises(StorageError, match=r"night 1, release day-1 r0001 comes out otherwise .*input is another"):
        rebuild_ledger(load_spec(str(nights.path)), wrong, Silence())
    assert nights.ledger.nights() == [0]
    assert rebuild(nights).kept == 1
    assert units_of_all(nights.ledger) == before
    with pytest.raises(SpecError, match="no release 'day-9'"):
        rebuild_ledger(load_spec(str(nights.path)), {"day-9": "x"}, Silence())


def test_another_key_stops_it(nights: SmallSeries) -> None:
    """By the decoys, which are drawn by it; or by the ledger that is there."""
    nights.ledger.store.delete(LedgerLayout(2).generation())
    key = nights.folder / "key"
    right = key.read_text()
    key.write_text("another key of the series")
    with pytest.raises((SpecError, StorageError), match="key"):
        rebuild(nights)
    key.write_text(right)
    assert rebuild(nights).kept == 2


def test_nights_that_published_nothing_keep_their_numbers(tmp_path: Path) -> None:
    series = series_of(tmp_path, atoms(leavers="decoys"), 1)
    with mock.patch(ALIVE_FOR, datetime.timedelta(0)):
        with pytest.raises(Died), dying(before="manifest.json"):
            series.night(NIGHTS[1], 1)
        assert [series.ledger.generation(night).kind for night in series.ledger.nights()] == ["night", "night"]
        series.night(NIGHTS[2], 2)
    kinds = [series.ledger.generation(night).kind for night in series.ledger.nights()]
    assert kinds == ["night", "night", "void", "night"]
    before = units_of_all(series.ledger)[-1]
    series.ledger.store.delete_all("")
    others = {day: url for day, url in series.inputs(3).items() if day != "day-1"}
    assert rebuild_ledger(load_spec(str(series.path)), others, Silence())
    assert units_of_all(series.ledger)[-1] == before
    series.assert_sound()


def test_an_erasure_is_made_again_by_forgetting_again(tmp_path: Path) -> None:
    series = series_of(tmp_path, atoms(leavers="decoys"), 2)
    units = series.units([7, 8])
    shutil.copytree(tmp_path / "work" / "series" / "people" / "data", tmp_path / "kept" / "data")
    forget(str(series.path), units, True, NOW)
    series.keep()
    series.night(NIGHTS[2], 2)
    ledger = series.ledger
    before = units_of_all(ledger)
    for night in (3, 2):
        ledger.store.put(LedgerLayout(night).generation(), b"{}")
    # The run of the last night removed the units of night 1; here they were restored from a copy.
    kept = tmp_path / "kept"
    for path in kept.rglob("*.arrows"):
        ledger.store.put(str(path.relative_to(kept)), path.read_bytes())
    with pytest.raises(StorageError, match="run microagg forget with the same units again"):
        rebuild(series)
    assert ledger.nights() == [0, 1]
    assert forget(str(series.path), units, True, NOW).done
    assert rebuild(series) == Rebuilt(3, 0, 1)
    assert units_of_all(ledger) == before
    assert series.smallest_history() >= K
    series.assert_sound()
    ledger.store.put(LedgerLayout(0).generation(), b"{}")
    n_objects = len(ledger.store.list(DAMAGED))
    with pytest.raises(StorageError, match="restore the ledger from a copy"):
        rebuild(series)
    assert len(ledger.store.list(DAMAGED)) == n_objects, "nothing is moved for nothing"
