"""Search: annealing run after run, the best partition held, and a programme over all groups that the runs met."""

from __future__ import annotations

import time
from dataclasses import dataclass

from microagg_core.arrays import Floats, Ints
from microagg_core.group.costs import DEFAULT_STEPS
from microagg_core.group.headway import Progress
from microagg_core.group.labels import checked_labels, private_copy
from microagg_core.group.refine.annealing import Annealing
from microagg_core.group.refine.neighbours import Records
from microagg_core.group.refine.programme import CandidateGroups, best_partition
from microagg_core.group.refine.refinement import cut_large, neighbour_count, sse_of_labels
from microagg_core.kernels.tree.mdav import quicker_peel

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
    X: Floats,
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

    >>> import numpy as np
    >>> search(np.array([[0.0], [9.0], [0.1], [9.1]]), 2, steps=100).tolist()
    [0, 1, 0, 1]
    """
    began = time.monotonic()
    given = _mdav_groups(X, k) if start is None else checked_labels(start, (k, None), "search")
    n = len(X)
    if n < 2 * k:
        return given
    count = min(n - 1, max(neighbour_count(n, k), min(2 * k + 2, _MOST_NEIGHBOURS)))
    records = Records.of(X, count)
    first = records.inward(given)
    before = sse_of_labels(records.Z, first)
    if before == 0:
        return given
    annealing = Annealing(records.Z, records.near(count), k, seed)
    first = cut_large(records.Z, first, k)
    budget = _budget(annealing, first, steps, seconds, began)
    annealed = _runs(annealing, records.Z, first, budget)
    return records.outward(annealed, k) if sse_of_labels(records.Z, annealed) < before else given


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


def _mdav_groups(X: Floats, k: int) -> Ints:
    return checked_labels(quicker_peel(private_copy(X).T, k, 2 * k), (k, 2 * k - 1), "mdav")


def searched(records: Records, k: int, sweeps: int, seed: int = 0) -> tuple[Ints, CandidateGroups]:
    """Make the usual runs from MDAV's groups: the best partition of places, and all groups that were met."""
    given = _mdav_groups(records.Z, k)
    annealing = Annealing(records.Z, records.near(neighbour_count(len(given), k)), k, seed)
    return _annealed(annealing, records.Z, given, Budget(sweeps))


def _annealed(annealing: Annealing, X: Floats, first: Ints, budget: Budget) -> tuple[Ints, CandidateGroups]:
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


def _runs(annealing: Annealing, X: Floats, first: Ints, budget: Budget) -> Ints:
    """Make all runs, then solve the programme, and go downhill from what it finds."""
    best, candidates = _annealed(annealing, X, first, budget)
    if budget.programme_seconds == 0.0 or len(X) > _MOST_FOR_PROGRAMME:
        return best
    Progress("choosing among all groups that were met", X).report()
    return annealing.downhill(best_partition(candidates, best, budget.programme_seconds), _DOWNHILL)
