"""Find the kind of a column, by what the spec declares of it and by its Arrow type, and try what the kind claims.

A new kind is one file in this folder, or an entry point of ``microagg.kinds``. It alone knows its values, so the
gate, the manifest and the pages believe its claims. These are tried on examples before a kind is used, and compared by
Arrow and NumPy, not by the kind itself: so nothing is published that does not hold.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core import registry
from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.contract import DEFAULT_ROUNDING, UNDECLARED, Claim, Declaration, Kind, Rule, Ticks
from microagg_core.data.tables.ordering import ranks
from microagg_core.errors import DataError, SpecError
from microagg_core.group.metrics.moments import Groups


def kind_for(arrow_type: pa.DataType, declared: Declaration = UNDECLARED) -> type[Kind] | None:
    """Find the kind of columns that are declared so and have this type; None: they cannot be quasi-identifiers.

    >>> kind_for(pa.date32()), kind_for(pa.binary())
    (<class 'microagg_core.data.kinds.dates.DateKind'>, None)
    >>> kind_for(pa.int8(), Declaration(kind="nominal"))
    <class 'microagg_core.data.kinds.nominal.NominalKind'>
    """
    as_declared = (kind for kind in _kinds() if declared.kind in (None, kind.declared_as))
    return next((kind for kind in as_declared if kind.takes(arrow_type, declared)), None)


def _kinds() -> tuple[type[Kind], ...]:
    return registry.classes("microagg_core.data.kinds", Kind, "microagg.kinds")


def number_kind_for(arrow_type: pa.DataType) -> type[Kind] | None:
    """Find the kind of columns of this type that are taken for numbers; None: they have no mean."""
    return kind_for(arrow_type, Declaration(kind="number"))


def kind_of(name: Hashable, arrow_type: pa.DataType, rule: Rule = DEFAULT_ROUNDING, **said: Any) -> Kind:
    """Make the quasi-identifier ``name`` of this type, rounded by the spec's rule; ``said`` declares more of it.

    >>> kind_of("income", pa.float64(), 0.5).applied_rule
    0.5
    >>> kind_of("size", pa.string(), kind="ordinal", levels=("S", "M")).categories
    ('S', 'M')
    """
    declared = Declaration(str(name), rule, **said)
    cure = "convert it, for CSV declare its type under input.csv.types, coarsen it for blocking, or drop it"
    kind = _kind_or_refuse(declared, arrow_type, cure).of(declared, arrow_type)
    kind.refuse_rule()
    refuse_broken_claims(kind)
    return kind


def unrounded_kind(name: Hashable, arrow_type: pa.DataType, declared: Declaration = UNDECLARED) -> Kind:
    """Make it as the Python functions have it: means are floats, where the kind's means can be.

    >>> unrounded_kind("member", pa.bool_()).released_type, unrounded_kind("born", pa.date32()).released_type
    (DataType(double), DataType(date32[day]))
    """
    declared = replace(declared, name=str(name), rule="type")
    of = _kind_or_refuse(declared, arrow_type, "convert it to numbers or text, name it in blocking, or drop it")
    kind = of.of(replace(declared, rule="none") if of.has_float_means else declared, arrow_type)
    refuse_broken_claims(kind)
    return kind


def _kind_or_refuse(declared: Declaration, arrow_type: pa.DataType, cure: str) -> type[Kind]:
    kind = kind_for(arrow_type, declared)
    if kind is None:
        is_no = f"cannot be {declared.kind}" if declared.kind else "is neither a number nor a category"
        raise DataError(f"quasi-identifier {declared.name!r} has the type {arrow_type}, which {is_no}; {cure}")
    return kind


def refuse_broken_claims(kind: Kind) -> None:
    """Stop where a kind does not keep what it claims."""
    if why := _broken(type(kind), kind.source_type):
        raise SpecError(f"column {kind.name!r}: its kind {type(kind).__name__} {why}; give the column another role")


@cache
def _broken(of: type[Kind], arrow_type: pa.DataType) -> str:
    try:
        return broken_claim(of("examples", arrow_type))
    except Exception as error:  # whatever a kind of somebody else does
        return f"fails on examples of {arrow_type} ({type(error).__name__}: {error})"


def completed(kind: Kind, values: pa.Array) -> Kind:
    """Complete a kind by all values of its column, which are at hand."""
    rough, missing = kind.ticks(values)
    there = rough[~missing & kind.finite(rough)]
    traits = kind.all_traits([kind.more_traits(kind.NO_TRAITS, values, there)])
    return kind.for_input(traits, kind.input_moments(traits, kind.moments(there)))


def broken_claim(kind: Kind) -> str:
    """Say what a kind claims and does not keep, tried on its examples; nothing where it keeps all.

    >>> from microagg_core.data.kinds.whole_numbers import WholeNumberKind
    >>> broken_claim(WholeNumberKind("age", pa.int8()))
    ''
    """
    values = kind.examples()
    values = values.take(pc.sort_indices(values))
    kind = completed(kind, values)
    ticks, missing = kind.ticks(values)
    if missing.any() or not kind.finite(ticks).all() or not np.isfinite(kind.offsets(ticks, 0)).all():
        return f"makes no numbers of examples of {values.type}"
    numbers = np.arange(len(values))
    # Neighbours, distant ones, and all together.
    trials = [_Trial(kind, values, ticks, labels) for labels in (numbers // 4, numbers % 3, 0 * numbers)]
    if kind.claims & {Claim.MODE_OF_GROUP, Claim.MEDIAN_OF_GROUP}:  # which survey weights change
        trials += [replace(trial, weights=(1 + numbers**2 % 7).astype(np.float64)) for trial in trials]
    return next((why for trial in trials for why in trial.problems()), "") or _blindness(kind, ticks)


@dataclass(frozen=True)
class _Trial:
    """Examples in ascending order, and the group of each."""

    kind: Kind
    values: pa.Array
    ticks: Ticks
    labels: Ints
    weights: Floats | None = None

    def problems(self) -> Iterator[str]:
        groups = Groups.of(self.labels, self.weights)
        means = self.kind.representatives(self.ticks, groups)
        released = self.kind.to_arrow(means[self.labels])
        if len(released) != len(self.values) or released.type != self.kind.released_type:
            yield "does not release a value of its released type for each record"
            return
        back, missing = self.kind.reader.ticks(released)
        if missing.any() or not np.array_equal(back, means[self.labels]):
            yield "reads back other values than it released"
        if not self.kind.fits(self.ticks, back, groups).all():
            yield "refuses in the gate what it released"
        exchanged = means[::-1][self.labels]
        inside = self.kind.fits(self.ticks, exchanged, groups)
        if (inside & ~self._between(self.kind.to_arrow(exchanged))[groups.order]).any():
            yield "lets the gate pass values that are far from their group"
        yield from self._untrue(released)

    def _untrue(self, released: pa.Array) -> Iterator[str]:
        claims, ordered = self.kind.claims, np.array_equal(self.labels, np.sort(self.labels))
        if Claim.WITHIN_RANGE in claims and not self._between(released).all():
            yield "claims that values stay within the range of their group, and they do not"
        if Claim.VALUE_OF_GROUP in claims and not self._of_group(released):
            yield "claims to release values of the group, and does not"
        if Claim.ORDER_KEPT in claims and ordered and (np.diff(self._places(released)[1]) < 0).any():
            yield "claims to keep the order of groups, and does not"
        if {Claim.MODE_OF_GROUP, Claim.MODE_OR_PARENT} & claims and not self._is_mode(released):
            yield "claims to release the most frequent value of a group, and does not"
        if Claim.MEDIAN_OF_GROUP in claims and not self._is_median(released):
            yield "claims to release the median of a group, and does not"
        if Claim.MEAN_KEPT in claims and not self._keeps_mean(released):
            yield f"claims that means are kept, which examples of {self.values.type} contradict"

    def _places(self, released: pa.Array) -> tuple[Ints, Ints]:
        both = ranks(pa.concat_arrays([self.values, released.cast(self.values.type)]))
        return both[: len(self.values)], both[len(self.values) :]

    def _own_and_place(self, released: pa.Array) -> Iterator[tuple[Ints, int]]:
        """For each record the places of its group's values, and that of its released value."""
        before, after = self._places(released)
        return ((before[self.labels == label], place) for label, place in zip(self.labels, after, strict=True))

    def _counts_and_place(self, released: pa.Array) -> Iterator[tuple[Floats, int]]:
        """For each record the weight of its group's values, by place, and the place of its released value."""
        before, after = self._places(released)
        weights = np.ones(len(before)) if self.weights is None else self.weights
        n = 1 + int(max(before.max(), after.max()))
        for label, place in zip(self.labels, after.tolist(), strict=True):
            own = self.labels == label
            yield np.bincount(before[own], weights[own], n).astype(np.float64), place

    def _between(self, released: pa.Array) -> Bools:
        return np.array([own.min() <= place <= own.max() for own, place in self._own_and_place(released)])

    def _of_group(self, released: pa.Array) -> bool:
        return all(place in own for own, place in self._own_and_place(released))

    def _is_mode(self, released: pa.Array) -> bool:
        return all(counts[place] == counts.max() for counts, place in self._counts_and_place(released))

    def _is_median(self, released: pa.Array) -> bool:
        return all(
            2 * counts[:place].sum() <= counts.sum() <= 2 * counts[: place + 1].sum()
            for counts, place in self._counts_and_place(released)
        )

    def _keeps_mean(self, released: pa.Array) -> bool:
        if not (pa.types.is_primitive(self.values.type) or pa.types.is_decimal(self.values.type)):
            return False  # Arrow knows no mean of such values
        before, after = _as_numbers(self.values), _as_numbers(released)
        gaps = np.diff(np.unique(before))
        kind, back = self.kind, self.kind.reader.ticks(released)[0]
        near = abs(before.mean() - after.mean()) <= gaps.min() / 2
        return bool(near) and kind.keeps_mean(kind.moments(self.ticks), kind.moments(back))


def _blindness(kind: Kind, ticks: Ticks) -> str:
    """Name a kind that would take any mean for the input's."""
    if Claim.MEAN_KEPT not in kind.claims:
        return ""
    alone = kind.representatives(ticks, Groups.of(np.arange(len(ticks))))
    before = kind.moments(ticks)
    extremes = (kind.moments(np.repeat(alone[place : place + 1], len(ticks))) for place in (0, -1))
    return "claims that means are kept, and would not see it if they were not" * all(
        kind.keeps_mean(before, extreme) for extreme in extremes
    )


def _as_numbers(column: pa.Array) -> Floats:
    """Take numbers of a column by Arrow alone: days, ticks of a clock, or the values themselves."""
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.cast(pa.float64()))
