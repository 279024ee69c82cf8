"""Neighbour lists: of distinct records through a tree, and of records from those of distinct ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts
from microagg_core.kernels.machine_code.jit import jit
from microagg_core.kernels.tools.threads import each
from microagg_core.kernels.tree.searches import find_nearest, new_search
from microagg_core.kernels.tree.shrinking_tree import LEAF, NOBODY, Tree, new_tree
from microagg_core.kernels.values import Values, squared_distances

#: Among so few, all are looked at, which is quicker than a tree.
FEW = 400
#: Leaves whose records are searched for in one go: some milliseconds of work.
_LEAVES_AT_ONCE = 64


class NearestOfAll(NamedTuple):
    """Each record's nearest and their squared distances, (n, found), and the records in the order of the leaves.

    Few records, which are in no leaves, stand in their own order.
    """

    near: ShortInts
    squared: Floats
    order: ShortInts


def nearest_of_all(values: Values, most: int) -> NearestOfAll:
    """Find the ``most`` nearest of each of n records, itself the first; equally near ones by rising number.

    The tree is asked for stretches of its leaves, each in a thread of its own where some are free.
    """
    n = values.X.shape[1]
    near, squared = np.empty((n, most), np.int32), np.empty((n, most))
    if n < FEW:
        nearest_of_few(values, near, squared)
        return NearestOfAll(near, squared, np.arange(n, dtype=np.int32))
    tree = new_tree(values)
    leaves = int(tree.size[0])

    def search(first: int) -> None:
        # What searches note of the tree, they note for themselves.
        own = tree._replace(size=tree.size.copy())
        _search_leaves(own, first, min(first + _LEAVES_AT_ONCE, leaves), near, squared)

    each(search, range(0, leaves, _LEAVES_AT_ONCE))
    return NearestOfAll(near, squared, tree.ids[tree.ids != NOBODY])


@jit
def nearest_of_few(values: Values, near: ShortInts, squared: Floats) -> None:
    """Set the lists of all records, itself the first, by looking at each pair."""
    n, most = near.shape
    distances = np.empty(n)
    for x in range(n):
        squared_distances(values, 0, values.X[:, x].copy(), distances)
        near[x, 0], squared[x, 0], found = x, 0.0, 1
        for y in range(n):
            d = distances[y]
            if y == x or (found == most and d >= squared[x, most - 1]):
                continue
            at = found if found < most else most - 1
            while at > 1 and d < squared[x, at - 1]:
                near[x, at], squared[x, at] = near[x, at - 1], squared[x, at - 1]
                at -= 1
            if at < most:
                near[x, at], squared[x, at] = y, d
            found = min(found + 1, most)


@jit
def _search_leaves(tree: Tree, first: int, stop: int, near: ShortInts, squared: Floats) -> None:
    """Set the lists of the records in some leaves; the tree itself, but for its ``size``, stays as it is."""
    p, most = tree.X.shape[0], near.shape[1]
    search = new_search(tree, most)
    for leaf in range(first, stop):
        for slot in range(leaf * LEAF, leaf * LEAF + tree.counts[leaf]):
            x = tree.ids[slot]
            for j in range(p):
                search.point[j] = tree.X[j, x]
            # Nobody is taken out, so that boxes are tight; else they would be measured while others read them.
            tree.size[4] = 0
            find_nearest(tree, search, leaf, most)
            for r in range(most):
                near[x, r], squared[x, r] = search.found[r], search.near[r]


@jit
def nearest_within(near: ShortInts, records: Ints, position: ShortInts, start: int) -> ShortInts:
    """Return the lists of some records without the others; who is in a list is named by where it stands among them.

    They are the records whose ``position`` is ``start`` and those that follow. Lists that come out short are filled
    with the record itself, to which nothing can go.
    """
    n, count = records.shape[0], near.shape[1]
    out = np.empty((n, count), np.int32)
    for i in range(n):
        length = 0
        for r in range(count):
            at = position[near[records[i], r]] - start
            if 0 <= at < n:
                out[i, length] = at
                length += 1
        for r in range(length, count):
            out[i, r] = i
    return out


@jit
def spread(near: ShortInts, record_class: Ints, first: Ints, count: int) -> ShortInts:
    """List for each record ``count`` others: equal ones first, at most half of them, then from the near classes.

    ``near[c]`` lists the classes of equal records by distance from class c, itself the first; the records of class c
    are those from ``first[c]`` on. Lists that come out short are filled with their own records from the start.
    """
    n = record_class.shape[0]
    out = np.empty((n, count), np.int32)
    for record in range(n):
        own = record_class[record]
        found = 0
        for r in range(near.shape[1]):
            c = near[own, r]
            size = first[c + 1] - first[c]
            offset = record - first[own]
            skip = 1 if r == 0 else 0
            most = size - skip
            if r == 0 and near.shape[1] > 1:
                most = min(most, max(1, count // 2))
            for t in range(most):
                if found < count:
                    out[record, found] = first[c] + (offset + skip + t) % size
                    found += 1
        filled = found
        for t in range(filled, count):
            out[record, t] = out[record, t - filled]
    return out


@jit
def nearest_sums(near: ShortInts, squared: Floats, size: Ints, wanted: int) -> Floats:
    """Add up for each class the squared distances from one of its records to its ``wanted`` nearest others.

    ``near`` and ``squared`` list classes by distance, the class itself (at 0) first; ``size`` counts records.
    """
    sums = np.zeros(near.shape[0])
    for c in range(near.shape[0]):
        missing = wanted - (size[c] - 1)
        for r in range(1, near.shape[1]):
            if missing <= 0:
                break
            taken = min(missing, size[near[c, r]])
            sums[c] += taken * squared[c, r]
            missing -= taken
    return sums
