"""Released rows come in one order, and groups are numbered by their first records."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import each, examples
from microagg_core.data.tables.ordering import content_order, ranks
from microagg_core.errors import InternalError
from microagg_core.group.labels import checked_labels

IN_ORDER = [
    pa.array([-1.5, -0.0, 2.5, None]),
    pa.array([-128, -1, 0, 127], pa.int8()),
    pa.array([-(2**63), -1, 2**63 - 1, None], pa.int64()),
    pa.array([0, 2**63, 2**64 - 1], pa.uint64()),
    pa.array([Decimal("-1.5"), Decimal("0.0"), Decimal("9.9"), None], pa.decimal128(3, 1)),
    pa.array([Decimal(-(10**30)), Decimal(10**20), Decimal(10**30)], pa.decimal128(38, 0)),
    pa.array([datetime.date(1960, 1, 1), datetime.date(2000, 1, 1), None]),
    pa.array([-5, 0, 7], pa.timestamp("ns")),
    pa.array([False, True, None]),
]


@each("array", IN_ORDER)
def test_values_of_any_type_are_ranked_with_missing_ones_last(array: pa.Array) -> None:
    shuffled = array.take(pa.array(np.random.default_rng(2).permutation(len(array))))
    order = np.argsort(ranks(pa.chunked_array([shuffled])), kind="stable")
    assert shuffled.take(pa.array(order)).equals(array)


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.take(pa.array(content_order(table, ["b"], ["p", "q"]))).to_pylist()


@pytest.mark.parametrize("n", [0, 1, 400])
def test_rows_come_by_blocking_value_then_quasi_identifiers_in_any_order_of_arrival(n: int) -> None:
    rng = np.random.default_rng(n)
    columns = {
        "b": pa.array(rng.choice(["east", "west", None], n), pa.string()),
        "c": pa.array(rng.integers(0, 9, n)),
        "p": pa.array([None if x == 0 else float(x) for x in rng.integers(-2, 3, n)], pa.float64()),
        "q": pa.array(rng.integers(-(2**63), 2**63 - 1, 3)[rng.integers(0, 3, n)], pa.int64()),
    }
    table = pa.table(columns)
    found = sorted_rows(table)
    keys = [(r["b"] is None, r["b"] or "", r["p"] is None, r["p"] or 0.0, r["q"]) for r in found]
    assert keys == sorted(keys)
    assert found == sorted_rows(table.take(pa.array(rng.permutation(n))))


@examples(200)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=30), st.sampled_from([1, 1000, 10**15]))
def test_groups_are_numbered_by_their_first_records(numbers: list[int], apart: int) -> None:
    firsts = list(dict.fromkeys(numbers))
    assert checked_labels(np.array(numbers) * apart, (1, None), "test").tolist() == [firsts.index(x) for x in numbers]


@pytest.mark.parametrize("labels", [[0, 0, 1], [0, 0, 0, 0], [-1, -1, 0, 0]])
def test_groups_of_other_sizes_are_refused(labels: list[int]) -> None:
    with pytest.raises(InternalError, match="2 to 3"):
        checked_labels(np.array(labels), (2, 3), "test")
