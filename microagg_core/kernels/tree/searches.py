"""Searches in the tree for the nearest and the farthest of the records that remain, or scans where boxes tell nothing.

Where boxes tell nothing apart (many attributes, no structure), walking the tree costs more than reading every
leaf. Each search through the tree says what it cost, in leaves read; when that is no less than a scan, the next
searches of its kind scan instead, twice as many each time the tree disappoints again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts, UInt64s
from microagg_core.kernels.machine_code.jit import inlined, jit, uncounted
from microagg_core.kernels.tree.shrinking_tree import BITS, LEAF, Tree, bit_of, leaf_distances, measure_all, word_of
from microagg_core.kernels.values import Total, from_total

#: The kinds of search, each of which chooses for itself.
NEAREST, FARTHEST_FROM_RECORD, FARTHEST_FROM_CENTROID = 0, 1, 2

#: Most bytes a record that may be taken besides the data; what a tree takes for each attribute, and besides.
_MOST_BYTES, _BYTES_AN_ATTRIBUTE, _BYTES = 200.0, 10.0, 40.0
#: Most scans in a row before the tree is tried again.
_MOST_SCANS = 512
#: For so many scans it does not pay to keep the boxes tight.
_MANY_SCANS = 32
#: Comparing a point with a box takes as long as reading this part of a leaf.
_BOX = 0.4


class Search(NamedTuple):
    """Room that every search uses again."""

    point: Floats  #: (p), the record's values that are searched from
    words: Ints  #: (codes), in which words of sets its codes are
    bits: UInt64s  #: (codes), and by which bits
    antipode: Floats  #: (numbers), a point beyond the middle of the records, seen from it
    worst: Floats  #: (codes, BITS), what codes make of a scaled distance from the total; for many: all, the most
    terms: Floats  #: (3), what bounds are made of together with the antipode
    near: Floats  #: (most), distances found, rising
    found: Ints  #: (most), their records
    distances: Floats  #: (LEAF), those of one leaf
    stack: Ints  #: nodes still to be looked at
    bounds: Floats  #: and what is known of each of them
    scans: Ints  #: (kinds, 2), scans still to do before the tree is tried again, and how many were ordered last


def tree_pays(n: int, p: int, k: int, more_bytes: float = 0.0) -> bool:
    """Say whether so many records of so many attributes, in groups of k, are enough for a tree.

    Below, plain scans are faster, or not much slower. What a tree adds to a record's cost was measured against scans of
    as many records as there are groups: on data that no tree prunes, it is to be less than a fifth. Nor may a tree
    take more memory than there is; ``more_bytes`` is what the caller takes for each record.

    >>> tree_pays(100_000, 10, 5), tree_pays(100_000, 10, 50)
    (True, False)
    """
    fits = _BYTES_AN_ATTRIBUTE * p + _BYTES + more_bytes <= _MOST_BYTES
    return fits and n >= k * (300 + 15 * p) * p


@jit
def new_search(tree: Tree, most: int) -> Search:
    """Make room for searches in a tree, for at most so many records at once."""
    p, q = tree.X.shape[0], tree.costs.shape[0]
    return Search(
        np.empty(p),
        np.empty(q, np.int64),
        np.empty(q, np.uint64),
        np.empty(p - q),
        np.empty((q, BITS)),
        np.empty(3),
        np.empty(most),
        np.empty(most, np.int64),
        np.empty(LEAF),
        np.empty(128, np.int64),
        np.empty(128),
        np.zeros((3, 2), np.int64),
    )


@inlined
def scan_is_due(tree: Tree, search: Search, kind: int) -> bool:
    """Say whether this search is to read every leaf rather than walk the tree."""
    if search.scans[kind, 0] == 0:
        return False
    search.scans[kind, 0] -= 1
    tree.size[3] += LEAF * tree.size[2] - tree.size[1]
    if kind == NEAREST and search.scans[kind, 0] == 0 and tree.size[4] == 1:
        tree.size[4] = 0
        measure_all(tree)
    return True


@inlined
def judge(tree: Tree, search: Search, kind: int, leaves: int, boxes: int) -> None:
    """Order scans where a walk through the tree took no less."""
    if leaves + _BOX * boxes < 8 + 0.7 * tree.size[2]:
        search.scans[kind, 1] = 0
        return
    search.scans[kind, 1] = min(2 * search.scans[kind, 1] + 8, _MOST_SCANS)
    search.scans[kind, 0] = search.scans[kind, 1]
    if kind == NEAREST and search.scans[kind, 0] > _MANY_SCANS:
        tree.size[4] = 1


@inlined
def least_by_numbers(boxes: Floats, node: int, point: Floats) -> float:
    """Bound the squared distances by numbers of records below the node from the point from below."""
    total = 0.0
    for j in range(boxes.shape[2]):
        c = point[j]
        total += max(max(boxes[node, 0, j] - c, c - boxes[node, 1, j]), 0.0) ** 2
    return total


@inlined
def least_distance(tree: Tree, search: Search, node: int) -> float:
    """Bound the squared distances of records below the node from the point from below."""
    total, held, words, bits = least_by_numbers(tree.boxes, node, search.point), tree.held, search.words, search.bits
    for c in range(words.shape[0]):
        total += tree.costs[c] if held[node, words[c]] & bits[c] == 0 else 0.0
    return total


@inlined
def greatest_distance(tree: Tree, search: Search, node: int, factor: float) -> float:
    """Bound the squared distances of records below the node, multiplied by the factor, from the point from above."""
    total, boxes, point = 0.0, tree.boxes, search.point
    for j in range(boxes.shape[2]):
        c = point[j]
        total += max(factor * boxes[node, 1, j] - c, c - factor * boxes[node, 0, j]) ** 2
    return _with_most_of_codes(tree, search, node, factor, total)


@inlined
def _with_most_of_codes(tree: Tree, search: Search, node: int, factor: float, total: float) -> float:
    """Add to a bound from above what codes below the node make of the distance at most."""
    held, words, costs, worst = tree.held, tree.words, tree.costs, search.worst
    for c in range(costs.shape[0]):
        word, is_whole = held[node, words[c]], words[c + 1] == words[c] + 1
        if factor == 1.0:
            total += 0.0 if is_whole and word == search.bits[c] else costs[c]
            continue
        most = 0.0 if is_whole else worst[c, 0]
        for code in range(BITS if is_whole else 0):
            if word >> np.uint64(code) & np.uint64(1):
                most = max(most, worst[c, code])
        total += most
    return total


@inlined
def find_bits(tree: Tree, search: Search) -> None:
    """Note where sets have the point's codes."""
    numbers = search.antipode.shape[0]
    for c in range(search.bits.shape[0]):
        code = search.point[numbers + c]
        search.words[c], search.bits[c] = word_of(tree.words, c, code), bit_of(code)


@inlined
def count_within(distances: Floats, limit: float) -> int:
    """Count how many of a leaf's distances are at most the limit."""
    reached = 0
    for i in range(LEAF):
        reached += distances[i] <= limit
    return reached


@inlined
def count_beyond(distances: Floats, limit: float) -> int:
    """Count how many of a leaf's distances are at least the limit."""
    reached = 0
    for i in range(LEAF):
        reached += distances[i] >= limit
    return reached


@inlined
def path(leaves: int, leaf: int, stack: Ints, bounds: Floats) -> int:
    """Stack every node that hangs on the way from the root to a leaf, the leaf on top; returns the height.

    Of their bounds only that of the leaf is set.
    """
    node, height = leaves + leaf, 0
    while node >> height > 1:
        height += 1
    for at in range(height):
        stack[at] = (node >> (height - 1 - at)) ^ 1
    stack[height], bounds[height] = node, 0.0
    return height + 1


@uncounted
def component_of(components: Ints, record: int) -> int:
    """Find the record that stands for a record's component, and shorten the way there for the next time."""
    while components[record] != record:
        components[record] = components[components[record]]
        record = components[record]
    return record


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
    distances: Floats,
    ids: ShortInts,
    leaf: int,
    count: int,
    near: Floats,
    found: Ints,
    n_found: int,
    most: int,
    components: Ints,
    own: int,
) -> int:
    """Add those of a leaf's records that are near enough, and in no own component; returns how many are found then."""
    if count_within(distances, near[most - 1]) > 0:
        for i in range(count):
            record = int(ids[leaf * LEAF + i])
            if distances[i] <= near[most - 1] and (own < 0 or component_of(components, record) != own):
                n_found = _add(near, found, n_found, most, distances[i], record)
    return n_found


@uncounted
def _scan(tree: Tree, search: Search, most: int, components: Ints, own: int) -> int:
    """Read every leaf; returns how many are found then."""
    near, found, point, distances = search.near, search.found, search.point, search.distances
    blocks, costs, ids, counts, n_found = tree.blocks, tree.costs, tree.ids, tree.counts, 0
    for leaf in range(tree.size[0]):
        if counts[leaf] > 0:
            leaf_distances(blocks, costs, leaf, point, distances)
            n_found = add_leaf(distances, ids, leaf, counts[leaf], near, found, n_found, most, components, own)
    return n_found


@uncounted
def find_nearest(tree: Tree, search: Search, leaf: int, most: int) -> int:
    """Find the ``most`` records nearest to ``search.point``, which lies near a leaf; how many were found.

    They stand in ``search.found``, their squared distances in ``search.near``, by rising distance, equal ones
    by rising number.
    """
    return find_nearest_outside(tree, search, leaf, most, search.found, -1)


@uncounted
def find_nearest_outside(tree: Tree, search: Search, leaf: int, most: int, components: Ints, own: int) -> int:
    """Find the nearest outside a component, as :func:`find_nearest` does; ``own`` -1: in whichever.

    ``components`` is a union-find forest over the records.
    """
    near, found, stack, bounds, distances = search.near, search.found, search.stack, search.bounds, search.distances
    lowest, point, blocks, costs, ids, counts = (
        tree.lowest,
        search.point,
        tree.blocks,
        tree.costs,
        tree.ids,
        tree.counts,
    )
    near[:most] = np.inf
    if most == 0 or tree.size[1] == 0:
        return 0
    if scan_is_due(tree, search, NEAREST):
        return _scan(tree, search, most, components, own)
    leaves, scanned, n_found = tree.size[0], 0, 0
    find_bits(tree, search)
    height = path(leaves, leaf, stack, bounds)
    for at in range(height - 1):
        bounds[at] = least_distance(tree, search, stack[at])
    compared = height
    while height > 0:
        height -= 1
        node, bound, limit = stack[height], bounds[height], near[most - 1]
        while bound < limit or (bound == limit and (n_found < most or lowest[node] < found[most - 1])):
            if node >= leaves:
                scanned += 1
                leaf = node - leaves
                leaf_distances(blocks, costs, leaf, point, distances)
                n_found = add_leaf(distances, ids, leaf, counts[leaf], near, found, n_found, most, components, own)
                break
            a, b = 2 * node, 2 * node + 1
            to_a, to_b = least_distance(tree, search, a), least_distance(tree, search, b)
            compared += 2
            if to_b < to_a or (to_b == to_a and lowest[b] < lowest[a]):
                a, b, to_a, to_b = b, a, to_b, to_a
            if to_b <= limit:
                stack[height], bounds[height] = b, to_b
                height += 1
            node, bound = a, to_a
    judge(tree, search, NEAREST, scanned, compared)
    return n_found


@inlined
def _push(heap: Ints, bounds: Floats, size: int, node: int, bound: float) -> None:
    """Put a node behind the ``size`` nodes of a heap, the least bound on top; of equal bounds the lower node."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if bounds[above] < bound or (bounds[above] == bound and heap[above] < node):
            break
        heap[at], bounds[at] = heap[above], bounds[above]
        at = above
    heap[at], bounds[at] = node, bound


@inlined
def _pop(heap: Ints, bounds: Floats, size: int) -> None:
    """Take the top off a heap of ``size`` nodes."""
    node, bound, at = heap[size - 1], bounds[size - 1], 0
    while True:
        below = 2 * at + 1
        if below >= size - 1:
            break
        if below + 1 < size - 1 and (
            bounds[below + 1] < bounds[below] or (bounds[below + 1] == bounds[below] and heap[below + 1] < heap[below])
        ):
            below += 1
        if bound < bounds[below] or (bound == bounds[below] and node < heap[below]):
            break
        heap[at], bounds[at] = heap[below], bounds[below]
        at = below
    heap[at], bounds[at] = node, bound


@uncounted
def find_near(tree: Tree, search: Search, most: int, most_leaves: int, heap: Ints, bounds: Floats) -> float:
    """Find near records of ``search.point`` in the leaves, at most so many, whose boxes are nearest.

    They stand where :func:`find_nearest` puts the nearest. A record that is not among them is no nearer than the last
    of them, or than what is returned: infinity where all leaves that could have one were read.
    """
    near, found, point, distances = search.near, search.found, search.point, search.distances
    blocks, costs, ids, counts, leaves = tree.blocks, tree.costs, tree.ids, tree.counts, tree.size[0]
    near[:most] = np.inf
    find_bits(tree, search)
    heap[0], bounds[0], size, read, n_found = 1, 0.0, 1, 0, 0
    while size > 0 and bounds[0] <= near[most - 1]:
        if read == most_leaves or size + BITS > heap.shape[0]:
            return float(bounds[0])
        node, bound = heap[0], bounds[0]
        _pop(heap, bounds, size)
        size -= 1
        while node < leaves:
            a, b = 2 * node, 2 * node + 1
            to_a, to_b = least_distance(tree, search, a), least_distance(tree, search, b)
            if to_b < to_a:
                a, b, to_a, to_b = b, a, to_b, to_a
            if to_b <= near[most - 1]:
                _push(heap, bounds, size, b, to_b)
                size += 1
            node, bound = a, to_a
        if bound <= near[most - 1]:
            read += 1
            leaf = node - leaves
            leaf_distances(blocks, costs, leaf, point, distances)
            n_found = add_leaf(distances, ids, leaf, counts[leaf], near, found, n_found, most, found, -1)
    return np.inf


#: Below this part of the largest value, a radius says nothing that rounding has not blurred.
_BLUR = 2.0**-40
#: The square of a smaller radius, times what rounding leaves of it, may vanish.
_VANISHING = 2.0**-450
#: The t of the module's text.
_SHRINK = 2.0**-20


@inlined
def _scaled_distances(tree: Tree, leaf: int, factor: float, total: Total, out: Floats) -> None:
    """Write squared distances of ``factor`` times the records of a leaf from their total."""
    blocks, costs, numbers = tree.blocks, tree.costs, total.sums.shape[1]
    c = total.sums[0, 0]
    for i in range(LEAF):
        out[i] = (factor * blocks[leaf, 0, i] - c) ** 2
    for j in range(1, numbers):
        c = total.sums[0, j]
        for i in range(LEAF):
            out[i] += (factor * blocks[leaf, j, i] - c) ** 2
    for at in range(costs.shape[0]):
        for i in range(tree.counts[leaf]):
            out[i] += from_total(total, costs, factor, at, blocks[leaf, numbers + at, i])


@inlined
def _distances(tree: Tree, search: Search, leaf: int, factor: float, total: Total, out: Floats) -> None:
    """Write squared distances of a leaf's records from the point, or of ``factor`` times them from the total."""
    if factor == 1.0:
        leaf_distances(tree.blocks, tree.costs, leaf, search.point, out)
    else:
        _scaled_distances(tree, leaf, factor, total, out)


@inlined
def _look_opposite(tree: Tree, search: Search) -> None:
    """Set the antipode and the terms 1 + w/R, w^2 + w R and w/R; the last is negative where there is no bound."""
    point, antipode, center, terms = search.point, search.antipode, tree.center, search.terms
    away, size = 0.0, 0.0
    for j in range(center.shape[0]):
        away += (center[j] - point[j]) ** 2
        size = max(size, abs(center[j]))
    radius, away = np.sqrt(tree.radii[1]), np.sqrt(away)
    blurred = _BLUR * max(size, radius)
    if not (radius > max(blurred, _VANISHING) and away > blurred and away < radius / _BLUR):
        terms[2] = -1.0
        return
    for j in range(center.shape[0]):
        antipode[j] = center[j] + radius * ((center[j] - point[j]) / away)
    rounding = 2.0**-50 * (center.shape[0] + 8)
    ratio, error = away / radius, rounding * (size + 2.0 * radius)
    constant = (away * away + away * radius) * (1.0 + rounding) + ratio * (error * error / _SHRINK)
    terms[0], terms[1], terms[2] = (1.0 + ratio) * (1.0 + rounding), constant, ratio * (1.0 - _SHRINK)


@inlined
def _update(
    distances: Floats, ids: ShortInts, leaf: int, count: int, best: int, best_distance: float
) -> tuple[int, float]:
    """Update the farthest record and its distance with those of a leaf."""
    if count_beyond(distances, best_distance) > 0:
        for i in range(count):
            d, record = distances[i], int(ids[leaf * LEAF + i])
            if d > best_distance or (d == best_distance and record < best):
                best, best_distance = record, d
    return best, best_distance


@uncounted
def _scan_for_farthest(tree: Tree, search: Search, factor: float, total: Total) -> int:
    ids, counts, distances = tree.ids, tree.counts, search.distances
    best, best_distance = -1, -1.0
    for leaf in range(tree.size[0]):
        if counts[leaf] > 0:
            _distances(tree, search, leaf, factor, total, distances)
            best, best_distance = _update(distances, ids, leaf, counts[leaf], best, best_distance)
    return best


@inlined
def _bound(tree: Tree, search: Search, node: int, factor: float) -> float:
    """Bound what no record below a node exceeds; negative if there is none."""
    radii, terms = tree.radii, search.terms
    if radii[node] < 0.0:
        return -1.0
    if terms[2] < 0.0:
        return greatest_distance(tree, search, node, factor)
    opposite = least_by_numbers(tree.boxes, node, search.antipode)
    by_numbers = terms[0] * radii[node] + terms[1] - terms[2] * opposite
    return float(_with_most_of_codes(tree, search, node, factor, by_numbers))


@uncounted
def _walk(tree: Tree, search: Search, factor: float, total: Total, kind: int) -> int:
    """Find the farthest record by the tree; at least one remains."""
    stack, bounds, distances, terms = search.stack, search.bounds, search.distances, search.terms
    lowest, ids, counts = tree.lowest, tree.ids, tree.counts
    leaves, scanned, compared = tree.size[0], 0, 0
    best, best_distance = -1, -1.0
    stack[0], bounds[0], height = 1, np.inf, 1
    while height > 0:
        height -= 1
        node, bound = stack[height], bounds[height]
        while bound > best_distance or (bound == best_distance and lowest[node] < best):
            if terms[2] >= 0.0 and best >= 0:
                bound = greatest_distance(tree, search, node, factor)
                compared += 1
                if bound < best_distance or (bound == best_distance and lowest[node] > best):
                    break
            if node >= leaves:
                scanned += 1
                leaf = node - leaves
                _distances(tree, search, leaf, factor, total, distances)
                best, best_distance = _update(distances, ids, leaf, counts[leaf], best, best_distance)
                break
            a, b = 2 * node, 2 * node + 1
            to_a, to_b = _bound(tree, search, a, factor), _bound(tree, search, b, factor)
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
def farthest_from_record(tree: Tree, search: Search, total: Total) -> int:
    """Find the farthest of the records that remain, at least one, from the record at ``search.point``.

    MDAV leaves a ball-like rest, on whose surface the record that is farthest from another one lies almost opposite to
    it. A box tells little of that: its far corner sticks out of the ball. With R the radius of the records around a
    point c, and a the point on the sphere opposite to the record r that is searched from, every x with |x-c| = q has

        |x-r|^2 = q^2 (1 + w/R) + w^2 + w R - (w/R) |x-a|^2,   w = |r-c|

    so the farthest from r is much the same as the nearest to a, and boxes bound that well. The bound is not computed as
    the distance is: it is widened by more than all that rounding can do. c and R may be any numbers, so that their
    rounding does not matter; that of a moves it by at most e, and (|x-a| - e)^2 is at least (1-t) |x-a|^2 - e^2/t for
    any t. With u = 2**-53, a's rounding is at most (p/2 + 6) u R + sqrt(p) u |c|, and e is taken as 8 (p + 8) u (|c| +
    2R), |c| being the greatest of c's values. All else is off by a share, in sum at most (5p + 20) u: q^2, w^2, |x-a|^2
    and the distance itself by (p + 2) u, w and w/R by half of that, and the bound's own arithmetic by a few u. The term
    that is subtracted is never greater than the others together, as a square is not negative, so it is enough to widen
    those, by 8 (p + 8) u. Where R or w is so small that squares may vanish, there is no such bound. All this is about
    numbers; mismatches are added, as they are to distances.
    """
    if scan_is_due(tree, search, FARTHEST_FROM_RECORD):
        return _scan_for_farthest(tree, search, 1.0, total)
    find_bits(tree, search)
    _look_opposite(tree, search)
    return _walk(tree, search, 1.0, total, FARTHEST_FROM_RECORD)


@uncounted
def farthest_from_total(tree: Tree, search: Search, total: Total) -> int:
    """Find the record, of the m that remain, that is farthest from their total when multiplied by m."""
    factor = float(tree.size[1])
    if scan_is_due(tree, search, FARTHEST_FROM_CENTROID):
        return _scan_for_farthest(tree, search, factor, total)
    search.terms[2] = -1.0
    for j in range(total.sums.shape[1]):
        search.point[j] = total.sums[0, j]
    for c in range(tree.costs.shape[0]):
        search.worst[c] = 0.0
        for code in range(total.starts[c + 1] - total.starts[c]):
            term = from_total(total, tree.costs, factor, c, float(code))
            place = code if tree.words[c + 1] == tree.words[c] + 1 else 0
            search.worst[c, place] = max(search.worst[c, place], term)
    return _walk(tree, search, factor, total, FARTHEST_FROM_CENTROID)
