"""Means and variances: of values, which merge and stay right at a mean 1e9 times the deviation, and of groups.

Values are kept as offsets from an *origin* near their middle: for whole numbers, dates and timestamps the origin
is an exact integer, so that nothing is lost before the subtraction. The sum of squared deviations is scaled by a
power of four, so that neither 1e300 nor 1e-300 leaves the range of a float. Two sets merge by Chan's formula.

Here is also the one standardization. Groups are always made on the *steady* scale, with means and deviations to 24
bits: in a release, in ``microaggregate`` and ``compare``, and of what ``losses.standardize`` returns, so that all of
them make the same groups of the same values, however these were read. Losses are measured with all digits: by
``microaggregate`` and ``compare`` on the scale of all records, in a release on that of the records it publishes.

Means of groups: whole numbers are averaged exactly, as a whole part and what is left of the division. Floats are
averaged as offsets from the group's least value, in whole numbers of a unit so small that nothing that counts is lost.
Both depend on a group's values alone: not on their order, nor on the file around them. A mean never leaves the range of
its group, so that a group of equal values has exactly that value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import zip_longest
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Floats, Ints

Origin = int | float
_STEADY_BITS = 24


def offsets_from(values: NDArray[Any], origin: Origin) -> Floats:
    """Subtract an origin; exact before rounding for integers: of 64 bits, signed or not, or of any size.

    >>> offsets_from(np.array([2**62 + 1, 2**62 + 3]), 2**62 + 2)
    array([-1.,  1.])
    """
    if np.issubdtype(values.dtype, np.floating):
        return np.asarray(values, dtype=np.float64) - float(origin)
    if values.dtype == object:
        return np.asarray(values - int(origin), dtype=np.float64)
    # Subtraction modulo 2^64 is exact whenever the true difference fits 64 bits, and the origin is near the middle.
    base = np.uint64(int(origin) % 2**64)
    difference = (
        values.astype(np.int64, copy=False).view(np.uint64) - base if values.dtype != np.uint64 else values - base
    )
    return difference.view(np.int64).astype(np.float64)


def standardized(offsets: Floats, means: Floats, deviations: Floats) -> Floats:
    """Bring each column of offsets to mean 0 and deviation 1; a constant one to 0.

    Where values are tied, the last bit decides about groups: nobody may standardize in another way.

    >>> standardized(np.array([[1.0, 7.0], [5.0, 7.0]]), np.array([3.0, 7.0]), np.array([2.0, 0.0])).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    divisors = np.where(deviations > 0, deviations, np.inf)
    with np.errstate(over="ignore"):
        difference = offsets - means
        z: Floats = difference / divisors
    within = np.isfinite(difference)
    return z if within.all() else np.where(within, z, offsets / divisors - means / divisors)


def steadied(origin: Origin, mean: float, deviation: float) -> tuple[float, float]:
    """Round a mean (an offset from the origin) and a deviation to 24 bits, the same for whatever origin.

    The last bits of merged moments tell how a file was cut into parts, and would part ties in one way or the other:
    the same rows in other row groups would make other groups.

    >>> steadied(0, 0.3, 2.0)
    (0.2999999523162842, 2.0)
    >>> steadied(0.5, -0.2 + 1e-15, 2.0 - 1e-15)
    (-0.20000004768371582, 2.0)
    """
    if deviation == 0:
        return mean, deviation
    fraction, exponent = math.frexp(deviation)
    steady = math.ldexp(round(math.ldexp(fraction, _STEADY_BITS)), exponent - _STEADY_BITS)
    # A grid of powers of two counted from zero: values that are not too many digits long stay exact on it.
    step = Fraction(2) ** (exponent - _STEADY_BITS)
    whole = round((Fraction(origin) + Fraction(mean)) / step) * step
    return float(whole - Fraction(origin)), steady


@dataclass(frozen=True)
class Moments:
    """Count, mean and squared deviations of some values, with their range.

    The mean is ``origin + mean``; the sum of squared deviations is ``m2 * 4**exponent``. Codes of categories have no
    mean, but ``counts``, of each code; their deviation is that of the corners of a simplex whose edges are 1. Ranks
    have ``counts``, too, and the deviation of numbers.

    >>> of_codes(np.array([0, 1, 1]), 3) + of_codes(np.array([0]), 1)
    Moments(n=4, origin=0, mean=0.0, m2=0.0, exponent=0, least=0, greatest=2, counts=(2, 2, 0))
    """

    n: int
    origin: Origin
    mean: float
    m2: float
    exponent: int
    least: Origin
    greatest: Origin
    counts: tuple[int, ...] = ()

    @property
    def deviation(self) -> float:
        """Population standard deviation (divides by n)."""
        if self.counts and self.n and not self.m2:
            return math.sqrt((self.n**2 - sum(count**2 for count in self.counts)) / (2 * self.n**2))
        return math.ldexp(math.sqrt(self.m2 / self.n), self.exponent) if self.n and self.m2 > 0 else 0.0

    def mean_from(self, origin: Origin) -> float:
        return float(self.origin - origin) + self.mean

    def __add__(self, other: Moments) -> Moments:
        if not (self.n and other.n):
            return self if self.n else other
        n = self.n + other.n
        delta = float(other.origin - self.origin) + other.mean - self.mean
        exponents = [m.exponent for m in (self, other) if m.m2 > 0] + ([_exponent(abs(delta))] if delta else [])
        exponent = max(exponents, default=0)
        scaled = math.ldexp(delta, -exponent)
        m2 = (
            math.ldexp(self.m2, 2 * (self.exponent - exponent))
            + math.ldexp(other.m2, 2 * (other.exponent - exponent))
            + scaled * scaled * (self.n / n) * other.n
        )
        mean = self.mean + delta * (other.n / n)
        least, greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        counts = tuple(a + b for a, b in zip_longest(self.counts, other.counts, fillvalue=0))
        return Moments(n, self.origin, mean, m2, exponent, least, greatest, counts)


EMPTY = Moments(0, 0, 0.0, 0.0, 0, 0, 0)


def middle(least: Origin, greatest: Origin) -> Origin:
    """Choose the origin from which values in this range have offsets that fit: whole for whole numbers.

    >>> middle(-(2**63), 2**63 - 1), middle(1.0, 2.0)
    (0, 1.5)
    """
    if isinstance(least, int) and isinstance(greatest, int):
        return -(-(least + greatest) // 2)
    return least / 2 + greatest / 2


def moments_of(values: NDArray[Any]) -> Moments:
    """Compute the moments of finite values, integers or floats."""
    if len(values) == 0:
        return EMPTY
    if np.issubdtype(values.dtype, np.floating):
        least: Origin = float(values.min())
        greatest: Origin = float(values.max())
    else:
        least, greatest = int(values.min()), int(values.max())
    origin = middle(least, greatest)
    offsets = offsets_from(values, origin)
    exponent = _exponent(float(np.abs(offsets).max()))
    mean = float(np.ldexp(_scaled(offsets, -exponent).mean(), exponent))
    # Made small first: the difference of an offset and the mean may be beyond the greatest float.
    scaled = _scaled(offsets, -exponent) - math.ldexp(mean, -exponent)
    return Moments(len(values), origin, mean, float(np.square(scaled).sum()), exponent, least, greatest)


def of_codes(codes: Ints, n_codes: int) -> Moments:
    """Count codes of categories, 0 to n_codes - 1."""
    return of_counts(np.bincount(codes, minlength=n_codes).tolist())


def of_counts(counts: Sequence[int]) -> Moments:
    return Moments(sum(counts), 0, 0.0, 0.0, 0, 0, max(len(counts) - 1, 0), tuple(counts))


def of_repeated(values: Ints, counts: Ints) -> Moments:
    """Compute the moments of whole numbers of which each is there so many times.

    >>> of_repeated(np.array([1, 5]), np.array([3, 1])) == moments_of(np.array([1, 1, 1, 5]))
    True
    """
    values, counts = values[counts > 0], counts[counts > 0]
    once, n = moments_of(values), int(counts.sum())
    if not n:
        return EMPTY
    offsets = offsets_from(values, once.origin)
    mean = math.fsum((offsets * counts).tolist()) / n
    scaled = _scaled(offsets, -once.exponent) - math.ldexp(mean, -once.exponent)
    return replace(once, n=n, mean=mean, m2=float(np.sum(counts * scaled * scaled)))


def merge_all(parts: Iterable[Moments]) -> Moments:
    """Merge pairwise, in order: neighbours first, so that rounding grows with the logarithm of the parts."""
    level = list(parts)
    while len(level) > 2:
        level = [level[i] + level[i + 1] if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return reduce(add, level, EMPTY)


def _scaled(values: Floats, exponent: int) -> Floats:
    """Multiply by ``2**exponent``: as exact as ldexp and many times faster, where the power is a float."""
    if abs(exponent) < 1000:
        return values * math.ldexp(1.0, exponent)
    return np.ldexp(values, exponent)


def _exponent(magnitude: float) -> int:
    return math.frexp(magnitude)[1] if magnitude > 0 else 0


#: Values beyond this are made smaller before their differences are taken, which would overflow.
_LARGE, _SHRINK = 2.0**1021, 0.25
#: Offsets in their unit add up to less than two to this power, so that their sum is exact.
_SUM_BITS = 62


#: No record has more than this share of the weight of its group, whose mean would be nearly its own. It is above a half
#: by what the last digits of sums may be off: two records of equal weight hold it.
MOST_OF_WEIGHT = 0.5 * (1.0 + 5e-10)


@dataclass(frozen=True)
class Groups:
    """Records by group: ``order`` sorts them, each group starts at its place in ``first`` and has ``sizes`` records.

    ``weights`` are what each record counts in the mean of its group; None: all the same.
    """

    order: Ints
    first: Ints
    sizes: Ints
    weights: Floats | None = None

    @classmethod
    def of(cls, labels: Ints, weights: Floats | None = None) -> Groups:
        """Sort records by labels 0..g-1, none of them without a record.

        >>> Groups.of(np.array([1, 0, 1])).sizes.tolist()
        [1, 2]
        """
        sizes = np.bincount(labels)
        # Of 16 bits, enough for all groups of a block, NumPy sorts without comparing.
        narrow = labels.astype(np.min_scalar_type(max(len(sizes) - 1, 0)))
        return cls(np.argsort(narrow, kind="stable"), np.cumsum(sizes) - sizes, sizes, weights)

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Add values up by group."""
        return np.asarray(np.add.reduceat(values[self.order], self.first))

    def greatest_shares(self, weights: Floats) -> Floats:
        """Find the share of each group's weight that its heaviest record has.

        >>> Groups.of(np.array([0, 1, 0, 1])).greatest_shares(np.array([1.0, 2.0, 3.0, 2.0])).tolist()
        [0.75, 0.5]
        """
        return np.asarray(np.maximum.reduceat(weights[self.order], self.first) / self.sums(weights))


@dataclass(frozen=True)
class WholeMeans:
    """Exact means of whole numbers: ``floor + rest / sizes`` for each group, with ``0 <= rest < sizes``."""

    floor: NDArray[Any]
    rest: NDArray[Any]
    sizes: Ints

    def rounded(self, step: int, least: int, greatest: int) -> NDArray[Any]:
        """Round to the nearest multiples of ``step`` between two bounds; halves go to the even multiple.

        >>> whole_means(np.array([1, 2, 2, 3, 4, 7]), Groups.of(np.array([0, 0, 1, 1, 2, 2]))).rounded(1, 0, 9)
        array([2, 2, 6])
        """
        multiple, above = self.floor // step, self.floor % step
        below = step - above
        half = 2 * self.rest
        # The mean is above + rest / sizes beyond a multiple; no sum of the two that could leave the type is made.
        is_half = ((above == below) & (self.rest == 0)) | ((below - above == 1) & (half == self.sizes))
        is_more = (above > below) | ((above == below) & (self.rest > 0)) | ((below - above == 1) & (half > self.sizes))
        up = is_more | (is_half & (multiple % 2 == 1))
        multiple = multiple + up.astype(multiple.dtype)
        return np.asarray(np.clip(multiple, -(-least // step), greatest // step) * step)

    def as_floats(self, unit: int) -> Floats:
        """Divide by ``unit`` and round each mean once, to the nearest float.

        >>> whole_means(np.array([1, 2]), Groups.of(np.array([0, 0]))).as_floats(10)
        array([0.15])
        """
        # Python divides whole numbers of any size correctly rounded.
        sizes = self.sizes.astype(object)
        return np.asarray((self.floor.astype(object) * sizes + self.rest) / (sizes * unit), dtype=np.float64)

    def in_fractions(self, step: Fraction) -> Floats:
        """Round to the nearest multiples of a step, halves to the even one, and these once to the nearest float.

        >>> whole_means(np.array([1, 2, 2]), Groups.of(np.array([0, 0, 0]))).in_fractions(Fraction("0.1"))
        array([1.7])
        """
        # In Python's whole numbers, which do not overflow: groups are few beside records.
        sizes = self.sizes.astype(object)
        sums, one = (self.floor.astype(object) * sizes + self.rest) * step.denominator, sizes * step.numerator
        multiple, above = sums // one, sums % one
        is_half = 2 * above == one
        up = (2 * above > one) | (is_half & (multiple % 2 == 1))
        return np.asarray((multiple + up) * step.numerator / step.denominator, dtype=np.float64)


def whole_means(values: NDArray[Any], groups: Groups) -> WholeMeans:
    """Compute exact means of each group's whole numbers: of 64 bits, signed or not, or Python's own of any size.

    >>> whole_means(np.array([2**63 - 1, 2**63 - 2]), Groups.of(np.array([0, 0]))).floor.tolist() == [2**63 - 2]
    True
    """
    if groups.weights is not None:
        return _weighted_whole_means(values, groups, groups.weights)
    ordered = values[groups.order]
    if ordered.dtype == object:
        total, sizes = np.add.reduceat(ordered, groups.first), groups.sizes.astype(object)
        return WholeMeans(total // sizes, total % sizes, groups.sizes)
    least = np.minimum.reduceat(ordered, groups.first)
    # Modulo 2^64 the offsets from a group's least value are right whatever the sign. Their halves add up without loss.
    offsets = ordered.view(np.uint64) - np.repeat(least.view(np.uint64), groups.sizes)
    sizes = groups.sizes.astype(np.uint64)
    high, carried = np.divmod(np.add.reduceat(offsets >> np.uint64(32), groups.first), sizes)
    low = np.add.reduceat(offsets & np.uint64(2**32 - 1), groups.first)
    low, rest = np.divmod((carried << np.uint64(32)) + low, sizes)
    mean = least.view(np.uint64) + (high << np.uint64(32)) + low
    return WholeMeans(mean.view(least.dtype), rest.astype(np.int64), groups.sizes)


def float_means(values: Floats, groups: Groups) -> Floats:
    """Compute the means of each group's finite floats, within the group's range; zero has no sign.

    >>> float_means(np.array([0.1, 1e9, 0.1, 1e9 + 1, 0.1]), Groups.of(np.array([0, 1, 0, 1, 0]))).tolist()
    [0.1, 1000000000.5]
    >>> float_means(np.array([1.0, 5.0]), Groups.of(np.array([0, 0]), np.array([3.0, 1.0]))).tolist()
    [2.0]
    """
    ordered = values[groups.order] + 0.0
    least, greatest = (extreme.reduceat(ordered, groups.first) for extreme in (np.minimum, np.maximum))
    base = least
    large = np.maximum(-least, greatest) > _LARGE
    shrink = np.where(large, _SHRINK, 1.0)
    if large.any():
        ordered, base = ordered * np.repeat(shrink, groups.sizes), least * shrink
    offsets = ordered - np.repeat(base, groups.sizes)
    if groups.weights is None:
        units, exponent = _sums_in_units(offsets, groups)
        means = base + np.ldexp(units / groups.sizes, exponent)
    else:
        means = base + _weighted_means(offsets, groups, groups.weights[groups.order])
    if large.any():
        with np.errstate(over="ignore"):  # rounded up beyond the greatest float, which is then the group's greatest
            means = means / shrink
    return np.asarray(np.clip(means, least, greatest))


def _sums_in_units(ordered: Floats, groups: Groups) -> tuple[Ints, Ints]:
    """Add values of at least 0, which stand in the order of the groups: units, and the power of two that is one."""
    _, exponent = np.frexp(np.maximum.reduceat(ordered, groups.first))
    _, size_bits = np.frexp(groups.sizes.astype(np.float64))
    exponent = exponent + size_bits - _SUM_BITS
    units = np.rint(np.ldexp(ordered, np.repeat(-exponent, groups.sizes))).astype(np.int64)
    return np.add.reduceat(units, groups.first), exponent


def _weighted_means(offsets: Floats, groups: Groups, weights: Floats) -> Floats:
    """Compute weighted means of offsets of at least 0, which stand in the order of the groups, as weights do."""
    weights = weights / np.repeat(np.maximum.reduceat(weights, groups.first), groups.sizes)
    above, unit = _sums_in_units(offsets * weights, groups)
    below, unit_of_weights = _sums_in_units(weights, groups)
    return np.asarray(np.ldexp(above / below, unit - unit_of_weights))


#: Weighted means of whole numbers are known to so small a part of one.
_PARTS_OF_ONE = 2**52


def _weighted_whole_means(values: NDArray[Any], groups: Groups, weights: Floats) -> WholeMeans:
    """Average the distances from each group's least value as floats; the rest is exact."""
    ordered = values[groups.order]
    least, greatest = (extreme.reduceat(ordered, groups.first) for extreme in (np.minimum, np.maximum))
    distances = _exact_difference(ordered, np.repeat(least, groups.sizes)).astype(np.float64)
    means = _weighted_means(distances, groups, weights[groups.order])
    # In Python's whole numbers: the range of a group may be beyond those of 64 bits.
    room = greatest.astype(object) - least.astype(object)
    whole = np.array([min(int(mean), most) for mean, most in zip(means.tolist(), room, strict=True)], dtype=object)
    rest = np.where(whole == room, 0, (means % 1.0 * _PARTS_OF_ONE).astype(np.int64))
    floor = (least.astype(object) + whole).astype(values.dtype)
    return WholeMeans(floor, rest.astype(np.int64), np.full(len(floor), _PARTS_OF_ONE))


def _exact_difference(values: NDArray[Any], least: NDArray[Any]) -> NDArray[Any]:
    if values.dtype == object:
        return np.asarray(values - least)
    return values.view(np.uint64) - least.view(np.uint64)
