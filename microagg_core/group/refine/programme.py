"""The best partition that known groups allow, as a set-partition programme solved by HiGHS.

Every group that a search met is a column: its records, and its sum of squared errors. The linear relaxation
gives each record a price; a group that costs more than the prices of its records by more than the relaxation
leaves to gain cannot be part of a better partition and is left out. What remains is mostly small.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from microagg_core.arrays import Floats, Ints

#: SciPy's solvers, whose published types refuse sparse matrices and ``node_limit``.
_optimize: Any = import_module("scipy.optimize")


#: Branch-and-bound nodes, a count and not a time so that every machine stops at the same place.
_NODES = 50
#: Columns that are known, and columns a record that are left when the solver branches.
_MOST_COLUMNS, _COLUMNS_A_RECORD = 200_000, 3


@dataclass
class CandidateGroups:
    """Distinct groups of records, each with its sum of squared errors."""

    X: Floats
    cost: dict[tuple[int, ...], float] = field(default_factory=dict)

    def add(self, members: Iterable[int]) -> None:
        key = tuple(sorted(members))
        if key not in self.cost:
            rows = self.X[list(key)]
            self.cost[key] = float(((rows - rows.mean(axis=0)) ** 2).sum())

    def add_partition(self, labels: Ints) -> None:
        for group in _parts(labels):
            self.add(group)


def _membership(groups: Sequence[tuple[int, ...]], n: int) -> csc_array:
    sizes = [len(group) for group in groups]
    rows = np.concatenate([np.array(group, dtype=np.int32) for group in groups])
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return csc_array((np.ones(len(rows)), rows, starts), shape=(n, len(groups)))


def relaxation(
    groups: Sequence[tuple[int, ...]], cost: Floats, n: int, seconds: float | None = None
) -> tuple[float, Floats] | None:
    """Solve the linear relaxation: its value and each record's price, as the solver gives them; None if it fails."""
    options = {} if seconds is None else {"time_limit": max(seconds, 0.1)}
    membership = _membership(groups, n)
    result = _optimize.linprog(cost, A_eq=membership, b_eq=np.ones(n), method="highs", options=options)
    return (float(result.fun), np.asarray(result.eqlin.marginals)) if result.status == 0 else None


def best_partition(candidates: CandidateGroups, labels: Ints, seconds: float | None = None) -> Ints:
    """Find the best partition into known groups; the given one if the solver finds none better.

    ``labels`` is a partition into known groups. Without ``seconds`` the solver stops by counts alone.
    """
    n = len(labels)
    candidates.add_partition(labels)
    groups = list(candidates.cost)
    cost = np.array([candidates.cost[group] for group in groups])
    upper = _cost_of(candidates, labels)
    if upper <= 0 or not 0 < len(groups) <= _MOST_COLUMNS:
        return labels
    scale = upper / n
    began = time.monotonic()
    solved = relaxation(groups, cost / scale, n, seconds)
    if solved is None:
        return labels
    value, price = solved
    reduced = cost / scale - np.add.reduceat(
        price[np.concatenate(groups)], np.concatenate([[0], np.cumsum([len(group) for group in groups])[:-1]])
    )
    kept = np.flatnonzero(reduced <= n - value + 1e-7 * n)
    if seconds is None:
        own = set(_parts(labels))
        order = kept[np.argsort(reduced[kept], kind="stable")][: _COLUMNS_A_RECORD * n]
        kept = np.union1d(order, [i for i, group in enumerate(groups) if group in own])
    left = None if seconds is None else seconds - (time.monotonic() - began)
    chosen = _solved([groups[i] for i in kept], cost[kept] / scale, n, left)
    if chosen is None:
        return labels
    cheapest = np.full(n, -1, dtype=np.int64)
    for number, i in enumerate(chosen):
        cheapest[list(groups[kept[i]])] = number
    return cheapest if cheapest.min() >= 0 and _cost_of(candidates, cheapest) < upper else labels


def _cost_of(candidates: CandidateGroups, labels: Ints) -> float:
    return sum(candidates.cost[group] for group in _parts(labels))


def _parts(labels: Ints) -> list[tuple[int, ...]]:
    """List the groups of a partition, each in ascending order."""
    order = np.argsort(labels, kind="stable")
    return [tuple(part.tolist()) for part in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)]


def _solved(groups: Sequence[tuple[int, ...]], cost: Floats, n: int, seconds: float | None) -> list[int] | None:
    """Choose groups that hold every record once; None where the solver has nothing."""
    # Without presolve: with it, the solver has been seen to write to the standard output.
    options: dict[str, Any] = {"mip_rel_gap": 0.0, "node_limit": _NODES, "presolve": False}
    if seconds is not None:
        options["time_limit"] = max(seconds, 0.1)
    result = _optimize.milp(
        cost,
        constraints=_optimize.LinearConstraint(_membership(groups, n), 1.0, 1.0),
        integrality=np.ones(len(groups)),
        bounds=_optimize.Bounds(0.0, 1.0),
        options=options,
    )
    if result.x is None:
        return None
    chosen = np.flatnonzero(result.x > 0.5).tolist()
    covered = np.bincount(np.concatenate([groups[i] for i in chosen]), minlength=n) if chosen else np.zeros(n)
    return chosen if (covered == 1).all() else None
