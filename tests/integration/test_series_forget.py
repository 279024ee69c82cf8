"""Erasure: what it tells, what it leaves, and how it is finished; functional/test_routes.py erases in every mode."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from covering import share
from microagg_core.errors import MicroaggError, StorageError
from microagg_core.release.revisions import read_release
from microagg_core.series.eraser import ErasureReport, forget
from microagg_core.store.objects import Store
from releasing.runs import run_stages, start
from releasing.small_series import K, SmallSeries, copy_of

NOW = datetime.datetime(2026, 11, 19, 3, 0, tzinfo=datetime.UTC)
FORGOTTEN = [7, 8]


def erase(series: SmallSeries, ids: list[int], yes: bool = True) -> ErasureReport:
    report = forget(str(series.path), series.units(ids), yes, NOW)
    series.keep()
    return report


def assert_forgotten(series: SmallSeries, ids: list[int]) -> None:
    assert series.readable_tags() & {f"tag{i}" for i in ids} == set()
    assert "tag39" in series.readable_tags()
    series.assert_sound()


def test_to_tell_changes_nothing(two_nights: SmallSeries) -> None:
    folder = two_nights.folder
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    report = erase(two_nights, FORGOTTEN, yes=False)
    assert not report.done and report.forgotten == 2 and report.with_them > 0
    unknown = erase(two_nights, [990, 991])
    assert (unknown.named, unknown.done) == (0, False)
    assert unknown.sentences()[0] == "0 of 2 units are known to the series people"
    assert {path: path.stat().st_mtime_ns for path in files if path.name != "units.csv"}.items() <= files.items()
    assert {path.name for path in folder.rglob("*") if path.is_file() and path not in files} <= {"units.csv"}


def test_a_withdrawn_release_says_so_and_is_never_mended(two_nights: SmallSeries, tmp_path: Path) -> None:
    series = copy_of(two_nights, tmp_path)
    before = series.kept["day-1/r0001"]
    report = erase(series, FORGOTTEN)
    after = series.kept["day-1/r0002"].to_pylist()
    assert all(row in before.to_pylist() for row in after), "all other rows are as they were"
    assert len(after) == before.num_rows - report.forgotten - report.with_them
    for folder, instead in (("day-0", "a later release"), ("day-1/r0001", "day-1/r0002")):
        with pytest.raises(StorageError, match=f"withdrawn on 2026-11-19.*read {instead}"):
            read_release(str(tmp_path / "output" / folder))
    assert read_release(str(tmp_path / "output" / "day-1")).manifest.revision == "r0002"
    series.write_input(range(40), 0)
    with pytest.raises(StorageError, match="day-0/r0001 was withdrawn"):
        run_stages(start(series.path, identity="day-0"))
    assert_forgotten(series, FORGOTTEN)


def _writes(monkeypatch: pytest.MonkeyPatch, dies_at: int) -> list[str]:
    """Every write and removal, of which one is interrupted; what was put away after that is."""
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


def test_an_erasure_that_is_stopped_is_finished(two_nights: SmallSeries, tmp_path: Path) -> None:
    """Between any two writes; the file of units is not even needed for what was begun."""
    with pytest.MonkeyPatch.context() as patch:
        writes = _writes(patch, 0)
        erase(copy_of(two_nights, tmp_path / "whole"), FORGOTTEN)
    assert len(writes) > 15
    for dies_at in share(range(1, len(writes) + 1), 8):
        series = copy_of(two_nights, tmp_path / str(dies_at))
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            _writes(patch, dies_at)
            erase(series, FORGOTTEN)
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
