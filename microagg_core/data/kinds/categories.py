"""Kinds whose values are categories: collected over the whole file, looked up in it, and released as they are.

A column of text, of whole numbers, which floats may hold, or of truth values. Before all values are known, ticks are
numbers that tell values apart well enough for sketches: whole numbers themselves, else hashes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.contract import DEFAULT_ROUNDING, EXAMPLES, Declaration, Kind, Rule, Ticks, Traits, Unit
from microagg_core.data.tables.hashing import hash_rows, one_array
from microagg_core.data.tables.types import is_text
from microagg_core.errors import DataError, SpecError
from microagg_core.group.metrics.moments import Groups, Moments, Origin, offsets_from

#: Survey weights of a group's values that differ by less than this share of them are equal: sums of decimals are off.
EQUAL_WEIGHTS = 1e-9
#: A column with more categories is a name, an address or a number that was read as text.
MOST_CATEGORIES = 100_000
#: Rough ticks of what has no order have so many bits.
_ROUGH_BITS = 20


@dataclass(frozen=True)
class CategoryKind(Kind):
    """A quasi-identifier whose groups get the value of one of their records."""

    #: By code, and the records of the whole file that have each; empty before all values are known.
    categories: tuple[Any, ...] = ()
    counts: tuple[int, ...] = ()
    #: By code, as released files have them; None: as they are.
    written: tuple[str, ...] | None = None

    needs_all_values: ClassVar[bool] = True
    may_be_objects: ClassVar[bool] = True
    is_compared: ClassVar[bool] = False
    #: Pairs of a value and how many records have it.
    NO_TRAITS: ClassVar[Traits] = ()
    #: What a group gets, as rounding rule and in words.
    released_as: ClassVar[str]
    released_words: ClassVar[str]

    @classmethod
    def takes(cls, arrow_type: pa.DataType, declared: Declaration) -> bool:
        types = pa.types
        is_number = types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_boolean(arrow_type)
        return bool(is_text(arrow_type) or is_number) and declared.kind == cls.declared_as

    @property
    def holds_floats(self) -> bool:
        return bool(pa.types.is_floating(self.source_type))

    @property
    def unusable(self) -> tuple[str, str]:
        return "values that are no whole numbers", "correct them, or declare the column kind: number"

    def refuse_rule(self) -> None:
        """Stop at a rule for means."""
        if self.rule not in (DEFAULT_ROUNDING, self.released_as):
            raise SpecError(f"rounding.{self.name}: is for means, and groups get {self.released_words}; take it out")

    def more_traits(self, traits: Traits, column: pa.ChunkedArray | pa.Array, ticks: Ticks) -> Traits:
        """Count the column's values."""
        counted = pc.value_counts(self.with_nulls(one_array(column)))
        return self.all_traits([traits, zip(*(of.to_pylist() for of in counted.flatten()), strict=True)])

    def all_traits(self, parts: Iterable[Traits]) -> Traits:
        total: Counter[Any] = Counter()
        for part in parts:
            for value, count in part:
                total[value] += count
        if not self.null_is_category:
            del total[None]
        if len(total) > MOST_CATEGORIES:
            raise DataError(
                f"quasi-identifier {self.name!r} has more than {MOST_CATEGORIES:,} different values, too many for "
                "categories; code it in numbers, coarsen it, or drop it"
            )
        return tuple(total.items())

    @cached_property
    def _values(self) -> pa.Array:
        return pa.array(self.categories, self.source_type)

    def _ticks_of(self, array: pa.Array) -> Ticks:
        """Look values up; -1 for one that is no category."""
        if not self.categories:
            return self._rough_ticks(array)
        found = pc.index_in(self.with_nulls(array), value_set=self._values)
        return np.asarray(pc.fill_null(found, -1)).astype(np.int64)

    def with_nulls(self, array: pa.Array) -> pa.Array:
        """Take NaN for missing, and zeros of either sign for one category."""
        if not self.holds_floats:
            return array
        return pc.add(pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array), pa.scalar(0.0, array.type))

    def _rough_ticks(self, array: pa.Array) -> Ticks:
        if self.holds_floats:
            numbers = np.asarray(pc.fill_null(array, 0.0)).astype(np.float64)
            return np.where(np.isfinite(numbers) & (numbers == np.rint(numbers)), numbers, np.nan)
        hashes = hash_rows([array], len(array), seed=0)
        return (hashes >> np.uint64(64 - _ROUGH_BITS)).astype(np.int64)

    def finite(self, ticks: Ticks) -> Bools:
        return ticks >= 0 if self.categories else np.isfinite(ticks)

    def examples(self) -> pa.Array:
        if is_text(self.source_type):
            return pa.array([f"{number:02}" for number in EXAMPLES], self.source_type)
        return super().examples()

    @property
    def released_type(self) -> pa.DataType:
        return self.source_type

    @property
    def reader(self) -> Kind:
        return self if self.written is None else replace(self, categories=self.written, written=None)

    def read_from(self, released_form: Callable[[pa.Table], pa.Table]) -> CategoryKind:
        """Look released values up as a format writes them, such as with an apostrophe before a formula."""
        written = tuple(released_form(pa.table({"written": self._values}))["written"].to_pylist())
        if len(set(written)) < len(written):
            raise DataError(
                f"quasi-identifier {self.name!r} has categories that only differ by the apostrophe that "
                "output.csv.formulas: escape puts before some, so nobody could tell them apart; keep formulas as they "
                "are, write parquet, or recode these categories"
            )
        return self if written == tuple(self._values.to_pylist()) else replace(self, written=written)

    @property
    def applied_rule(self) -> Rule:
        return self.released_as

    def rounding_in_words(self) -> str:
        return f"{self.name!r}: no mean, but {self.released_words}"

    def to_arrow(self, ticks: Ticks, missing: Bools | None = None) -> pa.Array:
        return self._values.take(pa.array(ticks, mask=missing))

    def keeps_mean(self, before: Moments, after: Moments) -> bool:
        """Compare how many values there are: categories have no mean."""
        return before.n == after.n

    @property
    def unit(self) -> Unit:
        return Unit("categories", 1.0)

    def shown(self, tick: float) -> str:
        value = self.categories[round(tick)]
        if value is None:
            return "(missing)"
        return str(int(value) if self.holds_floats else value)

    def plain_numbers(self, ticks: Ticks, origin: Origin) -> Floats:
        return offsets_from(ticks, 0)


def groups_in_order(groups: Groups) -> Ints:
    """The group of each record, in the order of the groups."""
    return np.repeat(np.arange(len(groups.sizes)), groups.sizes)
