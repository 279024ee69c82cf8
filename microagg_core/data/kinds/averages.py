"""Kinds whose representative is the mean: how means are rounded, shown and checked, whatever is averaged.

A value within the range of equal values is that value, so that a group of equal records is seen to be released as it
is. Comparisons are exact. Only a rounding step that the spec asks for may leave the range: by half of it, or, where the
nearest multiple does not fit the column's type, by less than all of it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats
from microagg_core.data.kinds.contract import CLAIMS_OF_A_MEAN, DEFAULT_ROUNDING, Claim, Kind, Rule, Ticks, Unit
from microagg_core.group.metrics.moments import Groups, Moments, Origin, offsets_from


class AveragedKind(Kind):
    """A quasi-identifier whose groups get their mean: in the column's own type or, by the rule ``none``, as a float."""

    claims: ClassVar[frozenset[Claim]] = CLAIMS_OF_A_MEAN

    @property
    def released_type(self) -> pa.DataType:
        return pa.float64() if self.rule == "none" else self.source_type

    @property
    def applied_rule(self) -> Rule:
        return "type" if self.rule == DEFAULT_ROUNDING else self.rule

    def rounding_in_words(self) -> str:
        name, rule = repr(self.name), self.applied_rule
        if not isinstance(rule, str):
            other = "" if self.released_type == self.source_type else f" and released as {self.released_type}"
            return f"{name}: to steps of {rule:g}{other}, as the spec says"
        if rule == "none":
            return f"{name}: not rounded, released as {self.released_type}, as the spec says"
        return f"{name}: to its own type, {self.released_type}"

    def in_released_unit(self, ticks: Ticks) -> Ticks:
        return ticks

    @property
    def ticks_of_released(self) -> float:
        """Ticks of the input that make a released one."""
        return 1.0

    @abstractmethod
    def within_step(self, least: Ticks, greatest: Ticks, after: Ticks) -> Bools:
        """Tell whether means outside their groups' ranges are there because of the step that the spec asks for."""

    @abstractmethod
    def rounding_error(self, largest: float) -> float:
        """Bound the rounding of a mean, where no value is larger than this."""

    def fits(self, before: Ticks, after: Ticks, groups: Groups) -> Bools:
        ordered, after = before[groups.order], after[groups.order]
        extremes = (extreme.reduceat(ordered, groups.first) for extreme in (np.minimum, np.maximum))
        least, greatest = (np.repeat(self.in_released_unit(ticks), groups.sizes) for ticks in extremes)
        inside: Bools = np.asarray((after >= least) & (after <= greatest), dtype=np.bool_)
        doubtful = ~inside
        if not isinstance(self.rule, str) and doubtful.any():
            inside[doubtful] = self.within_step(least[doubtful], greatest[doubtful], after[doubtful])
        return inside

    def keeps_mean(self, before: Moments, after: Moments) -> bool:
        """Compare within 1e-9 deviations, 4 units in the last place of the largest, and half the rounding step."""
        unit = self.ticks_of_released
        if unit == 1.0 and isinstance(before.origin, int) == isinstance(after.origin, int):
            difference = after.mean_from(before.origin) - before.mean
        else:
            difference = (float(after.origin) + after.mean) - (float(before.origin) + before.mean) / unit
        largest = max(abs(float(before.least)), abs(float(before.greatest))) / unit
        tolerance = 1e-9 * before.deviation / unit + 4 * float(np.spacing(largest)) + self.rounding_error(largest)
        return abs(difference) <= tolerance

    @property
    def unit(self) -> Unit:
        return Unit("the column's", 1.0)

    def shown(self, tick: float) -> float | str:
        return tick / self.unit.ticks

    def plain_numbers(self, ticks: Ticks, origin: Origin) -> Floats:
        if self.rule == "none":
            return np.asarray(ticks.astype(np.float64) / self.ticks_of_released)
        return offsets_from(ticks, origin)
