"""Prepare the input of every algorithm and check its output: a private, scaled copy of the records, and labels."""

from __future__ import annotations

import math

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.errors import DataError, InternalError
from microagg_core.group.points import AnyPoints, Points
from microagg_core.kernels.values import Values

#: The largest magnitude after scaling is below 2**_EXPONENT: squared distances, of records times as many as 2**50
#: and summed over a million attributes, stay below 2**1024; what differs by 2**-980 of the largest value counts.
_EXPONENT = 450


def exponent_of(points: Points) -> int:
    """Return the power of two by which a private copy is larger than the points."""
    X = points.X
    least, most = X.min(), X.max()
    if not (np.isfinite(least) and np.isfinite(most)):  # a NaN is both; kernels walk out of their arrays by it
        raise DataError("the records hold missing or infinite values; remove or replace them first")
    if not points.are_numbers:
        numbers = X[:, ~points.is_code]
        least, most = numbers.min(initial=0.0), max(numbers.max(initial=0.0), math.sqrt(points.costs.max()))
    return int(exponents_for(np.array([max(most, -least)]))[0])


def exponents_for(largest: Floats) -> Ints:
    """Return the powers of two by which values are multiplied whose largest magnitudes these are."""
    return np.asarray(np.where(largest > 0, _EXPONENT - np.frexp(largest)[1], 0))


def private_copy(X: AnyPoints) -> Values:
    """Copy points as kernels read them, numbers first, scaled by a power of two.

    The scaling is exact, so no tie and no order of distances changes, while values up to 1e300 cannot
    overflow when squared and values down to 1e-300 cannot vanish.

    Raises:
        DataError: a value is NaN or infinite.

    >>> private_copy(np.array([[3e-300], [1e-300]])).X.ravel() > 1e100
    array([ True,  True])
    """
    points = Points.of(X).numbers_first()
    numbers, exponent = points.n_numbers, exponent_of(points)
    copy = np.array(points.X.T, order="C")
    np.ldexp(copy[:numbers], exponent, out=copy[:numbers])
    return Values(copy, np.ldexp(points.costs[numbers:], 2 * exponent))


def points_of(values: Values) -> Points:
    """Take what kernels read for points again, without a copy."""
    X, costs = values
    return Points(X.T, np.append(np.zeros(len(X) - len(costs)), costs))


#: Numbers are looked up in a table, unless so many times as many as there are records would be in it.
_MOST_UNUSED = 4


def checked_labels(labels: Ints, sizes: tuple[int, int | None], algorithm: str) -> Ints:
    """Number groups by their first record, and refuse a group smaller or larger than promised.

    >>> checked_labels(np.array([7, 2, 7, 2]), (2, 3), "mdav").tolist()
    [0, 1, 0, 1]
    """
    least, most = sizes
    is_right = labels.min() >= 0
    if not is_right or labels.max() > _MOST_UNUSED * len(labels):
        labels = np.unique(labels, return_inverse=True)[1]
    count = np.bincount(labels)
    first = np.full(len(count), len(labels))
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    by_first = np.argsort(first)[: np.count_nonzero(count)]  # numbers without a record are behind
    own_sizes = count[by_first]
    if not is_right or own_sizes.min() < least or (most is not None and own_sizes.max() > most):
        raise InternalError(f"a bug: {algorithm} made a group outside its sizes, {least} to {most}; please report it")
    rank = np.empty(len(count), dtype=np.int64)
    rank[by_first] = np.arange(len(by_first))
    numbered: Ints = rank[labels]
    return numbered
