"""Orders by words are those of comparing, and groups are numbered by their first records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from covering import examples
from microagg_core.data.kinds.registry import kind_of
from microagg_core.data.tables import ordering
from microagg_core.data.tables.ordering import content_order, order_by
from microagg_core.errors import InternalError
from microagg_core.group.labels import checked_labels

#: What sorts in its own way: infinities, NaN with and without a sign, both zeros, the smallest and the largest.
ODD = [np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 5e-324, -1.7e308, 1.5]


def key(rng: np.random.Generator, n: int) -> NDArray[Any]:
    """Numbers of some type, few or many different ones."""
    keys: list[NDArray[Any]] = [
        rng.integers(-3, 3, n),
        rng.integers(-(2**63), 2**63 - 1, n),
        rng.integers(0, 2**64 - 1, n, dtype=np.uint64),
        rng.integers(0, 2, n).astype(np.int8),
        rng.choice(ODD, n),
        rng.normal(size=n) * 10.0 ** int(rng.integers(-300, 300)),
    ]
    return keys[int(rng.integers(len(keys)))]


@examples(200)
@given(st.integers(0, 2**32 - 1), st.integers(0, 300), st.integers(1, 5))
def test_words_sort_as_comparing_does(seed: int, n: int, n_keys: int) -> None:
    rng = np.random.default_rng(seed)
    keys = [key(rng, n) for _ in range(n_keys)]
    assert order_by(keys).tolist() == np.lexsort(keys[::-1]).tolist()


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.take(
        pa.array(content_order(table, ["b"], {name: kind_of(name, table[name].type).sort_key for name in ("p", "q")}))
    ).to_pylist()


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


def test_rows_whose_hashes_share_their_first_bits_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "hash_rows", lambda columns, n, seed: np.asarray(columns[-1]).astype(np.uint64))
    hashes = pa.array([3, 1, 2, 0, 2, 2**64 - 1], pa.uint64())
    table = pa.table({"b": ["x"] * 6, "p": [1.5] * 6, "q": [1, 1, 1, 1, 1, 2], "c": hashes})
    assert [row["c"] for row in sorted_rows(table)] == [0, 1, 2, 2, 3, 2**64 - 1]


@examples(200)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=30), st.sampled_from([1, 1000, 10**15]))
def test_groups_are_numbered_by_their_first_records(numbers: list[int], apart: int) -> None:
    firsts = list(dict.fromkeys(numbers))
    assert checked_labels(np.array(numbers) * apart, (1, None), "test").tolist() == [firsts.index(x) for x in numbers]


@pytest.mark.parametrize("labels", [[0, 0, 1], [0, 0, 0, 0], [-1, -1, 0, 0]])
def test_groups_of_other_sizes_are_refused(labels: list[int]) -> None:
    with pytest.raises(InternalError, match="2 to 3"):
        checked_labels(np.array(labels), (2, 3), "test")
