"""Frames of any library go in, and frames of the same come out."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

from microagg_core import Microaggregated, microaggregate, partition
from microagg_core.errors import DataError

N = 60


def columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "town": rng.choice(["Ayr", "Bern"], N),
        "age": rng.integers(18, 90, N),
        "pay": rng.normal(size=N),
        "born": np.datetime64("1970-01-01", "D") + rng.integers(0, 9999, N),
        "seen": np.datetime64("2020-01-01", "us") + rng.integers(0, 10**12, N),
        "member": rng.random(N) < 0.5,
        "id": np.arange(N) + 2**60,
    }


NAMES = ["age", "pay", "born", "seen", "member"]


@pytest.fixture
def plain() -> Microaggregated:
    """What pandas' users get, against which all others are held."""
    frame = pd.DataFrame(columns())
    frame["born"] = pa.array(columns()["born"]).to_pandas()  # dates, as the others have them
    return microaggregate(frame, NAMES, 3)


def test_a_frame_of_polars_comes_back_as_one(plain: Microaggregated) -> None:
    frame = polars.DataFrame(columns()).with_columns(
        polars.col("town").cast(polars.Categorical),
        polars.Series("list", [[i] for i in range(N)]),
        polars.Series("any", [object()] * N, dtype=polars.Object),
    )
    masked = microaggregate(frame, NAMES, 3)
    assert isinstance(masked.data, polars.DataFrame) and frame["age"].to_list() == columns()["age"].tolist()
    assert masked.groups.tolist() == plain.groups.tolist()
    kept = ["town", "list", "id"]
    assert masked.data.select(kept).equals(frame.select(kept))
    assert masked.data.schema["town"] == polars.Categorical and masked.data.schema["any"] == polars.Object
    assert masked.data.columns == frame.columns
    types = {name: masked.data.schema[name] for name in NAMES}
    times = {"born": polars.Date(), "seen": polars.Datetime("us")}
    assert types == {"age": polars.Float64, "pay": polars.Float64, "member": polars.Float64, **times}
    assert masked.data["age"].to_list() == plain.data["age"].tolist()
    assert masked.data["born"].to_list() == plain.data["born"].tolist()
    assert masked.data["seen"].to_list() == [t.to_pydatetime() for t in plain.data["seen"]]


@pytest.mark.parametrize("form", [polars.String, polars.Categorical, polars.Enum(["Ayr", "Bern"])])
def test_texts_of_polars_make_blocks_in_every_form(form: Any) -> None:
    frame = polars.DataFrame(columns()).with_columns(polars.col("town").cast(form))
    chunks = polars.concat([frame[:7], frame[7:]], rechunk=False)
    plain = microaggregate(pd.DataFrame(columns()), ["pay"], 3, blocking=["town"], undersized="error")
    for one in (frame, chunks):
        masked = microaggregate(one, ["pay"], 3, blocking=["town"], undersized="error")
        assert masked.groups.tolist() == plain.groups.tolist()
        assert masked.data["town"].equals(frame["town"]) and masked.data.schema["town"] == form
    merged = microaggregate(frame, ["pay"], 3, blocking=["town"])
    assert merged.data["town"].to_list() == columns()["town"].tolist()


def test_dictionaries_of_arrow_make_blocks() -> None:
    table = pa.table(columns())
    plain = microaggregate(table, ["pay"], 3, blocking=["town"], undersized="error").groups.tolist()
    coded = table.set_column(0, "town", table["town"].combine_chunks().dictionary_encode())
    parts = [table.slice(0, 1), table.slice(1)]
    chunked = pa.concat_tables([p.set_column(0, "town", p["town"].dictionary_encode()) for p in parts])
    viewed = table.set_column(0, "town", table["town"].cast(pa.string_view()))
    for one in (coded, chunked, viewed):
        assert microaggregate(one, ["pay"], 3, blocking=["town"], undersized="error").groups.tolist() == plain


def test_records_that_are_withheld_leave_a_frame_of_polars() -> None:
    town = [*"aaaaaaaaaa", *"bb", *"cccccccccc", *"dd"]
    frame = polars.DataFrame({"x": [float(i) for i in range(24)], "town": town, "n": list(range(24))})
    masked = microaggregate(frame, ["x"], 3, blocking=["town"], undersized="suppress")
    assert masked.withheld.tolist() == [10, 11, 22, 23]
    assert masked.data["n"].to_list() == [*range(10), *range(12, 22)]
    assert len(masked.groups) == masked.data.height == 20
    assert masked.data["x"].mean() == sum(masked.data["n"].to_list()) / 20


def test_a_table_of_arrow_comes_back_as_one(plain: Microaggregated) -> None:
    table = pa.table(columns()).replace_schema_metadata({"who": "me"})
    masked = microaggregate(table, NAMES, 3)
    assert isinstance(masked.data, pa.Table)
    assert masked.data.schema.metadata == {b"who": b"me"}
    assert masked.data.select(["town", "id"]).equals(table.select(["town", "id"]))
    assert masked.data.schema.field("born").type == pa.date32()
    assert masked.data["pay"].to_pylist() == plain.data["pay"].tolist()
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    assert microaggregate(chunked, NAMES, 3).data.equals(masked.data)
    (batch,) = table.to_batches()
    again = microaggregate(batch, NAMES, 3).data
    assert isinstance(again, pa.RecordBatch) and pa.Table.from_batches([again]).equals(masked.data)


def test_whatever_gives_a_table_to_arrow_comes_back_as_a_table_of_arrow() -> None:
    table = pa.table(columns())

    class Capsule:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return table.__arrow_c_stream__(requested_schema)

    assert microaggregate(Capsule(), NAMES, 3).data.equals(microaggregate(table, NAMES, 3).data)


def test_a_matrix_comes_back_as_a_matrix() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    masked = microaggregate(X, k=4)
    frame = microaggregate(pd.DataFrame(X), [0, 1, 2], 4)
    assert isinstance(masked.data, np.ndarray) and np.array_equal(masked.data, frame.data.to_numpy())
    some = microaggregate(X, [2, 0], 4)
    assert np.array_equal(some.data[:, 1], X[:, 1]) and list(some.by_attribute) == [2, 0]
    whole = microaggregate((X * 100).astype(np.int32), k=4)
    assert whole.data.dtype == np.float64
    with_keys = np.column_stack([np.arange(40) + 2**60, np.arange(40)])
    with pytest.raises(DataError, match="column 0 of the array holds whole numbers beyond"):
        microaggregate(with_keys, [1], 4)


def test_a_matrix_may_have_missing_values_and_blocks() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:, 2] = np.arange(40) % 2
    X[:10, 1] = np.nan
    masked = microaggregate(X, [0, 1], 4, blocking=[2], undersized="error", missing="separate")
    assert np.array_equal(np.isnan(masked.data), np.isnan(X)) and np.array_equal(masked.data[:, 2], X[:, 2])


def test_a_dictionary_and_a_structured_array_come_back_as_they_were(plain: Microaggregated) -> None:
    masked = microaggregate(columns(), NAMES, 3).data
    assert isinstance(masked, dict) and list(masked) == list(columns())
    assert masked["age"].tolist() == plain.data["age"].tolist()
    lists = {name: values.tolist() for name, values in columns().items()}
    assert microaggregate(lists, ["age", "pay"], 3).data["town"].tolist() == lists["town"]
    records = np.array(list(zip(columns()["age"], columns()["pay"], strict=True)), [("age", "i8"), ("pay", "f4")])
    structured = microaggregate(records, ["age"], 3).data
    assert structured.dtype == [("age", "f8"), ("pay", "f4")] and type(structured) is np.ndarray
    assert structured["pay"].tolist() == records["pay"].tolist()


def test_tables_of_numbers_are_matrices_for_partition() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    expected = partition(X, 3).tolist()
    assert partition(polars.DataFrame(X), 3).tolist() == expected
    assert partition(pa.table({"a": X[:, 0], "b": X[:, 1]}), 3).tolist() == expected


def test_no_library_is_imported_that_is_not_needed() -> None:
    source = (
        "import sys, microagg_core, pandas\n"
        "microagg_core.microaggregate(pandas.DataFrame({'x': [1.0, 2.0, 3.0]}), ['x'], k=3)\n"
        "print([name for name in ('polars', 'sklearn', 'duckdb', 'narwhals', 'dask') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
