"""Rows that travel between tasks arrive as they were, and take few bytes on the way."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.tables.slices import RECORD, read_slice, to_bytes, write_slices

N = 400


def rows() -> pa.Table:
    """Every kind of column, with missing values, and record numbers that go up and down."""
    rng = np.random.default_rng(1)
    return pa.table(
        {
            RECORD: 7_000_000_000 + rng.permutation(N),
            "text": ["north", "", None, "south"] * (N // 4),
            "wide": pa.array(["a", None] * (N // 2), pa.large_string()),
            "bytes": pa.array([b"\xff", b""] * (N // 2)),
            "fixed": pa.array([b"ab", None] * (N // 2), pa.binary(2)),
            "unlike": [f"{i}" for i in range(N)],
            "nothing": pa.array([None] * N, pa.string()),
            "day": pa.array([datetime.date(2026, 1, 1), None] * (N // 2)),
            "share": rng.random(N),
            "record of another": rng.integers(0, 9, N),
        }
    )


@pytest.mark.parametrize("n_destinations", [1, 3, 150])
def test_rows_arrive_as_they_were(n_destinations: int) -> None:
    table = rows()
    destination = np.random.default_rng(2).integers(0, n_destinations, N)
    data, slices = write_slices(table, destination, maker=5, number=2)
    assert {(s.maker, s.object) for s in slices} == {(5, 2)}
    assert [s.destination for s in slices] == np.unique(destination).tolist()
    for s in slices:
        arrived = read_slice(data[s.start : s.end])
        assert arrived.equals(table.filter(pa.array(destination == s.destination)))
        assert arrived.num_rows == s.rows
    assert [s.start for s in slices] == [0, *(s.end for s in slices[:-1])] and slices[-1].end == len(data)


@pytest.mark.parametrize("numbers", [[0], [2**62, 0, 2**62], [5, 5], [127, 255, 0], [-(2**40), 2**40]])
def test_any_record_numbers_survive_their_differences(numbers: list[int]) -> None:
    data, _ = write_slices(pa.table({RECORD: numbers}), np.zeros(len(numbers), dtype=np.int64), maker=0)
    arrived = read_slice(data)[RECORD]
    assert arrived.to_pylist() == numbers and arrived.type == pa.int64()


def test_texts_that_repeat_and_neighbouring_numbers_take_next_to_nothing() -> None:
    n = 20_000
    table = pa.table({RECORD: np.arange(n) + 10**9, "text": ["a rather long name of a place"] * n})
    data, _ = write_slices(table, np.zeros(n, dtype=np.int64), maker=0)
    assert len(data) < n / 10
    assert len(data) < len(to_bytes(table)) / 5
