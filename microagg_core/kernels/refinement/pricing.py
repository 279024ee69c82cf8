"""Pricing: the group that costs least beyond the prices of its records, found exactly by branch and bound.

A group S of m records has SSE P(S)/m, P the sum of squared distances over its pairs. It is looked for from its
medoid i, the member with the least sum of squared distances to the others, which is at most twice the SSE. So with
records added one by one to i there are two bounds on what a group can cost beyond prices at the end: one from the
pairs known so far and each candidate's nearest neighbours, one from the medoid's distances alone. Neither
exceeds the truth.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.sorting import stable_order


@jit
def _least_sum(values: Floats, start: int, count: int, small: Floats) -> float:
    """Add up the ``count`` least values from ``start`` on; infinite when there are fewer."""
    if values.shape[0] - start < count:
        return np.inf
    for i in range(count):
        small[i] = np.inf
    for c in range(start, values.shape[0]):
        if count > 0 and values[c] < small[count - 1]:
            i = count - 1
            while i > 0 and small[i - 1] > values[c]:
                small[i] = small[i - 1]
                i -= 1
            small[i] = values[c]
    total = 0.0
    for i in range(count):
        total += small[i]
    return total


@jit
def _candidates(D: Floats, price: Floats, nearest: Floats, i: int, m: int, limit: float, small: Floats) -> Ints:
    """List records that may belong to a group of m around medoid i that costs less than the limit, best first."""
    n = D.shape[0]
    by_medoid, by_pairs = np.empty(n), np.empty(n)
    for c in range(n):
        by_medoid[c] = 0.5 * D[i, c] - price[c]
        by_pairs[c] = D[i, c] / m - price[c] + nearest[c, m - 2] / (2 * m)
    by_medoid[i], by_pairs[i] = np.inf, np.inf
    room_medoid = limit + price[i] - _least_sum(by_medoid, 0, m - 2, small)
    room_pairs = limit + price[i] - _least_sum(by_pairs, 0, m - 2, small)
    kept = np.flatnonzero((by_medoid < room_medoid) & (by_pairs < room_pairs))
    return kept[stable_order(by_pairs[kept])]


@jit
def cheapest_group(
    D: Floats, price: Floats, nearest: Floats, i: int, m: int, limit: float, most_nodes: int, group: Ints
) -> tuple[float, int]:
    """Find the least cost beyond prices, below ``limit``, of a group of m with medoid i, and its members.

    ``D`` has squared distances, ``nearest[c, q]`` the sum of c's q least to others. Gives the limit where
    there is no such group, and the nodes visited: more than ``most_nodes`` means that the search was given up.
    """
    small = np.empty(m + 1)
    names = _candidates(D, price, nearest, i, m, limit, small)
    size = names.shape[0]
    to_group = np.zeros((m, size))
    key = np.empty((m, size))
    medoid_key = np.empty(size)
    for c in range(size):
        to_group[1, c] = D[i, names[c]]
        medoid_key[c] = 0.5 * D[i, names[c]] - price[names[c]]
    at = np.zeros(m + 1, np.int64)
    base, medoid_base = np.zeros(m + 1), np.zeros(m + 1)
    rest, medoid_rest = np.zeros(m + 1), np.zeros(m + 1)
    chosen = np.empty(m, np.int64)
    base[1], medoid_base[1] = -price[i], -price[i]
    best, nodes, t, entering = limit, 0, 1, True
    while t >= 1 and nodes <= most_nodes:
        left = m - t
        if entering:
            nodes += 1
            for c in range(at[t], size):
                key[t, c] = to_group[t, c] / m - price[names[c]] + nearest[names[c], left - 1] / (2 * m)
            rest[t] = _least_sum(key[t], at[t], left - 1, small)
            medoid_rest[t] = _least_sum(medoid_key, at[t], left - 1, small)
            entering = False
        c = at[t]
        at[t] += 1
        if c > size - left:
            t -= 1
            continue
        if base[t] + key[t, c] + rest[t] >= best or medoid_base[t] + medoid_key[c] + medoid_rest[t] >= best:
            continue
        chosen[t] = names[c]
        if left == 1:
            best = base[t] + key[t, c]
            group[0] = i
            group[1:m] = chosen[1:m]
            continue
        base[t + 1] = base[t] + to_group[t, c] / m - price[names[c]]
        medoid_base[t + 1] = medoid_base[t] + medoid_key[c]
        for e in range(c + 1, size):
            to_group[t + 1, e] = to_group[t, e] + D[names[c], names[e]]
        at[t + 1] = c + 1
        t += 1
        entering = True
    return best, nodes


@jit
def price_all(
    D: Floats, price: Floats, nearest: Floats, k: int, most_nodes: int, least: Floats, groups: Ints, sizes: Ints
) -> int:
    """Find for every medoid the least cost beyond prices, at most 0, and its group.

    Gives the nodes visited; -1 when there would have been more than ``most_nodes``: then nothing is proved.
    """
    group, visited = np.empty(2 * k - 1, np.int64), 0
    for i in range(D.shape[0]):
        least[i], sizes[i] = 0.0, 0
        for m in range(k, 2 * k):
            value, nodes = cheapest_group(D, price, nearest, i, m, least[i], most_nodes - visited, group)
            visited += nodes
            if visited > most_nodes:
                return -1
            if value < least[i]:
                least[i], sizes[i] = value, m
                groups[i, :m] = group[:m]
    return visited
