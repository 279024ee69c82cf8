"""Sums for kernels: in two floats, exact, over groups, and over the records of each value of a column."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.kernels.machine_code.jit import inlined, jit

Pair: TypeAlias = tuple[float, float]

#: Sums in two floats that are equal come out closer than this share however they were put together, others do not.
_NOTHING = 2.0**-80
_SPLIT = 2.0**27 + 1.0


@inlined
def two_sum(a: float, b: float) -> Pair:
    """Add two floats exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@jit
def plus(a: Pair, b: Pair) -> Pair:
    high, error = two_sum(a[0], b[0])
    low, lost = two_sum(a[1], b[1])
    high, error = two_sum(high, error + low)
    return two_sum(high, error + lost)


@jit
def minus(a: Pair, b: Pair) -> Pair:
    return plus(a, (-b[0], -b[1]))


@jit
def _product(a: float, b: float) -> Pair:
    """Multiply two floats exactly, if the product and either of them times 2**28 is finite."""
    a_top, b_top = _SPLIT * a, _SPLIT * b
    a_top, b_top = a_top - (a_top - a), b_top - (b_top - b)
    a_rest, b_rest = a - a_top, b - b_top
    product = a * b
    return product, ((a_top * b_top - product) + a_top * b_rest + a_rest * b_top) + a_rest * b_rest


@jit
def square(a: Pair) -> Pair:
    high, low = _product(a[0], a[0])
    return two_sum(high, low + 2.0 * a[0] * a[1])


@jit
def over(a: Pair, divisor: float) -> Pair:
    high = a[0] / divisor
    rest = minus(a, _product(high, divisor))
    return two_sum(high, rest[0] / divisor)


@jit
def is_less(a: Pair, b: Pair) -> bool:
    """Say whether a is less than b, a sum of squares, by more than rounding accounts for."""
    return minus(a, b)[0] < -_NOTHING * b[0]


@inlined
def add(high: float, low: float, value: float) -> Pair:
    """Add a float to a pair; the error of each addition is computed exactly and carried on.

    The total of what remains is kept up to date by taking records away. In plain floats the rounding errors of
    everything that was ever in it would stay behind, and would tell records apart that lie at the same distance
    from the centroid. Two floats carry about 32 digits: their sum, rounded once, is the true total unless what left
    was 1e16 times as large as what stays.
    """
    total, error = two_sum(high, value)
    return two_sum(total, error + low)


@jit
def add_record(totals: Floats, X: Floats, position: int, sign: float) -> None:
    """Add (sign 1) the record at a position to the totals, or take it away (sign -1).

    ``totals`` is (2, p): high and low parts; ``X`` is (p, n), or has more rows, which do not count.
    """
    for j in range(totals.shape[1]):
        totals[0, j], totals[1, j] = add(totals[0, j], totals[1, j], sign * X[j, position])


@jit
def total_of(X: Floats, start: int, stop: int) -> Floats:
    """Add up the records at positions start to stop - 1, as a (2, p) array."""
    totals = np.zeros((2, X.shape[0]))
    for position in range(start, stop):
        add_record(totals, X, position, 1.0)
    return totals


@jit
def column_means(X: Floats) -> Floats:
    """Compute the mean of each column, its values added up in their order."""
    means = np.zeros(X.shape[1])
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            means[j] += X[i, j]
    means /= X.shape[0]
    return means


@jit
def sums_by_value(codes: Ints, n_values: int, Z: Floats, missing: Bools) -> Floats:
    """Count records of each value, with sum and sum of squares of each attribute among them, in one pass.

    ``codes`` are the records' values, of which only those below ``n_values`` count; ``Z`` and ``missing`` are (p, n).
    Returns (n_values, 1 + 3 p), the records first; sums are added up in the order of the records.

    >>> Z, missing = np.array([[1.0, 2.0, 4.0]]), np.array([[False, False, True]])
    >>> sums_by_value(np.array([1, 1, 0]), 2, Z, missing).tolist()
    [[1.0, 0.0, 0.0, 0.0], [2.0, 2.0, 3.0, 5.0]]
    """
    p = Z.shape[0]
    sums = np.zeros((n_values, 1 + 3 * p))
    for i in range(codes.shape[0]):
        if codes[i] >= n_values:
            continue
        of_value = sums[codes[i]]
        of_value[0] += 1.0
        for j in range(p):
            if not missing[j, i]:
                z = Z[j, i]
                of_value[1 + 3 * j] += 1.0
                of_value[2 + 3 * j] += z
                of_value[3 + 3 * j] += z * z
    return sums


@jit
def _add_record(before: Floats, after: Floats, sums: Floats, lengths: Floats, apart: Floats) -> None:
    """Add a record to the sums of its group, as :func:`loss_sums` has them, and its lengths to those of all."""
    p = before.shape[0]
    square, square_before, square_after = 0.0, 0.0, 0.0
    for j in range(p):
        apart[j] = before[j] - after[j]
        square += apart[j] * apart[j]
        square_before += before[j] * before[j]
        square_after += after[j] * after[j]
        sums[j] += apart[j] * apart[j]
        sums[p + j] += abs(apart[j])
    length_before, length_after = np.sqrt(square_before), np.sqrt(square_after)
    lengths[0] += length_before
    lengths[1] += length_after
    sums[2 * p] += square
    sums[2 * p + 1] += np.sqrt(square)
    sums[2 * p + 2] += length_before - length_after
    at = 2 * p + 3
    for i in range(p):
        for j in range(i + 1, p):
            sums[at] += apart[i] * apart[j]
            at += 1


@jit
def loss_sums(before: Floats, after: Floats, order: Ints, sizes: Ints) -> tuple[Floats, Floats]:
    """Add up over groups how far records were moved; and the records' lengths, before and after.

    Of a block of some thousand records numpy would make twenty arrays for them, each written and read again.

    A group's sums are, in this order: of each attribute's squared differences, of each one's absolute differences; of
    squared distances, of distances, and of what records became shorter; and of each pair's products of differences,
    the first attribute with all others first. Returns of these, without their signs, the total, the largest and the
    second-largest; and the lengths. ``after`` has a row a group, ``order`` lists the records by group.
    """
    p = before.shape[1]
    sums, apart = np.empty(2 * p + 3 + p * (p - 1) // 2), np.empty(p)
    of_groups, lengths = np.zeros((3, sums.shape[0])), np.zeros(2)
    total, first, second = of_groups[0], of_groups[1], of_groups[2]
    at = 0
    for group in range(sizes.shape[0]):
        sums[:] = 0.0
        for place in range(at, at + sizes[group]):
            _add_record(before[order[place]], after[group], sums, lengths, apart)
        at += sizes[group]
        for s in range(sums.shape[0]):
            part = abs(sums[s])
            total[s] += part
            if part > first[s]:
                first[s], second[s] = part, first[s]
            elif part > second[s]:
                second[s] = part
    return of_groups, lengths


@jit
def moments_of_pairs(values: Floats, counts: Ints) -> tuple[Floats, Floats]:
    """Compute each column's mean, and for each pair of columns the sum of products of their deviations.

    Each row counts as so many. Deviations are taken of offsets from the first row, so that those of a constant column
    are exactly 0.
    """
    n, p = values.shape
    means, products, apart = np.zeros(p), np.zeros((p, p)), np.empty(p)
    n_all = 0
    for i in range(n):
        n_all += counts[i]
        for j in range(p):
            means[j] += counts[i] * (values[i, j] - values[0, j])
    means /= n_all
    for i in range(n):
        for j in range(p):
            apart[j] = values[i, j] - values[0, j] - means[j]
        for j in range(p):
            for other in range(j + 1):
                products[j, other] += counts[i] * (apart[j] * apart[other])
    for j in range(p):
        for other in range(j):
            products[other, j] = products[j, other]
    return values[0] + means, products
