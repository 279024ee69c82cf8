"""DECOMPOSE-COMPONENT: trees that are too large are cut into trees of at least k records.

A tree is looked at from a candidate vertex; its edges lead to subtrees, whose sizes count records only. Where the
largest subtree leaves fewer than k-1 records, its root is the better candidate. Else the tree can be cut. Where a
record is needed on one side of a cut and its edges on both, a Steiner vertex takes its place on the other side.

A Steiner vertex counts for nothing, so it cannot make up for the one record that a side lacks. A Steiner vertex at the
root of the largest subtree, with k-1 records outside, therefore becomes the candidate. A Steiner candidate whose
subtrees are all smaller than k gives away whole subtrees until they have k records; where fewer than k would stay, the
tree is left whole. It has 3k-3 records at most: what is given away was below k with a last subtree below k, so at most
2k-2, and what stays is below k.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.forests.cut_trees import (
    Trees,
    Walk,
    ends_at,
    label,
    relink,
    replace,
    size_beyond,
    trees_of,
    walk,
)
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.sorting import stable_order


@jit
def _drawn_record(trees: Trees, seen: Walk, draw: float) -> int:
    """The record of a tree that a number in [0, 1) draws, counted by their numbers."""
    records = seen.vertices[seen.vertices < trees.there.shape[0]]
    return int(records[stable_order(records)[int(draw * records.shape[0])]])


@jit
def _subtrees(trees: Trees, seen: Walk, vertex: int) -> tuple[Ints, Ints, int]:
    """Ends at a vertex in their order, the sizes of the subtrees there, and the place of the largest, the first of
    equal ones.
    """
    ends = ends_at(trees, vertex)
    sizes = np.empty(ends.shape[0], np.int64)
    for i in range(ends.shape[0]):
        sizes[i] = size_beyond(trees, seen, ends[i])
    return ends, sizes, int(np.argmax(sizes))


@jit
def _gather(sizes: Ints, start: int, enough: int) -> tuple[int, int]:
    """Add up subtrees from one on until they are enough: the place after the last, and how many records they have."""
    total = 0
    while total < enough:
        total += sizes[start]
        start += 1
    return start, total


@jit
def _take_apart(trees: Trees, hub: int, ends: Ints, sizes: Ints, k: int, limit: int) -> None:
    """Cut a tree at a vertex whose subtrees all have fewer than k records.

    What is given away is never too large. While what stays is, this vertex would be found again from any candidate,
    so it is kept.
    """
    vertex, start, size = hub, 0, sizes.sum()
    if hub < trees.there.shape[0]:
        start, taken = _gather(sizes, 0, k - 1)
        size -= taken
        if taken >= k and size == k - 1:
            replace(trees, hub, ends[:start])
        else:
            vertex = replace(trees, hub, ends[start:])
    while size > limit:
        stop, taken = _gather(sizes, start, k)
        if size - taken < k:
            break
        replace(trees, vertex, ends[start:stop])
        start, size = stop, size - taken
    relink(trees, hub)


@jit
def _cut_off_child(trees: Trees, end: int, waiting: Ints, count: int) -> int:
    """Cut a tree where an edge leads from k-1 records to a record, which makes up for the one that they lack.

    The other edges of that record go to a Steiner vertex.
    """
    child = trees.vertex[end ^ 1]
    others = ends_at(trees, child)
    waiting[count], waiting[count + 1] = child, replace(trees, child, others[others != end ^ 1])
    relink(trees, child)
    return count + 2


@jit
def _cut_off_large(
    trees: Trees, vertex: int, ends: Ints, sizes: Ints, k: int, limit: int, waiting: Ints, count: int
) -> int:
    """Cut off the largest subtree, of k records or more, where k are left, and again while too many are."""
    size = sizes.sum() + (vertex < trees.there.shape[0])
    waiting[count] = vertex
    for i in stable_order(-sizes):
        if sizes[i] < k or size - sizes[i] < k or size <= limit:
            break
        trees.there[ends[i] >> 1] = False
        size -= sizes[i]
        count += 1
        waiting[count] = trees.vertex[ends[i] ^ 1]
    return count + 1


@jit
def _cut(trees: Trees, seen: Walk, vertex: int, k: int, limit: int, waiting: Ints, count: int) -> int:
    """Cut a tree, seen from a candidate, and let what may still be too large wait; how many wait then."""
    n = trees.there.shape[0]
    whole = seen.sizes[vertex]
    while True:
        ends, sizes, i = _subtrees(trees, seen, vertex)
        child = trees.vertex[ends[i] ^ 1]
        outside = whole - sizes[i]
        if outside >= k:
            break
        if outside == k - 1 and child < n:
            return _cut_off_child(trees, ends[i], waiting, count)
        vertex = child
    if sizes[i] >= k:
        return _cut_off_large(trees, vertex, ends, sizes, k, limit, waiting, count)
    if sizes[i] == k - 1 and vertex < n:
        # The largest is given away first, and alone: with the candidate it has k records.
        ends[: i + 1], sizes[: i + 1] = np.roll(ends[: i + 1], 1), np.roll(sizes[: i + 1], 1)
    _take_apart(trees, vertex, ends, sizes, k, limit)
    return count


@jit
def decompose(heads: Ints, k: int, draws: Floats) -> tuple[Ints, Ints]:
    """Cut the trees of FOREST; the number of each record's tree, and of that of its edge (-1: cut, or none).

    ``draws``, at least n // k numbers in [0, 1), choose the first candidates. Trees wait in the order of their roots,
    and the last is taken first; what a cut leaves waits behind them.
    """
    n = heads.shape[0]
    limit = max(2 * k - 1, 3 * k - 5)
    room = n // k
    trees = trees_of(heads, room)
    scratch = Walk(np.empty(n + room, np.int64), np.empty(n + room, np.int64), np.empty(n + room, np.int64))
    waiting = np.empty(n, np.int64)
    roots = np.flatnonzero(heads < 0)
    count, drawn = roots.shape[0], 0
    waiting[:count] = roots
    while count > 0:
        count -= 1
        seen = walk(trees, waiting[count], scratch)
        if seen.sizes[waiting[count]] <= limit:
            continue
        candidate = _drawn_record(trees, seen, draws[drawn])
        drawn += 1
        count = _cut(trees, walk(trees, candidate, scratch), candidate, k, limit, waiting, count)
    return label(trees, scratch)
