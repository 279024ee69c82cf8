"""The best partition into groups of two and three records, as a set partition whose relaxation is priced and cut.

No group of four or more is needed: its two halves lose no more. The linear relaxation over a few groups is solved;
then groups are added that its prices cannot exclude, of all pairs and triples there are, and inequalities of odd
sets that its solution breaks. When nothing can be added, the solution is mostly whole, and then it is the best
partition; else a branch and bound among what the prices cannot exclude may find a better one than is known.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from microagg_core.arrays import Floats, Ints
from microagg_core.group.factor.groups import costs, distinct, first_groups, groups_of, incidence, labels_from
from microagg_core.group.factor.minimum import minimum_factor
from microagg_core.group.factor.odd_sets import OddSet, broken_sets, limits, touching
from microagg_core.group.factor.pairs import points_of
from microagg_core.group.factor.proof import in_units
from microagg_core.group.factor.relaxation import RelaxationTask, Relaxed, not_excluded, relax, relaxed_bound
from microagg_core.group.factor.stars import factor_sse
from microagg_core.group.grouping.headway import Way
from microagg_core.kernels.matching.pair_tree import new_pair_tree

_NEIGHBOURS = 6
#: The relaxation is solved to about this part of a record's mean cost; what is below counts as nothing.
_TOLERANCE = 1e-7
#: How often more groups are let go where those that the relaxation uses in part cannot be made whole.
_WIDENINGS = 4
#: Without a clock: relaxations that are solved, and nodes of a branch and bound.
_ROUNDS, _NODES = 60, 200
#: A gap that rounding alone leaves.
_CLOSED = 1e-9


@dataclass(frozen=True)
class Optimum:
    """The best partition found, its SSE, and a bound that the SSE of every partition has been proved to reach.

    ``rounds`` counts the relaxations that were solved; ``groups`` and ``odd_sets`` are what the last one held.
    """

    labels: Ints
    sse: float
    bound: float
    rounds: int
    groups: int
    odd_sets: int

    @property
    def gap(self) -> float:
        """At most this part of the SSE could still be saved: (sse - bound) / sse, 0 where rounding alone is left.

        >>> Optimum(np.array([0, 0]), sse=2.0, bound=1.5, rounds=1, groups=1, odd_sets=0).gap
        0.25
        """
        gap = 1 - self.bound / self.sse if self.sse > 0 else 0.0
        return gap if gap > _CLOSED else 0.0


@dataclass(frozen=True)
class _Budget:
    """How long to go on: until a clock's reading; without one by counts alone, so that every machine stops alike."""

    ends: float
    rounds: float
    nodes: dict[str, int]

    @classmethod
    def of(cls, seconds: float | None) -> _Budget:
        """So many seconds from now, or counts."""
        if seconds is None:
            return cls(math.inf, _ROUNDS, {"node_limit": _NODES})
        return cls(time.monotonic() + seconds, math.inf, {})

    def left(self) -> float:
        """Seconds."""
        return self.ends - time.monotonic()


class _Best:
    """The best partition so far, as groups, with its whole cost."""

    def __init__(self, task: RelaxationTask, groups: Ints) -> None:
        self.task, self.groups = task, groups
        self.cost = sum(costs(task.points, groups).tolist())

    def offer(self, groups: Ints) -> None:
        """Keep groups that are a partition and cost less."""
        cost = sum(costs(self.task.points, groups).tolist())
        if cost < self.cost and labels_from(groups, self.task.points.n) is not None:
            self.groups, self.cost = groups, cost


def _sse_of(task: RelaxationTask, best: _Best) -> float:
    return math.ldexp(in_units(task.points, best.cost) / 6, 2 * task.points.shift)


def _close(task: RelaxationTask, best: _Best, budget: _Budget) -> tuple[Relaxed | None, int]:
    """Solve, price and cut until nothing can be added: the last relaxation, and how many were solved."""
    n = task.points.n
    groups = distinct(np.concatenate([first_groups(task.tree, _NEIGHBOURS), best.groups]), n)
    sets: tuple[OddSet, ...] = ()
    last: Relaxed | None = None
    rounds, told = 0, Way("looking for the optimum", task.points.rows)
    while True:
        told.at(partial(_sse_of, task, best))
        relaxed = relax(task, groups, sets, budget.left()) if rounds < budget.rounds else None
        if relaxed is None:
            return last, rounds
        last, rounds = relaxed, rounds + 1
        best.offer(groups[relaxed.use > 0.5])
        more, excess, _ = not_excluded(task, relaxed, relaxed.price, 0)
        worst = np.argsort(-excess, kind="stable")[: 3 * n]
        worst = worst[excess[worst] > _TOLERANCE * task.unit]
        present = set(sets)
        broken = tuple(one for one in broken_sets(groups, relaxed.use, n) if one not in present)
        if len(worst) == 0 and not broken:
            return last, rounds
        sets = sets + broken
        groups = distinct(np.concatenate([groups, more[worst]]), n)


def _solve_whole(
    task: RelaxationTask, groups: Ints, records: Ints, sets: tuple[OddSet, ...], budget: _Budget
) -> Ints | None:
    """The cheapest groups that hold each of some records exactly once, by branch and bound; None if not found."""
    if len(records) == 0:
        # A relaxation that is whole already: its bound was below its cost by the rounding of prices alone. The
        # solver refuses a problem without groups.
        return groups[:0]
    n = task.points.n
    constraints = [LinearConstraint(incidence(groups, n).tocsr()[records].tocsc(), 1, 1)]
    if sets:
        constraints.append(LinearConstraint(touching(sets, groups, n), -np.inf, limits(sets)))
    solved = milp(
        costs(task.points, groups) / task.unit,
        constraints=constraints,
        integrality=np.ones(len(groups), np.int64),
        bounds=Bounds(0, 1),
        options={"time_limit": max(budget.left(), 0.01), "mip_rel_gap": 0, **budget.nodes},  # type: ignore[arg-type]
    )
    return None if solved.x is None else groups[solved.x > 0.5]


def _round(task: RelaxationTask, relaxed: Relaxed, best: _Best, budget: _Budget) -> None:
    """Offer a partition that keeps what the relaxation uses whole, away from what it uses in part."""
    fixed, near = relaxed.use > 1 - _TOLERANCE, incidence(relaxed.groups, task.points.n)
    loose = near @ np.where(fixed, 0.0, relaxed.use) > _TOLERANCE
    for _ in range(_WIDENINGS):
        inside = near.T @ loose.astype(np.float64) == near.sum(axis=0)
        kept = fixed & ~inside
        records = np.flatnonzero(near @ kept.astype(np.float64) == 0)
        chosen = _solve_whole(task, relaxed.groups[inside], records, (), budget)
        if chosen is not None:
            best.offer(np.concatenate([relaxed.groups[kept], chosen]))
            return
        # Let go of the groups nearby as well: those that share a candidate group with a loose record.
        touched = near @ (near.T @ loose.astype(np.float64)) > 0
        loose = near @ (fixed & (near.T @ touched.astype(np.float64) > 0)).astype(np.float64) + loose > 0


def _branch(task: RelaxationTask, relaxed: Relaxed, best: _Best, bound: int, budget: _Budget) -> None:
    """Look for a better partition by branch and bound, among the groups that the bound does not exclude."""
    n = task.points.n
    more, _, are_all = not_excluded(task, relaxed, relaxed.price, best.cost - bound + int(_TOLERANCE * task.unit))
    groups = distinct(np.concatenate([more if are_all else relaxed.groups, best.groups]), n)
    chosen = _solve_whole(task, groups, np.arange(n), relaxed.sets, budget)
    if chosen is not None:
        best.offer(chosen)


def optimal_two(X: Floats, *, seconds: float | None = 60.0) -> Optimum:
    """The partition into groups of two or more with the least SSE, or the best found in the time, with a proved gap.

    X is an (n, p) array of finite numbers, n >= 2, taken as it is given. Where the time is not met, or with
    ``seconds=None``, which stops by counts alone, the same input gives the same partition. The gap is proved in whole
    numbers, whatever the solver's tolerances.
    ValueError for anything else.

    >>> best = optimal_two(np.array([[0.0], [1.0], [10.0], [12.0], [13.0]]))
    >>> best.labels.tolist(), best.gap
    ([0, 0, 1, 1, 1], 0.0)
    """
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds must be above 0 (got {seconds})")
    budget = _Budget.of(seconds)
    factor = minimum_factor(X)
    points = points_of(np.asarray(X, dtype=np.float64))
    start = groups_of(factor.labels)
    unit = max(sum(costs(points, start).tolist()) / points.n, 1.0)
    task = RelaxationTask(points, new_pair_tree(points.rows), unit)
    best, bound = _Best(task, start), 3 * factor.proof.whole_bound
    relaxed, rounds = _close(task, best, budget)
    if relaxed is not None:
        bound = max(bound, relaxed_bound(task, relaxed))
        if best.cost - bound > _CLOSED * best.cost:
            _round(task, relaxed, best, budget)
            _branch(task, relaxed, best, bound, budget)
    labels_of_best = labels_from(best.groups, points.n)
    labels = factor.labels if labels_of_best is None else labels_of_best
    return Optimum(
        labels=labels,
        sse=math.ldexp(factor_sse(points.rows, labels), -2 * points.shift),
        bound=in_units(points, bound) / 6,
        rounds=rounds,
        groups=0 if relaxed is None else len(relaxed.groups),
        odd_sets=0 if relaxed is None else len(relaxed.sets),
    )
