"""Rows that travel between tasks arrive as they were, and take few bytes on the way."""

from __future__ import annotations

import datetime
import zlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.data.tables.slices import (
    RECORD,
    join_slices,
    read_slice,
    read_together,
    to_bytes,
    write_no_rows,
    write_slices,
)

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
            "no type": pa.nulls(N),
            "day": pa.array([datetime.date(2026, 1, 1), None] * (N // 2)),
            "share": rng.random(N),
            "record of another": rng.integers(0, 9, N),
            "debt": pa.array([-300, None, 70, 200] * (N // 4), pa.int64()),
            "hash": pa.array(rng.integers(2**63, 2**64, N, dtype=np.uint64)),
            "no number": pa.array([None] * N, pa.int64()),
            "yes": pa.array([True, None, False, True] * (N // 4)),
            "price": pa.array([Decimal("1.50"), None] * (N // 2), pa.decimal128(9, 2)),
            "several": [["a", "b"], [], None, ["b"]] * (N // 4),
        }
    )


def destinations(n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.random.default_rng(2).integers(0, n, N)


@pytest.mark.parametrize("n_destinations", [1, 3, 150])
def test_rows_arrive_as_they_were(n_destinations: int) -> None:
    table = rows()
    destination = destinations(n_destinations)
    data, slices = write_slices(table, destination, maker=5, number=2)
    assert {(s.maker, s.object) for s in slices} == {(5, 2)}
    assert [s.destination for s in slices] == np.unique(destination).tolist()
    for s in slices:
        arrived = read_slice(data[s.start : s.end])
        assert arrived.equals(table.filter(pa.array(destination == s.destination)))
        assert arrived.num_rows == s.rows
        assert zlib.crc32(data[s.start : s.end]) == s.checksum
    assert [s.start for s in slices] == [0, *(s.end for s in slices[:-1])] and slices[-1].end == len(data)


def test_rows_of_several_packs_arrive_together_whatever_each_needs() -> None:
    """The packs differ in how narrow their numbers are, and in whether their texts repeat."""
    table = rows()
    few = table.slice(0, 12)
    large = few.set_column(10, "record of another", pa.array(np.arange(12) + 2**40))
    packs = [(table, destinations(3)), (few, np.arange(12) % 3), (large, np.arange(12) % 3), (table, destinations(3))]
    data, slices = join_slices([write_slices(pack, destination, maker=0) for pack, destination in packs])
    parts = [data[s.start : s.end] for s in slices]
    wanted = [pa.concat_tables([p.filter(pa.array(d == i)) for p, d in packs]) for i in range(3)]
    assert [read_slice(part) for part in parts] == wanted
    assert read_together([parts[2], parts[0], parts[1]]) == pa.concat_tables([wanted[2], wanted[0], wanted[1]])
    assert [zlib.crc32(part) for part in parts] == [s.checksum for s in slices]


def test_columns_that_are_dictionaries_stay_so_and_tables_without_rows_may_lie_among_others() -> None:
    table = pa.table({"a": pa.array(["x", "y", "x"]).dictionary_encode(), RECORD: [4, 5, 9]})
    data, slices = write_slices(table, np.array([1, 0, 1]), maker=0)
    first, second = (data[s.start : s.end] for s in slices)
    assert read_slice(second).equals(table.take([0, 2])) and read_slice(first).equals(table.take([1]))
    plain = table.drop_columns(["a"])
    none, _ = write_no_rows(plain.slice(0, 0), 0, maker=0)
    some, _ = write_slices(plain, np.zeros(3, np.int64), maker=0)
    assert read_together([none, some + to_bytes(plain), none, some]) == pa.concat_tables([plain] * 3)
    assert write_slices(plain.slice(0, 0), np.empty(0, np.int64), maker=0)[0] == b""


def test_a_slice_holds_the_texts_of_its_own_rows_alone() -> None:
    long = np.random.default_rng(3).bytes(9_000)
    table = pa.table({"bytes": [b"mine"] * 50 + [long] * 50})
    _, (mine, other) = write_slices(table, np.repeat([0, 1], 50), maker=0)
    assert mine.end - mine.start < 1_000 < 9_000 < other.end - other.start


def test_slices_with_texts_of_their_own_are_read_together() -> None:
    texts = [["a", "b", None], ["c"], [None], ["b", "c"]]
    table = pa.table({"text": [text for some in texts for text in some * 5], RECORD: np.arange(35)})
    destination = np.repeat(np.arange(4), [5 * len(some) for some in texts])
    data, slices = write_slices(table, destination, maker=0)
    parts = [data[s.start : s.end] for s in slices]
    assert read_together(parts).equals(table) and read_slice(data).equals(table)
    assert [read_slice(part)["text"].to_pylist() for part in parts] == [some * 5 for some in texts]


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
