"""Neighbours of all records against the plain definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import cover, each, examples
from microagg_core.group.refine.neighbours import Records
from microagg_core.kernels.refinement import nearest_lists
from microagg_core.kernels.refinement.nearest_lists import FEW, nearest_of_all, nearest_within
from microagg_core.kernels.tools.threads import Threads
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


@each("few", [0, FEW])
def test_equally_near_ones_come_by_number(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_lists, "FEW", few)
    X = np.arange(9.0)[None, :]
    assert nearest_of_all(Values(X, NONE), 5).near[4].tolist() == [4, 3, 5, 2, 6]


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
