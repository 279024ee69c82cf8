"""Undersized blocking keys join a sibling, giving up as few blocking attributes as possible, from the right.

Keys are rows of codes (one column a blocking attribute, codes in the order of the attribute's values). A *stratum*
is what becomes of them: the keys that are released under one label. Its ``depth`` says how many leading attributes
are still exact; from there on every attribute is released as the list of values met in the stratum.

A census has millions of keys and few that are too small: all is kept in arrays, and only the siblings of a stratum
that is too small are looked at one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.group.metrics.moments import MOST_OF_WEIGHT


@dataclass(frozen=True)
class Sizes:
    """Records of keys or strata, and what else is known of them."""

    rows: Ints
    #: Survey weight in all, and that of the heaviest record: 0 without weights.
    weight: Floats
    heaviest: Floats
    #: Units whose first record is there, and all units of the key that has most of them: of a unit with records in
    #: several keys it is not known in which strata it is counted twice. Where each has one record, both are records.
    firsts: Ints
    most: Ints

    @classmethod
    def of(
        cls,
        rows: Ints,
        weight: Floats | None = None,
        heaviest: Floats | None = None,
        firsts: Ints | None = None,
        most: Ints | None = None,
    ) -> Sizes:
        rows = rows.astype(np.int64)
        if weight is None or heaviest is None:
            weight = heaviest = np.zeros(len(rows))
        return cls(rows, weight, heaviest, rows if firsts is None else firsts, rows if most is None else most)

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        return self.rows, self.weight, self.heaviest, self.firsts, self.most

    def __getitem__(self, places: Ints | Bools | slice) -> Sizes:
        return Sizes(*(column[places] for column in self.columns))

    def copy(self) -> Sizes:
        return Sizes(*(column.copy() for column in self.columns))

    def of_strata(self, stratum: Ints, n_strata: int) -> Sizes:
        """Add up keys by the stratum of each."""
        heaviest, most = np.zeros(n_strata), np.zeros(n_strata, dtype=np.int64)
        np.maximum.at(heaviest, stratum, self.heaviest)
        np.maximum.at(most, stratum, self.most)
        sums = (np.bincount(stratum, weights=of, minlength=n_strata) for of in (self.rows, self.weight, self.firsts))
        rows, weight, firsts = sums
        return Sizes(rows.astype(np.int64), weight.astype(np.float64), heaviest, firsts.astype(np.int64), most)

    @property
    def units(self) -> Ints:
        """Count units, of those in several keys perhaps too few."""
        return np.maximum(self.firsts, self.most)

    def counting(self, k: int) -> Ints:
        """Count units; fewer than k where groups cannot hold the rule of weights, as one record has most of it."""
        dominated = self.heaviest > MOST_OF_WEIGHT * self.weight
        return np.where(dominated, np.minimum(self.units, k - 1), self.units)

    def too_small(self, k: int) -> Bools:
        return np.asarray(self.counting(k) < k)


@dataclass(frozen=True)
class _Strata:
    """By the first key of each, in key order: its sizes, and how many attributes are exact."""

    first: Ints
    sizes: Sizes
    depth: Ints


def merge_undersized(codes: Ints, sizes: Sizes, k: int, fixed: int = 0) -> tuple[Ints, Ints]:
    """Join keys below k with siblings until every stratum has at least k records, where that can be.

    Keys are sorted; the ``fixed`` leading attributes are never given up, so that a whole group of them may stay below
    k. Returns the stratum of each key, numbered by their first keys, and the depth of each stratum.

    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> merge_undersized(codes, Sizes.of(np.array([5, 1, 9, 3])), k=3)
    (array([0, 0, 1, 2]), array([1, 2, 2]))
    """
    n_keys, n_attributes = codes.shape
    joined = np.arange(n_keys)
    strata = _Strata(np.arange(n_keys), sizes, np.full(n_keys, n_attributes))
    for depth in range(n_attributes - 1, fixed - 1, -1):
        if not strata.sizes.too_small(k).any():
            break
        strata = _join_siblings(strata, codes, k, depth, joined)
    first_of_key = _first_of_each(joined)
    return np.searchsorted(strata.first, first_of_key), strata.depth


def merge_some(codes: Ints, sizes: Sizes, k: int, chosen: Bools, fixed: int = 0) -> tuple[Ints, Ints]:
    """Merge the chosen keys among themselves; every other key is a stratum of its own.

    >>> codes = np.array([[0, 0], [0, 1], [0, 2], [1, 0]])
    >>> merge_some(codes, Sizes.of(np.array([2, 9, 5, 7])), 3, np.array([True, False, True, True]))
    (array([0, 1, 0, 2]), array([1, 2, 2]))
    """
    n_keys, n_attributes = codes.shape
    places = np.flatnonzero(chosen)
    stratum, depths = merge_undersized(codes[places], sizes[places], k, fixed)
    first = places[np.unique(stratum, return_index=True)[1]]
    first_of_key, depth = np.arange(n_keys), np.full(n_keys, n_attributes)
    first_of_key[places], depth[first] = first[stratum], depths
    firsts, merged = np.unique(first_of_key, return_inverse=True)
    return merged.reshape(-1).astype(np.int64), depth[firsts].astype(np.int64)


def _join_siblings(strata: _Strata, codes: Ints, k: int, depth: int, joined: Ints) -> _Strata:
    """Join strata that share their first ``depth`` attributes; ``joined`` notes the key that each went to."""
    group = prefix_groups(codes[strata.first, :depth])
    members = np.bincount(group)
    is_small = np.logical_or.reduceat(strata.sizes.too_small(k), np.cumsum(members) - members)
    bounds = np.append(0, np.cumsum(members))
    sizes, depths, stays = strata.sizes.copy(), strata.depth.copy(), np.ones(len(strata.first), dtype=np.bool_)
    for number in np.flatnonzero(is_small & (members > 1)).tolist():
        mine = slice(bounds[number], bounds[number + 1])
        for first, size, others in _join_smallest(strata.first[mine].tolist(), strata.sizes[mine], k):
            place = int(np.searchsorted(strata.first, first))
            for column, value in zip(sizes.columns, size, strict=True):
                column[place] = value
            depths[place] = depth
            stays[np.searchsorted(strata.first, others)] = False
            joined[others] = first
    return _Strata(strata.first[stays], sizes[stays], depths[stays])


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


#: The columns of ``Sizes``, of one key.
_Size = tuple[int, float, float, int, int]


def _counting(size: _Size, k: int) -> int:
    _, weight, heaviest, firsts, most = size
    units = max(firsts, most)
    return min(units, k - 1) if heaviest > MOST_OF_WEIGHT * weight else units


def _both(a: _Size, b: _Size) -> _Size:
    return a[0] + b[0], a[1] + b[1], max(a[2], b[2]), a[3] + b[3], max(a[4], b[4])


def _join_smallest(firsts: list[int], sizes: Sizes, k: int) -> list[tuple[int, _Size, list[int]]]:
    """Join the smallest with the next smallest while it is too small; equal sizes go by key order.

    Of what was joined: its first key, its size, and the first keys of those that it took in.
    """
    each: Iterator[_Size] = zip(*(column.tolist() for column in sizes.columns), strict=True)
    heap: list[tuple[int, int, list[int], _Size]] = [
        (_counting(size, k), first, [], size) for first, size in zip(firsts, each, strict=True)
    ]
    heapq.heapify(heap)
    while len(heap) > 1 and heap[0][0] < k:
        _, first, others, size = heapq.heappop(heap)
        _, second, theirs, other = heapq.heappop(heap)
        least, most = min(first, second), max(first, second)
        both = _both(size, other)
        heapq.heappush(heap, (_counting(both, k), least, [*others, *theirs, most], both))
    return [(first, size, others) for _, first, others, size in heap if others]


def _first_of_each(joined: Ints) -> Ints:
    """Follow each key to the first key of its stratum, as the key that it went to may itself have gone on."""
    while True:
        further = joined[joined]
        if (further == joined).all():
            return joined
        joined = further
