"""The parts that kernels share: arithmetic in two floats, exact totals, and scans over what remains."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from covering import each
from microagg_core.group.labels import private_copy
from microagg_core.kernels.scan.remaining import BLOCK, farthest, nearest, take_group
from microagg_core.kernels.tools.sums import Pair, add_record, is_less, minus, over, plus, square, total_of, two_sum
from microagg_core.kernels.values import Values

SHARE = Fraction(1, 2**100)
NONE = np.zeros(0)


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


@each("n", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_scans_find_what_sorting_finds(n: int) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        points = rng.integers(0, 6, (n, 2)).astype(np.float64)
        X, ids, _ = _columns(points)
        ids = rng.permutation(n)
        distances = ((points - 1) ** 2).sum(axis=1)
        order = np.lexsort((ids, distances))
        assert farthest(Values(X, NONE), ids, n, np.ones(2)) == np.lexsort((ids, -distances))[0]
        for count in {0, 1, min(n, 7), n}:
            assert nearest(Values(X, NONE), ids, n, np.ones(2), count).tolist() == sorted(order[:count].tolist())


def test_a_scan_sees_only_what_remains() -> None:
    X, ids, _ = _columns(np.array([[1.0], [2.0], [50.0], [0.0]]))
    assert farthest(Values(X, NONE), ids, 2, np.zeros(1)) == 1
    assert nearest(Values(X, NONE), ids, 2, np.zeros(1), 1).tolist() == [0]


def test_a_group_moves_behind_what_remains() -> None:
    values = np.array([[5.0], [0.0], [9.0], [1.0], [6.0]])
    X, ids, where = _columns(values)
    assert take_group(Values(X, NONE), ids, where, 5, 0, 3) == 2
    assert set(ids[2:]) == {0, 4, 2} and ids[4] == 0
    assert X[0].tolist() == values[ids, 0].tolist()
    assert ids[where].tolist() == [0, 1, 2, 3, 4]


@each("magnitude", [5e-324, 1e-300, 1.0, 1e300, np.finfo(np.float64).max])
def test_scaling_keeps_squares_in_range(magnitude: float) -> None:
    X = np.array([[magnitude, 0.0], [-magnitude, 0.0]])
    copy = private_copy(X).X
    largest = copy.max()
    assert 2.0**449 <= largest < 2.0**450
    assert np.frexp(largest)[0] == np.frexp(magnitude)[0], "only the exponent changes"
    assert copy.flags.c_contiguous
    assert 0 < ((largest - copy.min()) * 2.0**27) ** 2 < np.inf
    assert private_copy(np.zeros((3, 2))).X.tolist() == [[0] * 3] * 2


def exact(pair: Pair) -> Fraction:
    return Fraction(pair[0]) + Fraction(pair[1])


def pairs(seed: int) -> list[Pair]:
    rng = np.random.default_rng(seed)
    high = rng.standard_normal(300) * 2.0 ** rng.integers(-60, 60, 300)
    low = high * rng.standard_normal(300) * 2.0**-55
    return [two_sum(float(h), float(b)) for h, b in zip(high, low, strict=True)]


def test_sums_and_differences_are_right_to_100_bits() -> None:
    for a, b in zip(pairs(0), pairs(1), strict=True):
        largest = max(abs(exact(a)), abs(exact(b)))
        assert abs(exact(plus(a, b)) - (exact(a) + exact(b))) <= SHARE * largest
        assert abs(exact(minus(a, b)) - (exact(a) - exact(b))) <= SHARE * largest


def test_squares_and_quotients_are_right_to_100_bits() -> None:
    for a, (divisor, _) in zip(pairs(2), pairs(3), strict=True):
        assert abs(exact(square(a)) / exact(a) ** 2 - 1) <= SHARE
        assert abs(exact(over(a, divisor)) * Fraction(divisor) / exact(a) - 1) <= SHARE


def test_two_sum_loses_nothing() -> None:
    for a, b in ((1.0, 2.0**-80), (-(2.0**-80), 1.0), (0.1, 0.2), (1e300, -1e-300), (0.0, 0.0)):
        assert exact(two_sum(a, b)) == Fraction(a) + Fraction(b)


def test_what_differs_is_told_apart_far_below_a_float() -> None:
    third = over((1.0, 0.0), 3.0)
    whole = plus(plus(third, third), third)
    assert not is_less(whole, (1.0, 0.0)) and not is_less((1.0, 0.0), whole)
    a, b = (1.0, 0.0), (1.0, 2.0**-75)
    assert a[0] + a[1] == b[0] + b[1]
    assert is_less(a, b) and not is_less(b, a)
    assert not is_less((0.0, 0.0), (0.0, 0.0)) and is_less((0.0, 0.0), (5e-324, 0.0))
