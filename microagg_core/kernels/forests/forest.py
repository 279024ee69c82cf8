"""FOREST: every record gets at most one edge, to the nearest record outside its tree, until no tree is below k."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.union_find import component_of, join
from microagg_core.kernels.tree.nearest_outside import nearest_outside
from microagg_core.kernels.tree.search import new_search
from microagg_core.kernels.tree.shrinking_tree import new_tree
from microagg_core.kernels.tree.taken_group import look_from


@jit
def forest(X: Floats, k: int, order: Ints) -> Ints:
    """The record to which each record's edge goes, -1 for one without; X is (p, n) and n >= k.

    ``order`` holds all records once. A record whose tree is below k when its turn comes has no edge yet: only a
    record's own turn gives it one, and a tree has one record without, its root. So one pass is enough, every tree
    that stays below k meets its root's turn, and where the order is random, any small tree is as likely to be next
    as any other. A tree below k holds at most k-2 others, so the nearest record outside is one of the k-1 nearest.
    """
    p, n = X.shape
    tree, search = new_tree(X), new_search(p, 1)
    heads = np.full(n, -1)
    components, sizes = np.arange(n), np.ones(n, np.int64)
    for record in order:
        own = component_of(components, record)
        if sizes[own] < k:
            leaf = look_from(tree, search, record)
            head = nearest_outside(tree, search, leaf, components, own)
            heads[record] = head
            join(components, sizes, own, component_of(components, head))
    return heads
