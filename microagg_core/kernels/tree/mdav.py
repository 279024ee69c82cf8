"""MDAV and its kin in close to linear time: the groups of :mod:`..scan.mdav`, to the last record."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.mdav import peel, place_rest
from microagg_core.kernels.tools.exact_sum import total_of
from microagg_core.kernels.tree.centroid_order import farthest_from_centroid, new_order
from microagg_core.kernels.tree.farthest import farthest_from_record
from microagg_core.kernels.tree.search import new_search, tree_pays
from microagg_core.kernels.tree.shrinking_tree import new_tree, rebuild_if_sparse
from microagg_core.kernels.tree.taken_group import take_group


@jit
def peel_tree(X: Floats, k: int, two_from: int) -> Ints:
    """Group numbers of the n records of X, a (p, n) array, n >= k: groups from the outside in while 2k remain.

    A round makes two groups, the second around the record farthest from that of the first, while ``two_from``
    records remain, and one group afterwards.
    """
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
    """The groups of :func:`peel_tree`, through the tree where that pays, else by plain scans, which are the same."""
    p, n = X.shape
    return peel_tree(X, k, two_from) if tree_pays(n, p, k) else peel(X, k, two_from)
