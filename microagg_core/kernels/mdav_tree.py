"""MDAV and its kin in close to linear time: the groups of :mod:`microagg_core.kernels.mdav`, to the last record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microagg_core.kernels.centroid_order import farthest_from_centroid, new_order
from microagg_core.kernels.exact_sum import total_of
from microagg_core.kernels.extremes import farthest_from_record
from microagg_core.kernels.jit import jit
from microagg_core.kernels.mdav import place_rest
from microagg_core.kernels.searching import new_search
from microagg_core.kernels.shrinking_tree import new_tree, renew
from microagg_core.kernels.tree_group import take_group

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
        renew(tree)
    place_rest(X, np.arange(n), labels, tree.size[1], k, n_groups)
    return labels
