"""Choosing: of settings that were tried side by side, those to write into the spec, by one stated rule.

Of what takes no longer than a limit, and would not be refused, the one that loses least; where others lose more by less
than the figures are off, as they are of some blocks or as another seed would change them, the cheapest of these; and of
those that cost about the same the one that loses least, equal ones by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from microagg_core.compare.expecting.cells import Cell
from microagg_core.compare.expecting.figures import Expected, Trial

#: What takes no longer than this is quick enough, in CPU seconds of a release's kernels; nor what takes so many times
#: as long as the quickest: of a large file everything takes long.
QUICK_SECONDS, TIMES_QUICKEST = 600.0, 10.0
#: Losses differ that lie further apart than so many standard errors, as nineteen of twenty by chance do not.
DEVIATIONS = 2.0
#: Times are about the same up to so many times the least of them: the clock is no better.
_SAME_TIME = 1.25


def seed_deviation(one: Expected) -> float | None:
    """The deviation of the losses by several seeds; None where there is but one.

    >>> from types import SimpleNamespace
    >>> seed_deviation(SimpleNamespace(l_sse=3.0, l_sse_of_seeds=(3.2, 3.4)))
    0.2
    """
    losses = (one.l_sse, *one.l_sse_of_seeds)
    return round(float(np.std(losses, ddof=1)), 12) if len(losses) > 1 else None


@dataclass(frozen=True)
class Choice:
    """What is to be chosen for a k, and what loses least."""

    chosen: Expected
    least: Expected
    #: By how much the losses of both may be apart by chance.
    error: float
    #: What took too long for the rule, and would lose less.
    too_slow: Expected | None


@dataclass(frozen=True)
class ReleaseComparison:
    """All that was tried for a release, and what was not."""

    #: What the spec says.
    asked: Cell
    trials: tuple[Trial, ...]
    left_out: tuple[tuple[Cell, str], ...]
    is_protected: bool

    @property
    def expected(self) -> list[Expected]:
        """The figures of all cells."""
        return [trial.expected for trial in self.trials if trial.expected is not None]

    def ks(self) -> list[int]:
        """Every k of which something is known."""
        return sorted({one.k for one in self.expected})

    def ranked(self, k: int) -> list[Expected]:
        """The figures for a k, least loss first; equal losses by name."""
        return sorted((one for one in self.expected if one.k == k), key=_by_loss)

    def as_asked(self) -> Expected | None:
        """The figures of what the spec says, if they are there."""
        return next((one for one in self.expected if cell_of(one) == self.asked), None)

    def choice(self, k: int) -> Choice | None:
        """What is to be chosen for a k; None where everything would be refused."""
        trials = {id(trial.expected): trial for trial in self.trials}
        allowed = [one for one in self.ranked(k) if not one.broken]
        if not allowed:
            return None
        limit = max(QUICK_SECONDS, TIMES_QUICKEST * min(one.whole_seconds for one in allowed))
        quick = [one for one in allowed if one.whole_seconds <= limit]
        least = quick[0]

        def error(one: Expected) -> float:
            return _error(trials[id(one)], trials[id(least)])

        near = [one for one in quick if one.l_sse - least.l_sse <= error(one)]
        cheapest = min(one.whole_seconds for one in near)
        cheap = [one for one in near if one.whole_seconds <= cheapest * _SAME_TIME]
        # Equal losses are told apart by name alone: the clock says something else every time.
        chosen = least if near[-1].l_sse == least.l_sse else min(cheap, key=_by_loss)
        slow = allowed[0] if allowed[0] is not least else None
        return Choice(chosen, least, error(chosen), slow)


def cell_of(one: Expected) -> Cell:
    """The settings that figures are of."""
    return Cell(one.k, one.algorithm, one.parameters, one.refine)


def _by_loss(one: Expected) -> tuple[float, str, str]:
    return one.l_sse, one.algorithm, str(one.refine)


def _error(one: Trial, other: Trial) -> float:
    """By how much two losses may be apart by chance: that of the blocks that were drawn, and of the seeds."""
    if one is other or one.expected is None or other.expected is None:
        return 0.0
    seeds = [seed_deviation(figures) or 0.0 for figures in (one.expected, other.expected)]
    return DEVIATIONS * math.hypot(one.error_of_difference(other), *seeds)
