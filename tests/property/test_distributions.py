"""Distributions of confidential columns: counts in any parts, and distances of groups, as a readable twin has them."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.inspect import distributions
from microagg_core.inspect.distributions import Distribution, ValueCounts, distributions_in, table_of
from twins.naive_distances import naive_distances

COLUMNS: dict[str, tuple[Any, list[Any], bool]] = {
    "whole": (pa.array([3, 1, None, 1]), [None, 1, 3], True),
    "large": (pa.array([2**64 - 1, 0], pa.uint64()), [None, 0, 2**64 - 1], True),
    "float": (pa.array([1.5, float("nan"), None, -0.0, 0.0]), [None, 0.0, 1.5], True),
    "boolean": (pa.array([True, None, False]), [None, False, True], True),
    "date": (pa.array([datetime.date(2021, 1, 1), None, datetime.date(2020, 1, 1)]), None, True),
    "time": (pa.array([2, 1], pa.time32("s")), [None, datetime.time(0, 0, 1), datetime.time(0, 0, 2)], True),
    "zoned": (pa.array([5, None, 3], pa.timestamp("us", tz="UTC")), None, True),
    "decimal": (pa.array([decimal.Decimal("1.5"), None]), [None, decimal.Decimal("1.5")], True),
    "text": (pa.array(["b", "a", None, "a"]), [None, "a", "b"], False),
    "bytes": (pa.array([b"b", b"a"], pa.binary(1)), [None, b"a", b"b"], False),
    "nothing": (pa.array([None, None]), [None], False),
    "no rows": (pa.array([], pa.string()), [None], False),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_values_are_counted_in_order_however_they_come(name: str) -> None:
    column, values, is_ordered = COLUMNS[name]
    whole = Distribution.of(column)
    assert whole.is_ordered == is_ordered and whole.total == len(column)
    if values is not None:
        assert whole.values.to_pylist() == values
    parts = ValueCounts(column.type, len(column) + 1)
    for place in range(len(column)):
        parts.add(column.slice(place, 1))
    assert whole.same_as(parts.distribution())
    written = distributions_in(read_slice(to_bytes(table_of([whole, None, whole]))))
    assert whole.same_as(written[0]) and written[1] is None and whole.same_as(written[2])
    assert np.array_equal(np.bincount(whole.codes(column), minlength=len(whole.counts)), whole.counts)


def test_a_value_that_was_not_counted_has_no_code() -> None:
    assert Distribution.of(pa.array(["a"])).codes(pa.array(["b", None, "a"])).tolist() == [-1, 0, 1]


def test_too_many_values_are_given_up_however_they_come() -> None:
    for parts in ([range(5)], [range(2), range(2, 5)], [[i] for i in range(5)]):
        few, enough = ValueCounts(pa.int64(), 4), ValueCounts(pa.int64(), 5)
        for part in parts:
            few.add(pa.array(list(part), pa.int64()))
            enough.add(pa.array(list(part), pa.int64()))
        assert few.distribution() is None
        assert enough.distribution() is not None


@given(st.data(), st.booleans(), st.integers(0, 2**32), st.booleans())
@examples(200)
def test_distances_are_those_of_the_definition(data: Any, is_text: bool, seed: int, is_large: bool) -> None:
    draw = np.random.default_rng(seed)
    n = data.draw(st.integers(1, 40))
    values = draw.integers(0, data.draw(st.integers(1, n)), n)
    labels = draw.permutation(np.arange(n) % data.draw(st.integers(1, n)))
    missing = draw.random(n) < data.draw(st.sampled_from([0.0, 0.3, 0.9, 1.0]))
    column = pa.array(values.astype(str) if is_text else values, mask=missing)
    whole = Distribution.of(column)
    with pytest.MonkeyPatch.context() as patched:
        if is_large:  # as if 64 bits could not hold what is added up
            patched.setattr(distributions, "_EXACT", 0)
        distances = whole.distances(whole.codes(column), labels)
    expected = naive_distances(whole.counts, whole.codes(column), labels, whole.is_ordered)
    assert np.allclose(distances, [float(d) for d in expected], rtol=1e-14, atol=0)


def test_a_merged_group_is_no_farther_than_the_farther_of_its_parts() -> None:
    """What makes it safe that rounding merges groups."""
    draw = np.random.default_rng(5)
    for _ in range(200):
        values = draw.integers(0, 7, 24)
        labels = draw.permutation(np.arange(24) % 4)
        missing = draw.random(24) < draw.choice([0.0, 0.5])
        for column in (pa.array(values, mask=missing), pa.array(values.astype(str), mask=missing)):
            whole = Distribution.of(column)
            codes = whole.codes(column)
            apart = whole.distances(codes, labels)
            merged = whole.distances(codes, np.minimum(labels, 2))
            assert merged[2] <= max(apart[2], apart[3]) + 1e-15
