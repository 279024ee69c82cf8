"""Bridges of a graph with parallel edges: edges that no circle contains, with what lies beyond each.

A tree is laid through every component. Each edge outside the tree gets random words, and each vertex the exclusive or
of those at its ends; over a vertex and all below it in the tree, that leaves the words of the edges that cross from
there to elsewhere. Only where none crosses they are zero, but for a chance of 2^-128, and the tree's edge is a bridge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from microagg_core.arrays import Floats, Ints, UInt64s


@dataclass(frozen=True)
class Bridges:
    """The bridges of a graph, by the numbers of their edges."""

    edges: Ints
    #: The end of each that is further from the root, and the sum of charges of all vertices beyond the bridge.
    far_ends: Ints
    charges: Floats


@dataclass(frozen=True)
class _Tree:
    """A forest, hung below one more vertex: vertices from the top, where each level ends, and who is above whom."""

    order: Ints
    above: Ints

    def levels(self) -> Iterator[Ints]:
        """The vertices of each level below the first, the lowest level first."""
        position = np.empty(len(self.order), dtype=np.int64)
        position[self.order] = np.arange(len(self.order))
        place_above = position[self.above[self.order[1:]]]  # ascends, as vertices come level by level
        ends = [0, 1]
        while ends[-1] < len(self.order):
            ends.append(1 + int(np.searchsorted(place_above, ends[-1])))
        for start, end in zip(ends[-2:0:-1], ends[:1:-1], strict=True):
            yield self.order[start:end]


def bridges(one: Ints, other: Ints, charges: Floats, root: int) -> Bridges:
    """The bridges among the edges from ``one[i]`` to ``other[i]``; vertices are the rows of ``charges``.

    What is beyond a bridge never contains the root.

    >>> ends = np.array([0, 0, 1, 2]), np.array([1, 1, 2, 3])
    >>> bridges(*ends, np.array([[1.0], [2.0], [4.0], [8.0]]), root=0).charges.ravel().tolist()
    [12.0, 8.0]
    """
    tree = _tree(one, other, len(charges), root)
    edge_above = _edges_above(one, other, tree)
    words = _words(one, other, edge_above, len(tree.above))
    totals = np.vstack([charges, np.zeros_like(charges[:1])])
    for level in tree.levels():
        above = tree.above[level]
        np.bitwise_xor.at(words, above, words[level])
        np.add.at(totals, above, totals[level])
    far = np.flatnonzero((edge_above >= 0) & (words == 0).all(axis=1))
    return Bridges(edge_above[far], far, totals[far])


def _tree(one: Ints, other: Ints, n: int, root: int) -> _Tree:
    """A tree through every component, hung below the vertex ``n``; the root is the top of its own."""
    n_components, component = connected_components(_graph(one, other, n), directed=False)
    tops = np.empty(n_components, dtype=np.int64)
    tops[component[::-1]] = np.arange(n)[::-1]
    tops[component[root]] = root
    whole = _graph(np.r_[one, np.full(n_components, n)], np.r_[other, tops], n + 1)
    order, above = breadth_first_order(whole, n, directed=False)
    return _Tree(order.astype(np.int64), above.astype(np.int64))


def _graph(one: Ints, other: Ints, n: int) -> csr_array:
    return csr_array(coo_array((np.ones(len(one), dtype=np.int32), (one, other)), shape=(n, n)))


def _edges_above(one: Ints, other: Ints, tree: _Tree) -> Ints:
    """The edge from each vertex to the one above it, any of parallel ones; -1 where there is none."""
    n = len(tree.above)
    ends, first = np.unique(np.minimum(one, other) * n + np.maximum(one, other), return_index=True)
    edges = np.full(n, -1, dtype=np.int64)
    hung = np.flatnonzero((tree.above >= 0) & (tree.above < n - 1))
    above = tree.above[hung]
    edges[hung] = first[np.searchsorted(ends, np.minimum(hung, above) * n + np.maximum(hung, above))]
    return edges


def _words(one: Ints, other: Ints, edge_above: Ints, n: int) -> UInt64s:
    outside = np.ones(len(one), dtype=np.bool_)
    outside[edge_above[edge_above >= 0]] = False
    # From the operating system's chance: nobody can make a graph that deceives it.
    drawn = np.random.default_rng().integers(0, 2**64, size=(int(outside.sum()), 2), dtype=np.uint64)
    words = np.zeros((n, 2), dtype=np.uint64)
    np.bitwise_xor.at(words, one[outside], drawn)
    np.bitwise_xor.at(words, other[outside], drawn)
    return words
