"""A k-d tree over records that answers for pairs: the nearest of each record, and pairs lighter than their price.

Nodes are numbered so that a node's subtree is followed by node ``skip``: a walk goes to the next node, or skips.
Weights are whole: the squared distance, as summed attribute by attribute in floats, times a power of two, rounded
down. Boxes only ever rule out what lies beyond a limit that is drawn wider than any rounding in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit

LEAF = 12
#: Limits are wider by this factor, and by four units of weight; each rounding here is 1e5 times smaller.
_WIDER = 1.0 + 1e-10


class PairTree(NamedTuple):
    """Records in the tree's order, and for each node its records, box, and the node after its subtree."""

    rows: Floats  #: (n, p), numbers first
    costs: Floats  #: of a mismatch, of each column of codes
    order: Ints  #: the record in each place
    start: Ints
    stop: Ints
    skip: Ints
    low: Floats
    high: Floats


def new_pair_tree(X: Floats, costs: Floats) -> PairTree:
    """Build the tree of the (n, p) records by halving at the median of the widest attribute.

    >>> new_pair_tree(np.arange(30.0).reshape(30, 1), np.zeros(0)).skip.tolist()
    [7, 4, 3, 4, 7, 6, 7]
    """
    numbers = X.shape[1] - len(costs)
    order = np.arange(len(X))
    nodes: list[list[int]] = []
    boxes = []
    waiting = [(0, len(X), [-1])]
    while waiting:
        start, stop, above = waiting.pop()
        rows = X[order[start:stop]]
        boxes.append((rows.min(axis=0), rows.max(axis=0)))
        nodes.append([start, stop, len(nodes) + 1])
        path = [*above, len(nodes) - 1]
        if stop - start > LEAF:
            width = boxes[-1][1] - boxes[-1][0]
            width[numbers:] = np.where(width[numbers:] > 0, np.sqrt(costs), 0.0)
            widest = int(np.argmax(width))
            order[start:stop] = order[start:stop][np.argsort(rows[:, widest], kind="stable")]
            middle = (start + stop) // 2
            waiting += [(middle, stop, path), (start, middle, path)]
        for node in path[1:]:
            nodes[node][2] = len(nodes)
    start, stop, skip = np.array(nodes, np.int64).T.copy()
    low, high = (np.array(side) for side in zip(*boxes, strict=True))
    return PairTree(X[order], costs, order, start, stop, skip, low, high)


@jit
def squared(a: Floats, b: Floats, costs: Floats) -> float:
    """Compute the squared distance of two records, the same for both orders."""
    total, numbers = 0.0, a.shape[0] - costs.shape[0]
    for j in range(numbers):
        total += (a[j] - b[j]) ** 2
    for c in range(costs.shape[0]):
        if a[numbers + c] != b[numbers + c]:
            total += costs[c]
    return total


@jit
def whole(a: Floats, b: Floats, costs: Floats, scale: float) -> int:
    return int(np.floor(scale * squared(a, b, costs)))


@jit
def weights_of(X: Floats, costs: Floats, left: Ints, right: Ints, scale: float) -> Ints:
    out = np.empty(left.shape[0], np.int64)
    for i in range(left.shape[0]):
        out[i] = whole(X[left[i]], X[right[i]], costs, scale)
    return out


@jit
def is_beyond(tree: PairTree, node: int, row: Floats, limit: float) -> bool:
    """Say whether all of a node's records lie at a squared distance of at least the limit."""
    total, numbers = 0.0, row.shape[0] - tree.costs.shape[0]
    for c in range(tree.costs.shape[0]):
        if row[numbers + c] < tree.low[node, numbers + c] or row[numbers + c] > tree.high[node, numbers + c]:
            total += tree.costs[c]
    for j in range(numbers):
        gap = max(tree.low[node, j] - row[j], row[j] - tree.high[node, j])
        if gap > 0:
            total += gap * gap
            if total >= limit:
                return True
    return total >= limit


@jit
def _keep_nearest(tree: PairTree, node: int, place: int, near: Floats, places: Ints) -> None:
    """Put the records of a leaf among the nearest of the record in a place, sorted; the last fall out."""
    last = near.shape[0] - 1
    for other in range(tree.start[node], tree.stop[node]):
        d = squared(tree.rows[place], tree.rows[other], tree.costs)
        if other == place or d >= near[last]:
            continue
        i = last
        while i > 0 and near[i - 1] > d:
            near[i], places[i] = near[i - 1], places[i - 1]
            i -= 1
        near[i], places[i] = d, other


@jit
def nearest_pairs(tree: PairTree, count: int) -> tuple[Ints, Ints]:
    """Pair each record with each of its ``count`` (at most n-1) nearest; of ties, those that the walk meets first."""
    n = tree.rows.shape[0]
    left, right = np.empty(n * count, np.int64), np.empty(n * count, np.int64)
    near, places = np.empty(count), np.empty(count, np.int64)
    for leaf in range(tree.start.shape[0]):
        if tree.skip[leaf] != leaf + 1:
            continue
        for place in range(tree.start[leaf], tree.stop[leaf]):
            near[:] = np.inf
            _keep_nearest(tree, leaf, place, near, places)
            node = 0
            while node < tree.start.shape[0]:
                if node == leaf or is_beyond(tree, node, tree.rows[place], near[count - 1]):
                    node = tree.skip[node]
                    continue
                if tree.skip[node] == node + 1:
                    _keep_nearest(tree, node, place, near, places)
                node += 1
            left[place * count : (place + 1) * count] = tree.order[place]
            for i in range(count):
                right[place * count + i] = tree.order[places[i]]
    return left, right


class Prices(NamedTuple):
    """Duals of a matching of doubled records, ready to price any pair: see :mod:`.matching`."""

    y: Ints  #: of the 2n copies
    parent: Ints  #: of every node
    depth: Ints  #: how many blossoms are around a node
    around: Ints  #: the sum of z over a node and the blossoms around it
    scale: float


@jit
def _shared(prices: Prices, a: int, b: int) -> int:
    """Return the sum of z over the blossoms that hold both copies."""
    while a != b:
        if prices.depth[a] < prices.depth[b]:
            a, b = b, a
        if prices.depth[a] == 0:
            return 0
        a = prices.parent[a]
    total: int = prices.around[a]
    return total


@jit
def missing(prices: Prices, u: int, v: int, doubled: int) -> int:
    """Compute by how much a pair is lighter than its price, over its three edges; 0 or less if it cannot help."""
    n = prices.y.shape[0] // 2
    worst: int = prices.y[u] + prices.y[v] - doubled - _shared(prices, u, v)
    worst = max(worst, prices.y[u] + prices.y[n + v] - doubled - _shared(prices, u, n + v))
    last: int = prices.y[n + u] + prices.y[v] - doubled - _shared(prices, n + u, v)
    return max(worst, last)


@jit
def highest_in(tree: PairTree, most: Ints) -> Ints:
    """Return the largest of ``most``, which is in the tree's order, in every node."""
    highest = np.empty(tree.start.shape[0], np.int64)
    for node in range(tree.start.shape[0] - 1, -1, -1):
        if tree.skip[node] == node + 1:
            highest[node] = most[tree.start[node] : tree.stop[node]].max()
        else:
            highest[node] = max(highest[node + 1], highest[tree.skip[node + 1]])
    return highest


@jit
def light_pairs(tree: PairTree, prices: Prices, room: int) -> tuple[Ints, Ints]:
    """Find pairs lighter than their price (the first ``room``).

    A pair can be light only if its doubled weight is below the sum of its records' larger duals; boxes whose
    records all weigh more are skipped. No pair is left out: what is not returned has been shown not to be light.
    """
    n = tree.rows.shape[0]
    left, right = np.empty(room, np.int64), np.empty(room, np.int64)
    found = 0
    most = np.maximum(prices.y[tree.order], prices.y[tree.order + n])
    highest = highest_in(tree, most)
    unit = _WIDER / (2.0 * prices.scale)
    for place in range(n):
        row, u, own = tree.rows[place], tree.order[place], most[place]
        node = 0
        while node < tree.start.shape[0]:
            limit = (own + highest[node] + 4) * unit
            if tree.stop[node] <= place + 1 or is_beyond(tree, node, row, limit):
                node = tree.skip[node]
                continue
            if tree.skip[node] == node + 1:
                for other in range(max(tree.start[node], place + 1), tree.stop[node]):
                    doubled = 2 * whole(row, tree.rows[other], tree.costs, prices.scale)
                    if doubled < own + most[other] and missing(prices, u, tree.order[other], doubled) > 0:
                        if found == room:
                            return left, right
                        left[found], right[found] = u, tree.order[other]
                        found += 1
            node += 1
    return left[:found], right[:found]


@jit
def _partners(tree: PairTree, price: Ints, highest: Ints, place: int, scale: float, slack: int, out: Ints) -> int:
    """Find places for cheap groups in which no price is higher than this place's: how many, into ``out``.

    Of three records, W_ac + W_bc is at least W_ab / 2, so that a triple costs at least 3 W for any two of it.
    """
    found, node = 0, 0
    row, own = tree.rows[place], price[place]
    unit = _WIDER / (3.0 * scale)
    while node < tree.start.shape[0]:
        limit = (2 * own + min(highest[node], own) + slack + 16) * unit
        if limit <= 0 or is_beyond(tree, node, row, limit):
            node = tree.skip[node]
            continue
        if tree.skip[node] == node + 1:
            for other in range(tree.start[node], tree.stop[node]):
                lower = price[other] < own or (price[other] == own and other > place)
                if lower and squared(row, tree.rows[other], tree.costs) < (2 * own + price[other] + slack + 16) * unit:
                    out[found] = other
                    found += 1
        node += 1
    return found


@jit
def _note(groups: Ints, excess: Ints, count: int, a: int, b: int, c: int, by: int) -> int:
    """Write a group down; returns how many there are then."""
    groups[count, 0], groups[count, 1], groups[count, 2] = a, b, c
    excess[count] = by
    return count + 1


@jit
def cheap_groups(tree: PairTree, price_of: Ints, scale: float, slack: int, room: int) -> tuple[Ints, Ints, bool]:
    """Find pairs and triples that cost less than their prices plus ``slack``, and by how much without it.

    A group's whole cost is six times its SSE in whole weights W: 3 W for a pair, 2 (W_ab + W_ac + W_bc) for a triple.

    Groups are rows of three records, -1 in the third place of a pair. The last value tells whether these are all:
    then every other group costs at least its prices and the slack. Otherwise the search ended with about ``room``.
    """
    n = tree.rows.shape[0]
    groups, excess = np.empty((room + n, 3), np.int64), np.empty(room + n, np.int64)
    price = price_of[tree.order]
    highest = highest_in(tree, price)
    near, first = np.empty(n, np.int64), np.empty(n, np.int64)
    count = 0
    for a in range(n):
        size = _partners(tree, price, highest, a, scale, slack, near)
        for i in range(size):
            first[i] = whole(tree.rows[a], tree.rows[near[i]], tree.costs, scale)
        for i in range(size):
            if count >= room:
                return groups[:count], excess[:count], False
            b = near[i]
            gain = price[a] + price[b] - 3 * first[i]
            if gain + slack > 0:
                count = _note(groups, excess, count, tree.order[a], tree.order[b], -1, gain)
            for j in range(i):
                gain = price[a] + price[b] + price[near[j]] - 2 * (first[i] + first[j])
                if gain + slack <= 0:
                    continue
                gain -= 2 * whole(tree.rows[b], tree.rows[near[j]], tree.costs, scale)
                if gain + slack > 0:
                    count = _note(groups, excess, count, tree.order[a], tree.order[b], tree.order[near[j]], gain)
    return groups[:count], excess[:count], True
