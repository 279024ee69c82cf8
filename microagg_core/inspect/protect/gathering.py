"""Groups gathered from nothing so that they hold what is demanded: k-first and t-first.

*k-first* takes the k nearest records and exchanges some of them for the next nearest, until the group holds all
demands. *t-first* cuts the records into strata by a confidential value; each group takes as many of the nearest from
each of them, which brings its distribution near the whole's whatever lies there.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.inspect.protect.rules import Rules, broken_by
from microagg_core.kernels.machine_code.jit import jit, uncounted
from microagg_core.kernels.tree.searches import Search, find_nearest, least_by_numbers, new_search
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, new_tree, rebuild_if_sparse, remove
from microagg_core.kernels.values import Values


@uncounted
def _exchange_for_nearer(
    rules: Rules, members: Ints, k: int, candidates: Ints, n_candidates: int, broken: float
) -> float:
    """Exchange members for what else was found, each where that helps most; by how much the group then breaks rules."""
    for r in range(k, n_candidates):
        place, least, candidate = -1, broken, candidates[r]
        for i in range(k):
            member, members[i] = members[i], candidate
            left = broken_by(rules, members, k)
            members[i] = member
            if left < least:
                place, least = i, left
        if place >= 0:
            members[place], broken = candidate, least
        if broken <= 0.0:
            break
    return broken


@jit
def gather_k_first(X: Floats, seeds: Ints, k: int, walk: int, rules: Rules) -> Ints:
    """Group numbers of the (p, n) records: groups of k around seeds in their order, and a last one of 2k - 1 at most.

    A group looks at ``walk`` records besides its nearest; it may break rules in the end.
    """
    n = X.shape[1]
    labels, members, n_groups = np.full(n, -1), np.empty(k, np.int64), 0
    tree = new_tree(Values(X, np.zeros(0)))
    search = new_search(tree, k + walk)
    for seed in seeds:
        if tree.size[1] < 2 * k:
            break
        if tree.slots[seed] < 0:
            continue
        for j in range(X.shape[0]):
            search.point[j] = X[j, seed]
        find_nearest(tree, search, tree.slots[seed] // LEAF, k)
        members[:] = search.found[:k]
        broken = broken_by(rules, members, k)
        if broken > 0.0:
            n_found = find_nearest(tree, search, tree.slots[seed] // LEAF, k + walk)
            _exchange_for_nearer(rules, members, k, search.found, n_found, broken)
        for i in range(k):
            labels[members[i]] = n_groups
        remove(tree, members)
        rebuild_if_sparse(tree)
        n_groups += 1
    for i in range(n):
        if labels[i] < 0:
            labels[i] = n_groups
    return labels


@uncounted
def _near_leaf(tree: Tree, search: Search) -> int:
    """A leaf that is near the point of the search."""
    node, leaves = 1, tree.size[0]
    while node < leaves:
        a, b = 2 * node, 2 * node + 1
        to_a = least_by_numbers(tree.boxes, a, search.point)
        node = b if least_by_numbers(tree.boxes, b, search.point) < to_a else a
    return int(node - leaves)


@jit
def gather_t_first(X: Floats, seeds: Ints, n_strata: int, share: int, n_groups: int) -> Ints:
    """Group numbers of the (p, n) records, -1 for those that are left over.

    The last row of X has each record's stratum times a step, which is longer than all records are wide: so the nearest
    of a stratum are the nearest of all to the seed's place in it. Each group has ``share`` records of each stratum,
    which has at least ``share * n_groups``.
    """
    p, n = X.shape
    labels, number = np.full(n, -1), 0
    step = X[p - 1].max() / max(1, n_strata - 1)
    tree = new_tree(Values(X, np.zeros(0)))
    search = new_search(tree, share)
    members = np.empty(share * n_strata, np.int64)
    for seed in seeds:
        if number == n_groups:
            break
        if tree.slots[seed] < 0:
            continue
        for j in range(p):
            search.point[j] = X[j, seed]
        for stratum in range(n_strata):
            search.point[p - 1] = stratum * step
            find_nearest(tree, search, _near_leaf(tree, search), share)
            members[stratum * share : (stratum + 1) * share] = search.found[:share]
        for i in range(members.shape[0]):
            labels[members[i]] = number
        remove(tree, members)
        rebuild_if_sparse(tree)
        number += 1
    return labels
