"""V-MDAV and MDAV+ in close to linear time: the groups of :mod:`microagg_core.kernels.v_mdav`, to the last record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from microagg_core.kernels.centroids import join_closest
from microagg_core.kernels.jit import inlined, jit, uncounted
from microagg_core.kernels.neighbours import find_nearest
from microagg_core.kernels.scan import outside_in
from microagg_core.kernels.searching import NEAREST, Search, count_within, new_search
from microagg_core.kernels.shrinking_tree import LEAF, Tree, leaf_distances, new_tree, remove, renew
from microagg_core.kernels.tree_group import look_from, take_group

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Growth(NamedTuple):
    """A group that may grow, with the nearest free record to each of its members."""

    members: Ints  #: (2k)
    leaves: Ints  #: where they stood
    points: Floats  #: (2k, p), their values
    nearest: Ints  #: -1 where no record is free
    distances: Floats  #: squared, infinite where no record is free


@jit
def _new_growth(p: int, k: int) -> Growth:
    """Room for groups of records of p attributes that may grow from k."""
    most = 2 * k
    return Growth(
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty((most, p)),
        np.empty(most, np.int64),
        np.empty(most),
    )


@uncounted
def _find_nearest_to_member(tree: Tree, search: Search, growth: Growth, i: int) -> None:
    """Find the free record nearest to a member."""
    for j in range(search.point.shape[0]):
        search.point[j] = growth.points[i, j]
    n_found = find_nearest(tree, search, growth.leaves[i], 0, 1)
    growth.nearest[i] = search.found[0] if n_found > 0 else -1
    growth.distances[i] = search.near[0]


@uncounted
def _scan_for_members(tree: Tree, search: Search, growth: Growth, k: int) -> None:
    """Find the free record nearest to each of k members in one pass over the leaves."""
    blocks, ids, counts, distances = tree.blocks, tree.ids, tree.counts, search.distances
    near, nearest = growth.distances, growth.nearest
    near[:k], nearest[:k] = np.inf, -1
    for leaf in range(tree.size[0]):
        for i in range(k if counts[leaf] > 0 else 0):
            leaf_distances(blocks, leaf, growth.points[i], distances)
            if count_within(distances, near[i]) == 0:
                continue
            for place in range(counts[leaf]):
                d, record = distances[place], int(ids[leaf * LEAF + place])
                if d < near[i] or (d == near[i] and (record < nearest[i] or nearest[i] < 0)):
                    near[i], nearest[i] = d, record


@uncounted
def _find_nearest_to_members(tree: Tree, search: Search, growth: Growth, k: int) -> None:
    """Find the free record nearest to each of k members."""
    if search.scans[NEAREST, 0] > k:
        search.scans[NEAREST, 0] -= k
        tree.size[3] += k * (LEAF * tree.size[2] - tree.size[1])
        _scan_for_members(tree, search, growth, k)
        return
    for i in range(k):
        _find_nearest_to_member(tree, search, growth, i)


@inlined
def _closest(growth: Growth, size: int) -> int:
    """The member with the nearest free record; of two that are equally near, the lower record."""
    distances, nearest, best = growth.distances, growth.nearest, 0
    for i in range(1, size):
        is_as_near = distances[i] == distances[best]
        if distances[i] < distances[best] or (is_as_near and nearest[i] < nearest[best]):
            best = i
    return best


@uncounted
def _join(tree: Tree, search: Search, growth: Growth, size: int, gamma: float) -> bool:
    """Whether the record nearest to the group is nearer to it than gamma times to any other, and so joins it."""
    closest = _closest(growth, size)
    joining = growth.nearest[closest]
    if joining < 0:
        return False
    leaf = look_from(tree, search, joining)
    n_found = find_nearest(tree, search, leaf, 0, 2)
    # The record itself is found too, or as many others at distance 0.
    if not growth.distances[closest] < gamma * search.near[1]:
        return False
    other = 1 if search.found[0] == joining else 0
    growth.members[size], growth.leaves[size] = joining, leaf
    for j in range(search.point.shape[0]):
        growth.points[size, j] = search.point[j]
    growth.nearest[size] = search.found[other] if n_found > other else -1
    growth.distances[size] = search.near[other]
    return True


@uncounted
def _extend(tree: Tree, search: Search, growth: Growth, k: int, gamma: float, labels: Ints) -> None:
    """Let a group of k grow, up to 2k-1."""
    _find_nearest_to_members(tree, search, growth, k)
    for size in range(k, 2 * k - 1):
        if not _join(tree, search, growth, size, gamma):
            return
        joined = growth.members[size]
        labels[joined] = labels[growth.members[0]]
        remove(tree, growth.members[size : size + 1])
        for i in range(size):
            if growth.nearest[i] == joined:
                _find_nearest_to_member(tree, search, growth, i)


@jit
def _group_all(X: Floats, k: int, gamma: float, labels: Ints) -> int:
    """Label the records of groups; how many groups there are. Fewer than k records stay without."""
    tree, search = new_tree(X), new_search(X.shape[0], k)
    totals, growth, n_groups = np.zeros((2, X.shape[0])), _new_growth(X.shape[0], k), 0
    for record in outside_in(X):
        if tree.size[1] < k:
            break
        if labels[record] >= 0:
            continue
        growth.leaves[:k] = take_group(tree, search, record, k, totals, labels, n_groups)
        if gamma > 0:
            growth.members[0] = record
            growth.members[1:k] = search.found[: k - 1]
            for i in range(k):
                growth.points[i] = X[:, growth.members[i]]
            _extend(tree, search, growth, k, gamma, labels)
        n_groups += 1
        renew(tree)
    return n_groups


@jit
def v_mdav_tree(X: Floats, k: int, gamma: float) -> Ints:
    """Group numbers of the n records of X, a (p, n) array; n >= k."""
    labels = np.full(X.shape[1], -1)
    n_groups = _group_all(X, k, gamma, labels)
    join_closest(X, np.arange(X.shape[1]), labels, n_groups)
    return labels
