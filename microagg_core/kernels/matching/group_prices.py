"""Pairs and triples of records that cost less than their records' prices: what a set partition could still use.

A group's whole cost is six times its SSE in whole weights W: 3 W for a pair, 2 (W_ab + W_ac + W_bc) for a triple.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.matching.pair_tree import PairTree, highest_in, is_beyond, squared, whole

_WIDER = 1.0 + 1e-10


@jit
def _partners(tree: PairTree, price: Ints, highest: Ints, place: int, scale: float, slack: int, out: Ints) -> int:
    """Places that can be in a cheap group in which no price is higher than this place's: how many, into ``out``.

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
                if lower and squared(row, tree.rows[other]) < (2 * own + price[other] + slack + 16) * unit:
                    out[found] = other
                    found += 1
        node += 1
    return found


@jit
def _note(groups: Ints, excess: Ints, count: int, a: int, b: int, c: int, by: int) -> int:
    """Write a group down; how many there are then."""
    groups[count, 0], groups[count, 1], groups[count, 2] = a, b, c
    excess[count] = by
    return count + 1


@jit
def cheap_groups(tree: PairTree, price_of: Ints, scale: float, slack: int, room: int) -> tuple[Ints, Ints, bool]:
    """Groups of two and three whose cost is below the sum of their prices plus ``slack``, and by how much without it.

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
            first[i] = whole(tree.rows[a], tree.rows[near[i]], scale)
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
                gain -= 2 * whole(tree.rows[b], tree.rows[near[j]], scale)
                if gain + slack > 0:
                    count = _note(groups, excess, count, tree.order[a], tree.order[b], tree.order[near[j]], gain)
    return groups[:count], excess[:count], True
