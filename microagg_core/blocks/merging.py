"""Undersized blocking keys join a sibling, giving up as few blocking attributes as possible, from the right.

Keys are rows of codes (one column a blocking attribute, codes in the order of the attribute's values). A *stratum*
is what becomes of them: the keys that are released under one label. Its ``depth`` says how many leading attributes
are still exact; from there on every attribute is released as the list of values met in the stratum.

A census has millions of keys and few that are too small: all is kept in arrays, and only the siblings of a stratum
that is too small are looked at one by one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Bools, Ints


@dataclass(frozen=True)
class _Strata:
    """By the first key of each, in key order: its records, and how many attributes are exact."""

    first: Ints
    rows: Ints
    depth: Ints


def merge_undersized(codes: Ints, rows: Ints, k: int, fixed: int = 0) -> tuple[Ints, Ints]:
    """Join keys below k with siblings until every stratum has at least k records, where that can be.

    Keys are sorted; the ``fixed`` leading attributes are never given up, so that a whole group of them may stay below
    k. Returns the stratum of each key, numbered by their first keys, and the depth of each stratum.

    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> merge_undersized(codes, np.array([5, 1, 9, 3]), k=3)
    (array([0, 0, 1, 2]), array([1, 2, 2]))
    """
    n_keys, n_attributes = codes.shape
    joined = np.arange(n_keys)
    strata = _Strata(np.arange(n_keys), rows.astype(np.int64), np.full(n_keys, n_attributes))
    for depth in range(n_attributes - 1, fixed - 1, -1):
        if (strata.rows >= k).all():
            break
        strata = _join_siblings(strata, codes, k, depth, joined)
    first_of_key = _first_of_each(joined)
    return np.searchsorted(strata.first, first_of_key), strata.depth


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


def _join_siblings(strata: _Strata, codes: Ints, k: int, depth: int, joined: Ints) -> _Strata:
    """Join strata that share their first ``depth`` attributes; ``joined`` notes the key that each went to."""
    group = prefix_groups(codes[strata.first, :depth])
    members = np.bincount(group)
    is_small = np.minimum.reduceat(strata.rows, np.cumsum(members) - members) < k
    bounds = np.append(0, np.cumsum(members))
    rows, depths, stays = strata.rows.copy(), strata.depth.copy(), np.ones(len(strata.rows), dtype=np.bool_)
    for number in np.flatnonzero(is_small & (members > 1)).tolist():
        mine = slice(bounds[number], bounds[number + 1])
        for first, size, others in _join_smallest(strata.first[mine].tolist(), strata.rows[mine].tolist(), k):
            place = int(np.searchsorted(strata.first, first))
            rows[place], depths[place] = size, depth
            stays[np.searchsorted(strata.first, others)] = False
            joined[others] = first
    return _Strata(strata.first[stays], rows[stays], depths[stays])


def prefix_groups(prefixes: Ints) -> Ints:
    """Number groups of equal rows, which are in ascending order.

    >>> prefix_groups(np.array([[0, 1], [0, 1], [2, 0]])).tolist()
    [0, 0, 1]
    >>> prefix_groups(np.empty((0, 2), dtype=np.int64)).tolist()
    []
    """
    if not prefixes.shape[1]:
        return np.zeros(len(prefixes), dtype=np.int64)
    differs = (prefixes[1:] != prefixes[:-1]).any(axis=1)
    return np.concatenate([[0], np.cumsum(differs)])[: len(prefixes)]


def _join_smallest(firsts: list[int], rows: list[int], k: int) -> list[tuple[int, int, list[int]]]:
    """Join the smallest with the next smallest while it is below k; equal sizes go by key order.

    Of what was joined: its first key, its records, and the first keys of those that it took in.
    """
    heap: list[tuple[int, int, list[int]]] = [(size, first, []) for first, size in zip(firsts, rows, strict=True)]
    heapq.heapify(heap)
    while len(heap) > 1 and heap[0][0] < k:
        size, first, others = heapq.heappop(heap)
        more, second, theirs = heapq.heappop(heap)
        least, most = min(first, second), max(first, second)
        heapq.heappush(heap, (size + more, least, [*others, *theirs, most]))
    return [(first, size, others) for size, first, others in heap if others]


def _first_of_each(joined: Ints) -> Ints:
    """Follow each key to the first key of its stratum, as the key that it went to may itself have gone on."""
    while True:
        further = joined[joined]
        if (further == joined).all():
            return joined
        joined = further
