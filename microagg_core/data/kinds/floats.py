"""Floats: ticks are the values, in double precision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Floats
from microagg_core.data.kinds.averages import AveragedKind
from microagg_core.data.kinds.contract import DEFAULT_ROUNDING, Declaration, Rule, Ticks, Traits
from microagg_core.group.metrics.decimals import decimals_needed, most_decimals, short_together
from microagg_core.group.metrics.moments import Groups, Moments, float_means, whole_means

_INT64_RANGE = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class FloatKind(AveragedKind):
    """Floats of single or double precision; their trait is how many decimals they need.

    ``decimals`` is how many the means are rounded to where that follows from the input.

    >>> FloatKind("income", pa.float64(), DEFAULT_ROUNDING, decimals=3).applied_rule
    0.001
    """

    decimals: int | None = None

    may_be_float: ClassVar[bool] = True
    has_float_means: ClassVar[bool] = True
    NO_TRAITS: ClassVar[Traits] = 0

    @classmethod
    def takes(cls, arrow_type: pa.DataType, declared: Declaration) -> bool:
        return bool(pa.types.is_floating(arrow_type))

    def refuse_rule(self) -> None:
        """Floats can be rounded by any rule."""

    @property
    def is_single(self) -> bool:
        return bool(pa.types.is_float32(self.source_type))

    @property
    def step(self) -> float:
        """The rounding step; 0 where the spec asks for none."""
        return 0.0 if isinstance(self.rule, str) else float(self.rule)

    def _ticks_of(self, array: pa.Array) -> Floats:
        return np.asarray(pc.fill_null(array, 0.0)).astype(np.float64)

    def finite(self, ticks: Ticks) -> Bools:
        return np.isfinite(ticks)

    def with_nulls(self, array: pa.Array) -> pa.Array:
        return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)

    def more_traits(self, traits: Traits, column: pa.ChunkedArray | pa.Array, ticks: Ticks) -> Traits:
        """The decimals that the values need; None once some have no short decimals."""
        return None if traits is None else most_decimals((traits, decimals_needed(ticks, self.is_single)))

    def all_traits(self, parts: Iterable[Traits]) -> Traits:
        return most_decimals(parts)

    def for_input(self, traits: Traits, moments: Moments) -> FloatKind:
        """Round means to one decimal more than the values need, if these are short and the spec says nothing else.

        >>> FloatKind("income", pa.float64(), DEFAULT_ROUNDING).for_input(2, Moments(1, 0, 0, 0, 0, 0, 9)).decimals
        3
        """
        largest = float(max(abs(moments.least), abs(moments.greatest)))
        needed = short_together(traits, largest, self.is_single)
        if self.rule != DEFAULT_ROUNDING or needed is None:
            return self
        return replace(self, decimals=needed + 1)

    @property
    def applied_rule(self) -> Rule:
        """The decimals that follow from the input as a step, else the spec's rule, or ``type``."""
        return float(f"1e-{self.decimals}") if self.decimals is not None else super().applied_rule

    def rounding_in_words(self) -> str:
        if self.decimals is not None:
            decimals = "1 decimal" if self.decimals == 1 else f"{self.decimals} decimals"
            return f"{self.name!r}: to {decimals}, one more than the input needs"
        if self.rule == DEFAULT_ROUNDING:
            digit = f"to the last digit of {self.released_type}"
            return f"{self.name!r}: {digit}, because its values have no short decimals"
        return super().rounding_in_words()

    def representatives(self, ticks: Ticks, groups: Groups) -> Floats:
        if self.decimals is not None:
            means = _means_of_decimals(ticks, groups, self.decimals)
        else:
            means = float_means(ticks, groups)
            if self.step:
                means = _to_steps(means, self.step)
        if self.released_type == pa.float32():
            means = means.astype(np.float32).astype(np.float64)
        return means + 0.0  # -0.0 and 0.0 are one value to a reader, so they are one combination

    def to_arrow(self, ticks: Ticks, missing: Bools | None = None) -> pa.Array:
        mask = None if missing is None or not missing.any() else missing
        return pa.array(ticks, type=pa.float64(), mask=mask, from_pandas=False).cast(self.released_type)

    def within_step(self, least: Ticks, greatest: Ticks, after: Ticks) -> Bools:
        spacing = np.float32 if self.released_type == pa.float32() else np.float64
        # A multiple of the step is the nearest float to it, and the mean itself is not exact.
        error = 2.0 * np.spacing(np.maximum(np.abs(after), self.step).astype(spacing)).astype(np.float64)
        with np.errstate(over="ignore"):
            beyond = np.maximum(least - after, after - greatest)
        return np.asarray(beyond <= self.step / 2.0 + error, dtype=np.bool_)

    def rounding_error(self, largest: float) -> float:
        error = self.step / 2.0 if self.decimals is None else 0.5 * 10.0**-self.decimals
        return error + float(np.spacing(np.float32(largest))) / 2.0 if self.released_type == pa.float32() else error


def _means_of_decimals(values: Floats, groups: Groups, decimals: int) -> Floats:
    """Average values that need one decimal less: they are whole numbers of their last one, and have exact means."""
    tenths = np.rint(values * float(10 ** (decimals - 1))).astype(np.int64) * 10
    return whole_means(tenths, groups).rounded(1, *_INT64_RANGE) / float(10**decimals)


def _to_steps(values: Floats, step: float) -> Floats:
    """Round to multiples of a step: to 0.3 where the step is 0.1, and not to 3 * 0.1, which is another float.

    Floats so large that the step is below their last place stay as they are.
    """
    in_one = round(1.0 / step) if step < 1.0 else 0
    with np.errstate(over="ignore"):
        if in_one and 1.0 / in_one == step:
            steps = values * in_one
            rounded = np.rint(steps) / in_one
        else:
            steps = values / step
            rounded = np.rint(steps) * step
    return np.where(np.abs(steps) < 2.0**53, rounded, values)
