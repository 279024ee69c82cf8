"""The minimum spanning tree of records, and its longest edges cut where both sides keep k records.

Edges are ranked by (squared length, lower record, higher record), so that no two are equal and there is one minimum
spanning tree, however it is found. It is grown from record 0: each record that is not in it yet knows its best edge to
it, so no more than a few numbers a record are ever kept.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.forests.forest import Trees, Walk, label, trees_of
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.scan.remaining import BLOCK, exchange
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.values import Values, squared_distances


@jit
def _is_before(a: int, b: int, c: int, d: int) -> bool:
    """Say whether the edge from a to b comes before that, of the same length, from c to d."""
    low, other = min(a, b), min(c, d)
    return low < other or (low == other and max(a, b) < max(c, d))


@jit
def _offer(record: int, distances: Floats, ids: Ints, near: Floats, heads: Ints) -> None:
    """Offer a record as the end of the edges of others; the arrays are parts of a block each."""
    ties = 0
    for i in range(distances.shape[0]):
        d, before = distances[i], near[i]
        ties += d == before
        near[i] = d if d < before else before
        heads[i] = record if d < before else heads[i]
    if ties > 0:
        for i in range(distances.shape[0]):
            if distances[i] == near[i] and _is_before(record, ids[i], heads[i], ids[i]):
                heads[i] = record


@jit
def _grow(values: Values, ids: Ints, m: int, near: Floats, heads: Ints, block: Floats) -> int:
    """Offer the record in column m to the first m; returns the column whose edge is then the best."""
    point = values.X[:, m].copy()
    best, shortest = 0, np.inf
    for start in range(0, m, BLOCK):
        stop = min(start + BLOCK, m)
        distances = block[: stop - start]
        squared_distances(values, start, point, distances)
        _offer(ids[m], distances, ids[start:stop], near[start:stop], heads[start:stop])
        reached = 0
        for i in range(start, stop):
            reached += near[i] <= shortest
        if reached == 0:
            continue
        for i in range(start, stop):
            d = near[i]
            if d < shortest or (d == shortest and _is_before(heads[i], ids[i], heads[best], ids[best])):
                best, shortest = i, d
    return best


@jit
def spanning_tree(values: Values) -> tuple[Ints, Floats]:
    """Find for each record but record 0 the other end of its edge (-1 for that), and the edge's squared length.

    The columns of the values are rearranged.
    """
    n = values.X.shape[1]
    ids, where = np.arange(n), np.arange(n)
    near, heads, block = np.full(n, np.inf), np.full(n, -1), np.empty(BLOCK)
    ends, lengths = np.full(n, -1), np.zeros(n)
    column = 0
    for m in range(n - 1, 0, -1):
        # What is in the tree stands behind what is not.
        exchange(values.X, ids, where, column, m)
        near[column], near[m] = near[m], near[column]
        heads[column], heads[m] = heads[m], heads[column]
        column = _grow(values, ids, m, near, heads, block)
        ends[ids[column]], lengths[ids[column]] = heads[column], near[column]
    return ends, lengths


@jit
def _reaches(trees: Trees, end: int, k: int, scratch: Walk) -> bool:
    """Say whether k records or more hang from the vertex of an end, its edge not counted."""
    vertices, before = scratch.vertices, scratch.before
    vertices[0], before[trees.vertex[end]], count, done = trees.vertex[end], trees.vertex[end ^ 1], 1, 0
    while done < count < k:
        here = vertices[done]
        link = trees.first[here]
        while link >= 0 and count < k:
            there = trees.vertex[link ^ 1]
            if trees.there[link >> 1] and there != before[here]:
                vertices[count], before[there] = there, here
                count += 1
            link = trees.after[link]
        done += 1
    return count >= k


@jit
def _longest_first(ends: Ints, lengths: Floats) -> Ints:
    """Order the edges by falling length, equal ones by their records."""
    numbers = np.arange(ends.shape[0])
    order = stable_order(np.maximum(numbers, ends))
    order = order[stable_order(np.minimum(numbers, ends)[order])]
    return order[stable_order(-lengths[order])]


@jit
def cut_longest(ends: Ints, lengths: Floats, k: int) -> Ints:
    """Cut edges, from the longest on, where k records or more stay on both sides; returns the groups' numbers."""
    n = ends.shape[0]
    trees = trees_of(ends, 0)
    scratch = Walk(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64))
    for edge in _longest_first(ends, lengths):
        if trees.there[edge] and _reaches(trees, 2 * edge, k, scratch) and _reaches(trees, 2 * edge + 1, k, scratch):
            trees.there[edge] = False
    return label(trees, scratch)[0]
