"""FOREST and DECOMPOSE-COMPONENT: grow trees of near records, and cut those that are too large."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.tree.mdav import look_from
from microagg_core.kernels.tree.searches import component_of, find_nearest_outside, new_search
from microagg_core.kernels.tree.shrinking_tree import new_tree
from microagg_core.kernels.values import Values


@jit
def forest(values: Values, k: int, order: Ints) -> Ints:
    """Return the record to which each record's edge goes, -1 for one without; of n >= k records.

    ``order`` holds all records once. A record whose tree is below k when its turn comes has no edge yet: only a
    record's own turn gives it one, and a tree has one record without, its root. So one pass is enough, every tree
    that stays below k meets its root's turn, and where the order is random, any small tree is as likely to be next
    as any other. A tree below k holds at most k-2 others, so the nearest record outside is one of the k-1 nearest.
    """
    n, tree = values.X.shape[1], new_tree(values)
    search = new_search(tree, 1)
    heads = np.full(n, -1)
    components, sizes = np.arange(n), np.ones(n, np.int64)
    for record in order:
        own = component_of(components, record)
        if sizes[own] < k:
            leaf = look_from(tree, search, record)
            find_nearest_outside(tree, search, leaf, 1, components, own)
            head = search.found[0]
            heads[record] = head
            _join(components, sizes, own, component_of(components, head))
    return heads


@jit
def _join(components: Ints, sizes: Ints, a: int, b: int) -> None:
    """Make one component of the two that a and b stand for; ``sizes`` is right at the one that then stands for it."""
    if sizes[a] < sizes[b]:
        a, b = b, a
    components[b] = a
    sizes[a] += sizes[b]


class Trees(NamedTuple):
    """First end at each vertex, vertex of each end, next end at its vertex (-1: none); whether each edge is still
    there; the record that each vertex stands for; and, as the only item of an array, how many vertices there are.

    Vertices 0 to n-1 are the records; those after them are Steiner vertices, which stand where a record stands, hold a
    tree together in its place, and do not count. An edge is named by the record that it first went out from: edge e has
    the two ends 2e and 2e+1, and an end knows its vertex and the next end at the same vertex. Changing the vertex of an
    end is all it takes to move an edge from a record to the Steiner vertex that takes over from it.
    """

    first: Ints
    vertex: Ints
    after: Ints
    there: Bools
    record: Ints
    used: Ints


class Walk(NamedTuple):
    """One tree, seen from a root: its vertices from the root on, and for each vertex the one before it, and how many
    records hang from it, itself among them. Of use until the tree changes.
    """

    vertices: Ints
    before: Ints
    sizes: Ints


@jit
def trees_of(heads: Ints, room: int) -> Trees:
    """Make the trees in which edge e goes from record e to ``heads[e]`` (-1: no such edge).

    There is room for so many Steiner vertices.
    """
    n = heads.shape[0]
    trees = Trees(
        np.full(n + room, -1),
        np.empty(2 * n, np.int64),
        np.full(2 * n, -1),
        heads >= 0,
        np.arange(n + room),
        np.array([n]),
    )
    for edge in range(n):
        if heads[edge] >= 0:
            _hang(trees, 2 * edge, edge)
            _hang(trees, 2 * edge + 1, heads[edge])
    return trees


@jit
def _hang(trees: Trees, end: int, vertex: int) -> None:
    """Put an end at a vertex, before the other ends there."""
    trees.vertex[end] = vertex
    trees.after[end] = trees.first[vertex]
    trees.first[vertex] = end


@jit
def walk(trees: Trees, root: int, scratch: Walk) -> Walk:
    """Walk the tree of a vertex from there; the arrays of ``scratch`` are used again."""
    vertices, before, sizes = scratch.vertices, scratch.before, scratch.sizes
    n = trees.there.shape[0]
    vertices[0], before[root], count, done = root, -1, 1, 0
    while done < count:
        here = vertices[done]
        sizes[here] = here < n
        end = trees.first[here]
        while end >= 0:
            there = trees.vertex[end ^ 1]
            if trees.there[end >> 1] and there != before[here]:
                vertices[count], before[there] = there, here
                count += 1
            end = trees.after[end]
        done += 1
    for i in range(count - 1, 0, -1):
        sizes[before[vertices[i]]] += sizes[vertices[i]]
    return Walk(vertices[:count], before, sizes)


@jit
def ends_at(trees: Trees, vertex: int) -> Ints:
    """Return the ends at a vertex whose edges are there, by the record that their other vertex stands for."""
    count, end = 0, trees.first[vertex]
    while end >= 0:
        count += trees.there[end >> 1]
        end = trees.after[end]
    ends, records = np.empty(count, np.int64), np.empty(count, np.int64)
    end = trees.first[vertex]
    while end >= 0:
        if trees.there[end >> 1]:
            count -= 1
            ends[count], records[count] = end, trees.record[trees.vertex[end ^ 1]]
        end = trees.after[end]
    return ends[stable_order(records)]


@jit
def size_beyond(trees: Trees, seen: Walk, end: int) -> int:
    """Return how many records the edge of an end separates from the vertex that the end is at."""
    here, there = trees.vertex[end], trees.vertex[end ^ 1]
    if seen.before[there] == here:
        return int(seen.sizes[there])
    return int(seen.sizes[seen.vertices[0]] - seen.sizes[here])


@jit
def replace(trees: Trees, vertex: int, ends: Ints) -> int:
    """Give some of the ends at a vertex to a new Steiner vertex in its place, which is returned.

    Before either is looked at again, the ends are to be sorted with :func:`relink`.
    """
    steiner = trees.used[0]
    trees.used[0] += 1
    trees.record[steiner] = trees.record[vertex]
    for end in ends:
        trees.vertex[end] = steiner
    return int(steiner)


@jit
def relink(trees: Trees, vertex: int) -> None:
    """Hang all ends that hung at a vertex where they belong now."""
    end = trees.first[vertex]
    trees.first[vertex] = -1
    while end >= 0:
        following = trees.after[end]
        _hang(trees, end, trees.vertex[end])
        end = following


@jit
def label(trees: Trees, scratch: Walk) -> tuple[Ints, Ints]:
    """Number the tree of each record, and of each edge (-1: no such edge), by their first record."""
    n = trees.there.shape[0]
    labels = np.full(trees.used[0], -1)
    n_trees = 0
    for record in range(n):
        if labels[record] < 0:
            labels[walk(trees, record, scratch).vertices] = n_trees
            n_trees += 1
    edges = np.full(n, -1)
    for edge in range(n):
        if trees.there[edge]:
            edges[edge] = labels[trees.vertex[2 * edge]]
    return labels[:n].copy(), edges


@jit
def _drawn_record(trees: Trees, seen: Walk, draw: float) -> int:
    """Return the record of a tree that a number in [0, 1) draws, counted by their numbers."""
    records = seen.vertices[seen.vertices < trees.there.shape[0]]
    return int(records[stable_order(records)[int(draw * records.shape[0])]])


@jit
def _subtrees(trees: Trees, seen: Walk, vertex: int) -> tuple[Ints, Ints, int]:
    """List ends at a vertex in their order, sizes of the subtrees there, and the place of the (first) largest."""
    ends = ends_at(trees, vertex)
    sizes = np.empty(ends.shape[0], np.int64)
    for i in range(ends.shape[0]):
        sizes[i] = size_beyond(trees, seen, ends[i])
    return ends, sizes, int(np.argmax(sizes))


@jit
def _gather(sizes: Ints, start: int, enough: int) -> tuple[int, int]:
    """Add up subtrees from one on until they are enough; returns the place after the last, and their records."""
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
    """Cut a tree, seen from a candidate, and queue what may still be too large; returns the queue's length."""
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
    """Cut the trees of FOREST; returns the number of each record's tree, and of its edge's (-1: cut, or none).

    A tree is looked at from a candidate vertex; its edges lead to subtrees, whose sizes count records only. Where the
    largest subtree leaves fewer than k-1 records, its root is the better candidate. Else the tree can be cut. Where a
    record is needed on one side of a cut and its edges on both, a Steiner vertex takes its place on the other side.

    A Steiner vertex counts for nothing, so it cannot make up for the one record that a side lacks. A Steiner vertex at
    the root of the largest subtree, with k-1 records outside, therefore becomes the candidate. A Steiner candidate
    whose subtrees are all smaller than k gives away whole subtrees until they have k records; where fewer than k would
    stay, the tree is left whole. It has 3k-3 records at most: what is given away was below k with a last subtree below
    k, so at most 2k-2, and what stays is below k.

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
