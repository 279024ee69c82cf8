"""The minimum-weight [1,2]-factor of the complete graph: found on few pairs and proved on all, in whole numbers.

The lightest factor is found within a graph of candidate pairs, in either of two ways. Both double the records, as
:mod:`microagg_core.kernels.matching.matching` tells, and match: a record's first copy must be matched, its second may
be, and the pairs that are matched are the factor.

Statement. Let W(u, v) be the whole weights of all pairs of n records. Let y be numbers for the 2n copies of the
records, y <= 0 on second copies, and z >= 0 for a family of odd sets of copies, any two of them nested or disjoint. If

    y_a + y_b - (z of the sets that hold both a and b) <= 2 W(u, v)

for the three edges (a, b) of every pair u, v, namely (u, v), (u, n + v) and (n + u, v), then every [1,2]-factor
weighs at least half of D = sum of y - sum over the sets S of z_S (|S| - 1) / 2.

Why. Leaving edges out, every factor becomes one, no heavier, of single edges and of paths of two edges. It
gives a matching of copies: an edge joins first copies; of a path a-b-c, one edge joins the first copies of a
and b, the other b's second copy and c's first. Every first copy is matched. Twice the weight is then the sum
of 2 W over the matching, at least that of y over matched copies, less each z_S times the edges inside S.
The former is at least the sum of all y (first copies are all in it, second ones left out have y <= 0); the
latter number at most (|S| - 1) / 2.

The duals need not be trusted, only checked, for all n (n - 1) / 2 pairs. The weights stand for squared
distances so: W x 2**-exponent is a squared distance as summed in floats, rounded down, and that sum exceeds the
true one by less than a factor of 1 + (p + 3) 2**-53."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from microagg_core.arrays import Floats, Ints
from microagg_core.errors import InternalError
from microagg_core.group.bounds import Certificate
from microagg_core.group.headway import Progress
from microagg_core.group.labels import checked_labels
from microagg_core.group.points import AnyPoints, Points
from microagg_core.kernels.matching.matching import DONE, TOO_MANY_EVENTS, Matching, match_all, new_matching
from microagg_core.kernels.matching.pair_tree import (
    PairTree,
    Prices,
    light_pairs,
    nearest_pairs,
    new_pair_tree,
    weights_of,
)

#: Whole weights stay below 2**_BITS: exact as floats, with room for sums of many of them in 64 bits.
_BITS = 51


@dataclass(frozen=True)
class Graph:
    """Pairs ``left[i] < right[i]`` of n records, in ascending order, with their whole weights of 0 or more."""

    n: int
    left: Ints
    right: Ints
    weight: Ints

    @property
    def codes(self) -> Ints:
        return self.left * self.n + self.right


@dataclass(frozen=True)
class Scaled:
    """Records scaled by a power of two, numbers first, and the power of two that makes squared distances whole weights.

    Numbers in ``rows`` are those of X times 2**``shift``, and ``costs`` of codes times its square; the weight of a pair
    is ``scale`` times the squared distance of its rows, rounded down; so a whole weight of W stands for
    W x 2**-``exponent`` in squared units of X.
    """

    rows: Floats
    costs: Floats
    scale: float
    shift: int
    exponent: int

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def points(self) -> Points:
        return Points(self.rows, np.append(np.zeros(self.rows.shape[1] - len(self.costs)), self.costs))

    def graph(self, left: Ints, right: Ints) -> Graph:
        """Build the graph of pairs given in any order, either way round and more than once.

        >>> scaled(np.array([[0.0], [1.0], [3.0]])).graph(np.array([2, 0, 1]), np.array([0, 1, 0])).right
        array([1, 2])
        """
        codes = np.unique(np.minimum(left, right) * self.n + np.maximum(left, right))
        low, high = codes // self.n, codes % self.n
        return Graph(self.n, low, high, weights_of(self.rows, self.costs, low, high, self.scale))


def scaled(X: AnyPoints) -> Scaled:
    """Scale finite records so that squares neither overflow nor vanish."""
    points = Points.of(X).numbers_first()
    numbers, costs = points.X[:, : points.n_numbers], points.costs[points.n_numbers :]
    mismatch = math.sqrt(costs.max(initial=0.0))
    largest = max(float(numbers.max()), -float(numbers.min()), mismatch)
    spread = max(float((numbers.max(axis=0) * 0.25 - numbers.min(axis=0) * 0.25).max()), mismatch * 0.25)
    # What differs least decides, unless a large value that all records share would overflow.
    shift = min(-math.frexp(spread)[1], 900 - math.frexp(largest)[1])
    numbers, costs = np.ldexp(numbers, shift), np.ldexp(costs, 2 * shift)
    diagonal = float(((numbers.max(axis=0) - numbers.min(axis=0)) ** 2).sum() + costs.sum())
    bits = _BITS - math.frexp(diagonal * 1.001)[1] if diagonal > 0 else 0
    rows = np.ascontiguousarray(np.hstack([numbers, points.X[:, points.n_numbers :]]))
    return Scaled(rows, costs, math.ldexp(1.0, bits), shift, bits + 2 * shift)


def neighbour_graph(points: Scaled, tree: PairTree, count: int) -> Graph:
    """Pair each record with its ``count`` nearest (all others, where there are fewer)."""
    return points.graph(*nearest_pairs(tree, min(count, points.n - 1)))


def complete_graph(points: Scaled) -> Graph:
    left, right = np.triu_indices(points.n, 1)
    return points.graph(left, right)


def with_pairs(points: Scaled, graph: Graph, left: Ints, right: Ints) -> Graph:
    return points.graph(np.concatenate([graph.left, left]), np.concatenate([graph.right, right]))


@dataclass(frozen=True)
class Duals:
    """Duals of a matching of doubled records: y of 2n copies, z and the surrounding node (or -1) of 3n nodes."""

    y: Ints
    z: Ints
    parent: Ints


def _positions(graph: Graph, copies: Ints, mates: Ints) -> Ints:
    """Find where the pairs of matched copies are in the graph's lists; a pair that is matched twice counts once."""
    a, b = copies % graph.n, mates % graph.n
    codes = np.unique(np.minimum(a, b) * graph.n + np.maximum(a, b))
    return np.searchsorted(graph.codes, codes)


def pairs_by_networkx(graph: Graph) -> Ints | None:
    """Match by networkx, the reference; returns positions of a factor's pairs, or None where there is no factor.

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
    return _positions(graph, matched[:, 0], matched[:, 1])


def _searched(graph: Graph) -> Matching | None:
    """Search until every first copy is matched, with a larger heap until it suffices."""
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


def pairs_by_blossoms(graph: Graph) -> tuple[Ints, Duals] | None:
    """Match by our own primal-dual search, in compiled code; the same, with the duals that prove it."""
    matching = _searched(graph)
    if matching is None:
        return None
    matched = np.flatnonzero(matching.copies["mate"] >= 0)
    duals = Duals(matching.copies["y"].copy(), matching.nodes["z"].copy(), matching.nodes["parent"].copy())
    return _positions(graph, matched, matching.copies["mate"][matched]), duals


def cut(graph: Graph, chosen: Ints) -> Ints:
    """Leave out the edges of a factor that both of their records can do without; returns positions of the others.

    The heaviest goes first, of equally heavy ones that of the lowest records. What stays is edges, and paths of
    two edges. In a lightest factor only edges of weight 0 go.
    """
    left, right = graph.left[chosen], graph.right[chosen]
    degree = np.bincount(np.concatenate([left, right]), minlength=graph.n)
    spare = np.flatnonzero((degree[left] > 1) & (degree[right] > 1))
    keep = np.ones(len(chosen), bool)
    for i in spare[np.lexsort((right[spare], left[spare], -graph.weight[chosen[spare]]))]:
        if degree[left[i]] > 1 and degree[right[i]] > 1:
            degree[left[i]] -= 1
            degree[right[i]] -= 1
            keep[i] = False
    return chosen[keep]


def labels_of(graph: Graph, chosen: Ints) -> Ints:
    left, right = graph.left[chosen], graph.right[chosen]
    edges = coo_array((np.ones(len(chosen), np.int8), (left, right)), shape=(graph.n, graph.n))
    component = connected_components(edges, directed=False)[1].astype(np.int64)
    return checked_labels(component, (2, 3), "a minimum-weight factor")


def factor_sse(X: AnyPoints, labels: Ints) -> float:
    """Add up squared distances to the centroids of groups of two and three, from those between records.

    >>> factor_sse(np.array([[0.0], [2.0], [4.0], [1.0], [1.0]]), np.array([0, 0, 0, 1, 1]))
    8.0
    """
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    triple = sizes == 3

    def squared(a: Ints, b: Ints) -> Floats:
        return Points.of(X).squared_distances(order[a], order[b])

    parts = squared(start, start + 1)
    first = start[triple]
    parts[triple] += squared(first, first + 2) + squared(first + 1, first + 2)
    return math.fsum(parts / sizes)


#: Beyond it, sums of a few duals might leave 64 bits.
_LARGEST = 2**60


def _broken(reason: str) -> InternalError:
    return InternalError(f"a bug: the proof of a minimum-weight factor does not hold ({reason}); please report it")


def prices_of(duals: Duals, scale: float) -> Prices:
    """Prepare duals to price pairs; InternalError for duals too large to be summed safely."""
    parent, around = duals.parent, duals.z.copy()
    depth = np.zeros(len(parent), np.int64)
    if max(int(np.abs(duals.y).max()), int(duals.z.max())) > _LARGEST:
        raise _broken("its numbers are too large")
    outer = parent.copy()
    inside = np.flatnonzero(outer >= 0)
    while len(inside):
        if depth.max() > len(parent) or around.max() > _LARGEST:
            raise _broken("its sets are not nested, or their numbers too large")
        depth[inside] += 1
        around[inside] += duals.z[outer[inside]]
        outer[inside] = parent[outer[inside]]
        inside = inside[outer[inside] >= 0]
    return Prices(duals.y, parent, depth, around, scale)


def whole_bound(duals: Duals) -> int:
    """Compute the least whole weight that a factor can have, if no pair is lighter than its price."""
    copies = len(duals.y)
    sizes = np.zeros(len(duals.z), np.int64)
    outer = duals.parent[:copies]
    while np.any(outer >= 0):
        outer = outer[outer >= 0]
        np.add.at(sizes, outer, 1)
        outer = duals.parent[outer]
    used = np.flatnonzero(duals.z)
    if duals.y[copies // 2 :].max() > 0 or duals.z.min() < 0 or np.any(used < copies) or np.any(sizes[used] % 2 == 0):
        raise _broken("a dual has the wrong sign, or a set is even")
    doubled: int = sum(duals.y.tolist()) - sum(
        z * (size // 2) for z, size in zip(duals.z[used].tolist(), sizes[used].tolist(), strict=True)
    )
    return -(-doubled // 2)


def in_units(points: Scaled, whole: int) -> float:
    """Convert a whole weight to a squared distance in units of X, rounded down."""
    p = points.rows.shape[1]
    exact = Fraction(whole) * Fraction(2) ** -points.exponent * (1 - Fraction(p + 3, 2**53))
    return max(0.0, math.nextafter(float(exact), 0.0)) if whole > 0 else 0.0


#: Up to so many records, starting compiled code takes longer than networkx does.
SMALL = 8
_NEIGHBOURS = 8


@dataclass(frozen=True)
class Factor:
    """Minimum-weight [1,2]-factor: its components as groups of two and three, and its certificate.

    ``whole_weight`` was proved to be the least, over all pairs, after so many ``rounds`` of solving and pricing.
    """

    labels: Ints
    certificate: Certificate
    whole_weight: int
    rounds: int


def _solve_and_price(points: Scaled, neighbours: int) -> tuple[Graph, Ints, int]:
    """Solve on candidates and add pairs that could help, until there are none; with the rounds that it took."""
    tree = new_pair_tree(points.rows, points.costs)
    graph = neighbour_graph(points, tree, neighbours)
    rounds, progress = 0, Progress("pairing records")
    while True:
        rounds += 1
        progress.report()
        solved = pairs_by_blossoms(graph)
        if solved is None:
            # Records that are one another's neighbours in the tree's order hold a factor, whatever else is missing.
            graph = with_pairs(points, graph, tree.order[:-1], tree.order[1:])
            continue
        chosen, duals = solved
        left, right = light_pairs(tree, prices_of(duals, points.scale), 8 * points.n + 1024)
        if len(left) > 0:
            graph = with_pairs(points, graph, left, right)
            continue
        if whole_bound(duals) != sum(graph.weight[chosen].tolist()):
            raise InternalError("a bug: a factor weighs more than its proved bound; please report it")
        return graph, chosen, rounds


def minimum_factor(X: AnyPoints, *, few: int = SMALL, neighbours: int = _NEIGHBOURS) -> Factor:
    """Find the lightest set of pairs that meets each record once or twice; a pair weighs its squared distance.

    X are points or an (n, p) array of finite numbers, n >= 2, taken as they are given. Of up to ``few`` records all
    pairs are given to networkx at once; of more, those of each record's ``neighbours`` nearest to our own search, then
    a proof over all others. Both give the same whole weight; the same input gives the same groups. The head of this
    module says what exactly is proved. ValueError for anything else.
    """
    held = np.asarray(X.X if isinstance(X, Points) else X, dtype=np.float64)
    if held.ndim != 2 or len(held) < 2 or held.shape[1] < 1 or not np.isfinite(held).all():
        raise ValueError("a factor needs an (n, p) array of finite numbers, of at least two records and one attribute")
    points = scaled(X if isinstance(X, Points) else held)
    if points.n <= few:
        graph, rounds = complete_graph(points), 1
        factor = pairs_by_networkx(graph)
        if factor is None:
            raise InternalError("a bug: networkx left a record of a complete graph alone; please report it")
    else:
        graph, factor, rounds = _solve_and_price(points, neighbours)
    weight = sum(graph.weight[factor].tolist())
    chosen = cut(graph, factor)
    labels = labels_of(graph, chosen)
    lengths = points.points.squared_distances(graph.left[chosen], graph.right[chosen])
    certificate = Certificate(
        sse=math.ldexp(factor_sse(points.points, labels), -2 * points.shift),
        weight=math.ldexp(math.fsum(lengths), -2 * points.shift),
        bound=in_units(points, weight),
    )
    return Factor(labels, certificate, weight, rounds)
