"""Equal rows are found whatever their type and order, and rows that are said to differ do."""

from __future__ import annotations

import datetime
import struct
from collections import Counter
from collections.abc import Hashable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from covering import each
from microagg_core.data.tables.ordering import combinations, no_two_are_equal, runs_of
from microagg_core.inspect import distributions
from microagg_core.inspect.distributions import GroupValues
from microagg_core.inspect.kanonymity import CombinationCounter

NAN, DAY = float("nan"), datetime.date(2020, 1, 1)
#: Few values of each type, so that rows repeat; in an order in which they ascend, as far as there is one.
COLUMNS: dict[str, pa.Array] = {
    "text": pa.array(["", "a", "b", None]),
    "long text": pa.array(["a", "ab", None], pa.large_string()),
    "bytes": pa.array([b"", b"\x00", None]),
    "fixed bytes": pa.array([b"ab", b"ac", None], pa.binary(2)),
    "double": pa.array([-1.5, -0.0, 0.0, 2.0, NAN, None]),
    "single": pa.array([-1.0, 0.5, None], pa.float32()),
    "half": pa.array(np.array([0.5, 1.5], dtype=np.float16)),
    "whole": pa.array([-3, 0, 2**40, None]),
    "unsigned": pa.array([0, 2**64 - 1], pa.uint64()),
    "short": pa.array([-1, 7, None], pa.int8()),
    "truth": pa.array([False, True, None]),
    "day": pa.array([DAY, datetime.date(2021, 1, 1), None]),
    "moment": pa.array([datetime.datetime(2020, 1, 1), None], pa.timestamp("us")),
    "decimal": pa.array([Decimal("-1.5"), Decimal("2.0"), None]),
    "nothing": pa.nulls(2),
    "names": pa.array(["x", "y", None]).dictionary_encode(),
}


def exact(value: Any) -> Hashable:
    """A value that is equal to another one if their bits are."""
    return struct.pack("d", value) if isinstance(value, float | np.floating) else value


def rows_of(columns: list[pa.Array]) -> list[tuple[Hashable, ...]]:
    return list(zip(*([exact(value) for value in column.to_pylist()] for column in columns), strict=True))


def drawn(seed: int) -> list[pa.Array]:
    """Some columns of random values: as they come, in order, in order and each once, or in order but for two rows."""
    rng = np.random.default_rng(seed)
    pools = [COLUMNS[name] for name in rng.choice(list(COLUMNS), rng.integers(1, 4), replace=False)]
    places = np.column_stack([rng.integers(0, len(pool), 40) for pool in pools])
    if seed % 4:
        places = places[np.lexsort(places.T[::-1])]
    if seed % 4 == 2:
        places = np.unique(places, axis=0)
    if seed % 4 == 3:
        places[[3, 30]] = places[[30, 3]]
    # A slice starts within a byte of the bits that Arrow keeps.
    return [
        pool.take(pa.array(np.append([0] * 3, place))).slice(3) for pool, place in zip(pools, places.T, strict=True)
    ]


@each("seed", range(100))
def test_rows_are_told_apart_value_by_value(seed: int) -> None:
    columns = drawn(seed)
    rows = rows_of(columns)
    starts = [i for i in range(len(rows)) if i == 0 or rows[i] != rows[i - 1]]
    assert runs_of(columns, len(rows)).first.tolist() == starts
    numbers, first = combinations(columns, len(rows))
    seen = {row: i for i, row in reversed(list(enumerate(rows)))}
    assert first.tolist() == sorted(seen.values())
    assert numbers.tolist() == [first.tolist().index(seen[row]) for row in rows]


@each("seed", range(100))
def test_what_is_said_to_differ_differs(seed: int) -> None:
    columns = drawn(seed)
    rows = rows_of(columns)
    is_certain = no_two_are_equal(columns, len(rows))
    assert len(set(rows)) == len(rows) or not is_certain
    names = ["double", "nothing"]  # whose values do not all have an order
    if seed % 4 == 2 and not any(column.type == COLUMNS[name].type for column in columns for name in names):
        assert is_certain


@each("seed", range(100))
def test_combinations_are_counted_in_any_order(seed: int) -> None:
    columns = drawn(seed)
    table = pa.table(dict(zip("abc", columns, strict=False)))
    counts = Counter(rows_of(columns))
    counter = CombinationCounter(table.column_names, 3)
    counter.add_batches([table.slice(0, 11), table.slice(11)])
    whole = CombinationCounter(table.column_names, 3)
    whole.add(table)
    for one in (counter, whole):
        assert one.failing() == sum(n < 3 for n in counts.values())
        assert one.smallest() == min(counts.values())


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_are_their_own(rows: int) -> None:
    columns = [column.slice(0, rows) for column in COLUMNS.values()]
    assert runs_of(columns, rows).first.tolist() == list(range(rows))
    assert [part.tolist() for part in combinations(columns, rows)] == [list(range(rows))] * 2
    assert [part.tolist() for part in combinations([], 3)] == [[0, 0, 0], [0]]


@pytest.mark.parametrize("short", [0, 2**32])
def test_values_of_groups_are_in_order(short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "_SHORT", short)
    rng = np.random.default_rng(short % 7)
    groups = rng.permutation(np.append(np.arange(30), rng.integers(0, 30, 300)))
    codes = rng.integers(0, 9, len(groups))
    found = GroupValues.of(codes, groups)
    of_groups = [sorted(codes[groups == g].tolist()) for g in range(30)]
    assert np.split(found.codes, found.first[1:])[7].tolist() == of_groups[7]
    assert found.codes.tolist() == [code for of_one in of_groups for code in of_one]
    assert found.distinct.tolist() == [len(set(of_one) - {0}) for of_one in of_groups]
    assert found.missing.tolist() == [of_one.count(0) for of_one in of_groups]
