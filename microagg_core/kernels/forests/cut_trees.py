"""A forest of records and Steiner vertices that can be cut, walked and split, in flat arrays.

Vertices 0 to n-1 are the records; those after them are Steiner vertices, which stand where a record stands, hold a tree
together in its place, and do not count. An edge is named by the record that it first went out from: edge e has the two
ends 2e and 2e+1, and an end knows its vertex and the next end at the same vertex. Changing the vertex of an end is all
it takes to move an edge from a record to the Steiner vertex that takes over from it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Bools, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.sorting import stable_order


class Trees(NamedTuple):
    """First end at each vertex, vertex of each end, next end at its vertex (-1: none); whether each edge is still
    there; the record that each vertex stands for; and, as the only item of an array, how many vertices there are.
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
    """The ends at a vertex whose edges are there, by the record that their other vertex stands for."""
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
    """How many records the edge of an end separates from the vertex that the end is at."""
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
    """The number of the tree of each record, and of each edge (-1: no such edge); numbered by their first record."""
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
