"""Neighbours of all records against the plain definition."""

from __future__ import annotations

import numpy as np
import pytest

from microagg_core.kernels.refinement.nearest_lists import nearest_of_all
from microagg_core.refine.neighbours import Records


def plainly_nearest(X: np.ndarray, most: int) -> np.ndarray:
    """By distance, then by number; itself, at no distance, the first."""
    distances = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, -1.0)
    return np.argsort(distances, axis=1, kind="stable")[:, :most]


@pytest.mark.parametrize("p", [1, 2, 4, 7, 20])
@pytest.mark.parametrize("n", [1, 5, 31, 33, 700])
def test_nearest_of_all_are_the_nearest(n: int, p: int) -> None:
    X = np.random.default_rng(n).standard_normal((n, p))
    most = min(n, 11)
    nearest = nearest_of_all(np.ascontiguousarray(X.T), most)
    assert np.array_equal(nearest.near, plainly_nearest(X, most))
    squared = ((X[nearest.near] - X[:, None, :]) ** 2).sum(axis=2)
    assert np.allclose(nearest.squared, squared, rtol=1e-12, atol=0)
    assert sorted(nearest.order.tolist()) == list(range(n))


def test_equally_near_ones_come_by_number() -> None:
    X = np.arange(9.0)[None, :]
    assert nearest_of_all(X, 5).near[4].tolist() == [4, 3, 5, 2, 6]


def test_neighbours_do_not_depend_on_the_order_of_records() -> None:
    X = np.random.default_rng(0).integers(0, 5, (300, 3)).astype(np.float64)
    order = np.random.default_rng(1).permutation(300)
    straight, shuffled = Records.of(X, 6), Records.of(X[order], 6)
    assert np.array_equal(straight.Z, shuffled.Z)
    assert np.array_equal(straight.near(6), shuffled.near(6))
