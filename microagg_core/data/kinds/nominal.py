"""Nominal categories: values that are equal or not, and a group gets the most frequent of its own.

Codes are by falling frequency over the whole file, equally frequent ones by value. Of values that are equally frequent
in a group, it gets the one that fewer records of the file have, or else the lesser code. With survey weights it gets
the value that has most of its weight, of equal weights by the same order.

The gate knows no groups, only classes: all records of one released combination, which may be those of several groups.
The rule holds of a class because it holds of its groups. They all got the same value, and in none of them is another
one more frequent, so none is in their union. Another one is as frequent in the union only where it is so in every one
of the groups, and there the rule preferred the released value, in each by the same order of all values.

It holds of weights alike, which add up as counts do: what has no less weight than another value in each of the groups
has no less in their union. As sums are off by their last digits, a value may have less by a billionth of it; so the
gate does not ask which of nearly equal ones it is, and allows twice that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.categories import EQUAL_WEIGHTS, CategoryKind, groups_in_order
from microagg_core.data.kinds.contract import MODE, Claim, Declaration, Kind, Ticks, Traits
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.types import is_text
from microagg_core.errors import DataError
from microagg_core.group.metrics.moments import Groups, Moments, Origin, moments_of, of_codes, of_counts, offsets_from

#: In a column of categories more records than this share have one of their own only where it names them; but for a
#: handful of records.
_NAMES, _LEAST_NAMED = 0.5, 50
#: Numbers and dates as text, whatever marks their decimals.
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*([eE][+-]?[0-9]+)?|[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}.*")


def are_numbers(values: Sequence[str | None]) -> bool:
    """Tell whether most of some texts are numbers or dates, which nobody would take for categories.

    >>> are_numbers(["1.5", "-2", "n/a"]), are_numbers(["2026-11-18"]), are_numbers(["1st-4th", "HS-grad"])
    (True, True, False)
    """
    return sum(_NUMBER.fullmatch(value or "") is not None for value in values) > len(values) / 2


@dataclass(frozen=True)
class NominalKind(CategoryKind):
    """Texts, and what the spec declares nominal.

    >>> kind = NominalKind("town", pa.string(), categories=("Ayr", "Bern", "Cork"), counts=(5, 5, 2))
    >>> kind.representatives(np.array([0, 2, 1, 0, 1]), Groups.of(np.array([0, 0, 1, 1, 1]))).tolist()
    [2, 1]
    """

    declared_as: ClassVar[str] = "nominal"
    claims: ClassVar[frozenset[Claim]] = frozenset({Claim.VALUE_OF_GROUP, Claim.MODE_OF_GROUP})
    released_as: ClassVar[str] = MODE
    released_words: ClassVar[str] = "the most frequent value of the group"

    @classmethod
    def takes(cls, arrow_type: pa.DataType, declared: Declaration) -> bool:
        is_nominal = super().takes(arrow_type, declared) or (declared.kind is None and is_text(arrow_type))
        return is_nominal and declared.hierarchy is None

    @classmethod
    def of(cls, declared: Declaration, arrow_type: pa.DataType) -> Kind:
        return replace(super().of(declared, arrow_type), null_is_category=declared.null_is_category)

    def ticks(self, column: pa.ChunkedArray | pa.Array) -> tuple[Ticks, Bools]:
        if not self.null_is_category:
            return super().ticks(column)
        return self._ticks_of(one_array(column)), np.zeros(len(column), dtype=np.bool_)

    @property
    def is_coded(self) -> bool:
        return bool(self.categories)

    def for_input(self, traits: Traits, moments: Moments) -> NominalKind:
        ordered = sorted(traits, key=lambda pair: (-pair[1], pair[0] is None, pair[0]))
        return replace(self, categories=tuple(v for v, _ in ordered), counts=tuple(count for _, count in ordered))

    def input_moments(self, traits: Traits, moments: Moments) -> Moments:
        return of_counts(sorted((count for _, count in traits), reverse=True))

    def moments(self, ticks: Ticks) -> Moments:
        return of_codes(ticks, len(self.categories)) if self.is_coded else moments_of(ticks)

    def released_offsets(self, ticks: Ticks, origin: Origin) -> Floats:
        return offsets_from(ticks, origin)

    def refuse_names(self) -> None:
        """Stop where most records have a category of their own: a released one would name its record.

        >>> NominalKind("sex", pa.string(), categories=("m", "f"), counts=(60, 1)).refuse_names()
        """
        if sum(self.counts) >= _LEAST_NAMED and self.share_below(2) > _NAMES:
            raise DataError(
                f"quasi-identifier {self.name!r} looks like an identifier: most records have a value of their own in "
                "it, and released ones would name them; drop it, or put its values together in fewer"
            )

    def share_below(self, k: int) -> float:
        """Compute the share of records with a category that fewer than k have."""
        return sum(count for count in self.counts if count < k) / max(sum(self.counts), 1)

    @cached_property
    def _preference(self) -> Ints:
        """The place of each code among those that are equally frequent in a group: the rarest of the file is first."""
        place = np.empty(len(self.counts), dtype=np.int64)
        place[np.lexsort((np.arange(len(self.counts)), np.array(self.counts)))] = np.arange(len(self.counts))
        return place

    def representatives(self, ticks: Ticks, groups: Groups) -> Ticks:
        if not self.categories:  # no record has a value
            return ticks[groups.order[groups.first]]
        group, code, count = self._counted(ticks, groups)
        first = np.flatnonzero(np.diff(group, prepend=-1))
        most = np.maximum.reduceat(count, first)
        best = np.lexsort((self._preference[code], count < (1.0 - EQUAL_WEIGHTS) * most[group], group))
        return code[best][first]

    def fits(self, before: Ticks, after: Ticks, groups: Groups) -> Bools:
        """Tell whether each group has its value as often as any other, and prefers it to those it has as often.

        With weights: whether no other has more weight in it.
        """
        if not self.categories:
            return np.asarray(before == after, dtype=np.bool_)[groups.order]
        group, code, count = self._counted(before, groups)
        n, first = len(self.categories), np.flatnonzero(np.diff(group, prepend=-1))
        score = np.append(count * n - self._preference[code] if groups.weights is None else count, -1)
        most = np.maximum.reduceat(score[:-1], first)
        if groups.weights is not None:
            most = most * (1.0 - 2.0 * EQUAL_WEIGHTS)
        own = groups_in_order(groups)
        pair, released = group * n + code, own * n + after[groups.order]
        place = np.searchsorted(pair, released)
        place[np.append(pair, -1)[place] != released] = len(pair)
        return np.asarray(score[place] >= most[own], dtype=np.bool_)

    def _counted(self, ticks: Ticks, groups: Groups) -> tuple[Ints, Ints, Ints | Floats]:
        """Count codes by group: each group with each code that it has, both ascending, and its records or weight."""
        n = max(len(self.categories), 1)
        pairs = groups_in_order(groups) * n + ticks[groups.order]
        if groups.weights is None:
            pair, count = np.unique(pairs, return_counts=True)
            return pair // n, pair % n, count
        pair, place = np.unique(pairs, return_inverse=True)
        return pair // n, pair % n, np.bincount(place.ravel(), groups.weights[groups.order])
