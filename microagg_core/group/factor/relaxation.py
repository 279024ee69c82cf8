"""The linear relaxation of a set partition: solved, priced over all pairs and triples, and turned into a bound."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from microagg_core.arrays import Floats, Ints
from microagg_core.group.factor.groups import costs, incidence
from microagg_core.group.factor.odd_sets import OddSet, limits, touching
from microagg_core.group.factor.pairs import Points
from microagg_core.kernels.matching.group_prices import cheap_groups
from microagg_core.kernels.matching.pair_tree import PairTree

#: How many cheap groups are held at a time, at first and at most.
_ROOM, _MOST_ROOM = 1_000_000, 16_000_000


@dataclass(frozen=True)
class RelaxationTask:
    """Records, their tree, and the mean whole cost of a record, in which the solver's numbers are near 1."""

    points: Points
    tree: PairTree
    unit: float


@dataclass(frozen=True)
class Relaxed:
    """A solved relaxation over some groups and odd sets: use of each group, price of each record, charge of each set.

    Prices and charges are whole; a group that costs less than its records' prices, less the charges of the sets
    that it touches twice, would have lowered the solution.
    """

    groups: Ints
    sets: tuple[OddSet, ...]
    use: Floats
    price: Ints
    charge: Ints


def relax(task: RelaxationTask, groups: Ints, sets: tuple[OddSet, ...], seconds: float) -> Relaxed | None:
    """Solve the relaxation; None where the time did not suffice."""
    if seconds <= 0:
        return None
    n = task.points.n
    cuts: dict[str, Any] = {"A_ub": touching(sets, groups, n), "b_ub": limits(sets)} if sets else {}
    # The stubs of linprog know no sparse matrices.
    solve: Any = linprog
    solved = solve(
        costs(task.points, groups) / task.unit,
        A_eq=incidence(groups, n),
        b_eq=np.ones(n),
        method="highs-ds",
        options={"time_limit": seconds},
        **cuts,
    )
    if solved.status != 0:
        return None
    charge = np.maximum(np.floor(-solved.ineqlin.marginals * task.unit), 0) if sets else np.zeros(0)
    price = np.floor(solved.eqlin.marginals * task.unit)
    return Relaxed(groups, sets, solved.x, price.astype(np.int64), charge.astype(np.int64))


def not_excluded(
    task: RelaxationTask, relaxed: Relaxed, price: Ints, slack: int, room: int = _ROOM
) -> tuple[Ints, Ints, bool]:
    """Groups that cost less than prices, less charges, plus slack; by how much without it; whether these are all."""
    groups, excess, are_all = cheap_groups(task.tree, price, task.points.scale, slack, room)
    if relaxed.sets and len(groups):
        excess = excess - touching(relaxed.sets, groups, task.points.n).astype(np.int64).T @ relaxed.charge
    keep = excess + slack > 0
    return groups[keep], excess[keep], are_all


def relaxed_bound(task: RelaxationTask, relaxed: Relaxed) -> int:
    """A whole cost that no partition is below, proved for all pairs and triples in whole numbers; 0 where it fails.

    Where every group costs at least its records' prices less the charges of the sets it touches twice, a partition
    costs at least the sum of all prices, less each charge at most (|S| - 1) / 2 times: so many groups can touch
    the odd set S twice. Prices that the solver's tolerance left too high are lowered until that holds of every
    group, which it is then seen to do.
    """
    price, room = relaxed.price.copy(), _ROOM
    while room <= _MOST_ROOM:
        groups, excess, are_all = not_excluded(task, relaxed, price, 0, room)
        if are_all and len(groups) == 0:
            most = limits(relaxed.sets).tolist()
            bound: int = sum(price.tolist()) - sum(map(operator.mul, relaxed.charge.tolist(), most))
            return bound
        lower = np.zeros(len(price), np.int64)
        np.maximum.at(lower, groups[:, 0], excess)
        price -= lower
        room *= 1 if are_all else 4
    return 0
