"""A record and its nearest, taken out of the tree as a group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microagg_core.kernels.jit import inlined, uncounted
from microagg_core.kernels.neighbours import find_nearest
from microagg_core.kernels.searching import Search
from microagg_core.kernels.shrinking_tree import LEAF, Tree, remove

Ints = NDArray[np.int64]


@inlined
def look_from(tree: Tree, search: Search, record: int) -> int:
    """Make a record that remains the point to search from; the leaf it stands in."""
    slot = tree.slots[record]
    leaf, place = slot // LEAF, slot % LEAF
    for j in range(search.point.shape[0]):
        search.point[j] = tree.blocks[leaf, j, place]
    return int(leaf)


@uncounted
def take_group(tree: Tree, search: Search, record: int, k: int, labels: Ints, label: int) -> int:
    """Take a record and its k-1 nearest out of the tree, and label them; the leaf in which the record stood.

    The record stays the point that is searched from; its neighbours stand in ``search.found``.
    """
    leaf = look_from(tree, search, record)
    search.found[0] = record
    remove(tree, search.found[:1])
    labels[record] = label
    n_found = find_nearest(tree, search, leaf, 0, k - 1)
    remove(tree, search.found[:n_found])
    for i in range(n_found):
        labels[search.found[i]] = label
    return leaf
