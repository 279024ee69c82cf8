"""Scans over the records that remain: squared distances in blocks, the farthest, and the nearest.

Values are (p, n), one attribute a row; the records that remain are its first ``m`` columns, in any order.
``ids`` holds each column's record number, ``where`` each record's column. A record that leaves changes places
with the last one, so that a scan reads nothing but what remains. Ties go to the lower record number, whatever
column it stands in.

The distance to a centroid is computed as that of m times the record to the total of m records, which ranks
records the same and needs no division: on whole numbers it is exact, so what is tied stays tied wherever the
origin is put and whatever the order of the attributes.

A block of distances is computed attribute by attribute, which the compiler turns into vector instructions
without changing the order in which one record's terms are added. Whether anything in a block matters is
one comparison and one integer addition a record, which vectorize too; few blocks need a closer look.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.kernels.machine_code.jit import inlined, jit
from microagg_core.kernels.tools.sorting import sort_numbers, stable_order
from microagg_core.kernels.values import Total, Values, scaled_distances, squared_distances, total_of_values


@jit
def weigh_nearest(
    points: Values, weights: Ints, asked: Floats, first: Ints, last: Ints, own: Ints, same: float
) -> tuple[Bools, Ints]:
    """Say whether a record's own point is one of those nearest to it, and what these weigh together.

    Of the ``points``, a record with one of the (m, p) values ``asked`` might be those from ``first`` to ``last`` - 1,
    and is ``own``. Distances are equal that differ by no more than ``same``, or by no more than this share.

    >>> points, weights = Values(np.array([[0.0, 2.0, 9.0]]), np.zeros(0)), np.array([3, 4, 5])
    >>> first, last, own = np.array([0, 1]), np.array([3, 3]), np.array([0, 2])
    >>> hit, weight = weigh_nearest(points, weights, np.array([[1.0], [1.0]]), first, last, own, 1e-9)
    >>> hit.tolist(), weight.tolist()
    ([True, False], [7, 4])
    """
    m, hit, weight = own.shape[0], np.empty(own.shape[0], np.bool_), np.zeros(own.shape[0], np.int64)
    squares, near = np.empty(BLOCK), np.empty(points.X.shape[1] // BLOCK + 1)
    for i in range(m):
        squared_distances(points, own[i], asked[i], squares[:1])
        own_square = squares[0]
        limit = _tied_up_to(points, asked[i], first[i], last[i], own_square, same, squares, near)
        hit[i] = own_square <= limit
        for start in range(first[i], last[i], BLOCK):
            if near[(start - first[i]) // BLOCK] <= limit:
                some = squares[: min(BLOCK, last[i] - start)]
                squared_distances(points, start, asked[i], some)
                for j in range(some.shape[0]):
                    if some[j] <= limit:
                        weight[i] += weights[start + j]
    return hit, weight


@jit
def _tied_up_to(
    points: Values, value: Floats, first: int, last: int, least: float, same: float, squares: Floats, near: Floats
) -> float:
    """Compute up to which squared distance points are nearest, if the least that is known is one of theirs.

    Into ``near`` goes the least one of each block; infinity, where that is beyond what was the limit by then.
    """
    limit = (np.sqrt(least) * (1.0 + same) + same) ** 2
    for start in range(first, last, BLOCK):
        some = squares[: min(BLOCK, last - start)]
        squared_distances(points, start, value, some)
        n_near = 0
        for j in range(some.shape[0]):
            n_near += some[j] <= limit
        least_here = np.inf
        if n_near > 0:
            for j in range(some.shape[0]):
                least_here = min(least_here, some[j])
        near[(start - first) // BLOCK] = least_here
        if least_here < least:
            least = least_here
            limit = (np.sqrt(least) * (1.0 + same) + same) ** 2
    return float(limit)


BLOCK = 512


@inlined
def _update(distances: Floats, ids: Ints, start: int, best: int, best_distance: float) -> tuple[int, float]:
    """Update the column and the distance of the farthest record with those of a block."""
    reached = 0
    for i in range(distances.shape[0]):
        reached += distances[i] >= best_distance
    if reached > 0:
        for i in range(distances.shape[0]):
            d = distances[i]
            if d > best_distance or (d == best_distance and ids[start + i] < ids[best]):
                best, best_distance = start + i, d
    return best, best_distance


@jit
def farthest(values: Values, ids: Ints, m: int, point: Floats) -> int:
    """Find the column of the record that is farthest from a record's values."""
    block = np.empty(BLOCK)
    best, best_distance = -1, -1.0
    for start in range(0, m, BLOCK):
        distances = block[: min(BLOCK, m - start)]
        squared_distances(values, start, point, distances)
        best, best_distance = _update(distances, ids, start, best, best_distance)
    return best


@jit
def farthest_from_total(values: Values, ids: Ints, m: int, total: Total) -> int:
    """Find the column of the record, of the m that remain, that is farthest from their centroid."""
    block = np.empty(BLOCK)
    best, best_distance = -1, -1.0
    for start in range(0, m, BLOCK):
        distances = block[: min(BLOCK, m - start)]
        scaled_distances(values, start, float(m), total, distances)
        best, best_distance = _update(distances, ids, start, best, best_distance)
    return best


@jit
def outside_in(values: Values) -> Ints:
    """Order record numbers by falling distance from the centroid of the file; equal ones by rising number."""
    n = values.X.shape[1]
    distances = np.empty(n)
    scaled_distances(values, 0, float(n), total_of_values(values), distances)
    return stable_order(-distances)


@jit
def least(values: Floats, ids: Ints, m: int) -> int:
    """Find the column of the least of the first m values, one a column."""
    best = 0
    for start in range(0, m, BLOCK):
        part = values[start : min(start + BLOCK, m)]
        reached = 0
        for i in range(part.shape[0]):
            reached += part[i] <= values[best]
        if reached == 0:
            continue
        for i in range(part.shape[0]):
            if part[i] < values[best] or (part[i] == values[best] and ids[start + i] < ids[best]):
                best = start + i
    return best


@jit
def _insert(near: Floats, columns: Ints, ids: Ints, count: int, d: float, column: int) -> None:
    """Put a record into the sorted list of the nearest; the last of a full list falls out."""
    i = min(count, near.shape[0] - 1)
    while i > 0 and (near[i - 1] > d or (near[i - 1] == d and ids[columns[i - 1]] > ids[column])):
        near[i], columns[i] = near[i - 1], columns[i - 1]
        i -= 1
    near[i], columns[i] = d, column


@jit
def nearest(values: Values, ids: Ints, m: int, point: Floats, count: int) -> Ints:
    """Find the columns of the ``count`` (at most m) records nearest to ``point``, in ascending order of column."""
    block = np.empty(BLOCK)
    near = np.full(count, np.inf)
    columns = np.empty(count, np.int64)
    found = 0
    for start in range(0, m if count else 0, BLOCK):
        distances = block[: min(BLOCK, m - start)]
        squared_distances(values, start, point, distances)
        limit = near[count - 1]
        reached = 0
        for i in range(distances.shape[0]):
            reached += distances[i] <= limit
        if reached == 0:
            continue
        for i in range(distances.shape[0]):
            d, column = distances[i], start + i
            if found < count:
                _insert(near, columns, ids, found, d, column)
                found += 1
            elif d < near[count - 1] or (d == near[count - 1] and ids[column] < ids[columns[count - 1]]):
                _insert(near, columns, ids, count, d, column)
    sort_numbers(columns)
    return columns


@jit
def exchange(X: Floats, ids: Ints, where: Ints, a: int, b: int) -> None:
    for j in range(X.shape[0]):
        X[j, a], X[j, b] = X[j, b], X[j, a]
    ids[a], ids[b] = ids[b], ids[a]
    where[ids[a]], where[ids[b]] = a, b


@jit
def gather(X: Floats, ids: Ints, where: Ints, m: int, columns: Ints) -> int:
    """Move the columns, in ascending order, behind the others of the first m; returns how many remain before them."""
    for i in range(columns.shape[0] - 1, -1, -1):
        m -= 1
        exchange(X, ids, where, columns[i], m)
    return m


@jit
def take_group(values: Values, ids: Ints, where: Ints, m: int, column: int, k: int) -> int:
    """Move a record and its k-1 nearest behind those that remain; returns how many remain then.

    The group stands in the k columns after the remaining ones, the record itself last.
    """
    X = values.X
    exchange(X, ids, where, column, m - 1)
    return gather(X, ids, where, m - 1, nearest(values, ids, m - 1, X[:, m - 1].copy(), k - 1))
