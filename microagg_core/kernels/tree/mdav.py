"""MDAV and its kin in close to linear time: the groups of :mod:`..scan.mdav`, to the last record."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.kernels.machine_code.jit import inlined, jit, uncounted
from microagg_core.kernels.scan.mdav import peel, place_rest
from microagg_core.kernels.tools.sorting import sort_numbers
from microagg_core.kernels.tools.sums import add
from microagg_core.kernels.tree.closed_groups import farthest_from_centroid, new_order
from microagg_core.kernels.tree.searches import Search, farthest_from_record, find_nearest, new_search, tree_pays
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, new_tree, rebuild_if_sparse, remove
from microagg_core.kernels.values import Total, Values, count_code, total_of_values


@inlined
def look_from(tree: Tree, search: Search, record: int) -> int:
    """Make a record that remains the point to search from; returns the leaf it stands in."""
    slot = tree.slots[record]
    leaf, place = slot // LEAF, slot % LEAF
    for j in range(search.point.shape[0]):
        search.point[j] = tree.blocks[leaf, j, place]
    return int(leaf)


@inlined
def _take_away(total: Total, tree: Tree, search: Search, n_found: int) -> None:
    """Take the record that was searched from, and what was found, by number, out of the total.

    The plain scans do it in the same order, so that both round alike.
    """
    found, blocks, totals = search.found, tree.blocks, total.sums
    numbers = totals.shape[1]
    sort_numbers(found[:n_found])
    for j in range(numbers):
        totals[0, j], totals[1, j] = add(totals[0, j], totals[1, j], -search.point[j])
    for c in range(tree.costs.shape[0]):
        count_code(total, c, search.point[numbers + c], -1.0)
    for i in range(n_found):
        slot = tree.slots[found[i]]
        leaf, place = slot // LEAF, slot % LEAF
        for j in range(numbers):
            totals[0, j], totals[1, j] = add(totals[0, j], totals[1, j], -blocks[leaf, j, place])
        for c in range(tree.costs.shape[0]):
            count_code(total, c, blocks[leaf, numbers + c, place], -1.0)


@uncounted
def take_group(tree: Tree, search: Search, record: int, k: int, total: Total, labels: Ints, label: int) -> int:
    """Take a record and its k-1 nearest out of the tree and the total, and label them; the leaf the record was in.

    The record stays the point that is searched from; its neighbours stand in ``search.found``, by number.
    """
    leaf = look_from(tree, search, record)
    search.found[0] = record
    remove(tree, search.found[:1])
    labels[record] = label
    n_found = find_nearest(tree, search, leaf, k - 1)
    _take_away(total, tree, search, n_found)
    remove(tree, search.found[:n_found])
    for i in range(n_found):
        labels[search.found[i]] = label
    return leaf


@jit
def peel_tree(values: Values, k: int, two_from: int) -> Ints:
    """Make the groups of :func:`~microagg_core.kernels.scan.mdav.peel`; the values are left as they are."""
    n = values.X.shape[1]
    labels = np.full(n, -1)
    total, tree = total_of_values(values), new_tree(values)
    search = new_search(tree, k)
    order, n_groups = new_order(tree, total), 0
    while tree.size[1] >= 2 * k:
        makes_two = tree.size[1] >= two_from
        record = farthest_from_centroid(tree, search, order, total)
        take_group(tree, search, record, k, total, labels, n_groups)
        n_groups += 1
        if makes_two:
            # The group's search has left its record as the point.
            record = farthest_from_record(tree, search, total)
            take_group(tree, search, record, k, total, labels, n_groups)
            n_groups += 1
        rebuild_if_sparse(tree)
    place_rest(values, np.arange(n), labels, tree.size[1], k, n_groups)
    return labels


def quicker_peel(values: Values, k: int, two_from: int) -> Ints:
    """Make the same groups, through the tree where that pays, else by scans."""
    p, n = values.X.shape
    return peel_tree(values, k, two_from) if tree_pays(n, p, k) else peel(values, k, two_from)
