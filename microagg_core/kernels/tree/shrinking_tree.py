"""A k-d tree that shrinks: over the records that remain, thinned record by record, built anew when mostly empty.

The records stand in leaves of ``LEAF`` slots, attribute by attribute within a leaf, so that the distances of a
whole leaf are a few vector instructions; a slot without a record holds NaN, which no comparison lets through.
The tree is complete: node i has the children 2i and 2i+1, its sibling is i^1, and nodes L to 2L-1 are the
leaves. Every node keeps the bounding box of the records below it, which shrinks as they leave, and their
lowest record number, which settles ties; and of each row of codes the set of those below it.

The bounds that boxes give need no margin for rounding. A bound is computed term by term as the distance is, and
floating-point subtraction, multiplication, squaring and addition never turn an order round: the bound to a
box is never above (for the farthest: below) the computed distance of any record in it. A mismatch is in it where the
set does not hold the code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts, UInt64s
from microagg_core.kernels.machine_code.jit import inlined, jit, uncounted
from microagg_core.kernels.tools.sorting import sort_numbers
from microagg_core.kernels.values import Values

LEAF = 32
NOBODY = 2**31 - 1
#: A set of codes has a bit for each, in words of so many; where there are more codes than most words hold, some share.
BITS, _MOST_WORDS = 64, 64
#: It pays little to split by codes of more than a word: a set that says of each whether it is there rules out as much.
_OF_MANY = 0.25
#: Records whose spread tells in which attribute to split.
_SAMPLE = 200
#: Records whose values fit the processor's cache.
_SIDE_BY_SIDE = 1 << 14
#: Packing a record takes as long as reading so many slots.
_PACKING = 40


class Tree(NamedTuple):
    """The records that remain, in a tree of L leaves; the arrays are changed in place."""

    X: Floats  #: (p, n), the records in their order, numbers first; never changed
    costs: Floats  #: of a mismatch, of each row of codes
    blocks: Floats  #: (leaves, p, LEAF), their values by leaf
    ids: ShortInts  #: (leaves * LEAF), the record in each slot
    slots: ShortInts  #: (n), the slot of each record that remains, -1 for the others
    counts: Ints  #: (leaves), records of each leaf
    boxes: Floats  #: (2 * leaves, 2, numbers), least and greatest values below each node
    words: Ints  #: where the words of the set of each row of codes start, and where the last ends
    held: UInt64s  #: (2 * leaves, words), the sets of codes below each node
    lowest: ShortInts  #: (2 * leaves), lowest record number below each node
    center: Floats  #: (numbers), a point amid the records
    radii: Floats  #: (2 * leaves), its squared distance by numbers from the farthest record below each node, -1 if none
    room: Floats  #: (2, LEAF), for one leaf's numbers
    size: Ints  #: leaves in use, records that remain, leaves that hold any, slots read in vain since it was built, 1 if
    #: boxes need not shrink for the time being: one that is too large still bounds


@inlined
def word_of(words: Ints, c: int, code: float) -> int:
    """Return which word of the sets has a code's bit."""
    return int(words[c] + (np.int64(code) // BITS) % (words[c + 1] - words[c]))


@inlined
def bit_of(code: float) -> np.uint64:
    """Return the bit of a code in its word."""
    return np.uint64(1) << np.uint64(np.int64(code) % BITS)


@inlined
def leaf_distances(blocks: Floats, costs: Floats, leaf: int, point: Floats, out: Floats) -> None:
    """Squared distances of the records of a leaf from a record's values, added up attribute by attribute."""
    numbers = point.shape[0] - costs.shape[0]
    distances_by_numbers(blocks, leaf, numbers, point, out)
    for c in range(costs.shape[0]):
        code, cost = point[numbers + c], costs[c]
        for i in range(LEAF):
            out[i] += cost if blocks[leaf, numbers + c, i] != code else 0.0


@inlined
def distances_by_numbers(blocks: Floats, leaf: int, p: int, point: Floats, out: Floats) -> None:
    """Squared distances by the first p attributes alone."""
    j = 4
    if p >= 4:
        c0, c1, c2, c3 = point[0], point[1], point[2], point[3]
        for i in range(LEAF):
            d = (blocks[leaf, 0, i] - c0) ** 2 + (blocks[leaf, 1, i] - c1) ** 2
            out[i] = (d + (blocks[leaf, 2, i] - c2) ** 2) + (blocks[leaf, 3, i] - c3) ** 2
    else:
        j, c = 1, point[0]
        for i in range(LEAF):
            out[i] = (blocks[leaf, 0, i] - c) ** 2
    while j + 3 < p:
        c0, c1, c2, c3 = point[j], point[j + 1], point[j + 2], point[j + 3]
        for i in range(LEAF):
            d = (out[i] + (blocks[leaf, j, i] - c0) ** 2) + (blocks[leaf, j + 1, i] - c1) ** 2
            out[i] = (d + (blocks[leaf, j + 2, i] - c2) ** 2) + (blocks[leaf, j + 3, i] - c3) ** 2
        j += 4
    if j + 1 < p:
        c0, c1 = point[j], point[j + 1]
        for i in range(LEAF):
            out[i] = (out[i] + (blocks[leaf, j, i] - c0) ** 2) + (blocks[leaf, j + 1, i] - c1) ** 2
        j += 2
    if j < p:
        c0 = point[j]
        for i in range(LEAF):
            out[i] += (blocks[leaf, j, i] - c0) ** 2


@jit
def select(keys: Floats, order: ShortInts, start: int, stop: int, middle: int) -> None:
    """Rearrange start to stop - 1 so that no key before ``middle`` is above one from there on."""
    low, high = start, stop - 1
    while low < high:
        a, b, c = keys[low], keys[(low + high) >> 1], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while pivot < keys[j]:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@jit
def _widest(X: Floats, costs: Floats, words: Ints, order: ShortInts, step: int) -> int:
    """Find the attribute in which every step-th of these columns spread most, or -1 where all those are equal.

    Codes spread as a number that is as far apart on average, evenly spread over its range.
    """
    widest, width = -1, 0.0
    seen, numbers = np.zeros(BITS), X.shape[0] - costs.shape[0]
    for c in range(costs.shape[0]):
        row, count, pairs = X[numbers + c], 0.0, 0.0
        seen[:] = 0.0
        for i in range(0, order.shape[0], step):
            place = np.int64(row[order[i]]) % BITS
            pairs += count - seen[place]
            seen[place] += 1.0
            count += 1.0
        spread = np.sqrt(12.0 * costs[c] * pairs) / count
        spread *= _OF_MANY if words[c + 1] > words[c] + 1 else 1.0
        if spread > width:
            widest, width = numbers + c, spread
    for j in range(numbers):
        row = X[j]
        low = high = row[order[0]]
        for i in range(0, order.shape[0], step):
            value = row[order[i]]
            low, high = min(low, value), max(high, value)
        if high - low > width:
            widest, width = j, high - low
    return widest


@jit
def _starts(leaves: int) -> tuple[Ints, Ints]:
    """Count for each node the leaves that come before those below it, and those below it."""
    before, below = np.zeros(2 * leaves, np.int64), np.ones(2 * leaves, np.int64)
    for node in range(leaves - 1, 0, -1):
        below[node] = below[2 * node] + below[2 * node + 1]
    for node in range(1, leaves):
        before[2 * node] = before[node]
        before[2 * node + 1] = before[node] + below[2 * node]
    return before, below


@jit
def _halve(X: Floats, costs: Floats, words: Ints, order: ShortInts, keys: Floats, middle: int) -> None:
    """Bring the columns named by ``order`` on their side of the median of the widest attribute."""
    j = _widest(X, costs, words, order, 1 + order.shape[0] // _SAMPLE)
    if j < 0:
        j = _widest(X, costs, words, order, 1)
    if j < 0:
        sort_numbers(order)
        return
    row = X[j]
    for i in range(order.shape[0]):
        keys[i] = row[order[i]]
    select(keys, order, 0, order.shape[0], middle)


@jit
def _split(X: Floats, costs: Floats, words: Ints, order: ShortInts, before: Ints, below: Ints) -> None:
    """Bring the records into the order of the leaves, node by node.

    From where a node's records fit the processor's cache, all below it are split in a copy that has them side by side.
    """
    leaves, keys = before.shape[0] // 2, np.empty(order.shape[0])
    values = np.empty((X.shape[0], _SIDE_BY_SIDE))
    for top in range(1, leaves):
        start, stop = LEAF * before[top], min(LEAF * (before[top] + below[top]), order.shape[0])
        if stop - start > _SIDE_BY_SIDE:
            _halve(X, costs, words, order[start:stop], keys, LEAF * before[2 * top + 1] - start)
        elif top == 1 or LEAF * below[top >> 1] > _SIDE_BY_SIDE:
            _split_side_by_side(X, costs, words, order[start:stop], values, keys, top, before, below)


@jit
def _split_side_by_side(
    X: Floats,
    costs: Floats,
    words: Ints,
    order: ShortInts,
    values: Floats,
    keys: Floats,
    top: int,
    before: Ints,
    below: Ints,
) -> None:
    """Split a node's records all the way down to the leaves."""
    sort_numbers(order)
    size = order.shape[0]
    for j in range(X.shape[0]):
        row, copy = X[j], values[j]
        for i in range(size):
            copy[i] = row[order[i]]
    places, first, last = np.arange(size).astype(np.int32), top, top
    while first < before.shape[0] // 2:
        for node in range(first, min(last + 1, before.shape[0] // 2)):
            start = LEAF * (before[node] - before[top])
            stop = min(start + LEAF * below[node], size)
            _halve(values, costs, words, places[start:stop], keys, LEAF * below[2 * node])
        first, last = 2 * first, 2 * last + 1
    sorted_order = order.copy()
    for i in range(size):
        order[i] = sorted_order[places[i]]


@jit
def _fill(tree: Tree, order: ShortInts, starts: Ints) -> None:
    for leaf in range(starts.shape[0]):
        start, stop = starts[leaf], min(starts[leaf] + LEAF, order.shape[0])
        tree.counts[leaf] = stop - start
        for i in range(LEAF):
            tree.ids[leaf * LEAF + i] = order[start + i] if start + i < stop else NOBODY
            if start + i < stop:
                tree.slots[order[start + i]] = leaf * LEAF + i
        for j in range(tree.X.shape[0]):
            for i in range(LEAF):
                tree.blocks[leaf, j, i] = tree.X[j, order[start + i]] if start + i < stop else np.nan


@inlined
def _extremes(blocks: Floats, leaf: int, j: int, room: Floats) -> tuple[float, float]:
    """Find least and greatest of an attribute's values in a leaf; slots without a record are left out."""
    for i in range(LEAF):
        room[0, i] = blocks[leaf, j, i]
        room[1, i] = blocks[leaf, j, i]
    width = LEAF // 2
    while width > 0:
        for i in range(width):
            a, b = room[0, i], room[0, i + width]
            room[0, i] = b if b < a else a
        for i in range(width):
            a, b = room[1, i], room[1, i + width]
            room[1, i] = b if b > a else a
        width //= 2
    return room[0, 0], room[1, 0]


@uncounted
def _measure_leaf(tree: Tree, leaf: int) -> None:
    """The box, sets and lowest record number of a leaf; of an empty one, a box that is infinitely far away."""
    boxes, blocks, ids, room = tree.boxes, tree.blocks, tree.ids, tree.room
    node, count = tree.size[0] + leaf, tree.counts[leaf]
    for j in range(boxes.shape[2]):
        boxes[node, 0, j], boxes[node, 1, j] = np.inf, -np.inf
        if count > 0:
            boxes[node, 0, j], boxes[node, 1, j] = _extremes(blocks, leaf, j, room)
    tree.held[node, :] = np.uint64(0)
    for c in range(tree.costs.shape[0]):
        for i in range(count):
            code = blocks[leaf, boxes.shape[2] + c, i]
            tree.held[node, word_of(tree.words, c, code)] |= bit_of(code)
    lowest, radius = NOBODY, -1.0
    distances_by_numbers(blocks, leaf, boxes.shape[2], tree.center, room[0])
    for i in range(count):
        if ids[leaf * LEAF + i] < lowest:
            lowest = ids[leaf * LEAF + i]
        if room[0, i] > radius:
            radius = room[0, i]
    tree.lowest[node], tree.radii[node] = lowest, radius


@inlined
def _measure_node(boxes: Floats, held: UInt64s, lowest: ShortInts, radii: Floats, node: int) -> bool:
    """Set the box, sets and lowest record number of a node from its children; returns whether anything changed."""
    a, b = 2 * node, 2 * node + 1
    low_number = lowest[a] if lowest[a] < lowest[b] else lowest[b]
    radius = radii[a] if radii[a] > radii[b] else radii[b]
    changed = low_number != lowest[node] or radius != radii[node]
    lowest[node], radii[node] = low_number, radius
    for j in range(boxes.shape[2]):
        low = boxes[a, 0, j] if boxes[a, 0, j] < boxes[b, 0, j] else boxes[b, 0, j]
        high = boxes[a, 1, j] if boxes[a, 1, j] > boxes[b, 1, j] else boxes[b, 1, j]
        changed |= low != boxes[node, 0, j] or high != boxes[node, 1, j]
        boxes[node, 0, j], boxes[node, 1, j] = low, high
    for c in range(held.shape[1]):
        both = held[a, c] | held[b, c]
        changed |= both != held[node, c]
        held[node, c] = both
    return bool(changed)


@uncounted
def measure_all(tree: Tree) -> None:
    """Set the boxes and lowest record numbers of all leaves and nodes."""
    leaves = tree.size[0]
    for leaf in range(leaves):
        _measure_leaf(tree, leaf)
    for node in range(leaves - 1, 0, -1):
        _measure_node(tree.boxes, tree.held, tree.lowest, tree.radii, node)


@jit
def build(tree: Tree, order: ShortInts) -> None:
    """Build the tree over the records of ``order``, which are rearranged at medians."""
    leaves = (order.shape[0] + LEAF - 1) // LEAF
    tree.size[0], tree.size[1], tree.size[2], tree.size[3] = leaves, order.shape[0], leaves, 0
    before, below = _starts(leaves)
    _split(tree.X, tree.costs, tree.words, order, before, below)
    _fill(tree, order, LEAF * before[leaves:])
    for j in range(tree.center.shape[0]):
        total = 0.0
        for record in order:
            total += tree.X[j, record] / order.shape[0]
        tree.center[j] = total
    measure_all(tree)


@jit
def new_tree(values: Values) -> Tree:
    """Build a tree over all records, which must not change while the tree is used."""
    X, costs = values
    p, n = X.shape
    q, leaves = costs.shape[0], (n + LEAF - 1) // LEAF
    words = np.zeros(q + 1, np.int64)
    for c in range(q):
        words[c + 1] = words[c] + min(np.int64(X[p - q + c].max()) // BITS + 1, _MOST_WORDS)
    tree = Tree(
        X,
        costs,
        np.empty((leaves, p, LEAF)),
        np.empty(leaves * LEAF, np.int32),
        np.empty(n, np.int32),
        np.empty(leaves, np.int64),
        np.empty((2 * leaves, 2, p - q)),
        words,
        np.zeros((2 * leaves, words[q]), np.uint64),
        np.empty(2 * leaves, np.int32),
        np.empty(p - q),
        np.empty(2 * leaves),
        np.empty((2, LEAF)),
        np.zeros(5, np.int64),
    )
    build(tree, np.arange(n).astype(np.int32))
    return tree


@jit
def remaining(tree: Tree) -> ShortInts:
    """List numbers of the records that remain, in the order of the leaves."""
    order = np.empty(tree.size[1], np.int32)
    found = 0
    for leaf in range(tree.size[0]):
        for slot in range(leaf * LEAF, leaf * LEAF + tree.counts[leaf]):
            order[found] = tree.ids[slot]
            found += 1
    return order


@inlined
def _holds(blocks: Floats, leaf: int, j: int, count: int, code: float) -> bool:
    """Say whether any of a leaf's records has a code."""
    same = 0
    for i in range(count):
        same += blocks[leaf, j, i] == code
    return same > 0


@inlined
def _vacate(tree: Tree, record: int) -> tuple[int, bool]:
    """Take a record out of its leaf; returns the leaf, and whether its box or a set may have shrunk."""
    blocks, boxes, ids, center = tree.blocks, tree.boxes, tree.ids, tree.center
    slot = tree.slots[record]
    leaf, place = slot // LEAF, slot % LEAF
    last, node = tree.counts[leaf] - 1, tree.size[0] + leaf
    on_edge, radius = tree.lowest[node] == record, 0.0
    for j in range(center.shape[0]):
        value = blocks[leaf, j, place]
        radius += (value - center[j]) ** 2
        on_edge |= value == boxes[node, 0, j] or value == boxes[node, 1, j]
        blocks[leaf, j, place] = blocks[leaf, j, last]
        blocks[leaf, j, last] = np.nan
    for j in range(center.shape[0], blocks.shape[1]):
        code = blocks[leaf, j, place]
        blocks[leaf, j, place] = blocks[leaf, j, last]
        blocks[leaf, j, last] = np.nan
        on_edge |= not _holds(blocks, leaf, j, last, code)
    moved = ids[leaf * LEAF + last]
    ids[slot], ids[leaf * LEAF + last] = moved, NOBODY
    tree.slots[moved], tree.slots[record] = slot, -1
    tree.counts[leaf] = last
    tree.size[2] -= last == 0
    return leaf, on_edge or radius == tree.radii[node]


@uncounted
def remove(tree: Tree, records: Ints) -> None:
    """Take records out; the boxes above them shrink."""
    boxes, held, lowest, radii = tree.boxes, tree.held, tree.lowest, tree.radii
    shrunk, before = False, -1
    for i in range(records.shape[0] + 1):
        # A leaf is measured when the next record stands in another one, or there is none.
        if i == records.shape[0] or tree.slots[records[i]] // LEAF != before:
            if shrunk and tree.size[4] == 0:
                _measure_leaf(tree, before)
                node = (tree.size[0] + before) >> 1
                while node > 0 and _measure_node(boxes, held, lowest, radii, node):
                    node >>= 1
            shrunk = False
        if i < records.shape[0]:
            before, on_edge = _vacate(tree, records[i])
            shrunk |= on_edge
    tree.size[1] -= records.shape[0]


@uncounted
def _pack(tree: Tree) -> None:
    """Close the gaps between the records, which keep their order."""
    blocks, ids, slots, counts = tree.blocks, tree.ids, tree.slots, tree.counts
    to, old_leaves, leaves = 0, tree.size[0], (tree.size[1] + LEAF - 1) // LEAF
    for leaf in range(old_leaves):
        for place in range(counts[leaf]):
            record, to_leaf, to_place = ids[leaf * LEAF + place], to // LEAF, to % LEAF
            for j in range(blocks.shape[1]):
                blocks[to_leaf, j, to_place] = blocks[leaf, j, place]
            ids[to], slots[record] = record, to
            to += 1
    for slot in range(to, leaves * LEAF):
        ids[slot] = NOBODY
        blocks[slot // LEAF, :, slot % LEAF] = np.nan
    for leaf in range(leaves):
        counts[leaf] = min(LEAF, to - leaf * LEAF)
    tree.size[0], tree.size[2], tree.size[3] = leaves, leaves, 0
    measure_all(tree)


@jit
def rebuild_if_sparse(tree: Tree) -> None:
    """Build the tree anew when two thirds of its slots are empty, or pack its records when scans waste time on gaps."""
    slots, m = LEAF * tree.size[0], tree.size[1]
    if 3 * m < slots and m > LEAF:
        build(tree, remaining(tree))
    elif tree.size[3] > _PACKING * m and m > 0:
        _pack(tree)
