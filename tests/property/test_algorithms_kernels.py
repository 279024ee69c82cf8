"""The parts that kernels share: exact totals, and scans over what remains."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from microagg_core.group.labels import private_copy
from microagg_core.kernels.scan.remaining import BLOCK, farthest, nearest, take_group
from microagg_core.kernels.tools.sums import add_record, total_of


def _columns(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = len(X)
    return np.array(X.T, dtype=np.float64, order="C"), np.arange(n), np.arange(n)


def test_a_total_is_the_exact_sum_rounded_once() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        X = rng.standard_normal((1, 200)) * 10.0 ** rng.integers(-6, 6, (1, 200))
        assert total_of(X, 0, 200)[0, 0] == float(sum(map(Fraction, X[0])))


def test_taking_records_away_leaves_nothing_behind() -> None:
    X = np.array([[1e15, 0.1, 0.2, -3e14, 1e15 / 3, 0.3]])
    totals = total_of(X, 0, 6)
    for gone in (0, 4, 3):
        add_record(totals, X, gone, -1.0)
    assert totals[0, 0] == float(Fraction(0.1) + Fraction(0.2) + Fraction(0.3))


@pytest.mark.parametrize("n", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_scans_find_what_sorting_finds(n: int) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        points = rng.integers(0, 6, (n, 2)).astype(np.float64)
        X, ids, _ = _columns(points)
        ids = rng.permutation(n)
        distances = ((points - 1) ** 2).sum(axis=1)
        order = np.lexsort((ids, distances))
        assert farthest(X, ids, n, 1.0, np.ones(2)) == np.lexsort((ids, -distances))[0]
        for count in {0, 1, min(n, 7), n}:
            assert nearest(X, ids, n, np.ones(2), count).tolist() == sorted(order[:count].tolist())


def test_a_scan_sees_only_what_remains() -> None:
    X, ids, _ = _columns(np.array([[1.0], [2.0], [50.0], [0.0]]))
    assert farthest(X, ids, 2, 1.0, np.zeros(1)) == 1
    assert nearest(X, ids, 2, np.zeros(1), 1).tolist() == [0]


def test_a_group_moves_behind_what_remains() -> None:
    values = np.array([[5.0], [0.0], [9.0], [1.0], [6.0]])
    X, ids, where = _columns(values)
    assert take_group(X, ids, where, 5, 0, 3) == 2
    assert set(ids[2:]) == {0, 4, 2} and ids[4] == 0
    assert X[0].tolist() == values[ids, 0].tolist()
    assert ids[where].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("magnitude", [5e-324, 1e-300, 1.0, 1e300, np.finfo(np.float64).max])
def test_scaling_keeps_squares_in_range(magnitude: float) -> None:
    X = np.array([[magnitude, 0.0], [-magnitude, 0.0]])
    copy = private_copy(X)
    largest = copy.max()
    assert 2.0**449 <= largest < 2.0**450
    assert np.frexp(largest)[0] == np.frexp(magnitude)[0], "only the exponent changes"
    assert copy.T.flags.c_contiguous
    assert 0 < ((largest - copy.min()) * 2.0**27) ** 2 < np.inf


def test_data_without_magnitude_stay_as_they_are() -> None:
    assert private_copy(np.zeros((3, 2))).tolist() == [[0, 0]] * 3
