"""Kinds whose ticks are whole numbers: their means are exact before they are rounded, once."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Floats
from microagg_core.data.kinds.averages import AveragedKind
from microagg_core.data.kinds.contract import EXAMPLES, Kind, Ticks
from microagg_core.data.kinds.floats import FloatKind
from microagg_core.errors import SpecError
from microagg_core.group.metrics.moments import Groups, Origin, whole_means


class ExactKind(AveragedKind):
    """A quasi-identifier whose values Arrow keeps as whole numbers of 64 bits or less, and which is released as such.

    A kind of such columns says which types it takes, what a reader calls them, and what its figures are in.
    """

    #: Whether the spec may ask for a step between two values, with which means are released as float64.
    may_have_fractions: ClassVar[bool] = False

    @property
    @abstractmethod
    def whole_type(self) -> pa.DataType:
        """The Arrow type of the whole numbers that the values are kept as."""

    @property
    def scale(self) -> int:
        """Decimals of a value: a tick is a unit of the last of them."""
        return 0

    @property
    def own_step(self) -> int:
        """Ticks between a value of this type and the next one."""
        return 1

    @property
    def step_unit(self) -> str:
        return f"steps of {self.source_type}"

    @property
    def range(self) -> tuple[int, int]:
        bits = int(self.whole_type.bit_width)
        if pa.types.is_unsigned_integer(self.whole_type):
            return 0, 2**bits - 1
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    @property
    def step(self) -> int:
        """The rounding step in ticks; 0: means are released as floats."""
        if self.rule == "none":
            return 0
        if isinstance(self.rule, str):
            return self.own_step
        step = self._step_asked(self.rule)
        return int(step) if step.denominator == 1 else 0

    def _step_asked(self, rule: float) -> Fraction:
        """The spec's step in ticks, by decimal arithmetic, in which 0.29 is 29 hundredths."""
        step = Fraction(repr(float(rule))) * 10**self.scale
        nearest = float(step)  # of 2.0**63, which is printed with fewer digits than it has
        return Fraction(nearest) if nearest.is_integer() else step

    @property
    def _as_floats(self) -> FloatKind:
        """The kind of what is released where that is no whole number."""
        return FloatKind(self.name, pa.float64(), self.rule)

    @property
    def released_type(self) -> pa.DataType:
        return self.source_type if self.step else pa.float64()

    def refuse_rule(self) -> None:
        """Stop where means would have to leave the type."""
        place, source = f"rounding.{self.name}", self.source_type
        if self.rule == "none" and not self.may_be_float:
            raise SpecError(
                f"{place}: a column of type {source} is always released in its own type; leave it at 'type'"
            )
        if isinstance(self.rule, str):
            return
        step = self._step_asked(self.rule)
        if step.denominator != 1 and not self.may_have_fractions:
            raise SpecError(
                f"{place}: must be a whole number of {self.step_unit} for a column of type {source}, or 'none'"
            )
        if step > self.range[1]:
            raise SpecError(f"{place}: a step beyond the greatest {source} leaves nothing but 0; take a smaller one")

    def _ticks_of(self, array: pa.Array) -> Ticks:
        wide = np.uint64 if pa.types.is_unsigned_integer(self.whole_type) else np.int64
        return np.asarray(pc.fill_null(array.view(self.whole_type), 0)).astype(wide)

    def examples(self) -> pa.Array:
        most = self.range[1] // self.own_step
        return self._to_own_type(np.array([min(number, most) * self.own_step for number in EXAMPLES]), None)

    @property
    def reader(self) -> Kind:
        return self if self.step else self._as_floats

    def representatives(self, ticks: Ticks, groups: Groups) -> Ticks:
        means = whole_means(ticks, groups)
        if self.step:
            return means.rounded(self.step, *self.range)
        if isinstance(self.rule, str):
            return means.as_floats(10**self.scale)
        return means.in_fractions(self._step_asked(self.rule))

    def released_offsets(self, ticks: Ticks, origin: Origin) -> Floats:
        """Means as offsets from the origin; floats are in the values' unit, the origin is in ticks."""
        if self.step:
            return super().released_offsets(ticks, origin)
        nearest = float(origin)
        return np.asarray((ticks * 10.0**self.scale - nearest) - float(origin - int(nearest)))

    def to_arrow(self, ticks: Ticks, missing: Bools | None = None) -> pa.Array:
        mask = None if missing is None or not missing.any() else missing
        if not self.step:
            return pa.array(ticks, type=pa.float64(), mask=mask, from_pandas=False)
        return self._to_own_type(ticks, mask)

    def _to_own_type(self, ticks: Ticks, mask: Bools | None) -> pa.Array:
        return pa.array(ticks, mask=mask).cast(self.whole_type).view(self.source_type)

    def in_released_unit(self, ticks: Ticks) -> Ticks:
        return ticks if self.step else np.asarray(ticks.astype(object) / 10**self.scale, dtype=np.float64)

    @property
    def ticks_of_released(self) -> float:
        return 1.0 if self.step else 10.0**self.scale

    def within_step(self, least: Ticks, greatest: Ticks, after: Ticks) -> Bools:
        """Allow half a step from the range, or less than a step where the nearest multiple is beyond the type."""
        if not self.step:
            return self._as_floats.within_step(least, greatest, after)
        step, (low, high) = self.step, self.range
        # In Python's whole numbers, which do not overflow: few values are rounded out of their range.
        after, least, greatest = after.astype(object), least.astype(object), greatest.astype(object)
        beyond = np.where(after < least, least - after, after - greatest)
        no_other = np.where(after < least, after + step > high, after - step < low)
        is_multiple = after % step == 0
        return np.asarray(is_multiple & ((2 * beyond <= step) | (no_other & (beyond < step))), dtype=np.bool_)

    def rounding_error(self, largest: float) -> float:
        return self.step / 2.0 if self.step else self._as_floats.rounding_error(largest)
