"""Ordinal categories: values have an order and no distance, and a group gets its lower median.

In the metric a value is its midrank: as many records as have a lower value, and half of those that have it; twice that,
which is a whole number. A group's centre is its mean midrank, and its released value the lowest that at least half of
its records do not exceed; with survey weights, at least half of its weight.

The gate knows no groups, only classes: all records of one released combination, which may be those of several groups.
A value is the lower median where fewer than half of the records are below it, and at least half not above it. Groups
that all have the same lower median have it together, as these counts add up, and as weights do. Half of a weight
counts as reached a billionth below it, by as much as sums may be off: what is below a group's value is less than that
in every group, and so together, and what is not above it no less. The gate's own sums may be off by as much again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.categories import EQUAL_WEIGHTS, CategoryKind, groups_in_order
from microagg_core.data.kinds.contract import MEDIAN, Claim, Declaration, Ticks, Traits
from microagg_core.data.tables.types import is_text
from microagg_core.errors import SpecError
from microagg_core.group.metrics.moments import Groups, Moments, Origin, moments_of, of_repeated, offsets_from


@dataclass(frozen=True)
class OrdinalKind(CategoryKind):
    """Columns that the spec declares ordinal: by levels, or whole numbers and truth values by value.

    >>> kind = OrdinalKind("size", pa.string(), categories=("S", "M", "L"), counts=(1, 4, 2))
    >>> kind.offsets(np.array([0, 1, 2]), 0).tolist()
    [1.0, 6.0, 12.0]
    >>> kind.representatives(np.array([0, 2, 1, 2, 2]), Groups.of(np.array([0, 0, 1, 1, 1]))).tolist()
    [0, 2]
    """

    declared_as: ClassVar[str] = "ordinal"
    claims: ClassVar[frozenset[Claim]] = frozenset({Claim.VALUE_OF_GROUP, Claim.ORDER_KEPT, Claim.MEDIAN_OF_GROUP})
    released_as: ClassVar[str] = MEDIAN
    released_words: ClassVar[str] = "the lower median of the group"

    @classmethod
    def of(cls, declared: Declaration, arrow_type: pa.DataType) -> OrdinalKind:
        if declared.levels is None and is_text(arrow_type):
            raise SpecError(
                f"roles.quasi_identifiers: {declared.name!r} is ordinal and text, whose order nobody knows; name its "
                "levels, from the lowest to the highest"
            )
        categories = _typed(declared, arrow_type)
        return cls(declared.name, arrow_type, declared.rule, declared.importance, categories=categories)

    @property
    def is_ranked(self) -> bool:
        return True

    @property
    def unusable(self) -> tuple[str, str]:
        if not self.categories:
            return super().unusable
        return "values that are none of its levels", "name all levels, or correct them"

    def for_input(self, traits: Traits, moments: Moments) -> OrdinalKind:
        count_of = dict(traits)
        categories = self.categories or tuple(sorted(count_of))
        return replace(self, categories=categories, counts=tuple(count_of.get(value, 0) for value in categories))

    def input_moments(self, traits: Traits, moments: Moments) -> Moments:
        """Compute the moments of midranks, of those that have a level."""
        complete = self.for_input(traits, moments)
        return of_repeated(complete._scores, np.array(complete.counts, dtype=np.int64))

    def moments(self, ticks: Ticks) -> Moments:
        if not self.categories:
            return moments_of(ticks)
        counts = np.bincount(ticks, minlength=len(self.categories))
        return replace(moments_of(self._scores[ticks]), counts=tuple(counts.tolist()))

    def _rough_ticks(self, array: pa.Array) -> Ticks:
        if is_text(array.type) or self.holds_floats:
            return super()._rough_ticks(array)
        return np.asarray(pc.fill_null(array, array.type.to_pandas_dtype()(0))).astype(np.float64)

    @cached_property
    def _scores(self) -> Ints:
        """Twice the midrank of each level; its number before all values are known."""
        if not self.counts:
            return np.arange(len(self.categories))
        counts = np.array(self.counts, dtype=np.int64)
        return 2 * np.cumsum(counts) - counts

    def offsets(self, ticks: Ticks, origin: Origin) -> Floats:
        if not self.categories:
            return offsets_from(ticks, origin)
        return np.where(ticks < 0, np.nan, offsets_from(self._scores[ticks], origin))

    def released_offsets(self, ticks: Ticks, origin: Origin) -> Floats:
        return self.offsets(ticks, origin)

    def representatives(self, ticks: Ticks, groups: Groups) -> Ticks:
        ordered = ticks[groups.order]
        by_level = np.lexsort((ordered, groups_in_order(groups)))
        middle = (groups.sizes - 1) // 2
        if groups.weights is not None:
            middle = _middle_of_weight(groups.weights[groups.order][by_level], groups)
        return np.asarray(ordered[by_level][groups.first + middle])

    def fits(self, before: Ticks, after: Ticks, groups: Groups) -> Bools:
        """Tell whether less than half of each group is below its value, and at least half not above it."""
        before, after = before[groups.order], after[groups.order]
        weights = np.ones(len(before)) if groups.weights is None else groups.weights[groups.order]
        parts = (weights, weights * (before < after), weights * (before <= after))
        total, below, not_above = (np.add.reduceat(part, groups.first) for part in parts)
        one_value = np.maximum.reduceat(after, groups.first) == np.minimum.reduceat(after, groups.first)
        not_above_reaches, below_reaches = (
            2 * part >= (1.0 - of * EQUAL_WEIGHTS) * total for part, of in ((not_above, 2), (below, 0.5))
        )
        is_median = one_value & not_above_reaches & ~below_reaches
        return np.asarray(np.repeat(is_median, groups.sizes), dtype=np.bool_)


def _middle_of_weight(ordered: Floats, groups: Groups) -> Ints:
    """Count the records of each group before the one with which half of its weight is reached.

    >>> _middle_of_weight(np.array([3.0, 1.0, 1.0, 1.0, 2.5, 2.0]), Groups.of(np.array([0, 0, 0, 1, 1, 1]))).tolist()
    [0, 1]
    """
    shares = ordered / np.repeat(np.add.reduceat(ordered, groups.first), groups.sizes)
    # Sums of whole numbers are exact in every order, and their differences even where they wrap around.
    units = np.rint(shares * 2.0**52).astype(np.int64)
    up_to = np.cumsum(units)
    reached = up_to - np.repeat((up_to - units)[groups.first], groups.sizes)
    is_before = reached < 2.0**51 * (1.0 - EQUAL_WEIGHTS)
    return np.asarray(np.add.reduceat(is_before.astype(np.int64), groups.first))


def _typed(declared: Declaration, arrow_type: pa.DataType) -> tuple[Any, ...]:
    """Read the levels as values of the column."""
    try:
        typed = pa.array(declared.levels or (), pa.string()).cast(arrow_type)
    except pa.ArrowInvalid:
        raise SpecError(
            f"roles.quasi_identifiers: a level of {declared.name!r} is no {arrow_type}, as the column's values are; "
            "write levels as the file has them"
        ) from None
    levels = tuple(typed.to_pylist())
    if len(set(levels)) < len(levels):
        raise SpecError(f"roles.quasi_identifiers: two levels of {declared.name!r} are one value; name each once")
    return levels
