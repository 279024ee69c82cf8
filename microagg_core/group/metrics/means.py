"""The mean of a group: the one way in which releases, the Python functions and losses compute it.

Whole numbers are averaged exactly, as a whole part and what is left of the division. Floats are averaged as offsets
from the group's least value, in whole numbers of a unit so small that nothing that counts is lost. Both depend on a
group's values alone: not on their order, nor on the file around them. A mean never leaves the range of its group, so
that a group of equal values has exactly that value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Floats, Ints

#: Values beyond this are made smaller before their differences are taken, which would overflow.
_LARGE, _SHRINK = 2.0**1021, 0.25
#: Offsets in their unit add up to less than two to this power, so that their sum is exact.
_SUM_BITS = 62


@dataclass(frozen=True)
class Groups:
    """Records by group: ``order`` sorts them, each group starts at its place in ``first`` and has ``sizes`` records."""

    order: Ints
    first: Ints
    sizes: Ints

    @classmethod
    def of(cls, labels: Ints) -> Groups:
        """Sort records by labels 0..g-1, none of them without a record.

        >>> Groups.of(np.array([1, 0, 1])).sizes.tolist()
        [1, 2]
        """
        sizes = np.bincount(labels)
        # Of 16 bits, enough for all groups of a block, NumPy sorts without comparing.
        narrow = labels.astype(np.min_scalar_type(max(len(sizes) - 1, 0)))
        return cls(np.argsort(narrow, kind="stable"), np.cumsum(sizes) - sizes, sizes)

    @classmethod
    def of_each(cls, n: int) -> Groups:
        return cls(np.arange(n), np.arange(n), np.ones(n, dtype=np.int64))


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


def whole_means(values: NDArray[Any], groups: Groups) -> WholeMeans:
    """Compute exact means of each group's whole numbers: of 64 bits, signed or not, or Python's own of any size.

    >>> whole_means(np.array([2**63 - 1, 2**63 - 2]), Groups.of(np.array([0, 0]))).floor.tolist() == [2**63 - 2]
    True
    """
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
    """
    ordered = values[groups.order] + 0.0
    least, greatest = (extreme.reduceat(ordered, groups.first) for extreme in (np.minimum, np.maximum))
    base = least
    large = np.maximum(-least, greatest) > _LARGE
    shrink = np.where(large, _SHRINK, 1.0)
    if large.any():
        ordered, base = ordered * np.repeat(shrink, groups.sizes), least * shrink
    offsets = ordered - np.repeat(base, groups.sizes)
    _, exponent = np.frexp(np.maximum.reduceat(offsets, groups.first))
    _, size_bits = np.frexp(groups.sizes.astype(np.float64))
    exponent = exponent + size_bits - _SUM_BITS
    units = np.rint(np.ldexp(offsets, np.repeat(-exponent, groups.sizes))).astype(np.int64)
    means = base + np.ldexp(np.add.reduceat(units, groups.first) / groups.sizes, exponent)
    if large.any():
        with np.errstate(over="ignore"):  # rounded up beyond the greatest float, which is then the group's greatest
            means = means / shrink
    return np.asarray(np.clip(means, least, greatest))
