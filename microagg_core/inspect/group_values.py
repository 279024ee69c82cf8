"""The values of groups in order: what distances and numbers of distinct values are counted from, sorted once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from microagg_core.arrays import Bools, Ints

#: Numbers below this are sorted in half the time.
_SHORT = 2**32


@dataclass(frozen=True)
class GroupValues:
    """Codes of values group by group, ascending within each; no group is without a record. Code 0 is no value.

    >>> ordered = GroupValues.of(np.array([4, 7, 0, 9]), np.array([0, 1, 0, 1]))
    >>> ordered.codes.tolist(), ordered.sizes.tolist(), ordered.distinct.tolist(), ordered.missing.tolist()
    ([0, 4, 7, 9], [2, 2], [1, 2], [1, 0])
    """

    codes: Ints
    sizes: Ints

    @classmethod
    def of(cls, codes: Ints, groups: Ints, sizes: Ints | None = None) -> GroupValues:
        """Sort codes, 0 or more, by their groups 0, 1, ...; ``sizes`` are the groups', if they are known."""
        sizes = np.bincount(groups) if sizes is None else sizes
        if not len(codes):
            return cls(codes, sizes)
        # A group and a code are one number: it is sorted without an order that would be carried along.
        base = int(codes.max()) + 1
        of_group = np.arange(len(sizes)) * base
        both = of_group[groups] + codes
        both = np.sort(both.astype(np.uint32) if base * len(sizes) < _SHORT else both)
        return cls(both - np.repeat(of_group, sizes), sizes)

    @cached_property
    def first(self) -> Ints:
        """Where each group starts."""
        return np.cumsum(self.sizes) - self.sizes

    def parts(self, n_groups: int) -> Iterator[GroupValues]:
        """The same, so many groups at a time."""
        ends = np.append(self.first, len(self.codes))
        for start in range(0, len(self.sizes), n_groups):
            stop = min(start + n_groups, len(self.sizes))
            yield GroupValues(self.codes[ends[start] : ends[stop]], self.sizes[start:stop])

    @cached_property
    def is_new(self) -> Bools:
        """Where a group has a value for the first time."""
        new = np.ones(len(self.codes), dtype=np.bool_)
        np.not_equal(self.codes[1:], self.codes[:-1], out=new[1:])
        new[self.first] = True
        return new

    @cached_property
    def distinct(self) -> Ints:
        """Count the distinct values of each group; a missing one is none."""
        met = np.cumsum(self.is_new)
        return np.asarray(met[self.first + self.sizes - 1] - met[self.first] + (self.codes[self.first] > 0))

    @cached_property
    def missing(self) -> Ints:
        """Count the records of each group that have no value."""
        met = np.append(0, np.cumsum(self.codes == 0))
        return np.asarray(met[self.first + self.sizes] - met[self.first])

    def valued(self) -> GroupValues:
        """Leave out the records without a value, and groups that have no others."""
        sizes = self.sizes - self.missing
        return GroupValues(self.codes[self.codes > 0], sizes[sizes > 0])
