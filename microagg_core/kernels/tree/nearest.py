"""The nearest of the records that remain."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.kernels.machine_code.jit import inlined, uncounted
from microagg_core.kernels.tree.search import NEAREST, Search, count_within, judge, least_distance, scan_is_due
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, leaf_distances


@inlined
def path(boxes: Floats, point: Floats, leaves: int, leaf: int, stack: Ints, bounds: Floats) -> int:
    """Stack every node that hangs on the way from the root to a leaf, and the leaf on top; the stack's height."""
    node, height = leaves + leaf, 0
    while node >> height > 1:
        height += 1
    for at in range(height):
        beside = (node >> (height - 1 - at)) ^ 1
        stack[at], bounds[at] = beside, least_distance(boxes, beside, point)
    stack[height], bounds[height] = node, 0.0
    return height + 1


@inlined
def _add(near: Floats, found: Ints, n_found: int, most: int, d: float, record: int) -> int:
    """Put a record into the sorted list of the nearest, out of which the last falls; how many are found then."""
    if n_found == most and (d > near[most - 1] or (d == near[most - 1] and record > found[most - 1])):
        return n_found
    n_found = min(n_found + 1, most)
    at = n_found - 1
    while at > 0 and (near[at - 1] > d or (near[at - 1] == d and found[at - 1] > record)):
        near[at], found[at] = near[at - 1], found[at - 1]
        at -= 1
    near[at], found[at] = d, record
    return n_found


@inlined
def add_leaf(
    distances: Floats, ids: ShortInts, leaf: int, count: int, near: Floats, found: Ints, n_found: int, most: int
) -> int:
    """Add those of a leaf's records that are near enough; how many are found then."""
    if count_within(distances, near[most - 1]) > 0:
        for i in range(count):
            if distances[i] <= near[most - 1]:
                n_found = _add(near, found, n_found, most, distances[i], int(ids[leaf * LEAF + i]))
    return n_found


@uncounted
def _scan(tree: Tree, search: Search, n_found: int, most: int) -> int:
    """Read every leaf; how many are found then."""
    near, found, point, distances = search.near, search.found, search.point, search.distances
    blocks, ids, counts = tree.blocks, tree.ids, tree.counts
    for leaf in range(tree.size[0]):
        if counts[leaf] > 0:
            leaf_distances(blocks, leaf, point, distances)
            n_found = add_leaf(distances, ids, leaf, counts[leaf], near, found, n_found, most)
    return n_found


@uncounted
def find_nearest(tree: Tree, search: Search, leaf: int, n_found: int, most: int) -> int:
    """Find the ``most`` records nearest to ``search.point``, which lies near a leaf; how many were found.

    They stand in ``search.found``, their squared distances in ``search.near``, by rising distance, equal ones
    by rising number. The first ``n_found`` are already there: those that are farther than what is found now
    fall out, so that a search from several points finds what is nearest to any of them.
    """
    near, found, stack, bounds, distances = search.near, search.found, search.stack, search.bounds, search.distances
    boxes, lowest, point, blocks, ids, counts = (
        tree.boxes,
        tree.lowest,
        search.point,
        tree.blocks,
        tree.ids,
        tree.counts,
    )
    near[n_found:most] = np.inf
    if most == 0 or tree.size[1] == 0:
        return n_found
    if scan_is_due(tree, search, NEAREST):
        return _scan(tree, search, n_found, most)
    leaves, scanned = tree.size[0], 0
    height = path(boxes, point, leaves, leaf, stack, bounds)
    compared = height
    while height > 0:
        height -= 1
        node, bound, limit = stack[height], bounds[height], near[most - 1]
        while bound < limit or (bound == limit and (n_found < most or lowest[node] < found[most - 1])):
            if node >= leaves:
                scanned += 1
                leaf = node - leaves
                leaf_distances(blocks, leaf, point, distances)
                n_found = add_leaf(distances, ids, leaf, counts[leaf], near, found, n_found, most)
                break
            a, b = 2 * node, 2 * node + 1
            to_a, to_b = least_distance(boxes, a, point), least_distance(boxes, b, point)
            compared += 2
            if to_b < to_a or (to_b == to_a and lowest[b] < lowest[a]):
                a, b, to_a, to_b = b, a, to_b, to_a
            if to_b <= limit:
                stack[height], bounds[height] = b, to_b
                height += 1
            node, bound = a, to_a
    judge(tree, search, NEAREST, scanned, compared)
    return n_found
