"""MDAV*, V-MDAV and, with gamma 0, MDAV+ as kernels: groups of variable size, made from the outside in.

A group's centroid is its total over its size; distances are taken of multiples, so that nothing is divided before
they are compared and what is tied on whole numbers stays tied.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.remaining import (
    BLOCK,
    distance,
    exchange,
    gather,
    least,
    nearest,
    outside_in,
    squared_distances,
    take_group,
)
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.tools.sums import add, add_record


@jit
def totals_of_groups(X: Floats, ids: Ints, labels: Ints, first: int, n_groups: int) -> tuple[Floats, Ints, Ints]:
    """Add up each group from ``first`` on: its total, one a column, its size, and its lowest record number.

    ``ids`` holds the record in each column of X; records with a lower label, or none (-1), are left out.
    """
    totals = np.zeros((X.shape[0], n_groups - first))
    sizes = np.zeros(n_groups - first, np.int64)
    lowest = np.full(n_groups - first, X.shape[1])
    for column in range(X.shape[1]):
        group = labels[ids[column]] - first
        if labels[ids[column]] >= 0 and group >= 0:
            sizes[group] += 1
            lowest[group] = min(lowest[group], ids[column])
    low = np.empty(n_groups - first)
    for j in range(X.shape[0]):
        row, high = X[j], totals[j]
        low[:] = 0.0
        for column in range(X.shape[1]):
            group = labels[ids[column]] - first
            if labels[ids[column]] >= 0 and group >= 0:
                high[group], low[group] = add(high[group], low[group], row[column])
    return totals, sizes, lowest


@jit
def closest(point: Floats, factor: float, totals: Floats, sizes: Ints, lowest: Ints, joins: bool) -> tuple[int, float]:
    """Find the group whose centroid is closest to ``point / factor``, and |size x point - factor x total| squared.

    With ``joins``, closest is the group whose sum of squares grows least when a record at the point joins it, which
    is size / (size + 1) times the squared distance. Ties go to the group with the lowest record number.
    """
    squares = np.zeros(sizes.shape[0])
    for j in range(point.shape[0]):
        row, c = totals[j], point[j]
        for group in range(sizes.shape[0]):
            squares[group] += (sizes[group] * c - factor * row[group]) ** 2
    best, best_distance = -1, np.inf
    for group in range(sizes.shape[0]):
        size = float(sizes[group])
        d = squares[group] / (size * (size + 1.0 if joins else size))
        if d < best_distance or (d == best_distance and lowest[group] < lowest[best]):
            best, best_distance = group, d
    return best, squares[best]


@jit
def join_closest(X: Floats, ids: Ints, labels: Ints, n_groups: int) -> None:
    """Give each record without a label (-1) to the group whose centroid is closest, as it was before any joined."""
    left_over = np.flatnonzero(labels[ids] < 0)
    if left_over.shape[0] == 0:
        return
    totals, sizes, lowest = totals_of_groups(X, ids, labels, 0, n_groups)
    for column in left_over:
        labels[ids[column]] = closest(X[:, column].copy(), 1.0, totals, sizes, lowest, False)[0]


@jit
def _pair_sum(X: Floats, ids: Ints, columns: Ints) -> float:
    """Add up the squared distances between all pairs of the columns, in the order of record numbers."""
    ordered = columns[stable_order(ids[columns])]
    total = 0.0
    for a in range(ordered.shape[0]):
        for b in range(a + 1, ordered.shape[0]):
            total += distance(X, ordered[a], ordered[b])
    return total


@jit
def _nearest_of(X: Floats, ids: Ints, columns: Ints, column: int) -> int:
    best, best_distance = int(columns[0]), np.inf
    for candidate in columns:
        d = distance(X, candidate, column)
        if d < best_distance or (d == best_distance and ids[candidate] < ids[best]):
            best, best_distance = int(candidate), d
    return best


@jit
def _starts_group(X: Floats, ids: Ints, m: int, k: int, near: Ints, growth: float, weight: float) -> bool:
    """Say whether the record in column m - 1 starts a group with the ``near`` ones; else it joins one that is closed.

    That one grows by ``growth / weight``, and leaves the record's nearest, y, to start a group of its own.
    """
    # Means a record, of k records placed and of k + 1, both times k x k x (k + 1) x weight.
    started = _pair_sum(X, ids, np.append(near, m - 1)) * (k + 1) * weight
    joined = float(k) * k * growth
    if started <= joined:
        return True
    y = _nearest_of(X, ids, near, m - 1)
    around_y = nearest(X, ids, m - 1, X[:, y].copy(), k)
    return bool(started <= joined + k * _pair_sum(X, ids, around_y) * weight)


@jit
def _destination(X: Floats, ids: Ints, m: int, k: int, near: Ints, totals: Floats, sizes: Ints, lowest: Ints) -> int:
    """Choose the group of the record in column m - 1; one more than there are where it starts its own."""
    n_groups: int = sizes.shape[0]
    if n_groups == 0 or m == k:
        return n_groups
    group, growth = closest(X[:, m - 1].copy(), 1.0, totals, sizes, lowest, True)
    size = float(sizes[group])
    starts = m > k and _starts_group(X, ids, m, k, near, growth, size * (size + 1.0))
    return n_groups if starts else group


@jit
def mdav_star(X: Floats, k: int) -> Ints:
    """Return group numbers of the n records of X, a (p, n) array whose columns are rearranged; n >= k.

    Both ways are weighed by what they add to the sum of squares for each record that they place. A group's sum of
    squares is that over its pairs divided by its size, and nothing is divided before the comparison, so that on whole
    numbers what is tied stays tied.
    """
    n = X.shape[1]
    labels = np.full(n, -1)
    ids, where = np.arange(n), np.arange(n)
    totals = np.zeros((2, X.shape[0], n // k))
    sizes, lowest = np.zeros(n // k, np.int64), np.full(n // k, n)
    m, n_groups = n, 0
    for record in outside_in(X):
        if labels[record] >= 0:
            continue
        exchange(X, ids, where, where[record], m - 1)
        near = nearest(X, ids, m - 1, X[:, m - 1].copy(), k - 1 if m >= k else 0)
        group = _destination(X, ids, m, k, near, totals[0], sizes[:n_groups], lowest)
        remaining = gather(X, ids, where, m - 1, near) if group == n_groups else m - 1
        n_groups = max(n_groups, group + 1)
        for column in range(remaining, m):
            labels[ids[column]] = group
            add_record(totals[:, :, group], X, column, 1.0)
            sizes[group] += 1
            lowest[group] = min(lowest[group], ids[column])
        m = remaining
    return labels


@jit
def _lower(near: Floats, start: int, distances: Floats) -> None:
    """Lower ``near``, from ``start`` on, to the distances where these are less."""
    part = near[start : start + distances.shape[0]]
    for i in range(part.shape[0]):
        part[i] = distances[i] if distances[i] < part[i] else part[i]


@jit
def _distances_to_group(X: Floats, m: int, size: int, near: Floats) -> None:
    """Write, for each record that remains, the squared distance to the nearest of the group behind them."""
    block = np.empty(BLOCK)
    members = np.ascontiguousarray(X[:, m : m + size].T)
    near[:m] = np.inf
    for start in range(0, m, BLOCK):
        distances = block[: min(BLOCK, m - start)]
        for member in range(size):
            squared_distances(X, start, 1.0, members[member], distances)
            _lower(near, start, distances)


@jit
def _gap(X: Floats, m: int, near: Floats) -> float:
    """Find the least squared distance from the record in column m to those that remain, infinite if none does.

    ``near`` is lowered to what it is once that record belongs to the group.
    """
    block = np.empty(BLOCK)
    point = X[:, m].copy()
    least = np.inf
    for start in range(0, m, BLOCK):
        distances = block[: min(BLOCK, m - start)]
        squared_distances(X, start, 1.0, point, distances)
        _lower(near, start, distances)
        reached = 0
        for i in range(distances.shape[0]):
            reached += distances[i] < least
        if reached > 0:
            least = min(least, distances.min())
    return least


@jit
def _extend(X: Floats, ids: Ints, where: Ints, m: int, k: int, gamma: float, near: Floats) -> int:
    """Let the group behind the remaining records grow, up to 2k-1; returns how many records remain."""
    _distances_to_group(X, m, k, near)
    for _ in range(k - 1):
        if m == 0:
            break
        column = least(near, ids, m)
        d_in = near[column]
        exchange(X, ids, where, column, m - 1)
        near[column] = near[m - 1]
        if not d_in < gamma * _gap(X, m - 1, near):
            break
        m -= 1
    return m


@jit
def v_mdav(X: Floats, k: int, gamma: float) -> Ints:
    """Return group numbers of the n records of X, a (p, n) array whose columns are rearranged; n >= k."""
    n = X.shape[1]
    labels = np.full(n, -1)
    ids, where = np.arange(n), np.arange(n)
    near = np.empty(n if gamma > 0 else 0)
    m, n_groups = n, 0
    for record in outside_in(X):
        if m < k:
            break
        if labels[record] >= 0:
            continue
        remaining = take_group(X, ids, where, m, where[record], k)
        if gamma > 0:
            remaining = _extend(X, ids, where, remaining, k, gamma, near)
        labels[ids[remaining:m]] = n_groups
        m, n_groups = remaining, n_groups + 1
    join_closest(X, ids, labels, n_groups)
    return labels
