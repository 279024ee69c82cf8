"""Search: annealing run after run, the best partition held, and a programme over all groups that the runs met."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from microagg_core.arrays import Floats, Ints
from microagg_core.group.costs import DEFAULT_STEPS
from microagg_core.group.headway import Progress
from microagg_core.group.labels import checked_labels, private_copy
from microagg_core.group.metrics.losses import sse_of_labels
from microagg_core.group.points import AnyPoints, Points
from microagg_core.group.refine.annealing import Annealing
from microagg_core.group.refine.neighbours import Records
from microagg_core.group.refine.refinement import cut_large, neighbour_count
from microagg_core.kernels.tree.mdav import quicker_peel

#: SciPy's solvers, whose published types refuse sparse matrices and ``node_limit``.
_optimize: Any = import_module("scipy.optimize")


#: Branch-and-bound nodes, a count and not a time so that every machine stops at the same place.
_NODES_OF_PROGRAMME = 50
#: Columns that are known, and columns a record that are left when the solver branches.
_MOST_COLUMNS, _COLUMNS_A_RECORD = 200_000, 3


@dataclass
class CandidateGroups:
    """Distinct groups of records, each with its sum of squared errors."""

    points: Points
    cost: dict[tuple[int, ...], float] = field(default_factory=dict)

    def add(self, members: Iterable[int]) -> None:
        key = tuple(sorted(members))
        if key not in self.cost:
            self.cost[key] = sse_of_labels(self.points.rows(np.array(key)), np.zeros(len(key), dtype=np.int64))

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

    Every group that a search met is a column: its records, and its sum of squared errors. The linear relaxation
    gives each record a price; a group that costs more than the prices of its records by more than the relaxation
    leaves to gain cannot be part of a better partition and is left out. What remains is mostly small.

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
    options: dict[str, Any] = {"mip_rel_gap": 0.0, "node_limit": _NODES_OF_PROGRAMME, "presolve": False}
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


#: Run by run: its share of all sweeps, its hottest temperature (in mean squared errors), the power of its fall, and
#: whether it starts from the best so far. Short runs find out which valley is deep, long ones go down in it.
_RUNS = (
    *((0.07, hottest, power, False) for hottest, power in ((4.0, 3), (2.0, 3), (2.0, 2), (2.0, 4), (1.0, 2), (2.0, 3))),
    (0.2, 1.0, 2, True),
    (0.2, 4.0, 3, False),
    (0.18, 0.7, 2, True),
)
_DOWNHILL = 50
#: A record's neighbours are the groups it can go to: more than a group can have, for natural groups may be as large.
_MOST_NEIGHBOURS = 26
#: Above so many records, or this k, the programme would take longer than all the runs for little.
_MOST_FOR_PROGRAMME, _LARGEST_K_FOR_PROGRAMME = 6000, 6
_PROGRAMME_SHARE = 0.25


@dataclass(frozen=True)
class Budget:
    """Sweeps in all runs; with ``ends``, a clock's reading at which the runs end, however many there were.

    The programme has so many seconds, none of them if 0, or is bounded by counts if None.
    """

    sweeps: int
    ends: float | None = None
    programme_seconds: float | None = None

    def is_spent(self, run: int) -> bool:
        return time.monotonic() >= self.ends if self.ends is not None else run >= len(_RUNS)


def search(
    X: AnyPoints,
    k: int,
    *,
    steps: int = DEFAULT_STEPS,
    seconds: float | None = None,
    seed: int = 0,
    start: Ints | None = None,
) -> Ints:
    """Look for the partition into groups of at least k with the least sum of squared errors.

    Annealing runs (``steps`` tries of a change for each record, in all of them) start from ``start``, by default
    MDAV's groups; then a programme picks the best partition from all groups met. With ``seconds`` all of it
    takes about that long instead, and the result depends on the machine.

    Returns labels 0 to g-1 in the order of each group's first record; never worse than ``start``.
    """
    began = time.monotonic()
    given = _mdav_groups(Points.of(X), k) if start is None else checked_labels(start, (k, None), "search")
    n = len(X)
    if n < 2 * k:
        return given
    count = min(n - 1, max(neighbour_count(n, k), min(2 * k + 2, _MOST_NEIGHBOURS)))
    records = Records.of(X, count)
    first = records.inward(given)
    before = sse_of_labels(records.points, first)
    if before == 0:
        return given
    annealing = Annealing(records.points, records.near(count), k, seed)
    first = cut_large(records.points, first, k)
    budget = _budget(annealing, first, steps, seconds, began)
    annealed = _runs(annealing, records.points, first, budget)
    return records.outward(annealed, k) if sse_of_labels(records.points, annealed) < before else given


def _budget(annealing: Annealing, first: Ints, steps: int, seconds: float | None, began: float) -> Budget:
    n = len(first)
    solvable = annealing.k <= _LARGEST_K_FOR_PROGRAMME and n <= _MOST_FOR_PROGRAMME
    if seconds is None:
        return Budget(steps, programme_seconds=None if solvable else 0.0)
    annealing.run(first, 1, 0.5, 1, 0)  # compiles
    start = time.monotonic()
    annealing.run(first, 3, 0.5, 1, 0)
    a_sweep = (time.monotonic() - start) / 3
    programme = _PROGRAMME_SHARE * seconds if solvable else 0.0
    ends = began + 0.97 * seconds - programme
    left = max(ends - time.monotonic(), 0.0)
    return Budget(max(int(left / a_sweep), 1), ends, programme)


def _mdav_groups(points: Points, k: int) -> Ints:
    return checked_labels(quicker_peel(private_copy(points), k, 2 * k), (k, 2 * k - 1), "mdav")


def searched(records: Records, k: int, sweeps: int, seed: int = 0) -> tuple[Ints, CandidateGroups]:
    """Make the usual runs from MDAV's groups: the best partition of places, and all groups that were met."""
    given = _mdav_groups(records.points, k)
    annealing = Annealing(records.points, records.near(neighbour_count(len(given), k)), k, seed)
    return _annealed(annealing, records.points, given, Budget(sweeps))


def _annealed(annealing: Annealing, X: Points, first: Ints, budget: Budget) -> tuple[Ints, CandidateGroups]:
    """Make all runs: the best partition, and the groups met where a programme is worth it."""
    best, least = first, sse_of_labels(X, first)
    candidates, collects = CandidateGroups(X), len(X) <= _MOST_FOR_PROGRAMME
    candidates.add_partition(first)
    run, progress = 0, Progress("searching", X)
    while not budget.is_spent(run):
        share, hottest, power, onward = _RUNS[run % len(_RUNS)]
        start, sweeps = best if onward else first, max(1, int(share * budget.sweeps))
        way = (start, sweeps, hottest, power, _DOWNHILL)
        for labels in annealing.snapshots(*way) if collects else [annealing.run(*way)]:
            if collects:
                candidates.add_partition(labels)
            sse = sse_of_labels(X, labels)
            if sse < least:
                best, least = labels, sse
            progress.report(least, share=run / len(_RUNS) if budget.ends is None else None)
            if budget.ends is not None and budget.is_spent(run):
                break
        run += 1
    return best, candidates


def _runs(annealing: Annealing, X: Points, first: Ints, budget: Budget) -> Ints:
    """Make all runs, then solve the programme, and go downhill from what it finds."""
    best, candidates = _annealed(annealing, X, first, budget)
    if budget.programme_seconds == 0.0 or len(X) > _MOST_FOR_PROGRAMME:
        return best
    Progress("choosing among all groups that were met", X).report()
    return annealing.downhill(best_partition(candidates, best, budget.programme_seconds), _DOWNHILL)
