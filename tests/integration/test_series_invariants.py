"""Each invariant of a series stops the run that would break it, by its name, before anything can be read."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.errors import GateError, StorageError
from microagg_core.series.eraser import forget
from microagg_core.series.erasure import Erasure
from microagg_core.series.invariants import INVARIANTS
from microagg_core.series.ledger import Ledger
from microagg_core.series.units import State
from microagg_core.store.layout import LedgerLayout, night_of
from releasing.nights import FROZEN, units, with_value, written
from releasing.small_series import SmallSeries, atoms, copy_of
from seasons.deaths import ALIVE_FOR, Died, dying

NOW = datetime.datetime(2026, 11, 19, 3, 0, tzinfo=datetime.UTC)


def test_what_a_first_night_left_that_died_goes_with_an_erasure(tmp_path: Path) -> None:
    """The ledger knows nobody yet, and the files at the output hold everybody."""
    series = SmallSeries(tmp_path, atoms())
    with pytest.raises(Died), dying(before="generations/"), mock.patch(ALIVE_FOR, datetime.timedelta(0)):
        series.night(range(40), 0)
    assert "tag7" in series.readable_tags()
    with mock.patch(ALIVE_FOR, datetime.timedelta(0)):
        assert forget(str(series.path), series.units([7]), True, NOW).removed_files > 0
    assert series.output.list() == []


def test_nobody_is_erased_beside_a_ledger_that_is_lost(two_nights: SmallSeries, tmp_path: Path) -> None:
    """Nothing says who is in the releases that it does not know."""
    series = copy_of(two_nights, tmp_path)
    store = series.ledger.store
    store.delete_many([name for name in store.list() if night_of(name) == 1])  # an old copy
    with pytest.raises(StorageError, match="knows nothing of 1 releases"):
        forget(str(series.path), series.units([7]), True, NOW)
    store.delete_all("generations")
    with pytest.raises(StorageError, match="knows nothing of 2 releases"):
        forget(str(series.path), series.units([7]), True, NOW)


@pytest.mark.parametrize("wrong", ["a unit held that the document counts as live", "an atom of another size"])
def test_ledger_counts(wrong: str, on_disk: Ledger) -> None:
    table = units(30)
    generation = written(on_disk, 0, table)
    broken = with_value(table, 3, atom=int(table["atom"][20].as_py()))
    if wrong.startswith("a unit"):
        broken = with_value(table, 3, state=State.HELD, atom=0, last=-1)
    generation = replace(generation, ranges=((on_disk.write_range(0, 0, broken),),))
    with pytest.raises(GateError, match="invariant ledger-counts does not hold"):
        on_disk.commit(generation)
    assert on_disk.nights() == []


@pytest.mark.parametrize(
    ("earlier", "tonight", "smallest"),
    [
        (["independent"], "atoms", 2),
        (["independent", "independent"], "disjoint", 3),
        (["atoms", "atoms"], "disjoint", 3),
    ],
)
def test_promise_history(earlier: list[str], tonight: str, smallest: int, on_disk: Ledger) -> None:
    for night, mode in enumerate([*earlier, tonight]):
        # Nobody is in the ledger: it is the promise alone that is looked at.
        generation = written(on_disk, night, units(0), frozen=replace(FROZEN, mode=mode), smallest_trace=smallest)
        if night < len(earlier):
            on_disk.commit(generation)
    with pytest.raises(GateError, match="invariant promise-history does not hold"):
        on_disk.commit(generation)
    assert on_disk.nights() == list(range(len(earlier)))


def test_erasure_effect(two_nights: SmallSeries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = copy_of(two_nights, tmp_path)
    genuine = Erasure._following

    def closing_one_more(erasure: Erasure, table: pa.Table) -> pa.Table:
        after = genuine(erasure, table)
        state = np.asarray(after["state"]).copy()
        state[np.flatnonzero(state == State.LIVE)[0]] = State.GONE
        return after.set_column(after.column_names.index("state"), "state", pa.array(state))

    monkeypatch.setattr(Erasure, "_following", closing_one_more)
    before = series.readable_tags()
    with pytest.raises(GateError, match="invariant erasure-effect does not hold"):
        forget(str(series.path), series.units([7]), True, NOW)
    assert series.ledger.nights() == [0, 1] and series.readable_tags() == before


def test_output_named(tmp_path: Path) -> None:
    series = SmallSeries(tmp_path, atoms())
    series.output.put("day-0/r0009/data/rows.parquet", b"somebody's")
    with pytest.raises(GateError, match="invariant output-named does not hold: 1 files of release day-0"):
        series.night(range(40), 0)


def test_every_invariant_has_a_test() -> None:
    names = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    assert set(INVARIANTS) <= names
    readme = (Path(__file__).parents[2] / "microagg_core" / "series" / "README.md").read_text(encoding="utf-8")
    assert [name for name, says in INVARIANTS.items() if f"| `{name}` | {says} |" not in readme] == []


def test_marks_that_a_copying_tool_left_out_are_told_and_decide_nothing(
    two_nights: SmallSeries, tmp_path: Path
) -> None:
    series = copy_of(two_nights, tmp_path)
    for night in range(2):
        assert series.ledger.store.size(LedgerLayout(night).published())
        series.ledger.store.delete(LedgerLayout(night).published())
    report = forget(str(series.path), series.units([7]), True, NOW)
    assert [release for release, _, _ in report.releases] == ["day-0/r0001", "day-1/r0001"]
    assert "tag7" not in series.readable_tags()
