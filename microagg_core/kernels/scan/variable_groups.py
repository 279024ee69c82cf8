"""MDAV*, V-MDAV and, with gamma 0, MDAV+ as kernels: groups of variable size, made from the outside in.

A group's centroid is its total over its size; distances are taken of multiples, so that nothing is divided before
they are compared and what is tied on whole numbers stays tied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.remaining import (
    BLOCK,
    exchange,
    gather,
    least,
    nearest,
    outside_in,
    take_group,
)
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.tools.sums import add, add_record
from microagg_core.kernels.values import Values, alike, distance, squared_distances


class Groups(NamedTuple):
    """Groups of records, or rows of such arrays of which the first so many are in use."""

    totals: Floats  #: (numbers, groups), high parts
    sizes: Ints
    lowest: Ints  #: lowest record number
    within: Floats  #: what the codes have alike, over all ordered pairs of records, each with itself, too


@jit
def groups_of(values: Values, ids: Ints, labels: Ints, first: int, n_groups: int) -> Groups:
    """Add up each group from ``first`` on.

    ``ids`` holds the record in each column; records with a lower label, or none (-1), are left out.
    """
    X, numbers = values.X, values.X.shape[0] - values.costs.shape[0]
    totals = np.zeros((numbers, n_groups - first))
    sizes = np.zeros(n_groups - first, np.int64)
    lowest = np.full(n_groups - first, X.shape[1])
    for column in range(X.shape[1]):
        group = labels[ids[column]] - first
        if labels[ids[column]] >= 0 and group >= 0:
            sizes[group] += 1
            lowest[group] = min(lowest[group], ids[column])
    low = np.empty(n_groups - first)
    for j in range(numbers):
        row, high = X[j], totals[j]
        low[:] = 0.0
        for column in range(X.shape[1]):
            group = labels[ids[column]] - first
            if labels[ids[column]] >= 0 and group >= 0:
                high[group], low[group] = add(high[group], low[group], row[column])
    return Groups(totals, sizes, lowest, _alike_within(values, ids, labels, first, sizes))


@jit
def _alike_within(values: Values, ids: Ints, labels: Ints, first: int, sizes: Ints) -> Floats:
    """Add up what codes have alike over all ordered pairs of each group's records."""
    within = np.zeros(sizes.shape[0])
    if values.costs.shape[0] == 0:
        return within
    columns = stable_order(labels[ids])
    start = columns.shape[0] - sizes.sum()
    for group in range(sizes.shape[0]):
        for a in range(start, start + sizes[group]):
            point = values.X[:, columns[a]]
            within[group] += values.costs.sum()
            for b in range(start, a):
                within[group] += 2.0 * alike(values, columns[b], point)
        start += sizes[group]
    return within


@jit
def _alike_to_groups(values: Values, ids: Ints, labels: Ints, first: int, point: Floats, out: Floats) -> None:
    """Add to ``out`` what a record's codes have alike with those of each group from ``first`` on."""
    for column in range(values.X.shape[1] if values.costs.shape[0] > 0 else 0):
        group = labels[ids[column]] - first
        if 0 <= group < out.shape[0] and labels[ids[column]] >= 0:
            out[group] += alike(values, column, point)


@jit
def closest(point: Floats, factor: float, own: float, shared: Floats, groups: Groups, joins: bool) -> tuple[int, float]:
    """Find the group whose centroid is closest to ``point / factor``, and |size x point - factor x total| squared.

    ``own`` is what the point's codes have alike among themselves, ``shared`` what they have with those of each group,
    which are as many as that. With ``joins``, closest is the group whose sum of squares grows least when a record at
    the point joins it, which is size / (size + 1) times the squared distance. Ties go to the group with the lowest
    record number.
    """
    totals, sizes, lowest, within = groups
    squares = np.zeros(shared.shape[0])
    for j in range(totals.shape[0]):
        row, c = totals[j], point[j]
        for group in range(squares.shape[0]):
            squares[group] += (sizes[group] * c - factor * row[group]) ** 2
    best, best_distance = -1, np.inf
    for group in range(squares.shape[0]):
        size = float(sizes[group])
        apart = size * size * own - 2.0 * size * factor * shared[group] + factor * factor * within[group]
        squares[group] += 0.5 * apart
        d = squares[group] / (size * (size + 1.0 if joins else size))
        if d < best_distance or (d == best_distance and lowest[group] < lowest[best]):
            best, best_distance = group, d
    return best, squares[best]


@jit
def nearer_to_last(values: Values, ids: Ints, labels: Ints, groups: Groups) -> int:
    """Find the group whose centroid is closest to that of the last, which is of the highest label."""
    last = groups.sizes.shape[0] - 1
    shared, first = np.zeros(last), labels.max() - last
    for column in range(values.X.shape[1] if values.costs.shape[0] > 0 else 0):
        if labels[ids[column]] == labels.max():
            _alike_to_groups(values, ids, labels, first, values.X[:, column], shared)
    rest = groups.totals[:, last].copy()
    return int(closest(rest, float(groups.sizes[last]), groups.within[last], shared, groups, False)[0])


@jit
def join_closest(values: Values, ids: Ints, labels: Ints, n_groups: int) -> None:
    """Give each record without a label (-1) to the group whose centroid is closest, as it was before any joined."""
    left_over = np.flatnonzero(labels[ids] < 0)
    if left_over.shape[0] == 0:
        return
    groups, into = groups_of(values, ids, labels, 0, n_groups), np.empty(left_over.shape[0], np.int64)
    for i in range(left_over.shape[0]):
        point, shared = values.X[:, left_over[i]].copy(), np.zeros(n_groups)
        _alike_to_groups(values, ids, labels, 0, point, shared)
        into[i] = closest(point, 1.0, values.costs.sum(), shared, groups, False)[0]
    for i in range(left_over.shape[0]):
        labels[ids[left_over[i]]] = into[i]


@jit
def _pair_sum(values: Values, ids: Ints, columns: Ints) -> float:
    """Add up the squared distances between all pairs of the columns, in the order of record numbers."""
    ordered = columns[stable_order(ids[columns])]
    total = 0.0
    for a in range(ordered.shape[0]):
        for b in range(a + 1, ordered.shape[0]):
            total += distance(values, ordered[a], ordered[b])
    return total


@jit
def _nearest_of(values: Values, ids: Ints, columns: Ints, column: int) -> int:
    best, best_distance = int(columns[0]), np.inf
    for candidate in columns:
        d = distance(values, candidate, column)
        if d < best_distance or (d == best_distance and ids[candidate] < ids[best]):
            best, best_distance = int(candidate), d
    return best


@jit
def _starts_group(values: Values, ids: Ints, m: int, k: int, near: Ints, growth: float, weight: float) -> bool:
    """Say whether the record in column m - 1 starts a group with the ``near`` ones; else it joins one that is closed.

    That one grows by ``growth / weight``, and leaves the record's nearest, y, to start a group of its own.
    """
    # Means a record, of k records placed and of k + 1, both times k x k x (k + 1) x weight.
    started = _pair_sum(values, ids, np.append(near, m - 1)) * (k + 1) * weight
    joined = float(k) * k * growth
    if started <= joined:
        return True
    y = _nearest_of(values, ids, near, m - 1)
    around_y = nearest(values, ids, m - 1, values.X[:, y].copy(), k)
    return bool(started <= joined + k * _pair_sum(values, ids, around_y) * weight)


@jit
def _destination(
    values: Values, ids: Ints, m: int, k: int, near: Ints, labels: Ints, groups: Groups, n_groups: int
) -> int:
    """Choose the group of the record in column m - 1; one more than there are where it starts its own."""
    if n_groups == 0 or m == k:
        return n_groups
    point, shared = values.X[:, m - 1].copy(), np.zeros(n_groups)
    _alike_to_groups(values, ids, labels, 0, point, shared)
    group, growth = closest(point, 1.0, values.costs.sum(), shared, groups, True)
    size = float(groups.sizes[group])
    starts = m > k and _starts_group(values, ids, m, k, near, growth, size * (size + 1.0))
    return n_groups if starts else group


@jit
def _join(values: Values, ids: Ints, labels: Ints, groups: Groups, column: int, group: int) -> None:
    """Put a record into a group, but for its numbers."""
    shared = np.zeros(group + 1)
    _alike_to_groups(values, ids, labels, 0, values.X[:, column], shared)
    groups.within[group] += values.costs.sum() + 2.0 * shared[group]
    labels[ids[column]] = group
    groups.sizes[group] += 1
    groups.lowest[group] = min(groups.lowest[group], ids[column])


@jit
def mdav_star(values: Values, k: int) -> Ints:
    """Return group numbers of the n records, whose columns are rearranged; n >= k.

    Both ways are weighed by what they add to the sum of squares for each record that they place. A group's sum of
    squares is that over its pairs divided by its size, and nothing is divided before the comparison, so that on whole
    numbers what is tied stays tied.
    """
    X, n = values.X, values.X.shape[1]
    labels = np.full(n, -1)
    ids, where = np.arange(n), np.arange(n)
    totals = np.zeros((2, X.shape[0] - values.costs.shape[0], n // k))
    groups = Groups(totals[0], np.zeros(n // k, np.int64), np.full(n // k, n), np.zeros(n // k))
    m, n_groups = n, 0
    for record in outside_in(values):
        if labels[record] >= 0:
            continue
        exchange(X, ids, where, where[record], m - 1)
        near = nearest(values, ids, m - 1, X[:, m - 1].copy(), k - 1 if m >= k else 0)
        group = _destination(values, ids, m, k, near, labels, groups, n_groups)
        remaining = gather(X, ids, where, m - 1, near) if group == n_groups else m - 1
        n_groups = max(n_groups, group + 1)
        for column in range(remaining, m):
            _join(values, ids, labels, groups, column, group)
            add_record(totals[:, :, group], X, column, 1.0)
        m = remaining
    return labels


@jit
def _lower(near: Floats, start: int, distances: Floats) -> None:
    """Lower ``near``, from ``start`` on, to the distances where these are less."""
    part = near[start : start + distances.shape[0]]
    for i in range(part.shape[0]):
        part[i] = distances[i] if distances[i] < part[i] else part[i]


@jit
def _distances_to_group(values: Values, m: int, size: int, near: Floats) -> None:
    """Write, for each record that remains, the squared distance to the nearest of the group behind them."""
    block = np.empty(BLOCK)
    members = np.ascontiguousarray(values.X[:, m : m + size].T)
    near[:m] = np.inf
    for start in range(0, m, BLOCK):
        distances = block[: min(BLOCK, m - start)]
        for member in range(size):
            squared_distances(values, start, members[member], distances)
            _lower(near, start, distances)


@jit
def _gap(values: Values, m: int, near: Floats) -> float:
    """Find the least squared distance from the record in column m to those that remain, infinite if none does.

    ``near`` is lowered to what it is once that record belongs to the group.
    """
    block = np.empty(BLOCK)
    point = values.X[:, m].copy()
    least = np.inf
    for start in range(0, m, BLOCK):
        distances = block[: min(BLOCK, m - start)]
        squared_distances(values, start, point, distances)
        _lower(near, start, distances)
        reached = 0
        for i in range(distances.shape[0]):
            reached += distances[i] < least
        if reached > 0:
            least = min(least, distances.min())
    return least


@jit
def _extend(values: Values, ids: Ints, where: Ints, m: int, k: int, gamma: float, near: Floats) -> int:
    """Let the group behind the remaining records grow, up to 2k-1; returns how many records remain."""
    _distances_to_group(values, m, k, near)
    for _ in range(k - 1):
        if m == 0:
            break
        column = least(near, ids, m)
        d_in = near[column]
        exchange(values.X, ids, where, column, m - 1)
        near[column] = near[m - 1]
        if not d_in < gamma * _gap(values, m - 1, near):
            break
        m -= 1
    return m


@jit
def v_mdav(values: Values, k: int, gamma: float) -> Ints:
    """Return group numbers of the n records, whose columns are rearranged; n >= k."""
    n = values.X.shape[1]
    labels = np.full(n, -1)
    ids, where = np.arange(n), np.arange(n)
    near = np.empty(n if gamma > 0 else 0)
    m, n_groups = n, 0
    for record in outside_in(values):
        if m < k:
            break
        if labels[record] >= 0:
            continue
        remaining = take_group(values, ids, where, m, where[record], k)
        if gamma > 0:
            remaining = _extend(values, ids, where, remaining, k, gamma, near)
        labels[ids[remaining:m]] = n_groups
        m, n_groups = remaining, n_groups + 1
    join_closest(values, ids, labels, n_groups)
    return labels
