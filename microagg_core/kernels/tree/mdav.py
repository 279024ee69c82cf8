"""MDAV and its kin in close to linear time: the groups of :mod:`..scan.mdav`, to the last record."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import inlined, jit, uncounted
from microagg_core.kernels.scan.mdav import peel, place_rest
from microagg_core.kernels.tools.sorting import sort_numbers
from microagg_core.kernels.tools.sums import add, total_of
from microagg_core.kernels.tree.closed_groups import farthest_from_centroid, new_order
from microagg_core.kernels.tree.searches import Search, farthest_from_record, find_nearest, new_search, tree_pays
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, new_tree, rebuild_if_sparse, remove


@inlined
def look_from(tree: Tree, search: Search, record: int) -> int:
    """Make a record that remains the point to search from; returns the leaf it stands in."""
    slot = tree.slots[record]
    leaf, place = slot // LEAF, slot % LEAF
    for j in range(search.point.shape[0]):
        search.point[j] = tree.blocks[leaf, j, place]
    return int(leaf)


@inlined
def _take_away(totals: Floats, tree: Tree, search: Search, n_found: int) -> None:
    """Take the record that was searched from, and what was found, by number, out of the totals.

    The plain scans do it in the same order, so that both round alike.
    """
    found, blocks = search.found, tree.blocks
    sort_numbers(found[:n_found])
    for j in range(totals.shape[1]):
        totals[0, j], totals[1, j] = add(totals[0, j], totals[1, j], -search.point[j])
    for i in range(n_found):
        slot = tree.slots[found[i]]
        leaf, place = slot // LEAF, slot % LEAF
        for j in range(totals.shape[1]):
            totals[0, j], totals[1, j] = add(totals[0, j], totals[1, j], -blocks[leaf, j, place])


@uncounted
def take_group(tree: Tree, search: Search, record: int, k: int, totals: Floats, labels: Ints, label: int) -> int:
    """Take a record and its k-1 nearest out of the tree and the totals, and label them; the leaf the record was in.

    The record stays the point that is searched from; its neighbours stand in ``search.found``, by number.
    """
    leaf = look_from(tree, search, record)
    search.found[0] = record
    remove(tree, search.found[:1])
    labels[record] = label
    n_found = find_nearest(tree, search, leaf, k - 1)
    _take_away(totals, tree, search, n_found)
    remove(tree, search.found[:n_found])
    for i in range(n_found):
        labels[search.found[i]] = label
    return leaf


@jit
def peel_tree(X: Floats, k: int, two_from: int) -> Ints:
    """Make the groups of :func:`~microagg_core.kernels.scan.mdav.peel`; X is left as it is."""
    p, n = X.shape
    labels = np.full(n, -1)
    totals = total_of(X, 0, n)
    tree, search = new_tree(X), new_search(p, k)
    order, n_groups = new_order(tree), 0
    while tree.size[1] >= 2 * k:
        makes_two = tree.size[1] >= two_from
        record = farthest_from_centroid(tree, search, order, totals[0])
        take_group(tree, search, record, k, totals, labels, n_groups)
        n_groups += 1
        if makes_two:
            # The group's search has left its record as the point.
            record = farthest_from_record(tree, search)
            take_group(tree, search, record, k, totals, labels, n_groups)
            n_groups += 1
        rebuild_if_sparse(tree)
    place_rest(X, np.arange(n), labels, tree.size[1], k, n_groups)
    return labels


def quicker_peel(X: Floats, k: int, two_from: int) -> Ints:
    """Make the same groups, through the tree where that pays, else by scans."""
    p, n = X.shape
    return peel_tree(X, k, two_from) if tree_pays(n, p, k) else peel(X, k, two_from)
