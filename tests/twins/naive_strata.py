"""Merging and labels as one would write them for a few keys: lists of keys, one stratum at a time."""

from __future__ import annotations

from itertools import groupby

from microagg_core.blocking.labels import label_of

Key = tuple[int, ...]
#: A stratum: the places of its keys, its records, and how many leading attributes are exact.
Stratum = tuple[list[int], int, int]


def merged(keys: list[Key], rows: list[int], k: int, fixed: int) -> list[Stratum]:
    """Strata of at least k records where that can be, in the order of their first keys; ``keys`` are sorted."""
    n_attributes = len(keys[0])
    strata: list[Stratum] = [([i], rows[i], n_attributes) for i in range(len(keys))]
    for depth in range(n_attributes - 1, fixed - 1, -1):
        if all(size >= k for _, size, _ in strata):
            break
        siblings = groupby(strata, key=lambda stratum: keys[stratum[0][0]][:depth])
        strata = sorted(stratum for _, group in siblings for stratum in _joined(list(group), k, depth))
    return strata


def _joined(group: list[Stratum], k: int, depth: int) -> list[Stratum]:
    """While the smallest is below k, it joins the next smallest; equal sizes go by their first keys."""
    while len(group) > 1 and min(size for _, size, _ in group) < k:
        one, other, *rest = sorted(group, key=lambda stratum: (stratum[1], stratum[0][0]))
        group = [*rest, (sorted(one[0] + other[0]), one[1] + other[1], depth)]
    return group


def label(keys: list[tuple[str | None, ...]], order: list[list[str | None]]) -> tuple[str | None, ...]:
    """The label of a stratum with these keys; ``order`` has the values of each attribute in their order."""
    return tuple(label_of([v for v in order[j] if v in {key[j] for key in keys}]) for j in range(len(order)))
