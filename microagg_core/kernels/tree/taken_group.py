"""A record and its nearest, taken out of the tree as a group."""

from __future__ import annotations

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import inlined, uncounted
from microagg_core.kernels.tools.exact_sum import add
from microagg_core.kernels.tree.nearest import find_nearest
from microagg_core.kernels.tree.search import Search
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, remove


@inlined
def look_from(tree: Tree, search: Search, record: int) -> int:
    """Make a record that remains the point to search from; the leaf it stands in."""
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
    for i in range(1, n_found):
        record, at = found[i], i
        while at > 0 and found[at - 1] > record:
            found[at] = found[at - 1]
            at -= 1
        found[at] = record
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
    n_found = find_nearest(tree, search, leaf, 0, k - 1)
    _take_away(totals, tree, search, n_found)
    remove(tree, search.found[:n_found])
    for i in range(n_found):
        labels[search.found[i]] = label
    return leaf
