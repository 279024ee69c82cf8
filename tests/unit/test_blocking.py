"""Merging, labels, cuts and packing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.blocks.cuts import (
    Cut,
    count_leaves,
    give_back_small,
    grow,
    route,
    with_record_numbers,
)
from microagg_core.blocks.labels import label_of, parse_label
from microagg_core.blocks.plan import Outline
from microagg_core.blocks.routes import SUPPRESSED, Routes, hash_keys
from microagg_core.blocks.strata import StrataRules, plan_strata
from microagg_core.errors import DataError
from microagg_core.plain import from_json, to_json

VALUES = st.one_of(st.none(), st.text(alphabet="ab|\\N", max_size=4))


@given(st.lists(VALUES, min_size=1, max_size=5, unique=True))
@examples(100)
def test_labels_read_back(values: list[str | None]) -> None:
    assert parse_label(label_of(values)) == values


def keys_table(rows: dict[tuple[str | None, ...], int]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(c, pa.string()) for c in columns]
    pattern = pa.array(np.zeros(len(rows), dtype=np.uint64))
    return pa.Table.from_arrays(
        [pattern, *arrays, pa.array(list(rows.values()))],
        names=["pattern", *(f"b{i}" for i in range(len(arrays))), "rows"],
    )


def test_strata_carry_readable_labels_and_route_keys() -> None:
    rows = {("n", "a|b"): 1, ("n", None): 2, ("n", "z"): 9, ("s", "a"): 5, (None, "q"): 1}
    strata = plan_strata(keys_table(rows), StrataRules(3, "merge"), [pa.string(), pa.string()])
    labels = list(zip(*(strata.labels[f"b{j}"].to_pylist() for j in range(2)), strict=True))
    # The record without a region joins the smallest stratum there is.
    assert labels == [("n", "z"), ("n|\\N", "a\\|b|q|\\N"), ("s", "a")]
    assert strata.rows.tolist() == [9, 4, 5]
    keys = list(rows)
    columns = [pa.array([k[j] for k in keys], pa.string()) for j in range(2)]
    hashes = hash_keys(columns, np.zeros(len(keys), dtype=np.uint64), strata.hash_seed)
    found = strata.stratum_of_hash[np.searchsorted(strata.key_hashes, hashes)]
    assert [labels[strata.label[s]] for s in found] == [labels[1], labels[1], labels[0], labels[2], labels[1]]


def test_suppression_and_error() -> None:
    rows = {("n", "a"): 1, ("n", "b"): 2, ("n", "z"): 9}
    strata = plan_strata(keys_table(rows), StrataRules(3, "suppress"), [pa.string(), pa.string()])
    assert (strata.suppressed_keys, strata.suppressed_rows, strata.rows.tolist()) == (2, 3, [9])
    assert SUPPRESSED in strata.stratum_of_hash
    del rows["n", "b"]
    with pytest.raises(DataError, match=r"^1 records .* 9 more of 10 would have to be withheld"):
        plan_strata(keys_table(rows), StrataRules(3, "suppress"), [pa.string(), pa.string()])
    with pytest.raises(DataError, match=r"9 more of 10 .* or leave out such records$"):
        plan_strata(keys_table(rows), StrataRules(3, "suppress", totals_known="file"), [pa.string(), pa.string()])
    with pytest.raises(DataError, match="1 of 2 blocking keys have fewer than k=3"):
        plan_strata(keys_table(rows), StrataRules(3, "error"), [pa.string(), pa.string()])
    with pytest.raises(DataError, match="no block reaches k=20"):
        plan_strata(keys_table(rows), StrataRules(20, "merge"), [pa.string(), pa.string()])


def test_a_key_that_was_not_there_is_refused() -> None:
    strata = plan_strata(keys_table({("n", "a"): 5}), StrataRules(3, "merge"), [pa.string(), pa.string()])
    zero = np.zeros_like(strata.stratum_of_hash)
    routes = Routes(strata.key_hashes, strata.stratum_of_hash, zero, pa.table({}))
    assert routes.find(np.array([1], dtype=np.uint64)).tolist() == [SUPPRESSED]
    with pytest.raises(DataError, match="changed while it was read"):
        routes.places_of(np.array([1], dtype=np.uint64))


def naive_route(tree: object, z: np.ndarray) -> int:
    if tree is None:
        return 0
    if z[tree.attribute] <= tree.threshold:
        return naive_route(tree.left, z)
    return count_leaves(tree.left) + naive_route(tree.right, z)


@pytest.mark.parametrize("kind", ["random", "lattice", "skewed", "constant", "two values"])
def test_cuts_bound_every_leaf(kind: str) -> None:
    rng = np.random.default_rng(7)
    n = 997
    Z = {
        "random": rng.normal(size=(n, 3)),
        "lattice": rng.integers(0, 3, (n, 3)).astype(float),
        "skewed": np.where(rng.random((n, 3)) < 0.9, 0.0, rng.normal(size=(n, 3))),
        "constant": np.zeros((n, 3)),
        "two values": np.repeat([[0.0], [1.0]], [3, n - 3], axis=0) * np.ones(3),
    }[kind]
    X = with_record_numbers(Z, np.arange(n) * 7)
    tree = grow(X, 100, 5)
    leaf = route(tree, X)
    sizes = np.bincount(leaf, minlength=count_leaves(tree))
    assert sizes.min() >= 5
    assert sizes.max() <= 100
    assert leaf.tolist() == [naive_route(tree, x) for x in X]
    assert from_json(Cut, to_json(tree)) == tree


def test_small_leaves_go_back_to_their_sibling() -> None:
    X = with_record_numbers(np.arange(64.0)[:, None], np.arange(64))
    tree = grow(X, 8, 1)
    leaves = count_leaves(tree)
    sizes = np.full(leaves, 8)
    sizes[[0, 5]] = 1
    pruned = give_back_small(tree, sizes, 3)
    assert count_leaves(pruned) == leaves - 2
    assert np.bincount(route(pruned, X)).min() >= 8
    # Pairs are still too small, so they join once more.
    assert count_leaves(give_back_small(tree, np.full(leaves, 1), 3)) == leaves // 4


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.data())
def test_a_block_lies_in_the_partition_between_whose_first_blocks_it_is(sizes: list[int], data: st.DataObject) -> None:
    """Whether there are more records than blocks, or fewer."""
    first = np.cumsum(sizes) - sizes
    outline = Outline(0, sum(sizes), 1, 0, 0, first, np.array(sizes), np.array(sizes) / 1.0, {})
    blocks = data.draw(st.lists(st.integers(0, sum(sizes) - 1), max_size=60))
    expected = [next(p for p in reversed(range(len(sizes))) if first[p] <= block) for block in blocks]
    assert outline.partitions_of(np.array(blocks, dtype=np.int64)).tolist() == expected
