"""Repeated units are found over batches, runs, parts and tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from inputs.people import people
from microagg_core.errors import DataError
from microagg_core.release.steps.units import UNITS, count_repeated
from releasing.runs import ROLES, run_stages, start, write_release


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microagg_core.release.steps.units.RUN_UNITS", 100)
    monkeypatch.setattr("microagg_core.release.steps.units.TASK_UNITS", 300)


def with_ids(ids: list[object]) -> list[pa.Table]:
    table = people(len(ids))
    table = table.set_column(0, "id", pa.array(ids))
    return [table.slice(0, 250), table.slice(250, 333), table.slice(583)]


@pytest.mark.usefixtures("small_runs")
@pytest.mark.parametrize("places", [(0, 1), (5, 249), (3, 900), (582, 583), (400, 401)])
def test_a_repeated_identifier_stops_the_run(places: tuple[int, int], tmp_path: Path) -> None:
    ids: list[object] = [f"P{i}" for i in range(1000)]
    ids[places[1]] = ids[places[0]]
    with pytest.raises(DataError, match="identifier 'id' repeats in 1 records"):
        run_stages(start(write_release(tmp_path, with_ids(ids))), "survey")


@pytest.mark.usefixtures("small_runs")
def test_every_repetition_is_counted(tmp_path: Path) -> None:
    ids: list[object] = [i % 900 for i in range(1000)]
    with pytest.raises(DataError, match="repeats in 100 records"):
        run_stages(start(write_release(tmp_path, with_ids(ids))), "survey")


@pytest.mark.usefixtures("small_runs")
def test_identifiers_that_do_not_repeat_pass(tmp_path: Path) -> None:
    release = start(write_release(tmp_path, with_ids([*range(1000)])))
    run_stages(release, "survey")
    assert len(release.receipts(UNITS)) > 2


def test_units_of_several_columns_are_taken_together(tmp_path: Path) -> None:
    table = people(400)
    number = np.arange(400) % 200
    table = table.set_column(0, "id", pa.array(number)).append_column("country", pa.array(np.arange(400) // 200))
    roles = {**ROLES, "identifiers": ["id", "country"]}
    meant = {"unit": ["country", "id"], "acknowledge": {"part_of_unit": ["id"]}}
    run_stages(start(write_release(tmp_path / "two", [table], roles=roles, **meant)), "survey")
    with pytest.raises(DataError, match=r"unit 'id' repeats in 200 records: write unit: {id: \[id\], rows: several}"):
        run_stages(start(write_release(tmp_path / "one", [table], roles=roles, unit=["id"])), "survey")


def test_equal_halves_are_no_repetition() -> None:
    pairs = np.array([[7, 1], [7, 2], [7, 1], [8, 1], [7, 3], [7, 1]], dtype=np.uint64)
    assert count_repeated(pairs) == 2
    assert count_repeated(pairs[:2]) == 0
    assert count_repeated(pairs[:0]) == 0
