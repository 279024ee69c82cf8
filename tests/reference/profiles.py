"""Count profiles of units by the plainest reading of their definition: for small cases, with nothing of the product.

The profile of a unit is its number of rows, and the multiset of their released combinations. A release keeps its
promise where every profile belongs to at least k units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

Combination = tuple[Hashable, ...]


def rows_of_units(units: Sequence[Hashable], combinations: Sequence[Combination]) -> dict[Hashable, list[Combination]]:
    """Give the combinations of each unit's rows; a missing value (None or NaN) equals a missing value."""
    rows: dict[Hashable, list[Combination]] = {}
    for unit, combination in zip(units, combinations, strict=True):
        plain = tuple(None if value != value else value for value in combination)
        rows.setdefault(unit, []).append(plain)
    return rows


def profile(rows: Sequence[Combination]) -> Hashable:
    return len(rows), frozenset(Counter(rows).items())


def least_profile(units: Sequence[Hashable], combinations: Sequence[Combination]) -> int:
    """Count the units of the profile that fewest have; 0 without rows."""
    return min(Counter(profile(rows) for rows in rows_of_units(units, combinations).values()).values(), default=0)
