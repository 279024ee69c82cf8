"""Refinement: improve a partition by a fixed number of steps or, for k = 2, to the optimum; never make it worse.

Whatever the steps do, the result is kept only if its loss, computed anew from the records, is less than that of
the partition that came in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.group.costs import (
    COOLER,
    LARGE_K,
    annealing_sweeps,
    downhill_sweeps,
    optimum_is_affordable,
    starts_from_slabs,
)
from microagg_core.group.labels import checked_labels
from microagg_core.group.metrics.losses import sse_of_labels
from microagg_core.group.points import AnyPoints, Points
from microagg_core.group.refine.annealing import Annealing
from microagg_core.group.refine.neighbours import Records

if TYPE_CHECKING:
    from microagg_core.group.factor import Optimum


#: How hot the annealing begins, in units of the mean squared error: the thorough one; the fast one, and for a large k.
_HOTTEST, _HOTTEST_FAST = 0.5, (1.2, 0.8)
#: The power with which it cools.
_POWER = 2


def neighbour_count(n: int, k: int) -> int:
    return min(n - 1, max(10, min(k + 2, 26)))


def refine_near(records: Records, given: Ints, k: int, effort: str, seed: int) -> Ints:
    """Refine records whose neighbours are known; returns the very array that came in where nothing was gained.

    A thorough annealing begins less hot than the fast one, and may end in a valley that is not as deep (with 60 % zeros
    in 2 files of 20): the fast one, of fewer steps, is made as well, and the better of both kept.
    """
    Z, start = records.points, records.inward(given)
    best, least = start, sse_of_labels(Z, start)
    if least == 0:
        return given
    for each in dict.fromkeys(("fast", effort)):
        annealed = _annealed(records, start, k, each, seed)
        if (sse := sse_of_labels(Z, annealed)) < least:
            best, least = annealed, sse
    return given if best is start else records.outward(best, k)


def _annealed(records: Records, start: Ints, k: int, effort: str, seed: int) -> Ints:
    n, p = records.points.shape
    annealing = Annealing(records.points, records.near(neighbour_count(n, k)), k, seed)
    sweeps = annealing_sweeps(effort, n, p, k, p - records.points.n_numbers)
    hottest, power, downhill = way_of(effort, k)
    hottest *= COOLER if starts_from_slabs(n, p, k) else 1.0
    return annealing.run(cut_large(records.points, start, k), sweeps, hottest, power, downhill)


def way_of(effort: str, k: int) -> tuple[float, int, int]:
    """Say how hot an annealing begins, with which power it cools, and how often it then goes downhill."""
    hottest = _HOTTEST if effort != "fast" else _HOTTEST_FAST[k > LARGE_K]
    return hottest, _POWER, downhill_sweeps(effort, k)


def are_alike(X: AnyPoints, labels: Ints) -> bool:
    """Say whether all records of each group are equal, so that nothing is lost.

    >>> are_alike(np.array([[1.0], [2.0], [1.0]]), np.array([0, 1, 0]))
    True
    """
    member = np.zeros(labels.max() + 1, dtype=np.int64)
    member[labels] = np.arange(len(labels))
    return all(np.array_equal(column[member[labels]], column) for column in Points.of(X).X.T)


def cut_large(points: Points, labels: Ints, k: int) -> Ints:
    """Cut groups of 2k or more in halves, along the attribute that varies most, until none is left."""
    _, labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    waiting = [np.flatnonzero(labels == a) for a in np.flatnonzero(sizes >= 2 * k)]
    cut: Ints = labels.astype(np.int64)
    n_groups, X, is_code = len(sizes), points.X, points.is_code
    while waiting:
        group = waiting.pop()
        width = np.ptp(X[group], axis=0)
        width[is_code] = np.where(width[is_code] > 0, np.sqrt(points.costs[is_code]), 0.0)
        column = X[group, int(np.argmax(width))]
        halves = np.split(group[np.argsort(column, kind="stable")], [len(group) // 2])
        cut[halves[1]] = n_groups
        n_groups += 1
        waiting += [half for half in halves if len(half) >= 2 * k]
    return cut


#: Losses that differ by a smaller share are the same but for rounding.
_NOTHING = 1e-12


def affordable_optimum(records: Records, k: int, effort: str | float) -> Optimum | None:
    """Find the groups of least loss for k=2, with their proof; None for another k or effort, or if it takes too long.

    It stops by counts, not by the clock, so that the same records give the same groups on every machine.
    """
    n, p = records.points.shape
    if effort != "thorough" or not optimum_is_affordable(n, p, k):
        return None
    from microagg_core.group.factor import (
        optimal_two,  # loads solvers, which a worker has no memory for unless it needs them
    )

    return optimal_two(records.points, seconds=None)


def least_loss(records: Records, given: Ints, optimum: Optimum, seed: int) -> Ints:
    """Take the optimum's groups, or refined ones where these lose less; the given array where neither gains.

    An optimum that is proved needs no comparison with refined groups.
    """
    refined = [] if optimum.gap == 0 else [refine_near(records, given, 2, "thorough", seed)]
    candidates = [given, *refined, records.outward(optimum.labels, 2)]
    losses = [sse_of_labels(records.points, records.inward(labels)) for labels in candidates]
    enough = min(losses) * (1 + _NOTHING)
    return next(labels for labels, loss in zip(candidates, losses, strict=True) if loss <= enough)


def refine(X: AnyPoints, labels: Ints, k: int, *, effort: str = "fast", seed: int = 0) -> Ints:
    """Improve a partition: groups of at least k again, and a sum of squared errors that is not greater.

    ``X`` are points or an (n, p) array of finite numbers, ``labels`` one whole number a record, no group below k.
    "fast" takes some dozen steps a record, "thorough" six hundred, or for k = 2 the optimum where that takes seconds:
    steps, never a clock's time, so that the same arguments give the same groups on every machine.

    Returns labels 0 to g-1 in the order of each group's first record.

    Raises:
        ValueError: a group has fewer than k records, or there is not one label a record.
    """
    if len(labels) != len(X) or np.unique(labels, return_counts=True)[1].min() < k:
        raise ValueError("labels must give each record a group, and no group fewer than k records")
    given = checked_labels(labels, (k, None), "refine")
    if len(X) < 2 * k or k < 2 or are_alike(X, given):
        return given
    records = Records.of(X, neighbour_count(len(X), k))
    optimum = affordable_optimum(records, k, effort)
    if optimum is not None:
        return least_loss(records, given, optimum, seed)
    return refine_near(records, given, k, effort, seed)
