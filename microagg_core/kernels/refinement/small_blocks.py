"""Small blocks, many in one call: put in order, with neighbours, and annealed; each as if it were alone."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts, UInt64s
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.refinement.annealing import anneal, descend
from microagg_core.kernels.refinement.changes import GroupDraft, Grouping, fill, total_sse
from microagg_core.kernels.refinement.nearest_lists import nearest_of_few, nearest_sums, spread
from microagg_core.kernels.tools.sorting import stable_order
from microagg_core.kernels.tools.sums import column_means
from microagg_core.kernels.values import Values, squared_distances


@jit
def _by_value(X: Floats) -> Ints:
    """Order columns by their first value, of equal ones by the second, and so on; equal columns as they stand."""
    n = X.shape[1]
    order, keys = np.arange(n), np.empty(n)
    for j in range(X.shape[0] - 1, -1, -1):
        before = order
        for i in range(n):
            keys[i] = X[j, before[i]]
        order = stable_order(keys)
        for i in range(n):
            order[i] = before[order[i]]
    return order


@jit
def _classes(X: Floats, order: Ints, record_class: Ints, first: Ints) -> int:
    """Number equal columns, which follow each other in an order, and set the first of each; returns how many."""
    n_classes = 0
    for i in range(order.shape[0]):
        is_new = i == 0
        for j in range(0 if is_new else X.shape[0]):
            is_new |= X[j, order[i]] != X[j, order[i - 1]]
        if is_new:
            first[n_classes] = i
            n_classes += 1
        record_class[i] = n_classes - 1
    first[n_classes] = order.shape[0]
    return n_classes


@jit
def order_block(values: Values, k: int, count: int, order: Ints, near: ShortInts, sums: Floats) -> None:
    """Put the records of a block in order, and list neighbours of each, as ``Records`` has them.

    ``order`` is set to the record at each place, ``near`` to the places of ``count`` neighbours, and ``sums`` to
    its squared distances to the k - 1 nearest, added up.
    """
    X, n = values.X, values.X.shape[1]
    ordered, record_class, first = _by_value(X), np.empty(n, np.int64), np.empty(n + 1, np.int64)
    n_classes = _classes(X, ordered, record_class, first)
    once, sizes = np.empty((X.shape[0], n_classes)), np.empty(n_classes, np.int64)
    for c in range(n_classes):
        sizes[c] = first[c + 1] - first[c]
        for j in range(X.shape[0]):
            once[j, c] = X[j, ordered[first[c]]]
    most = min(count + 1, n_classes)
    classes, squared = np.empty((n_classes, most), np.int32), np.empty((n_classes, most))
    nearest_of_few(Values(once, values.costs), classes, squared)
    others, of_classes = spread(classes, record_class, first, count), nearest_sums(classes, squared, sizes, k - 1)
    for i in range(n):
        order[i], sums[i] = ordered[i], of_classes[record_class[i]]
        for r in range(count):
            near[i, r] = others[i, r]


@jit
def one_group(values: Values, sums: Floats) -> None:
    """Set, record by record, the sums of squared distances to all others."""
    n = values.X.shape[1]
    distances, point = np.empty(n), np.empty(values.X.shape[0])
    for i in range(n):
        for j in range(point.shape[0]):
            point[j] = values.X[j, i]
        squared_distances(values, 0, point, distances)
        sums[i] = distances.sum()


@jit
def order_blocks(
    values: Values,
    costs: Floats,
    starts: Ints,
    k: int,
    counts: Ints,
    order: Ints,
    near: ShortInts,
    sums: Floats,
) -> None:
    """Put the records of blocks in order, and list their neighbours.

    Args:
        values: all records, each block's multiplied by a power of two, costs not.
        costs: of each block, multiplied as well.
        starts: the first record of each block, and the number of all.
        k: a block of fewer than 2k records will be one group, without order or neighbours.
        counts: how many neighbours are listed, block by block.
        order: set to the record at each place, both counted within the block.
        near: set to the neighbours of the record at each place, by their places.
        sums: set, place by place, to what tells the neighbour bound: the sum of squared distances to the k - 1 nearest,
            or to all others in a block of one group.
    """
    for b in range(starts.shape[0] - 1):
        start, stop = starts[b], starts[b + 1]
        own = Values(values.X[:, start:stop].copy(), costs[b])
        if stop - start < 2 * k:
            one_group(own, sums[start:stop])
        else:
            order_block(own, k, counts[b], order[start:stop], near[start:stop], sums[start:stop])


@jit
def new_grouping(X: Floats, words: UInt64s, worth: Floats, labels: Ints, k: int) -> Grouping:
    """Put padded records, and their packed codes, into groups as labels 0 to g-1 say, none of 2k records or more."""
    n, width = X.shape
    slots = n // k + 2
    g = Grouping(
        X,
        labels.copy(),
        np.zeros(n, np.int64),
        np.zeros((slots, 2 * k), np.int64),
        np.zeros(slots, np.int64),
        np.zeros((slots, width)),
        np.zeros(n),
        np.zeros(slots),
        np.zeros(slots + 2, np.int64),
        np.zeros(1, np.int64),
        np.zeros((4, max(width, 2 * k))),
        words,
        worth,
        np.zeros(slots),
    )
    fill(g)
    return g


@jit
def new_draft(g: Grouping, k: int, rebuilds: bool) -> GroupDraft:
    """Make an empty draft, with room for what one change may touch, if any makes groups anew."""
    slots, most = g.members.shape
    rows, loose = (3 * k + 12, 4 * most) if rebuilds else (1, 1)
    return GroupDraft(
        np.zeros((slots, 2), np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros((rows, g.X.shape[1])),
        np.zeros((rows, most), np.int64),
        np.zeros(rows),
        np.zeros(loose, np.int64),
        np.zeros(loose, np.int64),
        np.zeros(loose),
        np.zeros(4, np.int64),
    )


@jit
def _number(labels: Ints, slots: int) -> None:
    """Number groups 0 to g-1 in the order of their numbers, which are below ``slots``."""
    rank, n_groups = np.full(slots, -1), 0
    for i in range(labels.shape[0]):
        rank[labels[i]] = 0
    for slot in range(slots):
        if rank[slot] == 0:
            rank[slot] = n_groups
            n_groups += 1
    for i in range(labels.shape[0]):
        labels[i] = rank[labels[i]]


@jit
def anneal_blocks(
    X: Floats,
    words: UInt64s,
    worths: Floats,
    labels: Ints,
    near: ShortInts,
    starts: Ints,
    counts: Ints,
    k: int,
    sweeps: Ints,
    way: tuple[float, int, int, int],
    quantiles: Floats,
    random: UInt64s,
) -> None:
    """Anneal the groups of blocks; ``labels`` are set to what is found, ``X`` to offsets from the blocks' means.

    Records stand by places, numbers before padding, of which those of block b are from ``starts[b]`` to
    ``starts[b + 1]``. A block of no ``sweeps`` is left as it is. ``way`` is how hot it begins, the power with which it
    cools, how seldom whole groups are made anew, and how often it then goes downhill; ``random`` has a state a block.
    """
    hottest, power, every, downhill = way
    for b in range(starts.shape[0] - 1):
        start, stop = starts[b], starts[b + 1]
        n = stop - start
        if sweeps[b] == 0:
            continue
        own, its_words, best = X[start:stop], words[start:stop], labels[start:stop]
        means = column_means(own)
        its_near = np.empty((n, counts[b]), np.int32)
        for i in range(n):
            for j in range(own.shape[1]):
                own[i, j] -= means[j]
            for r in range(counts[b]):
                its_near[i, r] = near[start + i, r]
        g = new_grouping(own, its_words, worths[b], best, k)
        least = total_sse(g)
        heat, state = hottest * least / n, random[b : b + 1]
        draft = new_draft(g, k, every > 0)
        anneal(g, draft, its_near, k, 0, sweeps[b], sweeps[b], heat, power, every, quantiles, state, best, least)
        _number(best, g.size.shape[0])
        if downhill > 0:
            g = new_grouping(own, its_words, worths[b], best, k)
            descend(g, its_near, k, downhill, 1e-12 * total_sse(g) / n)
            for i in range(n):
                best[i] = g.label[i]
            _number(best, g.size.shape[0])
