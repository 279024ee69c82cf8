"""Choose the setting to write into the spec, of those that were tried side by side, by one stated rule.

Of what takes no longer than a limit, and would not be refused, the one that loses least; where others lose more by less
than the figures are off, as they are of some blocks or as another seed would change them, the cheapest of these; and of
those that cost about the same the one that loses least, equal ones by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from microagg_core.compare.grid import Setting
from microagg_core.compare.trial import Expected, Trial

#: What takes no longer than this is quick enough, in CPU seconds of a release's kernels; nor what takes so many times
#: as long as the quickest: of a large file everything takes long.
QUICK_SECONDS, TIMES_QUICKEST = 600.0, 10.0
#: Losses differ that lie further apart than so many standard errors, as nineteen of twenty by chance do not.
DEVIATIONS = 2.0
#: Times are about the same up to so many times the least of them: the clock is no better.
_SAME_TIME = 1.25


def seed_deviation(expected: Expected) -> float | None:
    """Compute the deviation of the losses by several seeds; None where there is but one.

    >>> from types import SimpleNamespace
    >>> seed_deviation(SimpleNamespace(l_sse=3.0, l_sse_of_seeds=(3.2, 3.4)))
    0.2
    """
    losses = (expected.l_sse, *expected.l_sse_of_seeds)
    return round(float(np.std(losses, ddof=1)), 12) if len(losses) > 1 else None


@dataclass(frozen=True)
class Choice:
    """The setting to be chosen for a k, and the one that loses least."""

    chosen: Expected
    least: Expected
    #: By how much the losses of both may be apart by chance.
    error: float
    #: A setting that took too long for the rule, and would lose less.
    too_slow: Expected | None


@dataclass(frozen=True)
class ReleaseComparison:
    """Everything that was tried for a release, and what was not."""

    #: What the spec says.
    asked: Setting
    trials: tuple[Trial, ...]
    left_out: tuple[tuple[Setting, str], ...]
    is_protected: bool

    @property
    def expected(self) -> list[Expected]:
        return [trial.expected for trial in self.trials if trial.expected is not None]

    def ks(self) -> list[int]:
        return sorted({tried.k for tried in self.expected})

    def ranked(self, k: int) -> list[Expected]:
        """Order the figures for a k, least loss first; equal losses by name."""
        return sorted((tried for tried in self.expected if tried.k == k), key=_by_loss)

    def as_asked(self) -> Expected | None:
        """Find the figures of the spec's own setting, if it was tried."""
        return next((tried for tried in self.expected if setting_of(tried) == self.asked), None)

    def choice(self, k: int) -> Choice | None:
        """Choose for a k; None where everything would be refused."""
        trials = {id(trial.expected): trial for trial in self.trials}
        allowed = [tried for tried in self.ranked(k) if not tried.broken]
        if not allowed:
            return None
        limit = max(QUICK_SECONDS, TIMES_QUICKEST * min(tried.whole_seconds for tried in allowed))
        quick = [tried for tried in allowed if tried.whole_seconds <= limit]
        least = quick[0]

        def error(tried: Expected) -> float:
            return _error(trials[id(tried)], trials[id(least)])

        near = [tried for tried in quick if tried.l_sse - least.l_sse <= error(tried)]
        cheapest = min(tried.whole_seconds for tried in near)
        cheap = [tried for tried in near if tried.whole_seconds <= cheapest * _SAME_TIME]
        # Equal losses are told apart by name alone: the clock says something else every time.
        chosen = least if near[-1].l_sse == least.l_sse else min(cheap, key=_by_loss)
        slow = allowed[0] if allowed[0] is not least else None
        return Choice(chosen, least, error(chosen), slow)


def setting_of(expected: Expected) -> Setting:
    return Setting(expected.k, expected.algorithm, expected.parameters, expected.refine)


def _by_loss(expected: Expected) -> tuple[float, str, str]:
    return expected.l_sse, expected.algorithm, str(expected.refine)


def _error(trial: Trial, other: Trial) -> float:
    """Estimate how far two losses may be apart by chance: that of the drawn blocks, and of the seeds."""
    if trial is other or trial.expected is None or other.expected is None:
        return 0.0
    seeds = [seed_deviation(figures) or 0.0 for figures in (trial.expected, other.expected)]
    return DEVIATIONS * math.hypot(trial.error_of_difference(other), *seeds)
