"""What mu-Approx promises of its trees: where edges go, how long they are, how many records a tree keeps."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from covering import each, examples, is_whole
from inputs.strategies import matrices
from microagg_core import partition
from microagg_core.group.algorithms.mu_approx import trees
from microagg_core.group.labels import private_copy


def distances(X: np.ndarray) -> np.ndarray:
    return np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))


def assert_trees_keep_their_promises(X: np.ndarray, k: int, seed: int) -> None:
    n, apart = len(X), distances(X)
    heads, labels, edge_labels = trees(private_copy(X), k, seed)
    to_others = np.sort(apart + np.diag(np.full(n, -1.0)), axis=1)  # a record's own place comes first
    from_, reach = np.flatnonzero(heads >= 0), to_others[:, k - 1]
    lengths = apart[from_, heads[from_]]
    assert (heads[from_] != from_).all()
    # FOREST gives each record at most one edge, to one of its k-1 nearest.
    assert (lengths <= reach[from_] * (1 + 1e-9)).all()
    kept = edge_labels[from_] >= 0
    assert lengths[kept].sum() <= reach.sum() * (1 + 1e-9)
    assert_sizes(labels, edge_labels, k)
    centred = [X[labels == tree] for tree in range(labels.max() + 1)]
    spread = sum(np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1)).sum() for rows in centred)
    assert spread <= (3 * k - 3) * reach.sum() * (1 + 1e-9) + 1e-12 * n


def assert_sizes(labels: np.ndarray, edge_labels: np.ndarray, k: int) -> None:
    sizes = np.bincount(labels)
    edges = np.bincount(edge_labels[edge_labels >= 0], minlength=len(sizes))
    assert sizes.min() >= k
    assert sizes.max() <= max(2 * k - 1, 3 * k - 3)
    # A tree that is too large was left whole at a Steiner vertex: with it, it has an edge for each of its records.
    for tree in np.flatnonzero(sizes > max(2 * k - 1, 3 * k - 5)):
        assert edges[tree] >= sizes[tree]


@given(st.data())
@examples(150)
def test_trees_of_any_records(data: st.DataObject) -> None:
    k = data.draw(st.integers(2, 7))
    X = data.draw(matrices(data.draw(st.integers(k, 40)), data.draw(st.integers(1, 3))))
    largest = np.abs(X).max()
    if largest > 0:
        X = X / largest  # so that distances can be computed plainly here
    assert_trees_keep_their_promises(X, k, data.draw(st.integers(0, 2**32)))


@each("k, p", list(product([2, 3, 4, 5, 8, 13], [1, 2, 5])))
def test_trees_of_many_records(k: int, p: int) -> None:
    for seed in range(4 if is_whole() else 1):
        assert_trees_keep_their_promises(np.random.default_rng(seed).standard_normal((500, p)), k, seed)


@each("k", [4, 6])
def test_trees_left_whole_happen_on_ordinary_data_and_are_split_at_last(k: int) -> None:
    whole = 0
    for seed in range(8):
        X = np.random.default_rng(seed).standard_normal((5000, 6))
        tree_of, group_of = trees(private_copy(X), k, seed)[1], partition(X, k, "mu_approx", seed=seed)
        whole += int((np.bincount(tree_of) > 3 * k - 5).sum())
        final = np.bincount(group_of)
        assert final.min() >= k and final.max() <= 2 * k - 1
        assert np.unique(np.stack([group_of, tree_of]), axis=1).shape[1] == len(final), "a group is of one tree"
    assert whole > 0
    assert partition(X, k, "mu_approx", seed=9).tolist() != group_of.tolist(), "another seed gives other groups"
