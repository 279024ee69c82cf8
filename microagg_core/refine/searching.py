"""Search: annealing run after run, the best partition held, and a programme over all groups that the runs met."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microagg_core.algorithms.running import checked_labels
from microagg_core.refine.local import cut_large, neighbour_count, sse_of_labels
from microagg_core.refine.neighbours import Records
from microagg_core.refine.programme import Groups, best_partition
from microagg_core.refine.state import Annealing

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Steps a record where neither steps nor seconds are given.
_DEFAULT_SWEEPS = 3000
#: Hottest temperature (in mean squared errors), power of its fall, and whether from the best so far, run by run.
_SCHEDULES = ((2.0, 2, False), (1.0, 2, False), (0.5, 2, True), (4.0, 3, False), (2.0, 2, False), (0.3, 2, True))
_RUNS = 6
_DOWNHILL = 50
#: Above so many records, or this k, the programme would take longer than all the runs for little.
_MOST_FOR_PROGRAMME, _LARGEST_K_FOR_PROGRAMME = 6000, 6
_PROGRAMME_SHARE = 0.35


@dataclass(frozen=True)
class Budget:
    """Sweeps for each of the runs; with ``ends``, a clock's reading after which no run starts.

    The programme has so many seconds, none of them if 0, or is bounded by counts if None.
    """

    sweeps: int
    runs: int
    ends: float | None = None
    programme_seconds: float | None = None

    def is_spent(self, run: int) -> bool:
        """Whether no run of this number is to start."""
        return time.monotonic() >= self.ends if self.ends is not None else run >= self.runs


def search(
    X: Floats,
    k: int,
    *,
    steps: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    start: Ints | None = None,
) -> Ints:
    """Look for the partition into groups of at least k with the least sum of squared errors.

    Annealing runs (at most ``steps`` tries of a change in all; default 3,000 a record) start from ``start``, by
    default MDAV's groups; then a programme picks the best partition from all groups met. With ``seconds``,
    runs go on for about that long instead, and the result depends on the machine.

    Returns labels 0 to g-1 in the order of each group's first record; never worse than ``start``.

    >>> search(np.array([[0.0], [9.0], [0.1], [9.1]]), 2, steps=100).tolist()
    [0, 1, 0, 1]
    """
    from microagg_core.algorithms import algorithms

    given = algorithms()["mdav"].run(X, k, seed=seed) if start is None else checked_labels(start, (k, None), "search")
    n = len(X)
    if n < 2 * k or k < 2:
        return given
    began = time.monotonic()
    count = neighbour_count(n, k)
    records = Records.of(X, count)
    first = records.inward(given)
    before = sse_of_labels(records.Z, first)
    if before == 0:
        return given
    annealing = Annealing(records.Z, records.near(count), k, seed)
    first = cut_large(records.Z, first, k)
    budget = _budget(annealing, first, steps, seconds, began)
    found = _runs(annealing, records.Z, first, budget)
    return records.outward(found, k) if sse_of_labels(records.Z, found) < before else given


def _budget(annealing: Annealing, first: Ints, steps: int | None, seconds: float | None, began: float) -> Budget:
    n = len(first)
    if seconds is None:
        sweeps = _DEFAULT_SWEEPS if steps is None else max(1, steps // n)
        runs = min(_RUNS, max(1, sweeps // 50))
        small = annealing.k <= _LARGEST_K_FOR_PROGRAMME
        return Budget(sweeps // runs, runs, programme_seconds=None if small else 0.0)
    annealing.run(first, 2, 0.1, 1, 0)  # compiles
    start = time.monotonic()
    annealing.run(first, 10, 0.5, 1, 0)
    a_sweep = (time.monotonic() - start) / 10
    share = _PROGRAMME_SHARE if annealing.k <= _LARGEST_K_FOR_PROGRAMME else _PROGRAMME_SHARE / 3
    programme = share * seconds if n <= _MOST_FOR_PROGRAMME else 0.0
    left = max(0.9 * seconds - programme - (start - began), 0.0)
    return Budget(max(int(left / _RUNS / a_sweep), 1), _RUNS, began + 0.9 * (seconds - programme), programme)


def searched(records: Records, k: int, sweeps: int, seed: int = 0) -> tuple[Ints, Groups]:
    """The best partition of places after the usual runs from MDAV's groups, and all groups that were met."""
    from microagg_core.algorithms import algorithms

    given = algorithms()["mdav"].run(records.Z, k, seed=seed)
    annealing = Annealing(records.Z, records.near(neighbour_count(len(given), k)), k, seed)
    return _annealed(annealing, records.Z, given, Budget(sweeps // _RUNS, _RUNS))


def _annealed(annealing: Annealing, X: Floats, first: Ints, budget: Budget) -> tuple[Ints, Groups]:
    """All runs: the best partition, and the groups met where a programme is worth it."""
    best, least = first, sse_of_labels(X, first)
    known = Groups(X)
    known.add_partition(first)
    run = 0
    while not budget.is_spent(run):
        hottest, power, onward = _SCHEDULES[run % len(_SCHEDULES)]
        start = best if onward else first
        for labels in annealing.snapshots(start, budget.sweeps, hottest, power, _DOWNHILL):
            if len(X) <= _MOST_FOR_PROGRAMME:
                known.add_partition(labels)
            sse = sse_of_labels(X, labels)
            if sse < least:
                best, least = labels, sse
        run += 1
    return best, known


def _runs(annealing: Annealing, X: Floats, first: Ints, budget: Budget) -> Ints:
    """All runs, then the programme, and downhill from what it finds."""
    best, known = _annealed(annealing, X, first, budget)
    if budget.programme_seconds == 0.0 or len(X) > _MOST_FOR_PROGRAMME:
        return best
    return annealing.downhill(best_partition(known, best, budget.programme_seconds), _DOWNHILL)
