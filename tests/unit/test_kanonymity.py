"""k-anonymity recounted over parts, against a plain count over all records."""

from __future__ import annotations

import datetime
import struct
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.inspect.kanonymity import CombinationCounter, Recount, SpreadCounter

ages = st.sampled_from([None, 0.0, -0.0, 1.5, 30.0])
towns = st.sampled_from([None, "", "a", "b"])
parts_strategy = st.lists(st.lists(st.tuples(ages, towns), max_size=12), min_size=1, max_size=5)


def as_table(rows: list[tuple[float | None, str | None]]) -> pa.Table:
    return pa.table(
        {"n": pa.array([r[0] for r in rows], pa.float64()), "c0": pa.array([r[1] for r in rows], pa.string())}
    )


def plain_count(parts: list[list[tuple[float | None, str | None]]]) -> Counter[object]:
    return Counter((None if a is None else struct.pack("d", a), t) for rows in parts for a, t in rows)


def failing_exactly(parts: list[pa.Table], counter: CombinationCounter) -> Recount:
    recount = counter.recount()
    recount.add_batches(parts)
    return recount


@examples(150)
@given(parts_strategy, st.integers(1, 6))
def test_parts_and_processes_count_as_one(parts: list[list[tuple[float | None, str | None]]], k: int) -> None:
    truth = plain_count(parts)
    below = sorted(n for n in truth.values() if n < k)
    tables = [as_table(rows) for rows in parts]
    counter = CombinationCounter(["n", "c0"], k)
    for table in tables:
        elsewhere = CombinationCounter(["n", "c0"], k)
        elsewhere.add_batches(table.slice(i, 3) for i in range(0, table.num_rows, 3))
        counter += CombinationCounter.from_table(elsewhere.to_table())
    assert counter.failing() >= len(below)
    recount = failing_exactly(tables, counter)
    assert recount.failing() == len(below)
    if below:
        assert counter.smallest() <= recount.smallest() == below[0]
    elif truth and not counter.failing():
        assert k <= counter.smallest() <= min(truth.values())


@examples(150)
@given(parts_strategy, st.integers(1, 6), st.integers(1, 20))
def test_spread_combinations_are_counted_in_one_pass_or_given_up(
    parts: list[list[tuple[float | None, str | None]]], k: int, most: int
) -> None:
    truth, counter = plain_count(parts), SpreadCounter(["n", "c0"], k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("microagg_core.inspect.kanonymity.MOST_SPREAD", most)
        for rows in parts:
            elsewhere = SpreadCounter(["n", "c0"], k)
            elsewhere.add(as_table(rows))
            counter += SpreadCounter.from_table(elsewhere.to_table())
    counter = SpreadCounter.from_table(counter.to_table())
    assert counter.is_given_up == (len(truth) > most)
    assert counter.is_given_up or counter.failing() == sum(n < k for n in truth.values())


def test_a_remainder_of_what_is_done_elsewhere_is_no_failure() -> None:
    parts = [as_table([(1.5, "a")] * 5), as_table([(1.5, "a")])]
    counter = CombinationCounter(["n", "c0"], 5)
    for part in parts:
        counter.add(part)
    assert counter.failing() == 1
    assert failing_exactly(parts, counter).failing() == 0


@pytest.mark.parametrize(
    "column",
    [
        pa.array([datetime.date(2026, 1, 1), None]),
        pa.array([datetime.datetime(2026, 1, 1), None], pa.timestamp("us", "UTC")),
        pa.array([Decimal("1.20"), None]),
        pa.array([True, None]),
        pa.array([2**53 + 1, None], pa.int64()),
        pa.array([1.5, None], pa.float32()),
        pa.array(["x", None], pa.large_string()),
        pa.array(["x", None]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_every_type_of_a_key_column_is_counted(column: pa.Array) -> None:
    table = pa.table({"key": pa.chunked_array([column, column])})
    counter = CombinationCounter(["key"], 2)
    counter.add(table)
    assert (counter.failing(), counter.smallest()) == (0, 2)
    counter.add(table.slice(0, 1))
    assert counter.failing() == 1
    assert failing_exactly([table, table.slice(0, 1)], counter).failing() == 0


def test_dictionaries_of_different_parts_are_one() -> None:
    counter = CombinationCounter(["key"], 2)
    for values in (["x", "y"], ["y", "x"]):
        counter.add(pa.table({"key": pa.array(values).dictionary_encode()}))
    assert counter.failing() == 0


def test_what_cannot_be_counted_together_is_refused() -> None:
    counter = CombinationCounter(["key"], 2)
    counter.add(pa.table({"key": [1]}))
    with pytest.raises(ValueError, match="different types"):
        counter.add(pa.table({"key": ["1"]}))
    with pytest.raises(ValueError, match="same columns and k"):
        counter + CombinationCounter(["key"], 3)
    with pytest.raises(ValueError, match="at least one column"):
        CombinationCounter([], 3)


def test_only_the_small_ones_are_carried() -> None:
    counter = CombinationCounter(["key"], 3)
    counter.add(pa.table({"key": [i // 3 for i in range(30_000)] + [-1]}))
    assert counter.to_table().num_rows == 1
