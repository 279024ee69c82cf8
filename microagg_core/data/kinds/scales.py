"""Scales: coordinates in which a quasi-identifier counts when groups are made, other than its values.

Every scale ascends with the values. Released means stay means of values, and losses and risks are measured on values:
a scale says which records are alike, and nothing else.

A scale follows from the distribution of the whole column alone, which is counted here in a way that does not tell how
the input was cut: with more distinct values than are kept, values are joined that agree in all but so many of their
last bits, and as many bits of all of them as the whole column needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.data.kinds.metric import Metric, ScaleName
from microagg_core.plain import PlainFloats

#: Distinct values of a column that are kept apart: ranks are then exact to 0.01 % of records, mostly.
MOST_VALUES = 32_768
#: The quartiles of a normal distribution lie so many deviations apart, and values so far from their median on average.
_QUARTILES_APART, _MEAN_DISTANCE = 1.3489795003921634, 0.7978845608028654
_LOG_2 = 0.6931471805599453
_LEAST = np.int64(-(2**63))


@dataclass(frozen=True, eq=False)
class ColumnCounts:
    """Records of each value of a column; ``keys`` ascend as values do, without their last ``shift`` bits.

    >>> (ColumnCounts.of(np.array([2.0, -1.0])) + ColumnCounts.of(np.array([2.0]))).values.tolist()
    [-1.0, 2.0]
    """

    keys: Ints
    counts: Ints
    shift: int = 0

    @classmethod
    def of(cls, values: Floats) -> ColumnCounts:
        bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
        keys, counts = np.unique(np.where(bits < 0, _LEAST - bits, bits), return_counts=True)
        return cls(keys, counts).shortened(0)

    def __add__(self, other: ColumnCounts) -> ColumnCounts:
        shift = max(self.shift, other.shift)
        sides = [side.shortened(shift) for side in (self, other)]
        keys, place = np.unique(np.concatenate([side.keys for side in sides]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([side.counts for side in sides]), len(keys)).astype(np.int64)
        return ColumnCounts(keys, counts, shift).shortened(shift)

    def shortened(self, shift: int) -> ColumnCounts:
        """Drop at least so many bits, and as many as leave no more values than are kept."""
        keys, dropped = self.keys >> (shift - self.shift), shift
        while np.count_nonzero(np.diff(keys)) >= MOST_VALUES:
            keys, dropped = keys >> 1, dropped + 1
        if dropped == self.shift:
            return self
        first = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
        return ColumnCounts(keys[first], np.add.reduceat(self.counts, first), dropped)

    @property
    def values(self) -> Floats:
        """The values; of joined ones that in the middle of their bits."""
        keys = (self.keys << self.shift) + ((1 << self.shift) >> 1)
        return np.where(keys < 0, _LEAST - keys, keys).view(np.float64)

    def to_table(self, column: int) -> pa.Table:
        fixed = (pa.array(np.full(len(self.keys), number, dtype=np.int16)) for number in (column, self.shift))
        return pa.table([*fixed, self.keys, self.counts], names=["column", "shift", "key", "count"])

    @classmethod
    def from_table(cls, table: pa.Table) -> ColumnCounts:
        """Inverse of :meth:`to_table`, for the rows of one column."""
        keys, counts, shift = (np.asarray(table[name]).astype(np.int64) for name in ("key", "count", "shift"))
        return cls(keys, counts, int(shift[0]) if len(shift) else 0)


NO_COUNTS = ColumnCounts(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Scale:
    """A column's coordinate: values above ``greatest`` count as it, and ``centre`` and ``spread`` standardize."""

    name: ScaleName | None
    #: Ticks of the input that make a unit of the column.
    unit: float
    greatest: float
    centre: float
    spread: float
    #: Of the scale of ranks: values, ascending, and the share of records below each and of half of those that have it.
    values: PlainFloats
    ranks: PlainFloats

    @classmethod
    def fitted(cls, metric: Metric, counted: ColumnCounts, unit: float) -> Scale:
        """Fit a scale to the values of a column, in its unit.

        >>> ages = ColumnCounts.of(np.array([18.0, 30.0, 30.0, 90.0]))
        >>> Scale.fitted(Metric("rank"), ages, 1.0).of(np.array([18.0, 30.0, 90.0])).round(3).tolist()
        [-1.414, 0.0, 1.414]
        """
        whole = _Counted(counted.values, counted.counts)
        greatest = math.inf if metric.top is None else metric.top
        if metric.top_share is not None:
            greatest = whole.quantile(metric.top_share)
        clipped = _Counted(np.minimum(whole.values, greatest), whole.counts)
        nothing = np.zeros(0)
        made = cls(metric.scale, unit, min(greatest, float(np.finfo(np.float64).max)), 0.0, 1.0, nothing, nothing)
        if metric.scale == "rank":
            made = cls(made.name, unit, made.greatest, 0.0, 1.0, *clipped.midranks())
        centre, spread = clipped.robust() if metric.scale == "robust" else clipped.moments(made.of(clipped.values))
        return cls(made.name, unit, made.greatest, centre, spread, made.values, made.ranks)

    def of(self, values: Floats) -> Floats:
        """The coordinate of values; of a column without differences 0."""
        values = np.minimum(values, self.greatest)
        if self.name == "log1p":
            values = np.sign(values) * log1p(np.abs(values))
        elif self.name == "rank":
            values = np.interp(values, self.values, self.ranks)
        with np.errstate(over="ignore"):
            return np.asarray((values - self.centre) / (self.spread or math.inf))


def log(values: Floats) -> Floats:
    """Compute the logarithm of numbers above 0 by the four operations alone.

    The last bit decides about groups where values are tied, and that of a library's logarithm depends on the machine.

    >>> log(np.array([1.0, 2.0, 100.0])).round(9).tolist()
    [0.0, 0.693147181, 4.605170186]
    """
    fraction, exponent = np.frexp(values)
    is_low = fraction < math.sqrt(0.5)
    fraction, exponent = np.where(is_low, 2 * fraction, fraction), exponent - is_low
    return _near_one((fraction - 1.0) / (fraction + 1.0)) + exponent * _LOG_2


def log1p(values: Floats) -> Floats:
    """Compute log(1 + x) of numbers from 0 on, in the same way.

    >>> log1p(np.array([0.0, 1.0, 99.0])).round(9).tolist()
    [0.0, 0.693147181, 4.605170186]
    """
    return np.where(values < 0.4, _near_one(values / (values + 2.0)), log(1.0 + values))


def _near_one(t: Floats) -> Floats:
    """Compute the logarithm of (1 + t) / (1 - t), for a small t."""
    square, series = t * t, np.zeros_like(t)
    for odd in range(25, 0, -2):
        series = series * square + 1.0 / odd
    return np.asarray(2.0 * t * series)


@dataclass(frozen=True)
class _Counted:
    """Values of a column, ascending, and how many records have each."""

    values: Floats
    counts: Ints

    @cached_property
    def n(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def _up_to(self) -> Ints:
        return np.cumsum(self.counts)

    def quantile(self, share: float) -> float:
        """Find a quantile as pandas does."""
        place = (self.n - 1) * share
        low = math.floor(place)
        first, second = self.values[np.searchsorted(self._up_to, [low, min(low + 1, self.n - 1)], side="right")]
        return float(first if first == second else first * (1 - (place - low)) + second * (place - low))

    def midranks(self) -> tuple[Floats, Floats]:
        """The distinct values, and the share of records below each and of half of those that have it."""
        values, first = np.unique(self.values, return_index=True)
        counts = np.add.reduceat(self.counts, first)
        return values, (np.cumsum(counts) - counts / 2) / self.n

    def moments(self, mapped: Floats) -> tuple[float, float]:
        """Mean and deviation of other numbers that stand for the values."""
        largest = float(np.abs(mapped).max()) or 1.0
        mean = math.fsum((mapped / largest * self.counts).tolist()) / self.n
        square = math.fsum(((mapped / largest - mean) ** 2 * self.counts).tolist()) / self.n
        return mean * largest, math.sqrt(square) * largest

    def robust(self) -> tuple[float, float]:
        """Median and interquartile range as a deviation; where most values are equal, the mean distance from these."""
        median = self.quantile(0.5)
        apart = (self.quantile(0.75) / 2 - self.quantile(0.25) / 2) / (_QUARTILES_APART / 2)
        if apart:
            return median, apart
        mean = self.moments(np.abs(self.values / 2 - median / 2))[0] * 2
        return median, mean / _MEAN_DISTANCE
