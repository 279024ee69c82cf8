"""A new kind of quasi-identifier is one class and a line of the registry: everything else asks the class.

Lengths of stay stand for it, Arrow's durations, which no kind takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from microagg_core.inspect.group_ranges import Sharing, outside_ranges

from microagg_core import microaggregate
from microagg_core.data.kinds.contract import Unit
from microagg_core.data.kinds.exact import ExactKind
from microagg_core.data.kinds.registry import KINDS, kind_of
from microagg_core.errors import DataError, SpecError
from microagg_core.spec.starter import starter_spec
from microagg_flows.release import Release
from releasing.runs import released_table, run_stages, start, write_release

N = 120
NAMES = ["stay", "age"]


@dataclass(frozen=True)
class DurationKind(ExactKind):
    """Spans of time in their own unit, shown in hours."""

    @classmethod
    def takes(cls, arrow_type: pa.DataType) -> bool:
        return bool(pa.types.is_duration(arrow_type))

    @classmethod
    def described(cls, arrow_type: pa.DataType) -> str:
        return "a span of time"

    @property
    def whole_type(self) -> pa.DataType:
        return pa.int64()

    @property
    def unit(self) -> Unit:
        return Unit("hours", 3600.0)


@pytest.fixture
def durations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microagg_core.data.kinds.registry.KINDS", (*KINDS, DurationKind))


def stays() -> pa.Table:
    """Patients with their lengths of stay, some of them unknown; several have the same."""
    rng = np.random.default_rng(4)
    seconds = pa.array(rng.integers(0, 40, N) * 7001, mask=rng.random(N) < 0.2)
    return pa.table(
        {
            "stay": seconds.cast(pa.duration("s")),
            "age": rng.integers(20, 70, N),
            "record": [f"r{i % 6}" for i in range(N)],
        }
    )


def release_of(folder: Path, tables: list[pa.Table], **changes: object) -> Release:
    roles = {"quasi_identifiers": NAMES, "confidential": ["record"]}
    return run_stages(start(write_release(folder, tables, roles=roles, missing="separate", **changes)))


def seconds_of(table: pa.Table) -> pa.ChunkedArray:
    return table["stay"].cast(pa.int64())


@pytest.mark.usefixtures("durations")
def test_a_column_of_a_new_kind_is_released_in_its_type(tmp_path: Path) -> None:
    table = stays()
    release = release_of(tmp_path, [table.slice(0, 70), table.slice(70)])
    released = released_table(tmp_path / "output")
    assert released["stay"].type == pa.duration("s")
    assert released["stay"].null_count == table["stay"].null_count
    sizes = released.group_by(NAMES).aggregate([([], "count_all")])["count_all"].to_pylist()
    assert min(sizes) >= 3
    in_order = seconds_of(released).fill_null(2**62).to_pylist()
    assert in_order == sorted(in_order)
    before, after = (seconds_of(of).drop_null().to_numpy() for of in (table, released))
    assert after.mean() == pytest.approx(before.mean(), abs=0.5)
    assert release.measured is not None and release.measured.figures.attributes is not None
    figures = release.measured.figures.attributes["stay"]
    assert figures.unit == "hours"
    assert figures.mean == pytest.approx(after.mean() / 3600, rel=1e-5)
    assert figures.variance == pytest.approx(after.var() / 3600**2, rel=1e-5)


@pytest.mark.usefixtures("durations")
def test_a_step_of_its_own_ticks_is_kept_and_a_part_of_one_is_refused(tmp_path: Path) -> None:
    release_of(tmp_path / "hours", [stays()], rounding={"stay": 3600})
    seconds = seconds_of(released_table(tmp_path / "hours" / "output")).drop_null().to_numpy()
    assert (seconds % 3600 == 0).all()
    with pytest.raises(SpecError, match=r"rounding\.stay: must be a whole number of steps of duration\[s\]"):
        release_of(tmp_path / "half", [stays()], rounding={"stay": 0.5})
    with pytest.raises(SpecError, match=r"rounding\.stay: a column of type duration\[s\] is always released in"):
        release_of(tmp_path / "none", [stays()], rounding={"stay": "none"})


@pytest.mark.usefixtures("durations")
def test_the_gate_holds_it_against_its_group() -> None:
    kind = kind_of("stay", pa.duration("s"))
    came, released = (pa.chunked_array([pa.array(of, pa.duration("s"))]) for of in ([5, 7, 9, 9], [6, 6, 9, 8]))
    assert outside_ranges(kind, came, released, Sharing(np.array([1, 1, 2, 2], dtype=np.uint64))) == 1


@pytest.mark.usefixtures("durations")
def test_the_python_functions_and_the_starter_know_it() -> None:
    frame = pd.DataFrame({"stay": pd.to_timedelta([1, 2, 3, 70, 71, 75], unit="s"), "age": [1.0, 1, 1, 9, 9, 9]})
    result = microaggregate(frame, NAMES, 3, "mdav")
    assert (result.data["stay"] / pd.Timedelta(seconds=1)).tolist() == [2, 2, 2, 72, 72, 72]
    assert result.data["stay"].dtype == frame["stay"].dtype
    assert "- stay    # a span of time" in starter_spec("stays.parquet", pa.schema({"stay": pa.duration("s")}))


def test_without_its_line_in_the_registry_the_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"quasi-identifier 'stay' has the type duration\[s\], which has no mean"):
        release_of(tmp_path, [stays()])
