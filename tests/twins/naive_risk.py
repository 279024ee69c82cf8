"""Disclosure risk as one would count it by hand: every record against every other, no tree, no hash."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import permutations
from math import comb
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

Rows = Sequence[tuple[Hashable, ...]]


def _rows(table: pd.DataFrame, names: Sequence[str]) -> list[tuple[Hashable, ...]]:
    """Rows as tuples; a missing value is None."""
    return [
        tuple(None if pd.isna(value) else value for value in row) for row in table[list(names)].itertuples(index=False)
    ]


def linked(
    before: pd.DataFrame,
    after: pd.DataFrame,
    knows: Sequence[str],
    quasi_identifiers: Sequence[str],
    blocking: Sequence[str],
    errors: dict[str, np.ndarray] | None = None,
) -> tuple[float, float]:
    """The shares of records whose released combination, and who themselves, are picked.

    Whoever is sought knows the label, and which values are missing; he takes any record of those that are nearest.
    """
    scale = {name: before[name].std(ddof=0) or 1.0 for name in knows}
    labels, combinations = _rows(after, blocking), _rows(after, [*blocking, *quasi_identifiers])
    nearest = correct = 0.0
    for i in range(len(before)):
        distances = []
        for j in range(len(after)):
            if labels[i] != labels[j] or any(pd.isna(after[n].iloc[i]) != pd.isna(after[n].iloc[j]) for n in knows):
                distances.append(float("inf"))
                continue
            total = 0.0
            for name in knows:
                if not pd.isna(after[name].iloc[i]):
                    off = 0.0 if errors is None else errors[name][i]
                    total += ((before[name].iloc[i] - after[name].iloc[j]) / scale[name] + off) ** 2
            distances.append(total**0.5)
        least = min(distances)
        picked = [j for j, distance in enumerate(distances) if distance <= least * (1 + 1e-9) + 1e-9]
        if i in picked:
            correct += 1 / len(picked)
            nearest += sum(combinations[j] == combinations[i] for j in picked) / len(picked)
    return nearest / len(before), correct / len(before)


def alone(table: pd.DataFrame, names: Sequence[str]) -> float:
    """The share of rows that have their values for themselves."""
    counts = Counter(_rows(table, names))
    return sum(n == 1 for n in counts.values()) / len(table)


def within_rank(before: Sequence[float], after: Sequence[float], percent: int) -> float:
    """The share of values within a rank interval of so many percent of all, around the released one."""
    ordered, hits = sorted(before), 0
    half = int(percent * len(ordered) / 200 + 0.5)
    for value, released in zip(before, after, strict=True):
        place = max(sum(one <= released for one in ordered) - 1, 0)
        reached = ordered[max(place - half, 0) : place + half + 1]
        hits += reached[0] <= value <= reached[-1]
    return hits / len(ordered)


def groups_of(after: pd.DataFrame, key: Sequence[str], column: str) -> dict[Hashable, list[Hashable]]:
    """The column's values of each released combination."""
    groups: dict[Hashable, list[Hashable]] = defaultdict(list)
    for combination, (value,) in zip(_rows(after, key), _rows(after, [column]), strict=True):
        groups[combination].append(value)
    return groups


def fewer_than(groups: dict[Hashable, list[Hashable]], least: int) -> float:
    """The share of records in groups of fewer distinct values; a missing one is none."""
    few = sum(len(values) for values in groups.values() if len(set(values) - {None}) < least)
    return few / sum(map(len, groups.values()))


def certain_by_chance(groups: dict[Hashable, list[Hashable]]) -> float:
    """The expected share of records in groups of one value at most, were the groups drawn from all records."""
    counts = Counter(value for values in groups.values() for value in values)
    n, expected = sum(counts.values()), Fraction(0)
    none = counts.pop(None, 0)
    for values in groups.values():
        size = len(values)
        some = sum(comb(count + none, size) - comb(none, size) for count in counts.values())
        expected += size * Fraction(some + comb(none, size), comb(n, size))
    return float(expected / n)


Row: TypeAlias = Any


def units_found(
    before: pd.DataFrame, after: pd.DataFrame, units: np.ndarray, square: Callable[[Row, Row], float]
) -> list[tuple[float, float]]:
    """The chances that each unit is picked by one of its rows, on average, and by all of them.

    Who knows a row takes any unit of any nearest combination; who knows all takes any of the nearest units that have as
    many, whichever rows stand for which.
    """
    came, shown = (list(table.itertuples(index=False)) for table in (before, after))
    rows_of = {unit: np.flatnonzero(units == unit).tolist() for unit in np.unique(units).tolist()}
    town = {unit: shown[rows[0]].town for unit, rows in rows_of.items()}
    found = []
    for unit, rows in rows_of.items():
        neighbours = [other for other in rows_of if town[other] == town[unit]]
        by_one = []
        for i in rows:
            having = {(shown[j].age, shown[j].job, other): j for other in neighbours for j in rows_of[other]}
            near = _nearest({key: square(came[i], shown[j]) for key, j in having.items()})
            by_one.append(((shown[i].age, shown[i].job, unit) in near) / len(near))
        far = {
            other: min(
                sum(square(came[i], shown[j]) for i, j in zip(rows, order, strict=True))
                for order in permutations(rows_of[other])
            )
            for other in neighbours
            if len(rows_of[other]) == len(rows)
        }
        near_units = _nearest(far)
        found.append((sum(by_one) / len(by_one), (unit in near_units) / len(near_units)))
    return found


def _nearest(squares: dict[Any, float]) -> list[Any]:
    return [key for key, square in squares.items() if square <= min(squares.values()) + 1e-7]


Cell: TypeAlias = list[tuple[int, list[Any]]]


def cells_of_units(after: pd.DataFrame, units: np.ndarray, column: str) -> list[Cell]:
    """For each combination in units of one profile: these units, and the values of each one's records with it."""
    rows = list(after.itertuples(index=False))
    profiles: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for unit in np.unique(units).tolist():
        own = np.flatnonzero(units == unit).tolist()
        profiles[tuple(sorted((rows[i].town, rows[i].age, rows[i].job) for i in own))].append(unit)
    cells = []
    for profile, whose in profiles.items():
        for combination in set(profile):
            cells.append([(unit, []) for unit in whose])
            for unit, values in cells[-1]:
                for i in np.flatnonzero(units == unit).tolist():
                    if (rows[i].town, rows[i].age, rows[i].job) == combination:
                        values.append(None if pd.isna(value := getattr(rows[i], column)) else value)
    return cells


def have_a_value_in_common(cell: Cell) -> bool:
    """Whether all units have some value, of those that have any."""
    valued = [own for _, values in cell if (own := set(values) - {None})]
    return not valued or bool(set.intersection(*valued))
