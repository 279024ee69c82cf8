"""The gate's verdict on a night: its checks, and the pairwise test of this release and the last.

The pairwise test draws the classes of both nights as vertices, *absent* as one more, and each unit as an edge between
its class of the first night and its class of the second. A linear combination of sums gives every vertex a potential,
none to absent, and involves the units whose ends differ in it. So the fewest units that one can involve are a smallest
cut of a connected component, and the test holds where every component is k-edge-connected.

The search for a cut below k is that of Nagamochi, Ono and Ibaraki (1994): vertices are scanned by their number of
edges to those scanned before, and an edge whose end has reached k of them lies in no cut below k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints, Pairs
from microagg_core.inspect.check import Check
from microagg_core.series.candidates import GateCounts
from microagg_core.series.digests import ABSENT, numbered_rows, pairs_of
from microagg_core.series.night import Night
from microagg_core.series.tonight import Tonight
from microagg_core.series.traces import TraceNotes

#: The pairwise test looks at graphs of at most so many edges.
_MOST_CUT = 20_000
#: For each vertex its neighbours, and how many units lie between.
Graph: TypeAlias = dict[int, dict[int, int]]


def night_checks(tonight: Tonight, bundles: Callable[[], pa.Table]) -> list[Check]:
    """Check a night beyond what every release is checked for; ``bundles`` reads pairs of classes around thin ones."""
    night, traces = tonight.night, tonight.atoms
    checks = [_ledger_check(tonight.wrong)]
    if night.mode != "independent":
        below = sum(notes.units_below for notes in traces)
        right = f"every history of releases is shared by at least {night.k} units"
        detail = f"{below} units have a history of releases that fewer than k={night.k} units share"
        checks.append(Check("trace-k", not below, detail if below else right))
        checks.append(_pairs_check(night, traces, bundles))
    if night.columns:
        lone = [sum(notes.lone_changes[j] for notes in traces) for j in range(len(night.columns))]
        broken = [f"{n} classes of {name!r}" for name, n in zip(night.columns, lone, strict=True) if n]
        right = f"in no class did some, but fewer than {night.k}, units change in a column"
        detail = f"some units changed, but fewer than k={night.k}, in {', '.join(broken)}"
        checks.append(Check("change-k", not broken, detail if broken else right))
    if night.leavers == "ghosts" and night.n_carried:
        exposed = sum(notes.exposed for notes in traces)
        right = "beside somebody who left nobody has another value than in the last release"
        detail = f"{exposed} classes hold somebody who left, and somebody whose values changed"
        checks.append(Check("leavers", not exposed, detail if exposed else right))
    return checks


def _pairs_check(night: Night, traces: Sequence[TraceNotes], bundles: Callable[[], pa.Table]) -> Check:
    """Check a second way that no sum over this release and the last is about fewer than k units.

    Where each pair of classes has k units, of the k that both promised, there is no such sum. Else the cuts of the
    graph of classes tell, as long as it is small enough to be cut; where it is not, nobody can say, and that is no yes.
    """
    name, right = "pairs", f"no sum over this release and the last is about fewer than {night.least_k} units"
    if not any(notes.thin_bundles for notes in traces):
        return Check(name, True, right)
    pairs = bundles()
    n = np.minimum(np.asarray(pairs["n"]), night.least_k)
    if n.sum() > _MOST_CUT:
        return Check(name, False, "too many pairs of classes have fewer than k units for all sums to be looked at")
    before, after = (np.repeat(pairs_of(pairs, end), n, axis=0) for end in "bk")
    weakest = weakest_cut(before, after, night.least_k)
    detail = f"a sum over this release and the last is about {weakest} units, fewer than k={night.least_k}"
    return Check(name, weakest is None, right if weakest is None else detail)


def _ledger_check(counts: GateCounts) -> Check:
    problems = [
        (counts.unknown, "released records are none of the input's units"),
        (counts.again, "units are released that never may be again"),
        (counts.moved, "units are not in the class in which they were released last"),
        (counts.altered, "units have values that are neither tonight's nor those of their last release"),
        (counts.parted, "units have rows that were first released on other nights than their others"),
        (counts.split, "groups of earlier releases are released in part, or hold more units than they had"),
    ]
    wrong = "; ".join(f"{n} {problem}" for n, problem in problems if n)
    return Check("ledger", not wrong, wrong or "every unit is released as its earlier releases allow")


def weakest_cut(before: Pairs, after: Pairs, k: int) -> int | None:
    """Find the fewest units, below k, that a linear combination of both nights' sums involves; None: no fewer than k.

    ``before`` and ``after`` hold each unit's class, or :data:`ABSENT`.

    >>> pairs = lambda *words: np.array([[word, 0] for word in words], dtype=np.uint64)
    >>> weakest_cut(pairs(1, 1, 1, 2, 2, 2), pairs(1, 1, 1, 2, 2, 2), k=3) is None
    True
    >>> weakest_cut(pairs(1, 1, 1, 2, 2, 2), pairs(1, 1, 1, 1, 2, 2), k=3)
    1
    """
    ends = _vertices(before, after)
    ends, units = _contracted(*_merged_edges(ends, np.ones(len(ends), dtype=np.int64)), k)
    if not len(ends):
        return None
    degrees = np.bincount(ends.ravel(), weights=np.repeat(units, 2))
    bound = min(k, int(degrees[degrees > 0].min()))
    # A connected component cannot fall apart by less than one unit.
    smallest = bound if bound == 1 else _smallest_cut(_graph(ends, units), bound)
    return smallest if smallest < k else None


def _vertices(before: Pairs, after: Pairs) -> Ints:
    ends = []
    offset = 1
    for classes in (before, after):
        numbers, distinct = numbered_rows(classes)
        ends.append(np.where((classes == ABSENT).all(axis=1), 0, numbers + offset))
        offset += len(distinct)
    return np.column_stack(ends)


def _merged_edges(ends: Ints, units: Ints) -> tuple[Ints, Ints]:
    edges = np.sort(ends, axis=1)
    apart = edges[:, 0] != edges[:, 1]
    numbers, distinct = numbered_rows(edges[apart].astype(np.uint64))
    together = np.bincount(numbers, weights=units[apart], minlength=len(distinct)).astype(np.int64)
    return distinct.astype(np.int64), together


def _contracted(ends: Ints, units: Ints, k: int) -> tuple[Ints, Ints]:
    """Contract edges of k units and more, which no cut below k parts."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    while (heavy := units >= k).any():
        vertices, numbers = np.unique(ends, return_inverse=True)
        numbers = numbers.reshape(ends.shape)
        left, right = numbers[heavy].T
        joined = coo_array((np.ones(len(left), dtype=np.int8), (left, right)), shape=(len(vertices), len(vertices)))
        _, parts = connected_components(joined, directed=False)
        ends, units = _merged_edges(parts.astype(np.int64)[numbers], units)
    return ends, units


def _graph(ends: Ints, units: Ints) -> Graph:
    graph: Graph = {}
    for (left, right), weight in zip(ends.tolist(), units.tolist(), strict=True):
        graph.setdefault(left, {})[right] = weight
        graph.setdefault(right, {})[left] = weight
    return graph


def _smallest_cut(graph: Graph, bound: int) -> int:
    while graph and bound > 1:
        bound = min(bound, *(sum(edges.values()) for edges in graph.values()))
        graph = _joined(graph, _tied(graph, bound))
    return bound


def _tied(graph: Graph, bound: int) -> dict[int, int]:
    """Map each vertex to a representative of those that no cut below the bound parts from it.

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
    """Contract tied vertices; a component that has become one vertex is gone."""
    joined: Graph = {}
    for vertex, edges in graph.items():
        for other, units in edges.items():
            left, right = tied[vertex], tied[other]
            if left != right:
                ends = joined.setdefault(left, {})
                ends[right] = ends.get(right, 0) + units
    return joined
