"""What mu-Approx promises of its trees: where edges go, how long they are, how many records a tree keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from inputs.strategies import matrices
from microagg_core import partition
from microagg_core.group.algorithms.mu_approx import spanning_trees, tree_partition


def distances(X: np.ndarray) -> np.ndarray:
    return np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))


def assert_trees_keep_their_promises(X: np.ndarray, k: int, seed: int) -> None:
    n, trees, apart = len(X), spanning_trees(X, k, seed), distances(X)
    to_others = np.sort(apart + np.diag(np.full(n, -1.0)), axis=1)  # a record's own place comes first
    from_, reach = np.flatnonzero(trees.heads >= 0), to_others[:, k - 1]
    lengths = apart[from_, trees.heads[from_]]
    assert (trees.heads[from_] != from_).all()
    # FOREST gives each record at most one edge, to one of its k-1 nearest.
    assert (lengths <= reach[from_] * (1 + 1e-9)).all()
    kept = trees.edge_labels[from_] >= 0
    assert lengths[kept].sum() <= reach.sum() * (1 + 1e-9)
    assert_sizes(trees.labels, trees.edge_labels, k)
    centred = [X[trees.labels == tree] for tree in range(trees.labels.max() + 1)]
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


@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("p", [1, 2, 5])
def test_trees_of_many_records(k: int, p: int) -> None:
    for seed in range(4):
        assert_trees_keep_their_promises(np.random.default_rng(seed).standard_normal((500, p)), k, seed)


@pytest.mark.parametrize("k", [4, 6])
def test_trees_left_whole_happen_on_ordinary_data_and_are_split_at_last(k: int) -> None:
    whole = 0
    for seed in range(8):
        X = np.random.default_rng(seed).standard_normal((5000, 6))
        whole += int((np.bincount(tree_partition(X, k, seed)) > 3 * k - 5).sum())
        final = np.bincount(partition(X, k, "mu_approx", seed=seed))
        assert final.min() >= k and final.max() <= 2 * k - 1
    assert whole > 0


def test_splitting_large_trees_only_divides_them() -> None:
    X = np.random.default_rng(1).standard_normal((600, 3))
    trees, groups = tree_partition(X, 4, 9), partition(X, 4, "mu_approx", seed=9)
    tree_of_group = {(group, tree) for group, tree in zip(groups.tolist(), trees.tolist(), strict=True)}
    assert len(tree_of_group) == groups.max() + 1


def test_another_seed_gives_other_groups() -> None:
    X = np.random.default_rng(1).standard_normal((300, 3))
    assert partition(X, 3, "mu_approx", seed=1).tolist() != partition(X, 3, "mu_approx", seed=2).tolist()
