"""Groups of units of several rows: labels that are valid, and rows matched to positions as by trying all orders."""

from __future__ import annotations

import numpy as np
import pytest

from covering import each
from microagg_core.arrays import Ints
from microagg_core.blocks.units import group_units
from microagg_core.group.algorithms import algorithms
from microagg_core.group.points import Points


def units_of(seed: int, size: int, units: int) -> Points:
    rng = np.random.default_rng(seed)
    rows = units * size
    household = np.repeat(rng.integers(0, 3, units), size)
    X = np.column_stack([rng.normal(size=rows), rng.integers(0, 4, rows), rng.integers(0, 2, rows), household])
    return Points(X, np.array([0.0, 1.5, 3.0, 2.0]))


ONCE = np.array([False, False, False, True])


def grouping(points: Points) -> Ints:
    return algorithms()["mdav"].run(points, 3)


@pytest.mark.parametrize("size", range(1, 7))
@each("seed", range(5))
def test_each_unit_has_each_position_once_in_groups_of_k(size: int, seed: int) -> None:
    units = 4 + 9 * seed
    labels = group_units(units_of(seed, size, units), size, ONCE, grouping).reshape(units, size)
    groups = labels // size
    assert (groups == groups[:, :1]).all()
    assert (np.sort(labels % size, axis=1) == np.arange(size)).all()
    assert np.bincount(groups[:, 0]).min() >= 3
