"""A k-d tree over records: the nearest record outside a component, exactly, ties included.

The records are put in the order of the tree's leaves; a node is a range of that order with the box that holds its
records. Boxes are halved at the median of their widest attribute, equal values by record number.

The squared distance to a box is added up in the same order as that to a record. Rounding never turns an order around,
so no record of the box is nearer than the box, not even by a last bit: a box may be passed over when it is farther than
the best record found, or as far and its lowest number is higher.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from microagg_core.kernels.jit import jit
from microagg_core.kernels.union_find import component_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Most records of a leaf: the least for which compilers were seen to scan a leaf with vector instructions.
LEAF = 64


class Tree(NamedTuple):
    """The records of each leaf, (leaves, p, LEAF), and all numbers in that order; the range, lowest number and box
    of each node.

    Node i has the children 2i+1 and 2i+2; the last half of the nodes are the leaves.
    """

    leaves: Floats
    ids: Ints
    starts: Ints
    stops: Ints
    lowest: Ints
    low: Floats
    high: Floats


@jit
def _set_box(X: Floats, ids: Ints, low: Floats, high: Floats) -> int:
    """Find the box of some records; the attribute in which it is widest, the first of equal ones."""
    widest, width = 0, -1.0
    for j in range(X.shape[0]):
        row = X[j]
        least, most = np.inf, -np.inf
        for i in ids:
            least, most = min(least, row[i]), max(most, row[i])
        low[j], high[j] = least, most
        if most - least > width:
            widest, width = j, most - least
    return widest


@jit
def _halve(row: Floats, ids: Ints) -> None:
    """Put the lower half of the records, by (value, number), first; numbers stay ascending in both halves."""
    values = row[ids]
    half = ids.shape[0] // 2
    median = np.partition(values, half)[half]
    room = half
    for value in values:
        room -= value < median
    first, second = np.empty(half, np.int64), np.empty(ids.shape[0] - half, np.int64)
    a, b = 0, 0
    for i in range(ids.shape[0]):
        # Of the records at the median, those with the lowest numbers fill up the lower half.
        at_median = values[i] == median and room > 0
        if values[i] < median or at_median:
            room -= at_median
            first[a] = ids[i]
            a += 1
        else:
            second[b] = ids[i]
            b += 1
    ids[:half], ids[half:] = first, second


@jit
def build(X: Floats) -> Tree:
    """Build the tree of the records of X, a (p, n) array."""
    p, n = X.shape
    n_leaves = 1
    while n_leaves * LEAF < n:
        n_leaves *= 2
    n_nodes = 2 * n_leaves - 1
    ids = np.arange(n)
    starts, stops, lowest = np.zeros(n_nodes, np.int64), np.full(n_nodes, n), np.empty(n_nodes, np.int64)
    low, high = np.empty((n_nodes, p)), np.empty((n_nodes, p))
    for node in range(n_nodes):
        part = ids[starts[node] : stops[node]]
        lowest[node] = part[0]
        widest = _set_box(X, part, low[node], high[node])
        if node < n_leaves - 1:
            _halve(X[widest], part)
            left = 2 * node + 1
            middle = starts[node] + part.shape[0] // 2
            starts[left], stops[left] = starts[node], middle
            starts[left + 1], stops[left + 1] = middle, stops[node]
    leaves = np.full((n_leaves, p, LEAF), np.inf)
    for leaf in range(n_leaves):
        node = n_leaves - 1 + leaf
        for i in range(stops[node] - starts[node]):
            leaves[leaf, :, i] = X[:, ids[starts[node] + i]]
    return Tree(leaves, ids, starts, stops, lowest, low, high)


@jit
def _distance_to_box(tree: Tree, node: int, point: Floats) -> float:
    low, high = tree.low[node], tree.high[node]
    d = 0.0
    for j in range(point.shape[0]):
        c = point[j]
        if c < low[j]:
            d += (low[j] - c) ** 2
        elif c > high[j]:
            d += (c - high[j]) ** 2
    return d


@jit
def _scan_leaf(
    tree: Tree, node: int, point: Floats, components: Ints, own: int, best: int, best_distance: float
) -> tuple[int, float]:
    """Look for a nearer record in a leaf."""
    block = tree.leaves[node - tree.leaves.shape[0] + 1]
    distances = np.zeros(LEAF)
    for j in range(point.shape[0]):
        row, c = block[j], point[j]
        for i in range(LEAF):
            distances[i] += (row[i] - c) ** 2
    start = tree.starts[node]
    for i in range(tree.stops[node] - start):
        d, record = distances[i], tree.ids[start + i]
        if (d < best_distance or (d == best_distance and record < best)) and component_of(components, record) != own:
            best, best_distance = record, d
    return best, best_distance


@jit
def nearest_outside(tree: Tree, point: Floats, components: Ints, own: int) -> int:
    """The record nearest to ``point`` of those outside component ``own``; of equally near ones the lowest.

    At least one record must be outside. ``components`` is a union-find forest over the records.
    """
    first_leaf = tree.leaves.shape[0] - 1
    best, best_distance = tree.ids.shape[0], np.inf
    waiting, distances = np.empty(64, np.int64), np.empty(64)
    waiting[0], distances[0], count = 0, 0.0, 1
    while count > 0:
        count -= 1
        node, d = waiting[count], distances[count]
        if d > best_distance or (d == best_distance and tree.lowest[node] > best):
            continue
        if node >= first_leaf:
            best, best_distance = _scan_leaf(tree, node, point, components, own, best, best_distance)
            continue
        near, far = 2 * node + 1, 2 * node + 2
        d_near, d_far = _distance_to_box(tree, near, point), _distance_to_box(tree, far, point)
        if d_far < d_near or (d_far == d_near and tree.lowest[far] < tree.lowest[near]):
            near, far, d_near, d_far = far, near, d_far, d_near
        waiting[count], distances[count] = far, d_far
        waiting[count + 1], distances[count + 1] = near, d_near
        count += 2
    return int(best)
