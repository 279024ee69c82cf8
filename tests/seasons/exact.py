"""Every linear combination of all sums that a series published, in exact arithmetic modulo a prime.

An unknown for each person; a row for each class of each night, with a one for each of its people. A combination of rows
with k-1 people or fewer in it, one of a single person before all, must not exist. A vector with that support lies in
the row space if and only if the rows of those people in a basis of its null space depend on each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations

#: Large enough that a minor of a small matrix of zeros and ones is hardly ever divisible by it.
PRIME = 2**61 - 1
Vector = list[int]


def equations(nights: Iterable[Mapping[int, object]], people: list[int]) -> list[Vector]:
    """A row for each class of each night."""
    place = {tag: i for i, tag in enumerate(people)}
    rows = set()
    for classes in nights:
        groups: dict[object, list[int]] = defaultdict(list)
        for tag, of in classes.items():
            groups[of].append(place[tag])
        rows |= {frozenset(members) for members in groups.values()}
    return [[int(i in members) for i in range(len(people))] for members in sorted(rows, key=sorted)]


def reduced(rows: list[Vector]) -> tuple[list[Vector], list[int]]:
    """The reduced echelon form, and its pivots' columns."""
    rows, pivots = [list(row) for row in rows], []
    for column in range(len(rows[0]) if rows else 0):
        rank = len(pivots)
        found = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if found is None:
            continue
        rows[rank], rows[found] = rows[found], rows[rank]
        inverse = pow(rows[rank][column], -1, PRIME)
        rows[rank] = [v * inverse % PRIME for v in rows[rank]]
        for i, row in enumerate(rows):
            if i != rank and (factor := row[column]):
                rows[i] = [(a - factor * b) % PRIME for a, b in zip(row, rows[rank], strict=True)]
        pivots.append(column)
    return rows[: len(pivots)], pivots


def null_space(rows: list[Vector], n: int) -> list[Vector]:
    """For each person its row of a basis of the vectors that all equations send to zero."""
    echelon, pivots = reduced(rows)
    free = [column for column in range(n) if column not in set(pivots)]
    space = [[0] * len(free) for _ in range(n)]
    for j, column in enumerate(free):
        space[column][j] = 1
        for row, pivot in zip(echelon, pivots, strict=True):
            space[pivot][j] = -row[column] % PRIME
    return space


def smallest_support(nights: Iterable[Mapping[int, object]], k: int) -> int | None:
    """The fewest people, below k, that a linear combination of all published sums is about; None where none is."""
    nights = list(nights)
    people = sorted({tag for classes in nights for tag in classes})
    space = null_space(equations(nights, people), len(people))
    for size in range(1, k):
        if any(len(reduced([space[i] for i in some])[1]) < size for some in combinations(range(len(people)), size)):
            return size
    return None
