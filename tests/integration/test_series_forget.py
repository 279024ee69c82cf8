"""Erasure: who is forgotten is in no file that can be read, and nobody else is given away by that."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from microagg_core.errors import MicroaggError, SpecError, StorageError
from microagg_core.release.revisions import newest, read_release
from microagg_core.release.verify import verify
from microagg_core.series.eraser import ErasureReport, forget
from microagg_core.store.objects import Store
from releasing.runs import run_stages, start
from releasing.small_series import K, SmallSeries, atoms
from servers.s3_server import Place

NOW = datetime.datetime(2026, 11, 19, 3, 0, tzinfo=datetime.UTC)
FORGOTTEN = [7, 8]


def erase(series: SmallSeries, ids: list[int], yes: bool = True) -> ErasureReport:
    report = forget(str(series.path), series.units(ids), yes, NOW)
    series.keep()
    return report


def two_nights(folder: Path, series: dict[str, Any] | None, **changes: Any) -> SmallSeries:
    made = SmallSeries(folder, series, changes)
    made.night(range(40), 0)
    made.night(range(60), 1)
    return made


def assert_forgotten(series: SmallSeries, ids: list[int]) -> None:
    assert series.readable_tags() & {f"tag{i}" for i in ids} == set()
    assert "tag39" in series.readable_tags()
    series.assert_sound()


@pytest.mark.parametrize("leavers", ["withhold", "ghosts", "decoys"])
def test_who_is_forgotten_is_in_no_file(leavers: str, tmp_path: Path) -> None:
    series = two_nights(tmp_path, atoms(leavers=leavers))
    before = series.kept["day-1/r0001"]
    report = erase(series, FORGOTTEN)
    assert (report.named, report.forgotten, report.done) == (2, 2, True)
    assert [one[0] for one in report.releases] == ["day-0/r0001", "day-1/r0001"]
    assert_forgotten(series, FORGOTTEN)
    after = series.kept["day-1/r0002"].to_pylist()
    assert all(row in before.to_pylist() for row in after), "all other rows are as they were"
    assert len(after) == before.num_rows - report.forgotten - report.with_them
    assert series.smallest_history() >= K
    layout = newest(series.output)
    assert layout is not None and layout.folder == "day-1/r0002" and verify(str(tmp_path / "output")).passed
    # The night after, and another erasure from what the first one left.
    series.night(range(70), 2)
    assert_forgotten(series, FORGOTTEN)
    assert series.smallest_history() >= K
    erase(series, [20])
    assert_forgotten(series, [*FORGOTTEN, 20])
    assert series.smallest_history() >= K


@pytest.mark.parametrize("mode", [{"mode": "disjoint"}, {"mode": "rotation", "nights": 9}])
def test_other_modes(mode: dict[str, Any], tmp_path: Path) -> None:
    series = two_nights(tmp_path, mode)
    erase(series, [*FORGOTTEN, 50])
    assert_forgotten(series, [*FORGOTTEN, 50]) if mode["mode"] == "rotation" else series.assert_sound()
    assert series.readable_tags() & {"tag7", "tag50"} == set()
    series.night(range(75), 2)
    assert series.readable_tags() & {"tag7", "tag8", "tag50"} == set()
    assert series.smallest_history() >= K
    series.assert_sound()


def test_without_a_promise_classes_vanish_whole(tmp_path: Path) -> None:
    series = two_nights(tmp_path, {"mode": "independent", "acknowledge": "overlapping_releases"})
    erase(series, FORGOTTEN)
    assert_forgotten(series, FORGOTTEN)
    assert verify(str(tmp_path / "output")).passed
    series.night(range(70), 2)
    assert_forgotten(series, FORGOTTEN)


def test_on_every_store(storage_place: Place, tmp_path: Path) -> None:
    options = {"storage_options": storage_place.storage_options}
    ledger = {"url": f"{storage_place.url}/ledger", **options}
    series = two_nights(
        tmp_path, atoms(leavers="decoys", ledger=ledger), output={"url": f"{storage_place.url}/output", **options}
    )
    erase(series, FORGOTTEN)
    assert_forgotten(series, FORGOTTEN)
    assert series.smallest_history() >= K
    series.night(range(70), 2)
    assert_forgotten(series, FORGOTTEN)


def test_to_tell_changes_nothing(tmp_path: Path) -> None:
    series = two_nights(tmp_path, atoms(leavers="decoys"))
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    report = erase(series, FORGOTTEN, yes=False)
    assert not report.done and report.forgotten == 2 and report.with_them > 0
    unknown = erase(series, [990, 991])
    assert (unknown.named, unknown.done, unknown.sentences()[0]) == (
        0,
        False,
        "0 of 2 units are known to the series people",
    )
    assert {path: path.stat().st_mtime_ns for path in files} == files
    new = {path for path in tmp_path.rglob("*") if path.is_file()} - files.keys()
    assert {path.name for path in new} <= {"units.csv"}


def test_who_waits_is_closed_too(tmp_path: Path) -> None:
    series = SmallSeries(tmp_path, atoms(hold={"until": 20, "days": 2}))
    series.night(range(40), 0)
    series.night(range(44), 1)
    assert "tag42" not in series.readable_tags()
    report = erase(series, [42])
    assert (report.forgotten, report.releases) == (1, ())
    series.assert_sound()
    for night in (2, 3, 4):
        series.night(range(70), night)
        series.assert_sound()
    assert "tag42" not in series.readable_tags() and "tag43" in series.readable_tags()


def test_a_withdrawn_release_says_so_and_is_never_mended(tmp_path: Path) -> None:
    series = two_nights(tmp_path, atoms(leavers="decoys"))
    erase(series, FORGOTTEN)
    for folder, instead in (("day-0", "a later release"), ("day-1/r0001", "day-1/r0002")):
        with pytest.raises(StorageError, match=f"withdrawn on 2026-11-19.*read {instead}"):
            read_release(str(tmp_path / "output" / folder))
    assert read_release(str(tmp_path / "output" / "day-1")).manifest.revision == "r0002"
    series.write_input(range(40), 0)
    with pytest.raises(StorageError, match="day-0/r0001 was withdrawn"):
        run_stages(start(series.path, identity="day-0"))
    assert_forgotten(series, FORGOTTEN)


def _writes(monkeypatch: pytest.MonkeyPatch, dies_at: int) -> list[str]:
    """Every write and removal, of which one is the last."""
    done: list[str] = []

    def counting(real: Any) -> Any:
        def counted(store: Store, *arguments: Any, **options: Any) -> Any:
            done.append(arguments[0])
            if len(done) == dies_at:
                raise KeyboardInterrupt
            return real(store, *arguments, **options)

        return counted

    for name in ("put", "put_checked", "create", "delete", "delete_many", "put_if", "delete_all"):
        monkeypatch.setattr(Store, name, counting(getattr(Store, name)))
    return done


def test_an_erasure_that_is_stopped_is_finished(tmp_path: Path) -> None:
    """Between any two writes; the file of units is not even needed for what was begun."""
    stopped = 0
    for dies_at in range(1, 60):
        series = (
            two_nights(tmp_path / str(dies_at), atoms(leavers="decoys")) if dies_at == 1 else _copy(tmp_path, dies_at)
        )
        if dies_at == 1:
            _copy(tmp_path, 0, series)
        with pytest.MonkeyPatch.context() as patch:
            _writes(patch, dies_at)
            try:
                erase(series, FORGOTTEN)
                break
            except KeyboardInterrupt:
                stopped += 1
        series.keep()
        head = series.ledger.head()
        if head is not None and head.kind == "erasure" and not series.ledger.is_published(head.night):
            with pytest.raises(MicroaggError, match="microagg forget"):
                series.night(range(70), 2)
            assert erase(series, [990]).resumed
        erase(series, FORGOTTEN)
        assert_forgotten(series, FORGOTTEN)
        assert series.smallest_history() >= K
        assert len(series.manifests()) == 3
    assert stopped > 15


def _copy(folder: Path, number: int, original: SmallSeries | None = None) -> SmallSeries:
    import shutil

    if original is not None:
        shutil.copytree(original.folder, folder / "0", copy_function=shutil.copy2)
        return original
    shutil.copytree(folder / "0", folder / str(number), copy_function=shutil.copy2)
    series = SmallSeries(folder / str(number), atoms(leavers="decoys"))
    ledger = series.ledger.store
    for name in ledger.list("generations"):
        assert ledger.exists(name)
    series.keep()
    return series


def test_files_of_units(tmp_path: Path) -> None:
    series = two_nights(tmp_path, atoms())
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("person\n7\n")
    with pytest.raises(SpecError, match="no column 'id'"):
        forget(str(series.path), str(wrong), True, NOW)
    with pytest.raises(SpecError, match="cannot be read"):
        forget(str(series.path), str(tmp_path / "nowhere.csv"), True, NOW)
    wrong.write_text("id\n\n7\n,\n")
    with pytest.raises(MicroaggError):
        forget(str(series.path), str(wrong), True, NOW)
