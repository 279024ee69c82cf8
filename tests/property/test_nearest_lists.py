"""Neighbours of all records against the plain definition."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import cover, each, examples
from microagg_core.group.refine.neighbours import Records, order_by_values
from microagg_core.kernels.refinement import nearest_lists
from microagg_core.kernels.refinement.nearest_lists import FEW, nearest_of_all, nearest_within
from microagg_core.kernels.tools.threads import Threads
from microagg_core.kernels.tree.shrinking_tree import LEAF, NOBODY, Tree, new_tree
from microagg_core.kernels.values import Values

NONE = np.zeros(0)


def plainly_nearest(X: np.ndarray, most: int) -> np.ndarray:
    """By distance, then by number; itself, at no distance, the first."""
    distances = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, -1.0)
    return np.argsort(distances, axis=1, kind="stable")[:, :most]


@each("n, p", cover([1, 5, 33, 399, 700], [1, 2, 4, 7, 20]))
def test_nearest_of_all_are_the_nearest(n: int, p: int) -> None:
    X = np.random.default_rng(n).standard_normal((n, p))
    most = min(n, 11)
    nearest = nearest_of_all(Values(np.ascontiguousarray(X.T), NONE), most)
    assert np.array_equal(nearest.near, plainly_nearest(X, most))
    squared = ((X[nearest.near] - X[:, None, :]) ** 2).sum(axis=2)
    assert np.allclose(nearest.squared, squared, rtol=1e-12, atol=0)
    assert sorted(nearest.order.tolist()) == list(range(n))


def in_near_leaves(tree: Tree, x: np.ndarray, most: int, leaves: int) -> tuple[list[int], list[float]]:
    """Slowly: the nearest of those in the leaves at the nearest boxes, and what their distances are at least.

    The nearest node that waits is followed down to a leaf, each time into the nearer child, while the other waits.
    """
    count, found, n_read, heap = int(tree.size[0]), list[tuple[float, int]](), 0, [(0.0, 1)]

    def away(node: int) -> float:
        low, high = tree.boxes[node]
        return float((np.maximum(np.maximum(low - x, x - high), 0.0) ** 2).sum())

    while heap and n_read < leaves:
        bound, node = heapq.heappop(heap)
        while node < count:
            (bound, node), other = sorted((away(child), child) for child in (2 * node, 2 * node + 1))
            heapq.heappush(heap, other)
        if len(found) < most or bound <= found[most - 1][0]:
            ids = tree.ids[(node - count) * LEAF : (node - count + 1) * LEAF]
            found = sorted([*found, *((float(((tree.X[:, i] - x) ** 2).sum()), int(i)) for i in ids if i != NOBODY)])
            n_read += 1
    certain = heap[0][0] if heap else np.inf
    return [i for _, i in found[:most]], [min(d, certain) for d, _ in found[:most]]


@each("p", [3, 9, 20])
def test_near_ones_are_those_of_the_nearest_leaves(p: int) -> None:
    X = np.random.default_rng(p).standard_normal((p, 1500))
    found, exact, tree = (
        nearest_of_all(Values(X, NONE), 11, 12),
        nearest_of_all(Values(X, NONE), 11),
        new_tree(Values(X, NONE)),
    )
    for record in range(0, 1500, 7):
        near, certain = in_near_leaves(tree, X[:, record], 11, 12)
        assert found.near[record].tolist() == near
        assert np.allclose(found.squared[record], certain, rtol=1e-12, atol=1e-12)
    assert (found.squared <= exact.squared).all()
    assert (found.squared < exact.squared).any() == (p > 3)


@each("few", [0, FEW])
def test_equally_near_ones_come_by_number(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_lists, "FEW", few)
    X = np.arange(9.0)[None, :]
    assert nearest_of_all(Values(X, NONE), 5).near[4].tolist() == [4, 3, 5, 2, 6]


@each("values", [1, 3, 40, 4000])
def test_records_are_ordered_by_their_values(values: int) -> None:
    X = np.random.default_rng(values).integers(0, values, (3, 900)) * 0.1
    assert np.array_equal(order_by_values(X), np.lexsort(X[::-1]))


def test_few_have_the_lists_that_a_tree_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(3)
    X = np.ascontiguousarray(np.unique(draw.integers(0, 6, (300, 4)).astype(np.float64), axis=0).T)
    values = Values(X, np.array([2.0, 3.0]))
    few = nearest_of_all(values, 8)
    monkeypatch.setattr(nearest_lists, "FEW", 0)
    by_tree = nearest_of_all(values, 8)
    assert np.array_equal(few.near, by_tree.near)
    assert np.array_equal(few.squared, by_tree.squared)
    assert len(few.near) > 100


def test_neighbours_do_not_depend_on_the_order_of_records() -> None:
    X = np.random.default_rng(0).integers(0, 5, (300, 3)).astype(np.float64)
    order = np.random.default_rng(1).permutation(300)
    straight, shuffled = Records.of(X, 6), Records.of(X[order], 6)
    assert straight.points.equals(shuffled.points)
    assert np.array_equal(straight.near(6), shuffled.near(6))


#: Records of one stretch of leaves.
STRETCH = 64 * 32


@given(
    st.sampled_from([1, 31, STRETCH - 1, STRETCH, STRETCH + 1, 2 * STRETCH + 33]),
    st.integers(1, 5),
    st.integers(1, 10_000),
    st.integers(0, 1000),
)
@examples(25)
def test_any_number_of_threads_finds_the_same(n: int, p: int, values: int, seed: int) -> None:
    """Few values make many ties."""
    X = np.random.default_rng(seed).integers(0, values, (p, n)).astype(np.float64)
    most = min(n, 9)
    alone = nearest_of_all(Values(X, NONE), most)
    for total in (2, 4):
        with Threads(total).running():
            shared = nearest_of_all(Values(X, NONE), most)
        assert all(np.array_equal(a, b) for a, b in zip(alone, shared, strict=True))


def test_lists_within_a_region_name_its_records_by_their_places() -> None:
    near = np.array([[1, 2], [0, 3], [3, 0], [2, 1], [0, 2]], dtype=np.int32)
    records = np.array([1, 3, 4])  # who stand at 2, 3 and 4, behind the two others
    position = np.array([0, 2, 1, 3, 4], dtype=np.int32)
    assert nearest_within(near, records, position, 2).tolist() == [[1, 0], [0, 1], [2, 2]]
