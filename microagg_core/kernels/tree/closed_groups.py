"""Groups that are closed but may still be joined: the one whose sum of squares grows least when a record joins it.

A tree over places, made once, says where groups are: a group belongs to the leaf of the record that it was made
around. Groups stand in blocks of ``ROOM``, attribute by attribute, and each leaf has a chain of blocks. Every node
keeps a box that holds the centroids of its groups; it only ever grows, when a group is made or its centroid moves.

A record at x that joins a group of s records with the centroid c adds s / (s + 1) |x - c|^2, which is at least
w |x - c|^2 with w = k / (k + 1). Boxes bound |x - c|, by numbers; as centroids are rounded, limits are drawn wider.
With u = 2**-53 and G the greatest absolute value, a centroid is off by at most u G an attribute, and so is s times a
record by s times that; all else, the squares, their sum, the division and the root, is off by a share of at most
(p + 6) u. So where b is the least growth that was found, no group in a box farther than
sqrt(b / w) (1 + 8 (p + 8) u) + 8 (p + 8) u G grows by as little as b, not even by a last bit.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.kernels.machine_code.jit import inlined, jit, uncounted
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.tools.sums import add
from microagg_core.kernels.tree.searches import Search, farthest_from_total, least_by_numbers, path
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, distances_by_numbers, select
from microagg_core.kernels.values import Total, from_total

#: A list that took so many steps for each record is made anew.
_STEPS = 3
#: A list is worth making if it answers so many searches.
_WORTH = 8
#: Shortest list, and longest time to do without one.
_LEAST, _LONGEST = 1024, 1024


class Order(NamedTuple):
    """Listed records; the arrays are changed in place."""

    center: Floats  #: (numbers), the old centroid
    shares: Floats  #: and the old shares of all codes
    radii: Floats  #: distances of the listed records from it, falling
    records: ShortInts  #: the listed records
    rows: Floats  #: (listed, p), their values
    #: First of the list that remains, length of the list, steps since it was made; searches still to do without it,
    #: as many as were ordered last; searches that the list has answered.
    state: Ints
    reach: Floats  #: distance of those that are not listed; greatest absolute value of all


@jit
def new_order(tree: Tree, total: Total) -> Order:
    """Make an order without records; the first search fills it."""
    p, n = tree.X.shape
    size = max(_LEAST, n // 8)
    greatest = 0.0
    for j in range(p - tree.costs.shape[0]):
        greatest = max(greatest, np.abs(tree.X[j]).max())
    return Order(
        np.zeros(total.sums.shape[1]),
        np.zeros(total.counts.shape[0]),
        np.empty(size),
        np.empty(size, np.int32),
        np.empty((size, p)),
        np.zeros(6, np.int64),
        np.array([np.inf, greatest]),
    )


@jit
def _list(tree: Tree, order: Order, total: Total) -> None:
    """List the farthest of the records that remain, by their distance from the present centroid."""
    m = tree.size[1]
    size = min(max(min(_LEAST, m), m // 8), order.radii.shape[0])
    numbers, costs = order.center.shape[0], tree.costs
    for j in range(numbers):
        order.center[j] = total.sums[0, j] / m
    for code in range(order.shares.shape[0]):
        order.shares[code] = total.counts[code] / m
    # Negative, so that the farthest come first.
    keys, slots, distances, found = np.empty(m), np.empty(m, np.int32), tree.room[0], 0
    for leaf in range(tree.size[0]):
        distances_by_numbers(tree.blocks, leaf, numbers, order.center, distances)
        for c in range(costs.shape[0]):
            for place in range(tree.counts[leaf]):
                code = tree.blocks[leaf, numbers + c, place]
                distances[place] += from_total(total, costs, float(m), c, code) / m / m
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
def _slack(tree: Tree, order: Order, m: float, total: Total) -> float:
    """Bound how much farther than m times its old distance a record's scaled distance can be, rounding included."""
    totals, costs, widest = total.sums[0], tree.costs, order.reach[1]
    moved, rounding = 0.0, 2.0**-50 * (tree.X.shape[0] + 8)
    for j in range(totals.shape[0]):
        moved += (m * order.center[j] - totals[j]) ** 2
    for c in range(costs.shape[0]):
        apart = 0.0
        for code in range(total.starts[c], total.starts[c + 1]):
            apart += (m * order.shares[code] - total.counts[code]) ** 2
        moved += 0.5 * costs[c] * apart
        widest += np.sqrt(costs[c]) * 2.0**25
    return float(np.sqrt(moved) + rounding * m * widest)


@uncounted
def _walk(tree: Tree, order: Order, m: float, total: Total, most: int) -> int:
    """Find the farthest record within so many steps, else -1."""
    totals, costs, numbers = total.sums[0], tree.costs, total.sums.shape[1]
    slack, rounding = _slack(tree, order, m, total), 2.0**-50 * (tree.X.shape[0] + 8)
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
            for j in range(numbers):
                d += (m * rows[at, j] - totals[j]) ** 2
            for c in range(costs.shape[0]):
                d += from_total(total, costs, m, c, rows[at, numbers + c])
            if d > best_distance or (d == best_distance and record < best):
                best, best_distance = record, d
                enough = np.sqrt(d) * (1.0 - rounding)
        at += 1
    order.state[2] += at - start
    beyond = radii[at] if at < stop else order.reach[0]
    return -1 if beyond >= 0.0 and m * beyond + slack >= enough else int(best)


@jit
def farthest_from_centroid(tree: Tree, search: Search, order: Order, total: Total) -> int:
    """Find the record, of the m that remain, that is farthest from their total when multiplied by m.

    MDAV takes records from the outside, where thousands are nearly as far from the centroid as the farthest, and each
    time only a few records leave, so that the centroid hardly moves. A record's distance to it changes by no
    more than the centroid has moved. So the farthest records are listed by their distance to an old centroid,
    and a search walks down the list only as far as that slack demands.

    Rounding is allowed for. With u = 2**-53 and G the greatest absolute value, m times a value and m times the old
    centroid are each off by at most u m G an attribute, so that distances made of them are off by at most 2 sqrt(p) u m
    G; the slack is widened by 8 (p + 8) u m G. All else is off by a share: subtractions, squares, sums of p terms and
    roots by at most (p/2 + 4) u each in the old distance, in the way of the centroid and in the new distance, and their
    sum by 2u; together that is less than the share 8 (p + 8) u by which the best distance found is lowered before it
    ends a walk.

    What codes make of an old squared distance comes from whole numbers and is off by a share of m squared, so that its
    root may be off by 2**-25 of the root of their cost, which the slack allows for, too.

    ``total`` is their total, rounded. A new list must serve several searches to be worth its making; where
    it does not, because the centroid moves too fast or too many are tied, the tree is asked for a while.
    """
    m, state = tree.size[1], order.state
    if state[3] == 0 and state[2] < _STEPS * m:
        best = _walk(tree, order, float(m), total, _LEAST + m // 16)
        if best >= 0:
            state[5] += 1
            return best
    if state[3] == 0 and (state[1] == 0 or state[5] >= _WORTH):
        _list(tree, order, total)
        best = _walk(tree, order, float(m), total, _LEAST + m // 16)
        if best >= 0:
            state[4] = 0
            return best
    if state[3] == 0:
        state[4] = min(2 * state[4] + 8, _LONGEST)
        state[3], state[5] = state[4] + 1, _WORTH
    state[3] -= 1
    return farthest_from_total(tree, search, total)


Found: TypeAlias = tuple[int, float, float]

#: Groups of a block.
ROOM = 8
#: Leaves of the records' tree that make one leaf here.
_LEAVES = 4
#: Most searches in a row that look at every group, before the tree is tried again.
_MOST_SCANS = 512


class ClosedGroups(NamedTuple):
    """Groups in blocks of ``ROOM``; a slot is a block's number times ``ROOM`` plus a place in it."""

    home: ShortInts  #: (n), the leaf of each record
    totals: Floats  #: (blocks, 2, numbers, ROOM), high and low parts; NaN where there is no group
    sizes: Floats  #: (blocks, ROOM)
    lowest: ShortInts  #: (blocks * ROOM), lowest record number
    labels: ShortInts  #: (blocks * ROOM), the number of the group
    last: ShortInts  #: (leaves), the last block of each leaf's chain, -1 if it has none
    before: ShortInts  #: (blocks), the block before it in the chain, -1 if it is the first
    leaves: ShortInts  #: (blocks), the leaf of each block
    counts: Ints  #: (blocks), groups of each block
    boxes: Floats  #: (2 * leaves, 2, numbers), least and greatest values of the centroids below each node
    first: ShortInts  #: (blocks * ROOM), a member of each group, and (n) the next member after each; -1: none
    following: ShortInts
    within: Floats  #: (blocks * ROOM), what codes have alike over all ordered pairs of members, each with itself, too
    growths: Floats  #: (2, ROOM), numerators and growths for one block
    terms: Floats  #: w, the share and the length by which limits are wider
    #: Leaves, blocks in use, groups, searches still to look at every group, and how many were ordered last.
    state: Ints


@jit
def new_closed_groups(tree: Tree, k: int) -> ClosedGroups:
    """Make room for the groups of k and more of all records of a tree out of which none was taken yet."""
    n, p = tree.X.shape[1], tree.center.shape[0]
    leaves = (tree.size[0] + _LEAVES - 1) // _LEAVES
    blocks = n // (k * ROOM) + leaves + 1
    rounding, greatest = 2.0**-50 * (p + 8), 0.0
    for j in range(p):
        greatest = max(greatest, np.abs(tree.X[j]).max())
    boxes = np.empty((2 * leaves, 2, p))
    boxes[:, 0], boxes[:, 1] = np.inf, -np.inf
    return ClosedGroups(
        (tree.slots // (LEAF * _LEAVES)).astype(np.int32),
        np.full((blocks, 2, p, ROOM), np.nan),
        np.ones((blocks, ROOM)),
        np.empty(blocks * ROOM, np.int32),
        np.empty(blocks * ROOM, np.int32),
        np.full(leaves, -1).astype(np.int32),
        np.empty(blocks, np.int32),
        np.empty(blocks, np.int32),
        np.zeros(blocks, np.int64),
        boxes,
        np.full(blocks * ROOM, -1).astype(np.int32),
        np.empty(n, np.int32),
        np.zeros(blocks * ROOM),
        np.empty((2, ROOM)),
        np.array([k / (k + 1.0), 1.0 + rounding, rounding * greatest]),
        np.array([leaves, 0, 0, 0, 0]),
    )


@uncounted
def new_group(groups: ClosedGroups, record: int) -> int:
    """Make an empty group around a record; returns its slot."""
    state, leaf = groups.state, groups.home[record]
    block = int(groups.last[leaf])
    if block < 0 or groups.counts[block] == ROOM:
        groups.before[state[1]], groups.last[leaf] = block, state[1]
        block = state[1]
        groups.leaves[block] = leaf
        state[1] += 1
    place = groups.counts[block]
    groups.counts[block] += 1
    groups.totals[block, :, :, place] = 0.0
    groups.sizes[block, place] = 0.0
    slot = block * ROOM + place
    groups.lowest[slot], groups.labels[slot] = groups.home.shape[0], state[2]
    state[2] += 1
    return int(slot)


@uncounted
def add_member(groups: ClosedGroups, slot: int, X: Floats, costs: Floats, record: int) -> None:
    block, place = slot // ROOM, slot % ROOM
    totals, numbers = groups.totals, X.shape[0] - costs.shape[0]
    for c in range(costs.shape[0]):
        shared, member = 0.5, groups.first[slot]
        while member >= 0:
            shared += X[numbers + c, member] == X[numbers + c, record]
            member = groups.following[member]
        groups.within[slot] += 2.0 * costs[c] * shared
    groups.following[record], groups.first[slot] = groups.first[slot], record
    for j in range(numbers):
        totals[block, 0, j, place], totals[block, 1, j, place] = add(
            totals[block, 0, j, place], totals[block, 1, j, place], X[j, record]
        )
    groups.sizes[block, place] += 1.0
    groups.lowest[slot] = min(groups.lowest[slot], record)


@uncounted
def hold(groups: ClosedGroups, slot: int) -> None:
    """Widen the boxes above a group, which was made or has grown, so that they hold its centroid."""
    boxes, block, place = groups.boxes, slot // ROOM, slot % ROOM
    node, widened = groups.state[0] + groups.leaves[block], True
    while node > 0 and widened:
        widened = False
        for j in range(boxes.shape[2]):
            value = groups.totals[block, 0, j, place] / groups.sizes[block, place]
            if value < boxes[node, 0, j]:
                boxes[node, 0, j], widened = value, True
            if value > boxes[node, 1, j]:
                boxes[node, 1, j], widened = value, True
        node >>= 1


@inlined
def _apart(groups: ClosedGroups, tree: Tree, slot: int, point: Floats) -> float:
    """Compute what codes make of the squared distance of so many times a record's values as a group has members."""
    costs, numbers, size, apart = tree.costs, groups.boxes.shape[2], groups.sizes[slot // ROOM, slot % ROOM], 0.0
    for c in range(costs.shape[0]):
        shared, member = 0.0, groups.first[slot]
        while member >= 0:
            shared += tree.X[numbers + c, member] == point[numbers + c]
            member = groups.following[member]
        apart += costs[c] * (size * size - 2.0 * size * shared)
    return float(0.5 * (apart + groups.within[slot]))


@inlined
def _read(
    groups: ClosedGroups, tree: Tree, block: int, point: Floats, best: int, least: float, numerator: float
) -> Found:
    """Update the best group so far, by its slot, its growth and the growth's numerator, with the groups of a block."""
    totals, sizes, growths, lowest = groups.totals, groups.sizes, groups.growths, groups.lowest
    for i in range(ROOM):
        growths[0, i] = 0.0
    for j in range(groups.boxes.shape[2]):
        c = point[j]
        for i in range(ROOM):
            growths[0, i] += (sizes[block, i] * c - totals[block, 0, j, i]) ** 2
    reached = 0
    for i in range(ROOM):
        growths[1, i] = growths[0, i] / (sizes[block, i] * (sizes[block, i] + 1.0))
        reached += growths[1, i] <= least
    if reached > 0:
        for i in range(groups.counts[block]):
            slot = block * ROOM + i
            if tree.costs.shape[0] > 0 and growths[1, i] <= least:
                growths[0, i] += _apart(groups, tree, slot, point)
                growths[1, i] = growths[0, i] / (sizes[block, i] * (sizes[block, i] + 1.0))
            d = growths[1, i]
            if d < least or (d == least and (best < 0 or lowest[slot] < lowest[best])):
                best, least, numerator = slot, d, growths[0, i]
    return best, least, numerator


@uncounted
def _scan(groups: ClosedGroups, tree: Tree, point: Floats) -> Found:
    best, least, numerator = -1, np.inf, np.inf
    for block in range(groups.state[1]):
        best, least, numerator = _read(groups, tree, block, point, best, least, numerator)
    return best, least, numerator


@uncounted
def _walk_groups(groups: ClosedGroups, tree: Tree, search: Search, leaf: int) -> Found:
    """Look where the boxes do not rule groups out, at first near a leaf."""
    point, stack, bounds, boxes = search.point, search.stack, search.bounds, groups.boxes
    leaves, read, terms = groups.state[0], 0, groups.terms
    best, least, numerator, limit = -1, np.inf, np.inf, np.inf
    height = path(leaves, leaf, stack, bounds)
    for at in range(height - 1):
        bounds[at] = least_by_numbers(boxes, stack[at], point)
    compared = height
    while height > 0:
        height -= 1
        node, bound = stack[height], bounds[height]
        while bound <= limit:
            if node >= leaves:
                block = int(groups.last[node - leaves])
                while block >= 0:
                    best, least, numerator = _read(groups, tree, block, point, best, least, numerator)
                    block = int(groups.before[block])
                    read += 1
                limit = (np.sqrt(least / terms[0]) * terms[1] + terms[2]) ** 2
                break
            a, b = 2 * node, 2 * node + 1
            to_a, to_b = least_by_numbers(boxes, a, point), least_by_numbers(boxes, b, point)
            compared += 2
            if to_b < to_a:
                a, b, to_a, to_b = b, a, to_b, to_a
            if to_b <= limit:
                stack[height], bounds[height] = b, to_b
                height += 1
            node, bound = a, to_a
    # Where this took as long as to look at every group, look at every group for a while.
    state = groups.state
    disappoints = read + compared >= 8 + state[1]
    state[4] = min(2 * state[4] + 8, _MOST_SCANS) if disappoints else 0
    state[3] = state[4]
    return best, least, numerator


@uncounted
def cheapest_to_join(groups: ClosedGroups, tree: Tree, search: Search, record: int) -> tuple[int, float, float]:
    """Return of the groups, at least one, the slot of that which grows least when a record, ``search.point``, joins it.

    Its growth is the second number over the third: nothing is divided before it is compared. Of several groups, the
    one with the lowest record number.
    """
    if groups.state[3] > 0:
        groups.state[3] -= 1
        best, _, numerator = _scan(groups, tree, search.point)
    else:
        best, _, numerator = _walk_groups(groups, tree, search, groups.home[record])
    size = groups.sizes[best // ROOM, best % ROOM]
    return best, numerator, size * (size + 1.0)
