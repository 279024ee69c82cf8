"""Merging, labels, cuts and packing."""

from __future__ import annotations

import itertools

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
from microagg_core.blocks.memory import PARTITION_BYTES
from microagg_core.blocks.merging import merge_undersized
from microagg_core.blocks.packing import assign_files, pack_blocks
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


@given(st.lists(st.lists(VALUES, min_size=1, max_size=3, unique=True), min_size=2, max_size=2, unique_by=tuple))
@examples(100)
def test_labels_do_not_collide(lists: list[list[str | None]]) -> None:
    assert label_of(lists[0]) != label_of(lists[1])


KEYS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=20, unique=True
)


@given(KEYS, st.data(), st.integers(2, 6))
@examples(300)
def test_merging_reaches_k_and_gives_up_no_more_than_needed(
    keys: list[tuple[int, ...]], data: st.DataObject, k: int
) -> None:
    keys = sorted(keys)
    codes = np.array(keys)
    rows = np.array(data.draw(st.lists(st.integers(1, 8), min_size=len(keys), max_size=len(keys))))
    stratum, depth = merge_undersized(codes, rows, k)
    sizes = np.bincount(stratum, weights=rows)
    if rows.sum() >= k:
        assert sizes.min() >= k
    for number in range(len(depth)):
        members = codes[stratum == number]
        # The attributes that are said to be exact are exact.
        assert len(np.unique(members[:, : depth[number]], axis=0)) == 1
        if len(members) == 1:
            assert depth[number] == 3
        else:
            # Nothing was given up without need: among the keys that share one attribute more, some group was below k.
            deeper = codes[:, : depth[number] + 1]
            groups = [rows[(deeper == m[: depth[number] + 1]).all(axis=1)].sum() for m in members]
            assert depth[number] == 2 or min(groups) < k


def test_merging_joins_the_smallest_sibling() -> None:
    codes = np.array([[0, 0], [0, 1], [0, 2], [1, 0]])
    stratum, depth = merge_undersized(codes, np.array([2, 9, 5, 7]), k=3)
    assert stratum.tolist() == [0, 1, 0, 2]
    assert depth.tolist() == [1, 2, 2]


def test_merging_gives_up_the_last_but_one_where_the_last_is_not_enough() -> None:
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]])
    stratum, depth = merge_undersized(codes, np.array([1, 1, 9, 4, 9]), k=3)
    assert stratum.tolist() == [0, 0, 1, 0, 2]
    assert depth.tolist() == [0, 2, 2]


def test_fixed_columns_are_never_given_up() -> None:
    codes = np.array([[0, 0], [1, 0], [1, 1]])
    stratum, depth = merge_undersized(codes, np.array([1, 2, 2]), k=3, fixed=1)
    assert stratum.tolist() == [0, 1, 1]
    assert depth.tolist() == [2, 1]


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


def test_packing_keeps_order_and_limits() -> None:
    rng = np.random.default_rng(0)
    seconds, sizes = rng.exponential(3, 400), rng.integers(1, PARTITION_BYTES // 2, 400)
    partition = pack_blocks(seconds, sizes)
    assert np.all(np.diff(partition) >= 0) and np.all(np.diff(partition) <= 1)
    for number in range(partition[-1] + 1):
        assert sizes[partition == number].sum() <= PARTITION_BYTES


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 20))
@examples(100)
def test_files_hold_their_limit_and_no_label_is_lost(rows: list[int], limit: int) -> None:
    first, count = assign_files(np.array(rows), limit)
    held: dict[int, int] = {}
    for label, n in enumerate(rows):
        assert count[label] == 1 or n > limit
        for i in range(count[label]):
            held[first[label] + i] = held.get(first[label] + i, 0) + (n if count[label] == 1 else 0)
    assert max(held.values()) <= limit
    assert sorted(held) == list(range(len(held)))
    ends = [first[i] + count[i] for i in range(len(rows))]
    assert all(a <= b for a, b in itertools.pairwise(ends))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.data())
def test_a_block_lies_in_the_partition_between_whose_first_blocks_it_is(sizes: list[int], data: st.DataObject) -> None:
    """Whether there are more records than blocks, or fewer."""
    first = np.cumsum(sizes) - sizes
    outline = Outline(0, sum(sizes), 1, 0, 0, first, np.array(sizes), np.array(sizes) / 1.0, {})
    blocks = data.draw(st.lists(st.integers(0, sum(sizes) - 1), max_size=60))
    expected = [next(p for p in reversed(range(len(sizes))) if first[p] <= block) for block in blocks]
    assert outline.partitions_of(np.array(blocks, dtype=np.int64)).tolist() == expected
