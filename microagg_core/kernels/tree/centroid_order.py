"""The record farthest from a centroid that moves, by an order by where the centroid once was.

MDAV takes records from the outside, where thousands are nearly as far from the centroid as the farthest, and each
time only a few records leave, so that the centroid hardly moves. A record's distance to it changes by no
more than the centroid has moved. So the farthest records are listed by their distance to an old centroid,
and a search walks down the list only as far as that slack demands.

Rounding is allowed for. With u = 2**-53 and G the greatest absolute value, m times a value and m times the old
centroid are each off by at most u m G an attribute, so that distances made of them are off by at most
2 sqrt(p) u m G; the slack is widened by 8 (p + 8) u m G. All else is off by a share: subtractions, squares, sums of p
terms and roots by at most (p/2 + 4) u each in the old distance, in the way of the centroid and in the new distance,
and their sum by 2u; together that is less than the share 8 (p + 8) u by which the best distance found is lowered
before it ends a walk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.kernels.machine_code.jit import inlined, jit, uncounted
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.tree.farthest import farthest_from_total
from microagg_core.kernels.tree.search import Search
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, leaf_distances, select

#: A list that took so many steps for each record is made anew.
_STEPS = 3
#: A list is worth making if it answers so many searches.
_WORTH = 8
#: Shortest list, and longest time to do without one.
_LEAST, _LONGEST = 1024, 1024


class Order(NamedTuple):
    """The listed records; the arrays are changed in place."""

    center: Floats  #: (p), the old centroid
    radii: Floats  #: distances of the listed records from it, falling
    records: ShortInts  #: the listed records
    rows: Floats  #: (listed, p), their values
    #: First of the list that remains, length of the list, steps since it was made; searches still to do without it,
    #: as many as were ordered last; searches that the list has answered.
    state: Ints
    reach: Floats  #: distance of those that are not listed; greatest absolute value of all


@jit
def new_order(tree: Tree) -> Order:
    """An order without records; the first search fills it."""
    p, n = tree.X.shape
    size = max(_LEAST, n // 8)
    greatest = 0.0
    for j in range(p):
        for i in range(n):
            greatest = max(greatest, abs(tree.X[j, i]))
    return Order(
        np.zeros(p),
        np.empty(size),
        np.empty(size, np.int32),
        np.empty((size, p)),
        np.zeros(6, np.int64),
        np.array([np.inf, greatest]),
    )


@jit
def _list(tree: Tree, order: Order, totals: Floats) -> None:
    """List the farthest of the records that remain, by their distance from the present centroid."""
    m = tree.size[1]
    size = min(max(min(_LEAST, m), m // 8), order.radii.shape[0])
    for j in range(totals.shape[0]):
        order.center[j] = totals[j] / m
    # Negative, so that the farthest come first.
    keys, slots, distances, found = np.empty(m), np.empty(m, np.int32), tree.room[0], 0
    for leaf in range(tree.size[0]):
        leaf_distances(tree.blocks, leaf, order.center, distances)
        for place in range(tree.counts[leaf]):
            keys[found], slots[found] = -distances[place], leaf * LEAF + place
            found += 1
    if size < m:
        select(keys, slots, 0, m, size)
    rank = stable_order(keys[:size])
    for i in range(size):
        slot = slots[rank[i]]
        order.radii[i], order.records[i] = np.sqrt(-keys[rank[i]]), tree.ids[slot]
        for j in range(order.rows.shape[1]):
            order.rows[i, j] = tree.blocks[slot // LEAF, j, slot % LEAF]
    order.reach[0] = order.radii[size - 1] if size < m else -1.0
    order.state[0], order.state[1], order.state[2], order.state[5] = 0, size, 0, 0


@inlined
def _slack(order: Order, m: float, totals: Floats) -> float:
    """How much farther than m times its old distance a record's scaled distance can be, rounding included."""
    moved, rounding = 0.0, 2.0**-50 * (totals.shape[0] + 8)
    for j in range(totals.shape[0]):
        moved += (m * order.center[j] - totals[j]) ** 2
    return float(np.sqrt(moved) + rounding * m * order.reach[1])


@uncounted
def _walk(tree: Tree, order: Order, m: float, totals: Floats, most: int) -> int:
    """The farthest record if no more than so many steps tell it, or -1."""
    p = totals.shape[0]
    slack, rounding = _slack(order, m, totals), 2.0**-50 * (p + 8)
    best, best_distance, enough = -1, -1.0, -1.0
    slots, records, rows, radii = tree.slots, order.records, order.rows, order.radii
    start, stop = order.state[0], order.state[1]
    while start < stop and slots[records[start]] < 0:
        start += 1
    order.state[0], at = start, start
    while at < stop and m * radii[at] + slack >= enough and at - start <= most:
        record = int(records[at])
        if slots[record] >= 0:
            d = 0.0
            for j in range(p):
                d += (m * rows[at, j] - totals[j]) ** 2
            if d > best_distance or (d == best_distance and record < best):
                best, best_distance = record, d
                enough = np.sqrt(d) * (1.0 - rounding)
        at += 1
    order.state[2] += at - start
    beyond = radii[at] if at < stop else order.reach[0]
    return -1 if beyond >= 0.0 and m * beyond + slack >= enough else int(best)


@jit
def farthest_from_centroid(tree: Tree, search: Search, order: Order, totals: Floats) -> int:
    """Of the m records that remain, at least one, the farthest from their total when multiplied by m.

    ``totals`` is their total, rounded. A new list must serve several searches to be worth its making; where
    it does not, because the centroid moves too fast or too many are tied, the tree is asked for a while.
    """
    m, state = tree.size[1], order.state
    if state[3] == 0 and state[2] < _STEPS * m:
        best = _walk(tree, order, float(m), totals, _LEAST + m // 16)
        if best >= 0:
            state[5] += 1
            return best
    if state[3] == 0 and (state[1] == 0 or state[5] >= _WORTH):
        _list(tree, order, totals)
        best = _walk(tree, order, float(m), totals, _LEAST + m // 16)
        if best >= 0:
            state[4] = 0
            return best
    if state[3] == 0:
        state[4] = min(2 * state[4] + 8, _LONGEST)
        state[3], state[5] = state[4] + 1, _WORTH
    state[3] -= 1
    for j in range(totals.shape[0]):
        search.point[j] = totals[j]
    return farthest_from_total(tree, search)
