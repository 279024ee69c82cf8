"""The slow, readable twins of a series: fates by the rules, ranks in fractions, cuts by trying all.

What a release tells is a list of sums, each a set of columns; a column is a unit, or one value that a unit has had.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

MASK = 2**64 - 1


@dataclass(frozen=True)
class NaiveMember:
    """A unit that was released before and may be again."""

    trace: str
    present: bool
    since: int
    lot: int
    changed: tuple[bool, ...] = ()


def fates_of_atom(atom: Sequence[NaiveMember], mode: str, leavers: str, k: int, nights: int, night: int) -> list[str]:
    """What becomes of each member of one atom, by the rules alone."""
    if mode == "rotation" and night - atom[0].since >= nights:
        return ["vanished"] * len(atom)
    stayers = [member for member in atom if member.present]
    n_left = len(atom) - len(stayers)
    if leavers == "withhold":
        return ["withheld" if n_left or len(atom) < k else "carried"] * len(atom)
    if len(atom) < k or not stayers:
        return ["vanished"] * len(atom)
    if not n_left:
        return ["carried"] * len(atom)
    if n_left >= k and len(stayers) >= k:
        return ["carried" if member.present else "vanished" for member in atom]
    if leavers == "ghosts":
        return ["carried" if member.present else "ghost" for member in atom]
    n_decoys = max(k - n_left, 0)
    if len(stayers) - n_decoys < k:
        return ["vanished"] * len(atom)
    decoys = sorted(stayers, key=lambda member: member.lot)[:n_decoys]
    return ["carried" if member.present and member not in decoys else "vanished" for member in atom]


def columns_held_back(atom: Sequence[NaiveMember], fates: Sequence[str], k: int) -> list[bool]:
    """Of each column, whether some released members changed in it, but fewer than k, or beside a ghost."""
    carried = [member.changed for member, fate in zip(atom, fates, strict=True) if fate == "carried"]
    least = len(atom) + 1 if "ghost" in fates else k
    return [0 < sum(column) < least for column in zip(*carried, strict=True)]


def rank(rows: Iterable[Sequence[int]]) -> int:
    """The rank of a matrix, in fractions."""
    return len(row_echelon(rows))


def row_echelon(rows: Iterable[Sequence[int]]) -> list[list[Fraction]]:
    """A basis of the row space, each row with a one where those after it have nothing."""
    left = [[Fraction(entry) for entry in row] for row in rows]
    basis = []
    for column in range(len(left[0]) if left else 0):
        pivot = next((row for row in left if row[column]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        pivot = [entry / pivot[column] for entry in pivot]
        left = [
            [entry - row[column] * step for entry, step in zip(row, pivot, strict=True)] if row[column] else row
            for row in left
        ]
        left = [row for row in left if any(row)]
        basis.append(pivot)
    return basis


def smallest_support(sums: Iterable[Collection[int]], unit_of: Sequence[int], below: int) -> int | None:
    """The fewest units, below a number, that a linear combination of sums involves; None where there is none.

    ``unit_of`` has the unit of each column. A combination that involves no unit outside a set is one that the rows
    lose when only the columns of the units outside are left.
    """
    rows = {frozenset(columns) for columns in sums}
    basis = row_echelon([[int(column in row) for column in range(len(unit_of))] for row in rows])
    for size in range(1, below):
        for inside in combinations(sorted(set(unit_of)), size):
            outside = [column for column, unit in enumerate(unit_of) if unit not in inside]
            if rank([[row[column] for column in outside] for row in basis]) < len(basis):
                return size
    return None


def solved(sums: Iterable[Collection[int]], n_units: int) -> list[int]:
    """The units whose own value is a linear combination of the sums."""
    rows = {frozenset(units) for units in sums}
    basis = row_echelon([[int(unit in row) for unit in range(n_units)] for row in rows])
    alone = [[int(unit == other) for other in range(n_units)] for unit in range(n_units)]
    return [unit for unit in range(n_units) if rank([*basis, alone[unit]]) == len(basis)]


def sums_of(classes: Mapping[int, int]) -> list[set[int]]:
    """The units of each class of one night."""
    return [{unit for unit, its in classes.items() if its == klass} for klass in sorted(set(classes.values()))]


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def unit_digest(values: Iterable[object], secret: bytes) -> tuple[int, int]:
    """A unit's digest, of 80 bits, by the standard library's own HMAC."""
    key = hmac.new(secret, b"microagg series: unit", hashlib.sha256).digest()
    texts = [str(value).encode() for value in values]
    message = b"".join(str(len(text)).encode() + b":" + text for text in texts)
    digest = hmac.new(key, message, hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:10], "big")
