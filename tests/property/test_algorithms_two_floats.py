"""Arithmetic in two floats against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from microagg_core.kernels.tools.sums import Pair, is_less, minus, over, plus, square, two_sum

SHARE = Fraction(1, 2**100)


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


def test_thirds_add_up() -> None:
    third = over((1.0, 0.0), 3.0)
    whole = plus(plus(third, third), third)
    assert not is_less(whole, (1.0, 0.0)) and not is_less((1.0, 0.0), whole)


def test_what_differs_is_told_apart_far_below_a_float() -> None:
    a, b = (1.0, 0.0), (1.0, 2.0**-75)
    assert a[0] + a[1] == b[0] + b[1]
    assert is_less(a, b) and not is_less(b, a)
    assert not is_less((0.0, 0.0), (0.0, 0.0)) and is_less((0.0, 0.0), (5e-324, 0.0))
