"""The farthest of the records that remain, from a record or from any point.

MDAV leaves a ball-like rest, on whose surface the record that is farthest from another one lies almost opposite to
it. A box tells little of that: its far corner sticks out of the ball. With R the radius of the records around a
point c, and a the point on the sphere opposite to the record r that is searched from, every x with |x-c| = q has

    |x-r|^2 = q^2 (1 + w/R) + w^2 + w R - (w/R) |x-a|^2,   w = |r-c|

so the farthest from r is much the same as the nearest to a, and boxes bound that well. The bound is not computed
as the distance is: it is widened by more than all that rounding can do. c and R may be any numbers, so that
their rounding does not matter; that of a moves it by at most e, and (|x-a| - e)^2 is at least
(1-t) |x-a|^2 - e^2/t for any t. With u = 2**-53, a's rounding is at most (p/2 + 6) u R + sqrt(p) u |c|, and e is taken
as 8 (p + 8) u (|c| + 2R), |c| being the greatest of c's values. All else is off by a share, in sum at most (5p + 20) u:
q^2, w^2, |x-a|^2 and the distance itself by (p + 2) u, w and w/R by half of that, and the bound's own arithmetic by
a few u. The term that is subtracted is never greater than the others together, as a square is not negative, so it is
enough to widen those, by 8 (p + 8) u. Where R or w is so small that squares may vanish, there is no such bound.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, ShortInts
from microagg_core.kernels.machine_code.jit import inlined, uncounted
from microagg_core.kernels.tree.search import (
    FARTHEST_FROM_CENTROID,
    FARTHEST_FROM_RECORD,
    Search,
    count_beyond,
    greatest_distance,
    judge,
    least_distance,
    scan_is_due,
)
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, leaf_distances

#: Below this part of the largest value, a radius says nothing that rounding has not blurred.
_BLUR = 2.0**-40
#: The square of a smaller radius, times what rounding leaves of it, may vanish.
_VANISHING = 2.0**-450
#: The t of the module's text.
_SHRINK = 2.0**-20


@inlined
def _scaled_distances(blocks: Floats, leaf: int, factor: float, point: Floats, out: Floats) -> None:
    """Squared distances of ``factor`` times the records of a leaf from a point."""
    c = point[0]
    for i in range(LEAF):
        out[i] = (factor * blocks[leaf, 0, i] - c) ** 2
    for j in range(1, point.shape[0]):
        c = point[j]
        for i in range(LEAF):
            out[i] += (factor * blocks[leaf, j, i] - c) ** 2


@inlined
def _look_opposite(tree: Tree, search: Search) -> None:
    """Set the antipode and the terms 1 + w/R, w^2 + w R and w/R; the last is negative where there is no bound."""
    point, antipode, center, terms = search.point, search.antipode, tree.center, search.terms
    away, size = 0.0, 0.0
    for j in range(point.shape[0]):
        away += (center[j] - point[j]) ** 2
        size = max(size, abs(center[j]))
    radius, away = np.sqrt(tree.radii[1]), np.sqrt(away)
    blurred = _BLUR * max(size, radius)
    if not (radius > max(blurred, _VANISHING) and away > blurred and away < radius / _BLUR):
        terms[2] = -1.0
        return
    for j in range(point.shape[0]):
        antipode[j] = center[j] + radius * ((center[j] - point[j]) / away)
    rounding = 2.0**-50 * (point.shape[0] + 8)
    ratio, error = away / radius, rounding * (size + 2.0 * radius)
    constant = (away * away + away * radius) * (1.0 + rounding) + ratio * (error * error / _SHRINK)
    terms[0], terms[1], terms[2] = (1.0 + ratio) * (1.0 + rounding), constant, ratio * (1.0 - _SHRINK)


@inlined
def _update(
    distances: Floats, ids: ShortInts, leaf: int, count: int, best: int, best_distance: float
) -> tuple[int, float]:
    """The farthest record and its distance, with those of a leaf."""
    if count_beyond(distances, best_distance) > 0:
        for i in range(count):
            d, record = distances[i], int(ids[leaf * LEAF + i])
            if d > best_distance or (d == best_distance and record < best):
                best, best_distance = record, d
    return best, best_distance


@uncounted
def _scan(tree: Tree, search: Search, factor: float) -> int:
    """Read every leaf for the farthest record."""
    blocks, ids, counts, point, distances = tree.blocks, tree.ids, tree.counts, search.point, search.distances
    best, best_distance = -1, -1.0
    for leaf in range(tree.size[0]):
        if counts[leaf] > 0:
            if factor == 1.0:
                leaf_distances(blocks, leaf, point, distances)
            else:
                _scaled_distances(blocks, leaf, factor, point, distances)
            best, best_distance = _update(distances, ids, leaf, counts[leaf], best, best_distance)
    return best


@inlined
def _bound(
    boxes: Floats, radii: Floats, node: int, factor: float, point: Floats, antipode: Floats, terms: Floats
) -> float:
    """What no record below a node exceeds; negative if there is none."""
    if radii[node] < 0.0:
        return -1.0
    if terms[2] < 0.0:
        return greatest_distance(boxes, node, factor, point)
    return float(terms[0] * radii[node] + terms[1] - terms[2] * least_distance(boxes, node, antipode))


@uncounted
def _walk(tree: Tree, search: Search, factor: float, kind: int) -> int:
    """The farthest record by the tree; at least one remains."""
    stack, bounds, distances, terms = search.stack, search.bounds, search.distances, search.terms
    point, antipode = search.point, search.antipode
    boxes, lowest, radii, blocks, ids, counts = tree.boxes, tree.lowest, tree.radii, tree.blocks, tree.ids, tree.counts
    leaves, scanned, compared = tree.size[0], 0, 0
    best, best_distance = -1, -1.0
    stack[0], bounds[0], height = 1, np.inf, 1
    while height > 0:
        height -= 1
        node, bound = stack[height], bounds[height]
        while bound > best_distance or (bound == best_distance and lowest[node] < best):
            if terms[2] >= 0.0 and best >= 0:
                bound = greatest_distance(boxes, node, factor, point)
                compared += 1
                if bound < best_distance or (bound == best_distance and lowest[node] > best):
                    break
            if node >= leaves:
                scanned += 1
                leaf = node - leaves
                if factor == 1.0:
                    leaf_distances(blocks, leaf, point, distances)
                else:
                    _scaled_distances(blocks, leaf, factor, point, distances)
                best, best_distance = _update(distances, ids, leaf, counts[leaf], best, best_distance)
                break
            a, b = 2 * node, 2 * node + 1
            to_a = _bound(boxes, radii, a, factor, point, antipode, terms)
            to_b = _bound(boxes, radii, b, factor, point, antipode, terms)
            compared += 2
            if to_b > to_a or (to_b == to_a and lowest[b] < lowest[a]):
                a, b, to_a, to_b = b, a, to_b, to_a
            if to_b >= best_distance:
                stack[height], bounds[height] = b, to_b
                height += 1
            node, bound = a, to_a
    judge(tree, search, kind, scanned, compared)
    return best


@uncounted
def farthest_from_record(tree: Tree, search: Search) -> int:
    """Of the records that remain, at least one, the farthest from the record at ``search.point``."""
    if scan_is_due(tree, search, FARTHEST_FROM_RECORD):
        return _scan(tree, search, 1.0)
    _look_opposite(tree, search)
    return _walk(tree, search, 1.0, FARTHEST_FROM_RECORD)


@uncounted
def farthest_from_total(tree: Tree, search: Search) -> int:
    """Of the m records that remain, at least one, the farthest from ``search.point`` when multiplied by m."""
    factor = float(tree.size[1])
    if scan_is_due(tree, search, FARTHEST_FROM_CENTROID):
        return _scan(tree, search, factor)
    search.terms[2] = -1.0
    return _walk(tree, search, factor, FARTHEST_FROM_CENTROID)
