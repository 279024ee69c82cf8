"""What ties rows of a unit, by the plainest reading: all pairs of rows, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, combinations_with_replacement
from math import inf, log, sqrt
from typing import Any

Values = Sequence[Any]
#: How near row i is to row j, if the one, or the other, is exchanged.
Near = Callable[[int, int, bool, bool], float]


def nearness(x: Any, y: Any, values: Values, *, by_order: bool) -> float:
    """Minus the logarithm of the share of values from x to y; without an order 0 where they differ. None comes last."""
    if not by_order:
        return 0.0 if x != y else -log(sum(v == x for v in values) / len(values))
    low, high = sorted(inf if v is None else v for v in (x, y))
    return -log(sum(low <= (inf if v is None else v) <= high for v in values) / len(values))


def is_nearer(units: Sequence[int], near: Near, deviations: float) -> bool:
    """Whether rows of a unit are nearer by more than so many deviations, and five pairs as near as any.

    Every other row of a unit is exchanged, from the first or from the second on: deviations are how these differ.
    """
    rows, total, by_unit, most = range(len(units)), 0.0, dict[int, float](), 0.0
    for i, j in combinations(rows, 2):
        if units[i] == units[j]:
            as_is, second, first = near(i, j, False, False), near(i, j, False, True), near(i, j, True, False)
            total += as_is - (second + first) / 2
            place, other = (sum(unit == units[i] for unit in units[:row]) for row in (i, j))
            differ = {(0, 1): second - first, (1, 0): first - second}.get((place % 2, other % 2), 0.0)
            by_unit[units[i]] = by_unit.get(units[i], 0.0) + differ
            most = max(most, as_is, second, first)
    return total > deviations * sqrt(sum(chance**2 for chance in by_unit.values()) + most**2) + 5 * most


def tied_columns(
    units: Sequence[int], own: Sequence[Values], other: Sequence[Values], ordered: Sequence[bool], deviations: float
) -> list[tuple[int, ...]]:
    """The sets of columns that tie rows, none of which has another in it; ``other`` is what exchanged rows have."""
    looks = list[tuple[set[int], Near]]([(set(), lambda *_: 1.0)])
    for j, has_order in enumerate(ordered):
        for by_order in (False, True)[: 1 + has_order]:
            looks.append(({j}, _look(own[j], other[j], own[j], other[j], by_order)))
    together = list(zip(*own, strict=True)), list(zip(*other, strict=True))
    looks.append((set(range(len(own))), _look(*together, *together, False)))
    found = [
        a | b
        for (a, one), (b, two) in combinations_with_replacement(looks, 2)
        if is_nearer(units, _product(one, two), deviations)
    ]
    for a, b in combinations(range(len(own)), 2):
        if type(own[a][0]) is type(own[b][0]) and ordered[a] == ordered[b]:
            there, back = (_look(own[x], other[x], own[y], other[y], False) for x, y in ((a, b), (b, a)))
            if is_nearer(units, _sum(there, back), deviations):
                found.append({a, b})
    return sorted({tuple(sorted(of)) for of in found if not any(less < of for less in found)})


def _look(own_a: Values, other_a: Values, own_b: Values, other_b: Values, by_order: bool) -> Near:
    values = [*own_a, *other_a] if own_a is own_b else [*own_a, *other_a, *own_b, *other_b]
    return lambda i, j, first, second: nearness(
        (other_a if first else own_a)[i], (other_b if second else own_b)[j], values, by_order=by_order
    )


def _product(a: Near, b: Near) -> Near:
    return lambda *pair: a(*pair) * b(*pair)


def _sum(a: Near, b: Near) -> Near:
    return lambda *pair: a(*pair) + b(*pair)
