"""The best partition into groups of two and three records, as a set partition whose relaxation is priced and cut.

No group of four or more is needed: its two halves lose no more. The linear relaxation over a few groups is solved;
then groups are added that its prices cannot exclude, of all pairs and triples there are, and inequalities of odd
sets that its solution breaks. When nothing can be added, the solution is mostly whole, and then it is the best
partition; else a branch and bound among what the prices cannot exclude may find a better one than is known.

Groups of two and three records are rows of three numbers, -1 last in a pair.
"""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import coo_array, csc_array, csr_array
from scipy.sparse.csgraph import connected_components

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.group.factor.minimum import Scaled, factor_sse, in_units, minimum_factor, scaled
from microagg_core.group.headway import Progress
from microagg_core.group.points import AnyPoints, Points
from microagg_core.kernels.matching.pair_tree import PairTree, cheap_groups, nearest_pairs, new_pair_tree, weights_of

#: Up to so many records, all groups there are.
_FEW = 24


def distinct(groups: Ints, n: int) -> Ints:
    """Keep each group once, its records ascending; of n records."""
    rows = np.unique(np.sort(np.where(groups < 0, n, groups), axis=1), axis=0)
    return np.where(rows == n, -1, rows)


def costs(points: Scaled, groups: Ints) -> Ints:
    """Compute six times each group's SSE, in whole weights: 3 W of a pair, 2 (W + W + W) of a triple."""
    a, b, c = groups.T.copy()
    whole = weights_of(points.rows, points.costs, a, b, points.scale)
    triple = np.flatnonzero(c >= 0)
    others = weights_of(points.rows, points.costs, a[triple], c[triple], points.scale)
    others += weights_of(points.rows, points.costs, b[triple], c[triple], points.scale)
    total = 3 * whole
    total[triple] += 2 * others - whole[triple]
    return total


def incidence(groups: Ints, n: int) -> csc_array:
    """Build the matrix of records by groups: 1 where a record is in a group."""
    inside = groups >= 0
    ends = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    records = groups[inside]
    return csc_array((np.ones(len(records)), records, ends), shape=(n, len(groups)))


def groups_of(labels: Ints) -> Ints:
    """List the groups of a partition whose groups have two or three records.

    >>> groups_of(np.array([0, 1, 0, 1, 1])).tolist()
    [[0, 2, -1], [1, 3, 4]]
    """
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    start = np.cumsum(sizes) - sizes
    third = np.where(sizes == 3, order[np.minimum(start + 2, len(order) - 1)], -1)
    return np.stack([order[start], order[start + 1], third], axis=1)


def labels_from(groups: Ints, n: int) -> Ints | None:
    """Number groups in the order of first records; None if they do not hold each record exactly once."""
    if not np.array_equal(np.sort(groups[groups >= 0]), np.arange(n)):
        return None
    ordered = groups[np.argsort(groups[:, 0])]
    labels = np.empty(n, np.int64)
    for place in range(3):
        inside = ordered[:, place] >= 0
        labels[ordered[inside, place]] = np.flatnonzero(inside)
    return labels


def first_groups(tree: PairTree, neighbours: int) -> Ints:
    """Join each record with any one, and any two, of its nearest; of few records, make all groups."""
    n = len(tree.order)
    count = n - 1 if n <= _FEW else min(neighbours, n - 1)
    left, right = nearest_pairs(tree, count)
    own, near = left[::count], right.reshape(n, count)
    i, j = np.triu_indices(count, 1)
    triples = np.stack([np.repeat(own, len(i)), near[:, i].ravel(), near[:, j].ravel()], axis=1)
    pairs = np.stack([left, right, np.full(len(left), -1)], axis=1)
    return distinct(np.concatenate([pairs, triples]), n)


OddSet = tuple[int, ...]

#: A group is in fractional use where its share is at least so far from 0 and from 1.
_FRACTIONAL = 1e-5
#: Connected sets of up to so many records are searched in full; larger ones from so many seeds, up to that size.
_FULL, _SEEDS, _GROWN = 13, 40, 31
_KEPT = 3


def touching(sets: Sequence[OddSet], groups: Ints, n: int) -> csc_array:
    """Build the matrix of odd sets by groups: 1 where a group holds two or more records of a set."""
    sizes = [len(members) for members in sets]
    rows = np.repeat(np.arange(len(sets)), sizes)
    columns = np.array([record for members in sets for record in members], np.int64)
    inside = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(sets), n))
    shared = csc_array(inside @ incidence(groups, n))
    shared.data = np.floor(shared.data / 2)
    shared.eliminate_zeros()
    return shared


def limits(sets: Sequence[OddSet]) -> Ints:
    return np.array([len(members) // 2 for members in sets], np.int64)


def _fully(member: Bools, x: Floats) -> list[tuple[float, Ints]]:
    """Find the most broken of all odd subsets of a few records; ``member`` is groups by records."""
    count = member.shape[1]
    subsets = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
    sizes = subsets.sum(axis=1)
    subsets, sizes = subsets[sizes % 2 == 1], sizes[sizes % 2 == 1]
    broken = (subsets @ member.T // 2) @ x - sizes // 2
    best = np.argsort(-broken, kind="stable")[:_KEPT]
    return [(float(broken[i]), np.flatnonzero(subsets[i])) for i in best]


def _grown(member: Bools, x: Floats, seed: int) -> list[tuple[float, Ints]]:
    """Grow sets from a record, two records at a time, each time the two that break the inequality most."""
    whole = member.astype(np.int64)
    inside = np.zeros(member.shape[1], bool)
    inside[seed] = True
    sets = []
    while inside.sum() + 2 <= min(_GROWN, member.shape[1]):
        near = np.flatnonzero(member[member[:, inside].any(axis=1)].any(axis=0) & ~inside)
        if len(near) < 2:
            break
        i, j = np.triu_indices(len(near), 1)
        counts = whole[:, inside].sum(axis=1)[:, None] + whole[:, near[i]] + whole[:, near[j]]
        gains = x @ (counts // 2)
        best = int(np.argmax(gains))
        inside[[near[i[best]], near[j[best]]]] = True
        sets.append((float(gains[best]) - inside.sum() // 2, np.flatnonzero(inside)))
    return sorted(sets, key=lambda gain_and_set: -gain_and_set[0])[:_KEPT]


def broken_sets(groups: Ints, x: Floats, n: int) -> list[OddSet]:
    """Find odd sets, within the connected pieces of the groups in fractional use, whose inequality is broken.

    For an odd set S, a partition has at most (|S| - 1) / 2 groups that hold two or more records of S. Half a group
    each, as in a triangle of three half pairs, breaks that.
    """
    used = np.flatnonzero((x > _FRACTIONAL) & (x < 1 - _FRACTIONAL))
    part, share = groups[used], x[used]
    third = np.where(part[:, 2] < 0, part[:, 1], part[:, 2])
    ends = np.concatenate([part[:, 0], part[:, 0]]), np.concatenate([part[:, 1], third])
    _, piece = connected_components(coo_array((np.ones(2 * len(used)), ends), shape=(n, n)), directed=False)
    order = np.argsort(piece[part[:, 0]], kind="stable")
    bounds = np.flatnonzero(np.diff(piece[part[order, 0]])) + 1
    odd_sets: set[OddSet] = set()
    for rows in np.split(order, bounds) if len(used) else []:
        records = np.unique(part[rows][part[rows] >= 0])
        member = (part[rows][:, :, None] == records).any(axis=1)
        if len(records) <= _FULL:
            sets = _fully(member, share[rows])
        else:
            seeds = range(0, len(records), max(1, len(records) // _SEEDS))
            sets = [grown for seed in seeds for grown in _grown(member, share[rows], seed)]
        odd_sets |= {tuple(records[members].tolist()) for broken, members in sets if broken > _FRACTIONAL}
    return sorted(odd_sets)


#: How many cheap groups are held at a time, at first and at most.
_ROOM, _MOST_ROOM = 1_000_000, 16_000_000


@dataclass(frozen=True)
class RelaxationTask:
    """Records, their tree, and the mean whole cost of a record, in which the solver's numbers are near 1."""

    points: Scaled
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
    """Find groups that cost less than prices, less charges, plus slack; by how much without it; if these are all."""
    groups, excess, are_all = cheap_groups(task.tree, price, task.points.scale, slack, room)
    if relaxed.sets and len(groups):
        excess = excess - touching(relaxed.sets, groups, task.points.n).astype(np.int64).T @ relaxed.charge
    keep = excess + slack > 0
    return groups[keep], excess[keep], are_all


def relaxed_bound(task: RelaxationTask, relaxed: Relaxed) -> int:
    """Prove a whole cost that no partition is below, for all pairs and triples in whole numbers; 0 where it fails.

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
    """Best partition found, its SSE, and a bound that the SSE of every partition has been proved to reach.

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
        """Part of the SSE that could still be saved, at most: (sse - bound) / sse, 0 where rounding alone is left."""
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
        if seconds is None:
            return cls(math.inf, _ROUNDS, {"node_limit": _NODES})
        return cls(time.monotonic() + seconds, math.inf, {})

    def left(self) -> float:
        return self.ends - time.monotonic()


class _Best:
    """The best partition so far, as groups, with its whole cost."""

    def __init__(self, task: RelaxationTask, groups: Ints) -> None:
        self.task, self.groups = task, groups
        self.cost = sum(costs(task.points, groups).tolist())

    def offer(self, groups: Ints) -> None:
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
    rounds, progress = 0, Progress("looking for the optimum", task.points.rows)
    while True:
        progress.report(partial(_sse_of, task, best))
        relaxed = relax(task, groups, sets, budget.left()) if rounds < budget.rounds else None
        if relaxed is None:
            return last, rounds
        last, rounds = relaxed, rounds + 1
        best.offer(groups[relaxed.use > 0.5])
        more, excess, _ = not_excluded(task, relaxed, relaxed.price, 0)
        worst = np.argsort(-excess, kind="stable")[: 3 * n]
        worst = worst[excess[worst] > _TOLERANCE * task.unit]
        present = set(sets)
        broken = tuple(odd for odd in broken_sets(groups, relaxed.use, n) if odd not in present)
        if len(worst) == 0 and not broken:
            return last, rounds
        sets = sets + broken
        groups = distinct(np.concatenate([groups, more[worst]]), n)


def _solve_whole(
    task: RelaxationTask, groups: Ints, records: Ints, sets: tuple[OddSet, ...], budget: _Budget
) -> Ints | None:
    """Find the cheapest groups that hold each of some records exactly once, by branch and bound; None if it fails."""
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


def optimal_two(X: AnyPoints, *, seconds: float | None = 60.0) -> Optimum:
    """Find the partition into groups of two or more with the least SSE, or the best within the time and its gap.

    X are points or an (n, p) array of finite numbers, n >= 2, taken as they are given. Where the time is not met, or
    with ``seconds=None``, which stops by counts alone, the same input gives the same partition. The gap is proved in
    whole numbers, whatever the solver's tolerances.
    ValueError for anything else.
    """
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds must be above 0 (got {seconds})")
    budget = _Budget.of(seconds)
    factor = minimum_factor(X)
    points = scaled(X if isinstance(X, Points) else np.asarray(X, dtype=np.float64))
    start = groups_of(factor.labels)
    unit = max(sum(costs(points, start).tolist()) / points.n, 1.0)
    task = RelaxationTask(points, new_pair_tree(points.rows, points.costs), unit)
    best, bound = _Best(task, start), 3 * factor.whole_weight
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
        sse=math.ldexp(factor_sse(points.points, labels), -2 * points.shift),
        bound=in_units(points, bound) / 6,
        rounds=rounds,
        groups=0 if relaxed is None else len(relaxed.groups),
        odd_sets=0 if relaxed is None else len(relaxed.sets),
    )
