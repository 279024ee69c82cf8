"""The pairwise test: whether a linear combination of two releases' sums involves fewer than k units.

The classes of both nights are drawn as vertices, *absent* as one more, and each unit as an edge between its class of
the first night and its class of the second. A linear combination of sums gives every vertex a potential, none to
absent, and involves the units whose ends differ in it. So the fewest units that one can involve are a smallest cut of
a connected component, and the test holds where every component is k-edge-connected.

The search for a cut below k is that of Nagamochi, Ono and Ibaraki (1994): vertices are scanned by their number of
edges to those scanned before, and an edge whose end has reached k of them lies in no cut below k.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np

from microagg_core.arrays import Ints, Pairs
from microagg_core.series.digests import numbered_pairs

#: The class of who is not released.
ABSENT: Pairs = np.zeros((1, 2), dtype=np.uint64)
#: For each vertex its neighbours, and how many units lie between.
Graph: TypeAlias = dict[int, dict[int, int]]


def weakest_cut(before: Pairs, after: Pairs, k: int) -> int | None:
    """The fewest units, below k, that a linear combination of both nights' sums involves; None where there is none.

    ``before`` and ``after`` hold each unit's class, or :data:`ABSENT`.

    >>> pairs = lambda *words: np.array([[word, 0] for word in words], dtype=np.uint64)
    >>> weakest_cut(pairs(1, 1, 1, 2, 2, 2), pairs(1, 1, 1, 2, 2, 2), k=3) is None
    True
    >>> weakest_cut(pairs(1, 1, 1, 2, 2, 2), pairs(1, 1, 1, 1, 2, 2), k=3)
    1
    """
    ends = _ends(before, after)
    ends, units = _contracted(*_bundles(ends, np.ones(len(ends), dtype=np.int64)), k)
    if not len(ends):
        return None
    degrees = np.bincount(ends.ravel(), weights=np.repeat(units, 2))
    bound = min(k, int(degrees[degrees > 0].min()))
    # A connected component cannot fall apart by less than one unit.
    smallest = bound if bound == 1 else _smallest_cut(_graph(ends, units), bound)
    return smallest if smallest < k else None


def _ends(before: Pairs, after: Pairs) -> Ints:
    """The two vertices of every unit; absent is vertex 0."""
    ends = []
    offset = 1
    for classes in (before, after):
        numbers, distinct = numbered_pairs(classes)
        ends.append(np.where((classes == ABSENT).all(axis=1), 0, numbers + offset))
        offset += len(distinct)
    return np.column_stack(ends)


def _bundles(ends: Ints, units: Ints) -> tuple[Ints, Ints]:
    """Edges between the same vertices as one, which has the units of all; loops are left out."""
    edges = np.sort(ends, axis=1)
    apart = edges[:, 0] != edges[:, 1]
    numbers, distinct = numbered_pairs(edges[apart].astype(np.uint64))
    together = np.bincount(numbers, weights=units[apart], minlength=len(distinct)).astype(np.int64)
    return distinct.astype(np.int64), together


def _contracted(ends: Ints, units: Ints, k: int) -> tuple[Ints, Ints]:
    """The edges that are left when the vertices of bundles of k units and more, which no cut below k parts, are one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    while (heavy := units >= k).any():
        vertices, numbers = np.unique(ends, return_inverse=True)
        numbers = numbers.reshape(ends.shape)
        one, other = numbers[heavy].T
        joined = coo_array((np.ones(len(one), dtype=np.int8), (one, other)), shape=(len(vertices), len(vertices)))
        _, parts = connected_components(joined, directed=False)
        ends, units = _bundles(parts.astype(np.int64)[numbers], units)
    return ends, units


def _graph(ends: Ints, units: Ints) -> Graph:
    graph: Graph = {}
    for (one, other), weight in zip(ends.tolist(), units.tolist(), strict=True):
        graph.setdefault(one, {})[other] = weight
        graph.setdefault(other, {})[one] = weight
    return graph


def _smallest_cut(graph: Graph, bound: int) -> int:
    """The size of a smallest cut of any component, or the bound where none is smaller."""
    while graph and bound > 1:
        bound = min(bound, *(sum(edges.values()) for edges in graph.values()))
        graph = _joined(graph, _tied(graph, bound))
    return bound


def _tied(graph: Graph, bound: int) -> dict[int, int]:
    """For each vertex one that stands for all that no cut below the bound parts from it.

    The vertex that is scanned last in its component has all its edges to those before, so two at least are tied.
    """
    tied = {vertex: vertex for vertex in graph}
    reached = dict.fromkeys(graph, 0)
    waiting: list[tuple[int, int]] = []
    for start in graph:
        heappush(waiting, (0, start))
        while waiting:
            count, vertex = heappop(waiting)
            if reached.get(vertex) != -count:
                continue  # scanned, or in the heap again with a larger count
            del reached[vertex]
            for other, units in graph[vertex].items():
                if other in reached:
                    reached[other] += units
                    heappush(waiting, (-reached[other], other))
                    if reached[other] >= bound:
                        tied[_root(tied, other)] = _root(tied, vertex)
    return {vertex: _root(tied, vertex) for vertex in graph}


def _root(tied: dict[int, int], vertex: int) -> int:
    while tied[vertex] != vertex:
        tied[vertex] = vertex = tied[tied[vertex]]
    return vertex


def _joined(graph: Graph, tied: dict[int, int]) -> Graph:
    """The graph of what is tied together; a component that has become one vertex is gone."""
    joined: Graph = {}
    for vertex, edges in graph.items():
        for other, units in edges.items():
            one, two = tied[vertex], tied[other]
            if one != two:
                ends = joined.setdefault(one, {})
                ends[two] = ends.get(two, 0) + units
    return joined
