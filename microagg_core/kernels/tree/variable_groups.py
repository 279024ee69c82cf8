"""MDAV*, V-MDAV and MDAV+ in close to linear time: the groups of :mod:`..scan.variable_groups`, to the last record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import inlined, jit, uncounted
from microagg_core.kernels.scan.remaining import outside_in
from microagg_core.kernels.scan.variable_groups import join_closest
from microagg_core.kernels.tools.sorting import sort_numbers
from microagg_core.kernels.tree.closed_groups import (
    ClosedGroups,
    add_member,
    cheapest_to_join,
    hold,
    new_closed_groups,
    new_group,
)
from microagg_core.kernels.tree.mdav import look_from, take_group
from microagg_core.kernels.tree.searches import NEAREST, Search, add_leaf, find_nearest, new_search
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, leaf_distances, new_tree, rebuild_if_sparse, remove
from microagg_core.kernels.values import Values, distance, total_of_values


class Draft(NamedTuple):
    """A group that may be made, and room for its records side by side."""

    members: Ints  #: (k), the record that it is made around, and its nearest by rising distance
    numbers: Ints  #: (k), those of the records whose pairs are summed, ascending
    rows: Floats  #: (k, p), their values


@uncounted
def _pair_sum(tree: Tree, draft: Draft, records: Ints) -> float:
    """Sum of the squared distances between all pairs of k records, in the order of record numbers."""
    numbers, rows, total = draft.numbers, draft.rows, 0.0
    for i in range(records.shape[0]):
        numbers[i] = records[i]
    sort_numbers(numbers)
    for i in range(records.shape[0]):
        for j in range(rows.shape[1]):
            rows[i, j] = tree.X[j, numbers[i]]
    values = Values(rows.T, tree.costs)
    for a in range(records.shape[0]):
        for b in range(a + 1, records.shape[0]):
            total += distance(values, a, b)
    return total


@uncounted
def _starts_group(tree: Tree, search: Search, draft: Draft, growth: float, weight: float) -> bool:
    """Say whether the first of the draft's members starts that group; else it joins one that is closed.

    That one grows by ``growth / weight``, and leaves the record's nearest, y, to start a group of its own.
    """
    k = draft.members.shape[0]
    # Means a record, of k records placed and of k + 1, both times k x k x (k + 1) x weight.
    started = _pair_sum(tree, draft, draft.members) * (k + 1) * weight
    joined = float(k) * k * growth
    if started <= joined:
        return True
    leaf = look_from(tree, search, draft.members[1])
    find_nearest(tree, search, leaf, k)
    return bool(started <= joined + k * _pair_sum(tree, draft, search.found[:k]) * weight)


@uncounted
def _slot_to_join(tree: Tree, search: Search, groups: ClosedGroups, draft: Draft, m: int) -> int:
    """Choose the group that the first draft member joins, -1 if it starts one; with it, m records were free."""
    k = draft.members.shape[0]
    if groups.state[2] == 0 or m == k:
        return -1
    slot, growth, weight = cheapest_to_join(groups, tree, search, draft.members[0])
    return -1 if m > k and _starts_group(tree, search, draft, growth, weight) else slot


@uncounted
def _place(tree: Tree, search: Search, groups: ClosedGroups, draft: Draft, labels: Ints, record: int) -> None:
    """Take a record out of the tree, and into a group of its own with its nearest, or into one that is closed."""
    m, k, members = tree.size[1], draft.members.shape[0], draft.members
    leaf = look_from(tree, search, record)
    members[0] = record
    remove(tree, members[:1])
    n_found = find_nearest(tree, search, leaf, k - 1 if m >= k else 0)
    for i in range(n_found):
        members[1 + i] = search.found[i]
    slot, placed = _slot_to_join(tree, search, groups, draft, m), 1
    if slot < 0:
        slot, placed = new_group(groups, record), k
        remove(tree, members[1:])
    for i in range(placed):
        labels[members[i]] = groups.labels[slot]
        add_member(groups, slot, tree.X, tree.costs, members[i])
    hold(groups, slot)


@jit
def mdav_star_tree(values: Values, k: int) -> Ints:
    """Return group numbers of the n records; n >= k."""
    p, n = values.X.shape
    labels = np.full(n, -1)
    order, tree = outside_in(values), new_tree(values)
    search = new_search(tree, k)
    groups = new_closed_groups(tree, k)
    draft = Draft(np.empty(k, np.int64), np.empty(k, np.int64), np.empty((k, p)))
    for record in order:
        if labels[record] < 0:
            _place(tree, search, groups, draft, labels, record)
            rebuild_if_sparse(tree)
    return labels


#: How many of the free records nearest to a member are looked up at once: some are needed when the nearest joins.
_AHEAD = 3


class Growth(NamedTuple):
    """A group that may grow, with the free records nearest to each of its members, by rising distance and number."""

    members: Ints  #: (2k)
    leaves: Ints  #: where they stood
    points: Floats  #: (2k, p), their values
    counts: Ints  #: how many are listed; 0 where no record is free
    nearest: Ints  #: (2k, _AHEAD)
    distances: Floats  #: squared


@jit
def _new_growth(p: int, k: int) -> Growth:
    most = 2 * k
    return Growth(
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty((most, p)),
        np.empty(most, np.int64),
        np.empty((most, _AHEAD), np.int64),
        np.empty((most, _AHEAD)),
    )


@uncounted
def _find_nearest_to_member(tree: Tree, search: Search, growth: Growth, i: int) -> None:
    """Find the free records nearest to a member."""
    for j in range(search.point.shape[0]):
        search.point[j] = growth.points[i, j]
    count = find_nearest(tree, search, growth.leaves[i], _AHEAD)
    growth.counts[i] = count
    for at in range(count):
        growth.nearest[i, at], growth.distances[i, at] = search.found[at], search.near[at]


@uncounted
def _scan_for_members(tree: Tree, search: Search, growth: Growth, k: int) -> None:
    """Find the free records nearest to each of k members in one pass over the leaves."""
    blocks, ids, counts, distances = tree.blocks, tree.ids, tree.counts, search.distances
    growth.distances[:k], growth.counts[:k] = np.inf, 0
    for leaf in range(tree.size[0]):
        for i in range(k if counts[leaf] > 0 else 0):
            leaf_distances(blocks, tree.costs, leaf, growth.points[i], distances)
            near, nearest = growth.distances[i], growth.nearest[i]
            growth.counts[i] = add_leaf(
                distances, ids, leaf, counts[leaf], near, nearest, growth.counts[i], _AHEAD, search.found, -1
            )


@uncounted
def _find_nearest_to_members(tree: Tree, search: Search, growth: Growth, k: int) -> None:
    """Find the free records nearest to each of k members."""
    if search.scans[NEAREST, 0] > k:
        search.scans[NEAREST, 0] -= k
        tree.size[3] += k * (LEAF * tree.size[2] - tree.size[1])
        _scan_for_members(tree, search, growth, k)
        return
    for i in range(k):
        _find_nearest_to_member(tree, search, growth, i)


@inlined
def _closest(growth: Growth, size: int) -> int:
    """Find the member with the nearest free record; of equally near ones, the lower record. -1 if none is free."""
    best = -1
    for i in range(size):
        if growth.counts[i] == 0:
            return -1
        d, record = growth.distances[i, 0], growth.nearest[i, 0]
        least = growth.distances[best, 0]
        if best < 0 or d < least or (d == least and record < growth.nearest[best, 0]):
            best = i
    return best


@inlined
def _strike(growth: Growth, i: int, record: int) -> None:
    kept = 0
    for at in range(growth.counts[i]):
        if growth.nearest[i, at] != record:
            growth.nearest[i, kept], growth.distances[i, kept] = growth.nearest[i, at], growth.distances[i, at]
            kept += 1
    growth.counts[i] = kept


@uncounted
def _joins(tree: Tree, search: Search, growth: Growth, size: int, gamma: float) -> bool:
    """Say whether the record nearest to the group is nearer to it than gamma times to any other, and put it last."""
    closest = _closest(growth, size)
    if closest < 0:
        return False
    joining, d_in = growth.nearest[closest, 0], growth.distances[closest, 0]
    growth.members[size], growth.leaves[size] = joining, look_from(tree, search, joining)
    for j in range(search.point.shape[0]):
        growth.points[size, j] = search.point[j]
    _find_nearest_to_member(tree, search, growth, size)
    # The record itself is found too, unless there are enough others at distance 0.
    _strike(growth, size, joining)
    return bool(growth.counts[size] == 0 or d_in < gamma * growth.distances[size, 0])


@uncounted
def _extend(tree: Tree, search: Search, growth: Growth, k: int, gamma: float, labels: Ints) -> None:
    """Let a group of k grow, up to 2k-1."""
    _find_nearest_to_members(tree, search, growth, k)
    for size in range(k, 2 * k - 1):
        if not _joins(tree, search, growth, size, gamma):
            return
        joined = growth.members[size]
        labels[joined] = labels[growth.members[0]]
        remove(tree, growth.members[size : size + 1])
        for i in range(size + 1):
            _strike(growth, i, joined)
            if growth.counts[i] == 0:
                _find_nearest_to_member(tree, search, growth, i)


@jit
def _group_all(values: Values, k: int, gamma: float, labels: Ints) -> int:
    """Label the records of groups; how many groups there are. Fewer than k records stay without."""
    X, tree = values.X, new_tree(values)
    search = new_search(tree, max(k, _AHEAD))
    total, growth, n_groups = total_of_values(values), _new_growth(X.shape[0], k), 0
    for record in outside_in(values):
        if tree.size[1] < k:
            break
        if labels[record] >= 0:
            continue
        growth.leaves[:k] = take_group(tree, search, record, k, total, labels, n_groups)
        if gamma > 0:
            growth.members[0] = record
            growth.members[1:k] = search.found[: k - 1]
            for i in range(k):
                growth.points[i] = X[:, growth.members[i]]
            _extend(tree, search, growth, k, gamma, labels)
        n_groups += 1
        rebuild_if_sparse(tree)
    return n_groups


@jit
def v_mdav_tree(values: Values, k: int, gamma: float) -> Ints:
    """Return group numbers of the n records; n >= k."""
    labels = np.full(values.X.shape[1], -1)
    n_groups = _group_all(values, k, gamma, labels)
    join_closest(values, np.arange(values.X.shape[1]), labels, n_groups)
    return labels
