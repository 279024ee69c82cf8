"""Arithmetic on numbers carried in two floats, high and low: about 32 digits.

Enough that rounding decides nothing: what is equal comes out closer than :data:`_NOTHING`, and what is not comes out
farther apart, so that ties are found however the sums were put together.
"""

from __future__ import annotations

from typing import TypeAlias

from microagg_core.kernels.machine_code.jit import inlined, jit

Pair: TypeAlias = tuple[float, float]

_NOTHING = 2.0**-80
_SPLIT = 2.0**27 + 1.0


@inlined
def two_sum(a: float, b: float) -> Pair:
    """The exact sum of two floats."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@jit
def plus(a: Pair, b: Pair) -> Pair:
    """a + b."""
    high, error = two_sum(a[0], b[0])
    low, lost = two_sum(a[1], b[1])
    high, error = two_sum(high, error + low)
    return two_sum(high, error + lost)


@jit
def minus(a: Pair, b: Pair) -> Pair:
    """a - b."""
    return plus(a, (-b[0], -b[1]))


@jit
def _product(a: float, b: float) -> Pair:
    """The exact product of two floats, if it and either of them times 2**28 is finite."""
    a_top, b_top = _SPLIT * a, _SPLIT * b
    a_top, b_top = a_top - (a_top - a), b_top - (b_top - b)
    a_rest, b_rest = a - a_top, b - b_top
    product = a * b
    return product, ((a_top * b_top - product) + a_top * b_rest + a_rest * b_top) + a_rest * b_rest


@jit
def square(a: Pair) -> Pair:
    """a x a."""
    high, low = _product(a[0], a[0])
    return two_sum(high, low + 2.0 * a[0] * a[1])


@jit
def over(a: Pair, divisor: float) -> Pair:
    """a / divisor."""
    high = a[0] / divisor
    rest = minus(a, _product(high, divisor))
    return two_sum(high, rest[0] / divisor)


@jit
def is_less(a: Pair, b: Pair) -> bool:
    """Whether a is less than b, a sum of squares, by more than rounding accounts for."""
    return minus(a, b)[0] < -_NOTHING * b[0]
