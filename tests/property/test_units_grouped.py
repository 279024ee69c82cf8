"""Groups of units of several rows: valid, alike on every call, and matched as by trying all orders of their rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from covering import cover, each
from microagg_core.arrays import Ints
from microagg_core.blocks.units import ROUNDS, first_positions, group_units, matched, points_of_units
from microagg_core.group.algorithms import algorithms
from microagg_core.group.metrics.losses import sse_of_labels
from microagg_core.group.points import Points
from twins import naive_units

#: A number, two codes, and a number and a code of the whole unit.
COSTS = np.array([0.0, 1.5, 3.0, 0.0, 2.0])
ONCE = np.array([False, False, False, True, True])
SIZES = range(1, 7)
KINDS = {"mixed": np.arange(5), "numbers": np.array([0, 3]), "codes": np.array([1, 2, 4]), "once": np.array([3, 4])}


def rows_of(seed: int, size: int, units: int) -> Points:
    rng = np.random.default_rng(seed)
    n = units * size
    own = [rng.normal(size=n) + 2 * np.tile(rng.permutation(size), units), rng.integers(0, 4, n), rng.integers(0, 2, n)]
    of_unit = [np.repeat(rng.normal(size=units), size), np.repeat(rng.integers(0, 3, units), size)]
    return Points(np.column_stack([*own, *of_unit]), COSTS)


def grouping(k: int = 3) -> Callable[[Points], Ints]:
    return lambda points: algorithms()["mdav"].run(points, k)


@each("size, kind, units", cover(SIZES, [*KINDS], [3, 5, 30]))
def test_each_unit_has_each_position_once_in_groups_of_k(size: int, kind: str, units: int) -> None:
    rows = rows_of(units, size, units).columns(KINDS[kind])
    labels = group_units(rows, size, ONCE[KINDS[kind]], grouping())
    groups = labels.reshape(units, size) // size
    assert (groups == groups[:, :1]).all()
    assert (np.sort(labels.reshape(units, size) % size, axis=1) == np.arange(size)).all()
    assert np.bincount(groups[:, 0]).min() >= 3
    assert labels.tolist() == group_units(rows, size, ONCE[KINDS[kind]], grouping()).tolist()


@pytest.mark.parametrize("size", SIZES)
@each("seed", range(3))
def test_rows_are_matched_as_by_trying_all_orders(size: int, seed: int) -> None:
    """Up to 5 rows all orders are tried at once, and of 6 rows the assignment problem is solved."""
    units, rng = 11, np.random.default_rng(seed)
    rows = rows_of(seed, size, units)
    positions = rng.permuted(np.tile(np.arange(size), (units, 1)), axis=1).ravel()
    groups = rng.permutation(np.arange(units) % 3)
    expected = naive_units.matched(rows.X, COSTS, size, positions.tolist(), groups.tolist())
    assert matched(rows, size, ONCE, positions, groups).tolist() == expected


@pytest.mark.parametrize("size", SIZES)
def test_groups_lose_no_more_than_those_of_the_first_positions(size: int) -> None:
    rows = rows_of(7, size, 40)
    called: list[Points] = []

    def group(points: Points) -> Ints:
        called.append(points)
        return grouping()(points)

    labels = group_units(rows, size, ONCE, group)
    assert len(called) <= ROUNDS
    if size == 1:
        assert [points is rows for points in called] == [True]
        assert labels.tolist() == grouping()(rows).tolist()
    else:
        first = np.repeat(grouping()(called[0]), size) * size + first_positions(rows, size, ONCE)
        assert sse_of_labels(rows, labels) <= sse_of_labels(rows, first) * (1 + 1e-12)
    assert sse_of_labels(rows, labels) == pytest.approx(naive_units.squares(rows.X, COSTS, labels), rel=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_squares_of_units_are_those_of_their_rows(size: int) -> None:
    """Columns of units count as often as they stand in rows, though they are in the points once."""
    rows, groups = rows_of(3, size, 12), np.arange(12) % 4
    positions = np.random.default_rng(3).permuted(np.tile(np.arange(size), (12, 1)), axis=1).ravel()
    points = points_of_units(rows, size, ONCE, positions)
    assert points.shape == (12, 3 * size + 2)
    labels = np.repeat(groups, size) * size + positions
    assert sse_of_labels(points, groups) == pytest.approx(sse_of_labels(rows, labels), rel=1e-12)


def test_rows_in_another_order_are_found_again() -> None:
    """Units of the same rows, however these are ordered, lose nothing."""
    rng = np.random.default_rng(5)
    kinds = rows_of(5, 4, 6).X.reshape(6, 4, -1)
    units = np.concatenate([[kind[rng.permutation(4)] for kind in kinds] for _ in range(3)])
    rows = Points(units.reshape(-1, 5), COSTS)
    labels = group_units(rows, 4, ONCE, grouping())
    assert sse_of_labels(rows, labels) == pytest.approx(0.0, abs=1e-9)
