"""Merging and labels as one would write them for a few keys: lists of keys, one stratum at a time."""

from __future__ import annotations

from itertools import groupby

from microagg_core.blocks.labels import label_of

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


def label_with_stars(
    keys: list[Key], stratum: int, strata: list[Stratum], order: list[list[str | None]], beside: bool
) -> tuple[str | None, ...]:
    """The same with ``*`` behind what all keys of the stratum share from the left.

    ``keys`` have a pattern before their values. With ``beside``, a stratum shares no more than any that is made of
    several keys does with it, if that one gives up no more than it has in common with this.
    """
    exact = strata[stratum][2]
    mine = keys[strata[stratum][0][0]]
    for places, _, depth in strata if beside else []:
        if depth < len(mine) and keys[places[0]][:depth] == mine[:depth]:
            exact = min(exact, depth)
    return tuple(_starred(order[j][mine[j + 1]]) if j + 1 < exact else "*" for j in range(len(order)))


def _starred(value: str | None) -> str | None:
    return "\\*" if value == "*" else label_of([value])


def withheld(keys: list[Key], patterns: list[int], rows: list[int], strata: list[Stratum], k: int) -> set[int]:
    """The strata that are not released: those below k, and the smallest of each cell that would tell of these.

    ``keys`` are a number of the pattern and the blocking values; ``patterns`` have a bit for each missing value.
    """
    stratum_of = {place: number for number, (places, _, _) in enumerate(strata) for place in places}
    gone = {number for number, (_, size, _) in enumerate(strata) if size < k}
    while gone:
        before = set(gone)
        for level in range(len(keys[0]) - 1, -1, -1):
            lacked = 0
            for place, number in stratum_of.items():
                lacked |= patterns[place] if number in gone else 0
            for mask in (0, *(1 << bit for bit in range(8) if lacked >> bit & 1)):
                has = [place for place in range(len(keys)) if not patterns[place] & mask]
                if all(strata[stratum_of[place]][1] >= k for place in has):
                    continue  # nobody who is too few has it
                gone |= set(_too_lonely(keys, rows, strata, stratum_of, has, gone, level, k))
        if gone == before:
            break
    return gone


def _too_lonely(
    keys: list[Key],
    rows: list[int],
    strata: list[Stratum],
    stratum_of: dict[int, int],
    has: list[int],
    gone: set[int],
    level: int,
    k: int,
) -> list[int]:
    """Of each cell of which too little is withheld, the smallest stratum that lies within it."""
    more = []
    for cell in {keys[place][1 : 1 + level] for place in has}:
        mine = [place for place in has if keys[place][1 : 1 + level] == cell]
        lost = [place for place in mine if stratum_of[place] in gone]
        inside = {stratum_of[place] for place in mine if strata[stratum_of[place]][2] > level} - gone
        if lost and inside and (len(lost) < 2 or sum(rows[place] for place in lost) < k):
            more.append(min(inside, key=lambda number: (strata[number][1], number)))
    return more
