"""MDAV* in close to linear time: the groups of :mod:`..scan.mdav_star`, to the last record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit, uncounted
from microagg_core.kernels.scan.remaining import outside_in
from microagg_core.kernels.tree.closed_groups import (
    ClosedGroups,
    add_member,
    cheapest_to_join,
    hold,
    new_closed_groups,
    new_group,
)
from microagg_core.kernels.tree.nearest import find_nearest
from microagg_core.kernels.tree.search import Search, new_search
from microagg_core.kernels.tree.shrinking_tree import Tree, new_tree, rebuild_if_sparse, remove
from microagg_core.kernels.tree.taken_group import look_from


class Draft(NamedTuple):
    """A group that may be made, and room for its records side by side."""

    members: Ints  #: (k), the record that it is made around, and its nearest by rising distance
    numbers: Ints  #: (k), those of the records whose pairs are summed, ascending
    rows: Floats  #: (k, p), their values


@uncounted
def _pair_sum(X: Floats, draft: Draft, records: Ints) -> float:
    """Sum of the squared distances between all pairs of k records, in the order of record numbers."""
    numbers, rows, k = draft.numbers, draft.rows, records.shape[0]
    for i in range(k):
        at = i
        while at > 0 and numbers[at - 1] > records[i]:
            numbers[at] = numbers[at - 1]
            at -= 1
        numbers[at] = records[i]
    for i in range(k):
        for j in range(X.shape[0]):
            rows[i, j] = X[j, numbers[i]]
    total = 0.0
    for a in range(k):
        for b in range(a + 1, k):
            d = 0.0
            for j in range(X.shape[0]):
                d += (rows[a, j] - rows[b, j]) ** 2
            total += d
    return total


@uncounted
def _starts_group(tree: Tree, search: Search, draft: Draft, growth: float, weight: float) -> bool:
    """Whether the first of the draft's members starts that group; else it joins one that is closed.

    That one grows by ``growth / weight``, and leaves the record's nearest, y, to start a group of its own.
    """
    k = draft.members.shape[0]
    # Means a record, of k records placed and of k + 1, both times k x k x (k + 1) x weight.
    started = _pair_sum(tree.X, draft, draft.members) * (k + 1) * weight
    joined = float(k) * k * growth
    if started <= joined:
        return True
    leaf = look_from(tree, search, draft.members[1])
    find_nearest(tree, search, leaf, 0, k)
    return bool(started <= joined + k * _pair_sum(tree.X, draft, search.found[:k]) * weight)


@uncounted
def _slot_to_join(tree: Tree, search: Search, groups: ClosedGroups, draft: Draft, m: int) -> int:
    """The group that the first of the draft's members joins, -1 if it starts one; with it, m records were free."""
    k = draft.members.shape[0]
    if groups.state[2] == 0 or m == k:
        return -1
    slot, growth, weight = cheapest_to_join(groups, search, draft.members[0])
    return -1 if m > k and _starts_group(tree, search, draft, growth, weight) else slot


@uncounted
def _place(tree: Tree, search: Search, groups: ClosedGroups, draft: Draft, labels: Ints, record: int) -> None:
    """Take a record out of the tree, and into a group of its own with its nearest, or into one that is closed."""
    m, k, members = tree.size[1], draft.members.shape[0], draft.members
    leaf = look_from(tree, search, record)
    members[0] = record
    remove(tree, members[:1])
    n_found = find_nearest(tree, search, leaf, 0, k - 1 if m >= k else 0)
    for i in range(n_found):
        members[1 + i] = search.found[i]
    slot, placed = _slot_to_join(tree, search, groups, draft, m), 1
    if slot < 0:
        slot, placed = new_group(groups, record), k
        remove(tree, members[1:])
    for i in range(placed):
        labels[members[i]] = groups.labels[slot]
        add_member(groups, slot, tree.X, members[i])
    hold(groups, slot)


@jit
def mdav_star_tree(X: Floats, k: int) -> Ints:
    """Group numbers of the n records of X, a (p, n) array; n >= k."""
    p, n = X.shape
    labels = np.full(n, -1)
    order = outside_in(X)
    tree, search = new_tree(X), new_search(p, k)
    groups = new_closed_groups(tree, k)
    draft = Draft(np.empty(k, np.int64), np.empty(k, np.int64), np.empty((k, p)))
    for record in order:
        if labels[record] < 0:
            _place(tree, search, groups, draft, labels, record)
            rebuild_if_sparse(tree)
    return labels
