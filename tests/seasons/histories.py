"""Compute what all readable files together give away of whom, by exact arithmetic.

The groups of all publications are equations over people. People of one history, which is what every publication did
with them, absence included, stand in the same equations, and have one coefficient in all that can be made of these:
where k share every history, no combination of sums is about fewer than k. Somebody's quasi-identifiers are solved
where nobody shares his history and the equations, modulo a prime, determine the sum over that history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from seasons.readable import Class, Publication

#: Products of two residues fit 64 bits.
PRIME = 2**31 - 1
History = tuple[Class | None, ...]


def histories(publications: Sequence[Publication]) -> dict[int, History]:
    """Tell for everybody who was ever readable what each publication did with him."""
    everybody = {tag for publication in publications for tag in publication.classes}
    return {tag: tuple(publication.classes.get(tag) for publication in publications) for tag in everybody}


def n_below(publications: Sequence[Publication], k: int) -> int:
    """Count people whose history fewer than k share."""
    return sum(n for n in Counter(histories(publications).values()).values() if n < k)


def smallest(publications: Sequence[Publication]) -> int | None:
    """Count those who share the rarest history."""
    return min(Counter(histories(publications).values()).values(), default=None)


def n_solved(publications: Sequence[Publication]) -> int:
    """Count people whose quasi-identifiers follow exactly from all groups' means."""
    counts = Counter(histories(publications).values())
    number = {history: i for i, history in enumerate(counts)}
    alone = {number[history] for history, n in counts.items() if n == 1}
    groups: dict[tuple[int, Class], set[int]] = defaultdict(set)
    for history, i in number.items():
        for night, released in enumerate(history):
            if released is not None:
                groups[night, released].add(i)
    return sum(
        len(_determined(part) & alone) for part in _components(list(groups.values())) if set.union(*part) & alone
    )


def _components(groups: list[set[int]]) -> list[list[set[int]]]:
    """Part groups that have nobody in common, directly or through others."""
    parts: list[tuple[set[int], list[set[int]]]] = []
    for group in groups:
        touching = [part for part in parts if not part[0].isdisjoint(group)]
        parts = [part for part in parts if part[0].isdisjoint(group)]
        parts.append((set.union(group, *(p[0] for p in touching)), [group, *(g for p in touching for g in p[1])]))
    return [members for _, members in parts]


def _determined(groups: list[set[int]]) -> set[int]:
    """Find the unknowns that the sums over groups determine: unit rows of the reduced echelon form."""
    unknowns = sorted(set.union(*groups))
    place = {unknown: i for i, unknown in enumerate(unknowns)}
    rows = np.zeros((len(groups), len(unknowns)), dtype=np.int64)
    for row, group in zip(rows, groups, strict=True):
        row[[place[unknown] for unknown in group]] = 1
    rank = 0
    for column in range(len(unknowns)):
        found = np.flatnonzero(rows[rank:, column])
        if len(found) == 0:
            continue
        rows[[rank, rank + found[0]]] = rows[[rank + found[0], rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, PRIME) % PRIME
        others = np.flatnonzero(rows[:, column])
        others = others[others != rank]
        rows[others] = (rows[others] - rows[others, column][:, None] * rows[rank] % PRIME) % PRIME
        rank += 1
        if rank == len(rows):
            break
    is_unit = np.count_nonzero(rows[:rank], axis=1) == 1
    return {unknowns[int(np.flatnonzero(row)[0])] for row in rows[:rank][is_unit]}
