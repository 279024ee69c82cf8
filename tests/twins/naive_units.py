"""Matching of units' rows to positions by trying all orders of each unit's rows against its group's other units."""

from __future__ import annotations

from itertools import permutations

import numpy as np


def distance(a: np.ndarray, b: np.ndarray, costs: np.ndarray) -> float:
    columns = zip(a, b, costs, strict=True)
    return sum((x - y) ** 2 if cost == 0 else cost * (x != y) for x, y, cost in columns)


def squares(rows: np.ndarray, costs: np.ndarray, labels: np.ndarray) -> float:
    """Half of what all pairs of rows of one label are apart, by the label's rows."""
    groups = [rows[labels == label] for label in np.unique(labels)]
    return sum(sum(distance(a, b, costs) for a in group for b in group) / (2 * len(group)) for group in groups)


def matched(rows: np.ndarray, costs: np.ndarray, size: int, positions: list[int], groups: list[int]) -> list[int]:
    """Take the units of each group one after the other, at most four times over; returns the rows' positions."""
    units = rows.reshape(len(groups), size, -1)
    # The row of each unit that is in each position.
    order = [np.argsort(own).tolist() for own in np.reshape(positions, (-1, size))]
    for group in sorted(set(groups)):
        members = [unit for unit, of in enumerate(groups) if of == group]
        for _ in range(4):
            moved = False
            for unit in members:
                others = [other for other in members if other != unit]
                apart = {
                    (row, place): sum(distance(units[unit][row], units[o][order[o][place]], costs) for o in others)
                    for row in range(size)
                    for place in range(size)
                }
                loss = {
                    candidate: sum(apart[row, place] for place, row in enumerate(candidate))
                    for candidate in permutations(range(size))
                }
                least = min(loss, key=lambda candidate: loss[candidate])
                if loss[least] < loss[tuple(order[unit])] * (1 - 1e-9):
                    order[unit], moved = list(least), True
            if not moved:
                break
    return [own.index(row) for own in order for row in range(size)]
