"""Engines: each finds the lightest [1,2]-factor within a graph of candidate pairs.

Both double the records, as :mod:`microagg_core.kernels.matching.state` tells, and match: a record's first copy must be
matched, its second may be, and the pairs that are matched are the factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.group.factor.pairs import Graph
from microagg_core.kernels.matching.search import DONE, TOO_MANY_EVENTS, match_all
from microagg_core.kernels.matching.state import Matching, new_matching


@dataclass(frozen=True)
class Duals:
    """Duals of a matching of doubled records: y of 2n copies, z and the surrounding node (or -1) of 3n nodes."""

    y: Ints
    z: Ints
    parent: Ints


@dataclass(frozen=True)
class Cover:
    """Pairs chosen by an engine, as positions in the graph's lists; the duals that prove it, where it has them."""

    chosen: Ints
    duals: Duals | None


#: An engine gives None where the graph holds no factor.
Engine = Callable[[Graph], Cover | None]


def _positions(graph: Graph, copies: Ints, mates: Ints) -> Ints:
    """Where the pairs of matched copies stand in the graph's lists; a pair that is matched twice counts once."""
    a, b = copies % graph.n, mates % graph.n
    codes = np.unique(np.minimum(a, b) * graph.n + np.maximum(a, b))
    return np.searchsorted(graph.codes, codes)


def networkx_engine(graph: Graph) -> Cover | None:
    """The reference: a maximum-weight matching by networkx, which checks its own optimality on whole numbers.

    Two first copies matched weigh 2M - w, a first and a second one M - w, M above the sum of all weights: so
    that every first copy which is matched outweighs all else. Slow: seconds for a hundred records.
    """
    import networkx

    much = int(sum(graph.weight.tolist())) + 1
    doubled = networkx.Graph()
    for u, v, w in zip(graph.left.tolist(), graph.right.tolist(), graph.weight.tolist(), strict=True):
        doubled.add_edge(u, v, weight=2 * much - w)
        doubled.add_edge(u, graph.n + v, weight=much - w)
        doubled.add_edge(graph.n + u, v, weight=much - w)
    matched = np.array(sorted(map(sorted, networkx.max_weight_matching(doubled))), np.int64).reshape(-1, 2)
    if np.count_nonzero(matched < graph.n) < graph.n:
        return None
    return Cover(_positions(graph, matched[:, 0], matched[:, 1]), None)


def _searched(graph: Graph) -> Matching | None:
    """The kernel's state when every first copy is matched; its heap is made larger until it suffices."""
    source, other = np.concatenate([graph.left, graph.right]), np.concatenate([graph.right, graph.left])
    order = np.lexsort((other, source))
    weight = np.concatenate([graph.weight, graph.weight])[order]
    start = np.searchsorted(source[order], np.arange(graph.n + 1))
    if not np.all(np.diff(start)):
        return None
    events = 4096
    while True:
        matching = new_matching(start, source[order], other[order], weight, events)
        ending = match_all(matching)
        if ending != TOO_MANY_EVENTS:
            return matching if ending == DONE else None
        events *= 8


def blossom_engine(graph: Graph) -> Cover | None:
    """The fast one: our own primal-dual search, in compiled code, which also gives the duals that prove it."""
    matching = _searched(graph)
    if matching is None:
        return None
    matched = np.flatnonzero(matching.copies["mate"] >= 0)
    chosen = _positions(graph, matched, matching.copies["mate"][matched])
    duals = Duals(matching.copies["y"].copy(), matching.nodes["z"].copy(), matching.nodes["parent"].copy())
    return Cover(chosen, duals)


ENGINES: dict[str, Engine] = {"blossom": blossom_engine, "networkx": networkx_engine}
