"""The nearest record outside a component, ties included."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.kernels.machine_code.jit import inlined, uncounted
from microagg_core.kernels.tools.union_find import component_of
from microagg_core.kernels.tree.nearest import path
from microagg_core.kernels.tree.search import Search, count_within, least_distance
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, leaf_distances


@inlined
def _look(
    distances: Floats,
    ids: ShortInts,
    leaf: int,
    count: int,
    components: Ints,
    own: int,
    best: int,
    best_distance: float,
) -> tuple[int, float]:
    """The nearest record so far, with those of a leaf."""
    if count_within(distances, best_distance) > 0:
        for i in range(count):
            d, record = distances[i], int(ids[leaf * LEAF + i])
            is_nearer = d < best_distance or (d == best_distance and record < best)
            if is_nearer and component_of(components, record) != own:
                best, best_distance = record, d
    return best, best_distance


@uncounted
def nearest_outside(tree: Tree, search: Search, leaf: int, components: Ints, own: int) -> int:
    """The record nearest to ``search.point``, which is near a leaf, of those outside the component ``own``.

    Of equally near ones it is the lowest. At least one record must be outside; ``components`` is a union-find forest
    over the records.
    """
    stack, bounds, distances, point = search.stack, search.bounds, search.distances, search.point
    boxes, lowest, blocks, ids, counts = tree.boxes, tree.lowest, tree.blocks, tree.ids, tree.counts
    leaves, best, best_distance = tree.size[0], int(components.shape[0]), np.inf
    height = path(boxes, point, leaves, leaf, stack, bounds)
    while height > 0:
        height -= 1
        node, bound = stack[height], bounds[height]
        while bound < best_distance or (bound == best_distance and lowest[node] < best):
            if node >= leaves:
                leaf = node - leaves
                leaf_distances(blocks, leaf, point, distances)
                best, best_distance = _look(distances, ids, leaf, counts[leaf], components, own, best, best_distance)
                break
            a, b = 2 * node, 2 * node + 1
            to_a, to_b = least_distance(boxes, a, point), least_distance(boxes, b, point)
            if to_b < to_a or (to_b == to_a and lowest[b] < lowest[a]):
                a, b, to_a, to_b = b, a, to_b, to_a
            if to_b <= best_distance:
                stack[height], bounds[height] = b, to_b
                height += 1
            node, bound = a, to_a
    return best
