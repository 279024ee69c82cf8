"""The minimum-weight [1,2]-factor of the complete graph, found on few pairs and proved on all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.errors import InternalError
from microagg_core.group.factor.engines import ENGINES, Cover, Duals, blossom_engine
from microagg_core.group.factor.pairs import Graph, Points, complete_graph, neighbour_graph, points_of, with_pairs
from microagg_core.group.factor.proof import in_units, prices_of, whole_bound
from microagg_core.group.factor.stars import cut, factor_sse, labels_of
from microagg_core.group.grouping.headway import Way
from microagg_core.group.metrics.certificate import Certificate
from microagg_core.kernels.matching.pair_tree import PairTree, light_pairs, new_pair_tree

#: Up to so many records, starting compiled code takes longer than networkx does.
SMALL = 8
_NEIGHBOURS = 8


@dataclass(frozen=True)
class Proof:
    """How a factor was proved: ``whole_weight`` equals ``whole_bound``, in units of 2**-``exponent``.

    ``pairs`` is the number of all pairs of records, each shown not to help; ``looked_at`` of them singly, the
    others in boxes that are too far away; ``candidates`` were in the graph that the engine was given last, in
    its round number ``rounds``.
    """

    engine: str
    pairs: int
    looked_at: int
    candidates: int
    rounds: int
    whole_weight: int
    whole_bound: int
    exponent: int


@dataclass(frozen=True)
class Factor:
    """A minimum-weight [1,2]-factor: its components as groups of two and three, its certificate and its proof."""

    labels: Ints
    left: Ints
    right: Ints
    certificate: Certificate
    proof: Proof


def _solve_and_price(points: Points, tree: PairTree, neighbours: int) -> tuple[Graph, Cover, Duals, int, int]:
    """Solve on candidates and add the pairs that could help, until there are none; with rounds and pairs looked at."""
    graph = neighbour_graph(points, tree, neighbours)
    rounds, told = 0, Way("pairing records")
    while True:
        rounds += 1
        told.at()
        cover = blossom_engine(graph)
        if cover is None or cover.duals is None:
            # Records that are one another's neighbours in the tree's order hold a factor, whatever else is missing.
            graph = with_pairs(points, graph, tree.order[:-1], tree.order[1:])
            continue
        left, right, looked = light_pairs(tree, prices_of(cover.duals, points.scale), 8 * points.n + 1024)
        if len(left) == 0:
            return graph, cover, cover.duals, rounds, looked
        graph = with_pairs(points, graph, left, right)


def _checked(X: Floats) -> Floats:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or len(X) < 2 or X.shape[1] < 1 or not np.isfinite(X).all():
        raise ValueError("a factor needs an (n, p) array of finite numbers, of at least two records and one attribute")
    return X


def _finished(X: Floats, points: Points, graph: Graph, cover: Cover, proof: Proof) -> Factor:
    chosen = cut(graph, cover.chosen)
    labels = labels_of(graph, chosen)
    left, right = graph.left[chosen], graph.right[chosen]
    weight = math.fsum(((points.rows[left] - points.rows[right]) ** 2).sum(axis=1))
    certificate = Certificate(
        sse=math.ldexp(factor_sse(points.rows, labels), -2 * points.shift),
        weight=math.ldexp(weight, -2 * points.shift),
        bound=in_units(points, proof.whole_bound),
    )
    return Factor(labels, left, right, certificate, proof)


def minimum_factor(X: Floats, *, engine: str = "auto", neighbours: int = _NEIGHBOURS) -> Factor:
    """The lightest set of pairs that meets each record once or twice, of all pairs; a pair weighs its squared distance.

    X is an (n, p) array of finite numbers, n >= 2, taken as it is given. ``engine`` is "networkx" (all pairs at
    once: for few records), "blossom" (candidate pairs, from each record's ``neighbours`` nearest, then a proof
    over all others) or "auto", which chooses by n. All give the same whole weight; the same input gives the same
    groups. What exactly is proved is told in :mod:`microagg_core.group.factor.proof`. ValueError for anything else.

    >>> found = minimum_factor(np.array([[0.0], [1.0], [10.0], [12.0], [13.0]]))
    >>> found.labels.tolist(), found.certificate.sse, found.certificate.weight
    ([0, 0, 1, 1, 1], 5.166666666666667, 6.0)
    """
    X = _checked(X)
    if engine not in ("auto", *ENGINES):
        raise ValueError(f"engine must be auto, {' or '.join(ENGINES)} (got {engine!r})")
    if neighbours < 1:
        raise ValueError(f"neighbours must be at least 1 (got {neighbours})")
    points = points_of(X)
    pairs = points.n * (points.n - 1) // 2
    if engine == "networkx" or (engine == "auto" and points.n <= SMALL):
        engine, graph, rounds, looked = "networkx", complete_graph(points), 1, pairs
        cover, bound = ENGINES[engine](graph), None
        if cover is None:
            raise InternalError("a bug: networkx left a record of a complete graph alone; please report it")
    else:
        engine, tree = "blossom", new_pair_tree(points.rows)
        graph, cover, duals, rounds, looked = _solve_and_price(points, tree, neighbours)
        bound = whole_bound(duals)
    weight = sum(graph.weight[cover.chosen].tolist())
    if bound is not None and bound != weight:
        raise InternalError("a bug: a factor weighs more than its proved bound; please report it")
    proof = Proof(engine, pairs, looked, len(graph.left), rounds, weight, weight, points.exponent)
    return _finished(X, points, graph, cover, proof)
