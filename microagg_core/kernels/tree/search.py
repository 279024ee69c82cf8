"""What searches in the tree share: room to work in, bounds by boxes, and the choice between the tree and a scan.

Where boxes tell nothing apart (many attributes, no structure), walking the tree costs more than reading every
leaf. Each search through the tree says what it cost, in leaves read; when that is no less than a scan, the next
searches of its kind scan instead, twice as many each time the tree disappoints again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.machine_code.jit import inlined, jit
from microagg_core.kernels.tree.shrinking_tree import LEAF, Tree, measure_all

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

    point: Floats  #: (p), what is searched from
    antipode: Floats  #: (p), a point beyond the middle of the records, seen from it
    terms: Floats  #: (3), what bounds are made of together with the antipode
    near: Floats  #: (most), distances found, rising
    found: Ints  #: (most), their records
    distances: Floats  #: (LEAF), those of one leaf
    stack: Ints  #: nodes still to be looked at
    bounds: Floats  #: and what is known of each of them
    scans: Ints  #: (kinds, 2), scans still to do before the tree is tried again, and how many were ordered last
    work: Ints  #: (kinds, 2), leaves read and boxes compared so far


def tree_pays(n: int, p: int, k: int, more_bytes: float = 0.0) -> bool:
    """Whether so many records of so many attributes, in groups of k, are enough for a tree.

    Below, plain scans are faster, or not much slower. What a tree adds to a record's cost was measured against scans of
    as many records as there are groups: on data that no tree prunes, it is to be less than a fifth. Nor may a tree
    take more memory than there is; ``more_bytes`` is what the caller takes for each record.

    >>> tree_pays(100_000, 10, 5), tree_pays(100_000, 10, 50)
    (True, False)
    """
    fits = _BYTES_AN_ATTRIBUTE * p + _BYTES + more_bytes <= _MOST_BYTES
    return fits and n >= k * (300 + 15 * p) * p


@jit
def new_search(p: int, most: int) -> Search:
    """Room for searches among records of p attributes, for at most so many at once."""
    return Search(
        np.empty(p),
        np.empty(p),
        np.empty(3),
        np.empty(most),
        np.empty(most, np.int64),
        np.empty(LEAF),
        np.empty(128, np.int64),
        np.empty(128),
        np.zeros((3, 2), np.int64),
        np.zeros((3, 2), np.int64),
    )


@inlined
def scan_is_due(tree: Tree, search: Search, kind: int) -> bool:
    """Whether this search is to read every leaf rather than walk the tree."""
    if search.scans[kind, 0] == 0:
        return False
    search.scans[kind, 0] -= 1
    search.work[kind, 0] += tree.size[2]
    tree.size[3] += LEAF * tree.size[2] - tree.size[1]
    if kind == NEAREST and search.scans[kind, 0] == 0 and tree.size[4] == 1:
        tree.size[4] = 0
        measure_all(tree)
    return True


@inlined
def judge(tree: Tree, search: Search, kind: int, leaves: int, boxes: int) -> None:
    """Note what a walk through the tree took, and order scans where that was no less."""
    search.work[kind, 0] += leaves
    search.work[kind, 1] += boxes
    if leaves + _BOX * boxes < 8 + 0.7 * tree.size[2]:
        search.scans[kind, 1] = 0
        return
    search.scans[kind, 1] = min(2 * search.scans[kind, 1] + 8, _MOST_SCANS)
    search.scans[kind, 0] = search.scans[kind, 1]
    if kind == NEAREST and search.scans[kind, 0] > _MANY_SCANS:
        tree.size[4] = 1


@inlined
def least_distance(boxes: Floats, node: int, point: Floats) -> float:
    """No record below the node is at a smaller squared distance from the point."""
    total = 0.0
    for j in range(point.shape[0]):
        c = point[j]
        total += max(max(boxes[node, 0, j] - c, c - boxes[node, 1, j]), 0.0) ** 2
    return total


@inlined
def greatest_distance(boxes: Floats, node: int, factor: float, point: Floats) -> float:
    """No record below the node is, multiplied by the factor, at a greater squared distance from the point."""
    total = 0.0
    for j in range(point.shape[0]):
        c = point[j]
        total += max(factor * boxes[node, 1, j] - c, c - factor * boxes[node, 0, j]) ** 2
    return total


@inlined
def count_within(distances: Floats, limit: float) -> int:
    """How many of a leaf's distances are at most the limit."""
    reached = 0
    for i in range(LEAF):
        reached += distances[i] <= limit
    return reached


@inlined
def count_beyond(distances: Floats, limit: float) -> int:
    """How many of a leaf's distances are at least the limit."""
    reached = 0
    for i in range(LEAF):
        reached += distances[i] >= limit
    return reached
