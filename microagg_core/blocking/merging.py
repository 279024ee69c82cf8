"""Undersized blocking keys join a sibling, giving up as few blocking attributes as possible, from the right.

Keys are rows of codes (one column a blocking attribute, codes in the order of the attribute's values). A *stratum*
is what becomes of them: the keys that are released under one label. Its ``depth`` says how many leading attributes
are still exact; from there on every attribute is released as the list of values met in the stratum.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Bools, Ints


@dataclass
class _Stratum:
    keys: list[int]
    rows: int
    depth: int


def merge_undersized(codes: Ints, rows: Ints, k: int, fixed: int = 0) -> tuple[Ints, Ints]:
    """Join keys below k with siblings until every stratum has at least k records, where that can be.

    Args:
        codes: one row a key, sorted lexicographically, one column a blocking attribute.
        rows: records of each key.
        k: least size.
        fixed: leading columns that are never given up (a whole group of them may then stay below k).

    Returns:
        The stratum of each key, and the depth of each stratum; strata are numbered by their first key.

    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> merge_undersized(codes, np.array([5, 1, 9, 3]), k=3)
    (array([0, 0, 1, 2]), array([1, 2, 2]))
    """
    n_keys, n_attributes = codes.shape
    strata = [_Stratum([i], int(rows[i]), n_attributes) for i in range(n_keys)]
    for depth in range(n_attributes - 1, fixed - 1, -1):
        if all(s.rows >= k for s in strata):
            break
        strata = [s for group in _groups(strata, codes, depth) for s in _join_smallest(group, k, depth)]
    strata.sort(key=lambda s: s.keys[0])
    stratum_of_key = np.empty(n_keys, dtype=np.int64)
    for number, stratum in enumerate(strata):
        stratum_of_key[stratum.keys] = number
    return stratum_of_key, np.array([s.depth for s in strata], dtype=np.int64)


def merge_some(codes: Ints, rows: Ints, k: int, chosen: Bools, fixed: int = 0) -> tuple[Ints, Ints]:
    """Merge the chosen keys among themselves; every other key is a stratum of its own.

    >>> codes = np.array([[0, 0], [0, 1], [0, 2], [1, 0]])
    >>> merge_some(codes, np.array([2, 9, 5, 7]), 3, np.array([True, False, True, True]))
    (array([0, 1, 0, 2]), array([1, 2, 2]))
    """
    n_keys, n_attributes = codes.shape
    places = np.flatnonzero(chosen)
    stratum, depths = merge_undersized(codes[places], rows[places], k, fixed)
    first = places[np.unique(stratum, return_index=True)[1]]
    first_of_key, depth = np.arange(n_keys), np.full(n_keys, n_attributes)
    first_of_key[places], depth[first] = first[stratum], depths
    firsts, merged = np.unique(first_of_key, return_inverse=True)
    return merged.reshape(-1).astype(np.int64), depth[firsts].astype(np.int64)


def _groups(strata: list[_Stratum], codes: Ints, depth: int) -> list[list[_Stratum]]:
    """Strata that share their first ``depth`` attributes, in key order."""
    groups: dict[bytes, list[_Stratum]] = {}
    for stratum in strata:
        groups.setdefault(codes[stratum.keys[0], :depth].tobytes(), []).append(stratum)
    return list(groups.values())


def _join_smallest(group: list[_Stratum], k: int, depth: int) -> list[_Stratum]:
    """While the smallest is below k, it joins the next smallest; equal sizes go by key order."""
    if len(group) == 1 or min(s.rows for s in group) >= k:
        return group
    heap = [(s.rows, s.keys[0], s) for s in group]
    heapq.heapify(heap)
    while len(heap) > 1 and heap[0][0] < k:
        _, _, small = heapq.heappop(heap)
        _, _, sibling = heapq.heappop(heap)
        joined = _Stratum(sorted(small.keys + sibling.keys), small.rows + sibling.rows, depth)
        heapq.heappush(heap, (joined.rows, joined.keys[0], joined))
    return [s for _, _, s in heap]
