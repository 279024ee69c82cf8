"""MDAV and its kin, and MD, as kernels: groups around the records that are farthest out."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.remaining import exchange, farthest, farthest_from_total, least, take_group
from microagg_core.kernels.scan.variable_groups import groups_of, nearer_to_last
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.values import (
    Total,
    Values,
    add_to_total,
    distance,
    squared_distances,
    total_of_values,
)


@jit
def _take(
    values: Values, ids: Ints, where: Ints, m: int, column: int, k: int, total: Total, labels: Ints, label: int
) -> int:
    """Group a record with its k-1 nearest and take them out of the total; returns how many records remain.

    The record leaves the total first, the others by number, so that rounding does not depend on the columns.
    """
    remaining = take_group(values, ids, where, m, column, k)
    labels[ids[remaining:m]] = label
    add_to_total(total, values, m - 1, -1.0)
    for i in stable_order(ids[remaining : m - 1]):
        add_to_total(total, values, remaining + i, -1.0)
    return remaining


@jit
def place_rest(values: Values, ids: Ints, labels: Ints, m: int, k: int, n_groups: int) -> None:
    """Label the m records that have none (-1): a group of their own, or, if fewer than k, the nearer of the last two.

    ``ids`` holds the record in each column.
    """
    labels[labels < 0] = n_groups
    if 0 < m < k:
        groups = groups_of(values, ids, labels, n_groups - 2, n_groups + 1)
        nearer = nearer_to_last(values, ids, labels, groups)
        labels[labels == n_groups] = n_groups - 2 + nearer


@jit
def peel(values: Values, k: int, two_from: int) -> Ints:
    """Return group numbers of the n records, whose columns are rearranged; n >= k.

    A round makes two groups, the second around the record farthest from that of the first, while ``two_from`` records
    remain, and one while 2k do.
    """
    X, n = values.X, values.X.shape[1]
    labels = np.full(n, -1)
    ids, where = np.arange(n), np.arange(n)
    total = total_of_values(values)
    m, n_groups = n, 0
    while m >= 2 * k:
        column = farthest_from_total(values, ids, m, total)
        point = X[:, column].copy()
        makes_two = m >= two_from
        m = _take(values, ids, where, m, column, k, total, labels, n_groups)
        n_groups += 1
        if makes_two:
            column = farthest(values, ids, m, point)
            m = _take(values, ids, where, m, column, k, total, labels, n_groups)
            n_groups += 1
    place_rest(values, ids, labels, m, k, n_groups)
    return labels


#: More than rounding takes from a distance: a share of it, and what is lost where squares vanish.
_SHARE, _LOST = 1.0 + 1e-9, 2.0**-500


@jit
def _radii(values: Values, m: int) -> Floats:
    """Bound the distances of the first m columns from their middle, which has the first code of all, from above."""
    X = values.X
    middle, squares = np.zeros(X.shape[0]), np.empty(m)
    for j in range(X.shape[0] - values.costs.shape[0]):
        middle[j] = X[j, :m].sum() / m
    squared_distances(values, 0, middle, squares)
    return np.sqrt(squares) * _SHARE + _LOST


@jit
def _candidates(values: Values, ids: Ints, radii: Floats, enough: float, bounds: Floats) -> tuple[Values, Ints, Floats]:
    """List the records whose bound is enough: their columns side by side, their numbers, and their radii."""
    columns = np.empty(radii.shape[0], np.int64)
    n_columns = 0
    for column in range(radii.shape[0]):
        if bounds[ids[column]] >= enough:
            columns[n_columns] = column
            n_columns += 1
    X = values.X
    near, numbers, far = np.empty((X.shape[0], n_columns)), np.empty(n_columns, np.int64), np.empty(n_columns)
    for i in range(n_columns):
        numbers[i], far[i] = ids[columns[i]], radii[columns[i]]
    for j in range(X.shape[0]):
        for i in range(n_columns):
            near[j, i] = X[j, columns[i]]
    return Values(near, values.costs), numbers, far


@jit
def _other(ids: Ints, top: int) -> int:
    """Return the column with the lowest record number, but for one."""
    best = 1 if top == 0 else 0
    for column in range(ids.shape[0]):
        if column != top and ids[column] < ids[best]:
            best = column
    return best


@jit
def _look(near: Values, ids: Ints, top: int, enough: float, bounds: Floats, partners: Ints) -> float:
    """Find the farthest partner of one candidate; returns its squared distance, or -1 where that is not enough."""
    found = farthest(near, ids, ids.shape[0], near.X[:, top].copy())
    if found == top:  # all are equal
        found = _other(ids, top)
    d = distance(near, top, found)
    bounds[ids[top]] = max(d, enough)
    partners[ids[top]] = ids[found] if d >= enough else -1
    return d if d >= enough else -1.0


@jit
def _first_tied(
    near: Values, ids: Ints, radii: Floats, first: int, second: int, bounds: Floats, partners: Ints, where: Ints, m: int
) -> tuple[int, int]:
    """Find the lowest pair of record numbers of all pairs that are as far apart as the first and the second.

    Of the seeds, the first has the lowest number, and the second is its lowest partner. So only a record that is no
    seed may have a lower number; where there may be one, all seeds are looked at.
    """
    d = bounds[first]
    half, way, largest = 0.5 * np.sqrt(d), np.sqrt(d), radii.max()
    low, high = min(first, second), max(first, second)
    may_be_lower = 0
    for i in range(ids.shape[0]):
        may_be_lower += ids[i] < low and bounds[ids[i]] >= d and radii[i] < half and radii[i] + largest >= way
    for i in range(ids.shape[0] if may_be_lower else 0):
        record = ids[i]
        if radii[i] < half or bounds[record] < d:
            continue
        is_stale = partners[record] < 0 or where[partners[record]] >= m
        if is_stale and _look(near, ids, i, d, bounds, partners) < d:
            continue
        lower, higher = min(record, partners[record]), max(record, partners[record])
        if lower < low or (lower == low and higher < high):
            low, high = lower, higher
    return low, high


@jit
def _farthest_pair(values: Values, ids: Ints, where: Ints, m: int, bounds: Floats, partners: Ints) -> tuple[int, int]:
    """Find the farthest pair, the lower record number first; of several pairs, the lowest."""
    radii = _radii(values, m)
    a, largest = int(np.argmax(radii)), radii.max()
    b = farthest(values, ids, m, values.X[:, a].copy())
    enough = distance(values, a, b)
    for column in range(m):
        way = (radii[column] + largest) ** 2
        if way < bounds[ids[column]]:
            bounds[ids[column]], partners[ids[column]] = way, -1
    near, numbers, radii = _candidates(values, ids, radii, enough, bounds)
    # Seeds only; the least of what is negative is the farthest, and ties go to the lower record number.
    far = np.ones(numbers.shape[0])
    for i in range(numbers.shape[0]):
        if 2.0 * radii[i] >= np.sqrt(enough):
            far[i] = -bounds[numbers[i]]
    while True:
        top = least(far, numbers, numbers.shape[0])
        record, partner = numbers[top], partners[numbers[top]]
        if partner >= 0 and where[partner] < m:
            return _first_tied(near, numbers, radii, record, partner, bounds, partners, where, m)
        far[top] = -_look(near, numbers, top, enough, bounds, partners)


@jit
def md(values: Values, k: int) -> Ints:
    """Return group numbers of the n records, whose columns are rearranged; n >= k.

    The farthest pair is found without looking at all pairs. Each record has a bound on the distance to its farthest
    partner among those that remain. It was exact when the record was last looked at, and can only fall as records
    leave; so it is still exact while that partner remains, and where the record with the largest bound has its partner,
    the two are the farthest pair.

    Two more things save looks, both by way of the middle of what remains. No record is farther from any other than the
    way there and to the record farthest from it; a record for which this is less than the distance of some known pair
    needs no look. And of the farthest pair, at least one is as far from the middle as half its distance: only such
    records, the seeds, have to be looked at.
    """
    X, n = values.X, values.X.shape[1]
    labels = np.full(n, -1)
    ids, where = np.arange(n), np.arange(n)
    bounds, partners = np.full(n, np.inf), np.full(n, -1)
    m, n_groups = n, 0
    while m >= 2 * k:
        first, second = _farthest_pair(values, ids, where, m, bounds, partners)
        # The second stands aside, however near it is, while the first takes its group.
        exchange(X, ids, where, where[second], m - 1)
        remaining = take_group(values, ids, where, m - 1, where[first], k)
        exchange(X, ids, where, m - 1, remaining)
        labels[ids[remaining + 1 : m]] = n_groups
        m = take_group(values, ids, where, remaining + 1, remaining, k)
        labels[ids[m : m + k]] = n_groups + 1
        n_groups += 2
    last = n_groups
    if 0 < m < k:
        labels[ids[:m]] = n_groups
        last = nearer_to_last(values, ids, labels, groups_of(values, ids, labels, 0, n_groups + 1))
    labels[ids[:m]] = last
    return labels


@jit
def _bounds(labels: Ints) -> tuple[Ints, Ints]:
    """List records in the order of their groups, then of their numbers, and where each group starts (and the end)."""
    return stable_order(labels), np.append(0, np.cumsum(np.bincount(labels)))


@jit
def _records_of(values: Values, members: Ints) -> Values:
    X = values.X
    part = np.empty((X.shape[0], members.shape[0]))
    for j in range(X.shape[0]):
        part[j] = X[j][members]
    return Values(part, values.costs)


@jit
def halve_groups(values: Values, labels: Ints, k: int) -> None:
    """In each group of 2k to 3k-1 records, make a group of its own of the record farthest from the centroid and its
    k-1 nearest; the labels 0, 1, ... are changed in place.
    """
    members, starts = _bounds(labels)
    n_groups = starts.shape[0] - 1
    for group in range(starts.shape[0] - 1):
        inside = members[starts[group] : starts[group + 1]]
        size = inside.shape[0]
        if size < 2 * k:
            continue
        part = _records_of(values, inside)
        ids, where = np.arange(size), np.arange(size)
        column = farthest_from_total(part, ids, size, total_of_values(part))
        stay = take_group(part, ids, where, size, column, k)
        labels[inside[ids[stay:]]] = n_groups
        n_groups += 1


@jit
def group_by_md(values: Values, labels: Ints, k: int) -> None:
    """Partition each group of 2k records and more by MD; the labels 0, 1, ... are changed in place."""
    members, starts = _bounds(labels)
    n_groups = starts.shape[0] - 1
    for group in range(starts.shape[0] - 1):
        inside = members[starts[group] : starts[group + 1]]
        if inside.shape[0] >= 2 * k:
            parts = md(_records_of(values, inside), k)
            labels[inside] = n_groups + parts
            n_groups += parts.max() + 1
