"""Find units of several rows in a sample: what names them repeats, while other columns are constant within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints, UInt64s
from microagg_core.data.tables.hashing import hash_rows, missing_in, one_array
from microagg_core.profile.columns import ColumnProfile
from microagg_core.profile.notations import CODES
from microagg_core.profile.proposals import (
    IDENTIFIERS,
    STARTER_K,
    RoleProposal,
    SeveralProposal,
    by_itself,
    meanings_of,
)
from microagg_core.release.planning import most_rows
from microagg_core.spec.units import MOST_ROWS

#: Fewer values name no units that are worth a proposal.
_LEAST_UNITS = 20
#: With more rows on average what repeats names a class, a school or a region, where something else names persons.
_MOST_ON_AVERAGE = 12
#: A column that is the same within this share of units tells that these are units, if by chance it would differ in as
#: many units as stand below.
_NEARLY_ALL = 0.98
_LEAST_BY_CHANCE = 3
#: A column that nothing but its values speaks for needs so many of them, and as many rows on average.
_LEAST_SAME, _LEAST_ON_AVERAGE = 3, 1.5
#: Rows of a unit that are proposed at most, where not more than this share of units have more.
_LONG_TAIL, _SHARE_OF_TAIL = 12, 0.1


@dataclass(frozen=True)
class _Units:
    """Units that a column may name: of the rows that have a value in it, whose each is."""

    column: ColumnProfile
    has_value: Bools
    unit: Ints
    #: Columns that are the same in all rows of each unit, and those that tell that these are units.
    same: set[str] = field(default_factory=set)
    telling: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, column: ColumnProfile, sample: pa.Table) -> _Units:
        values = one_array(sample.column(column.name))
        has_value = ~missing_in(values)
        hashes = hash_rows([values], len(values), 0)[has_value]
        return cls(column, has_value, np.unique(hashes, return_inverse=True)[1].astype(np.int64))

    @cached_property
    def sizes(self) -> Ints:
        return np.bincount(self.unit)

    @cached_property
    def first(self) -> Ints:
        return np.unique(self.unit, return_index=True)[1]

    def n_differing(self, values: UInt64s) -> int:
        """Count the units whose rows have several of these values."""
        own = values[self.has_value]
        return len(np.unique(self.unit[own != own[self.first][self.unit]]))

    def look_at(self, name: str, values: UInt64s) -> None:
        """Note a column that is the same within all units, or within nearly all, and would not be by chance."""
        n_differing, n_repeated = self.n_differing(values), int(np.sum(self.sizes > 1))
        if name == self.column.name or n_differing > (1 - _NEARLY_ALL) * n_repeated:
            return
        if n_differing == 0:
            self.same.add(name)
        shares = np.unique(values, return_counts=True)[1] / len(values)
        if (1 - (shares**2).sum()) * n_repeated >= _LEAST_BY_CHANCE:
            self.telling.append(name)

    def is_within(self, other: _Units) -> bool:
        """Tell whether each of these units is part of one of the others, which are fewer."""
        values = np.full(len(self.has_value), -1, dtype=np.int64)
        values[other.has_value] = other.unit
        return len(other.sizes) < len(self.sizes) and self.n_differing(values.astype(np.uint64)) == 0


def several_rows(columns: Sequence[ColumnProfile], sample: pa.Table, is_whole: bool) -> SeveralProposal | None:
    """Find the column that names units of several rows, and what to propose of them; None where each has one."""
    proposals = [by_itself(column) for column in columns]
    others = [p.column for p in proposals if p.role != IDENTIFIERS and p.column.distinct > 1 and not p.column.is_nested]
    candidates = [_Units.of(p.column, sample) for p in proposals if _may_name(p)]
    for column in others if candidates else ():
        values = hash_rows([one_array(sample.column(column.name))], sample.num_rows, 0)
        for units in candidates:
            units.look_at(column.name, values)
    chosen = _chosen(candidates, proposals)
    if chosen is None or len(chosen.sizes) < STARTER_K:
        return None
    sizes = chosen.sizes
    at_most = _at_most(sizes) if is_whole else None
    return SeveralProposal(
        id=chosen.column.name,
        units=len(sizes),
        rows=len(chosen.unit),
        nameless=int(np.sum(~chosen.has_value)),
        least=int(sizes.min()),
        most=int(sizes.max()),
        same=frozenset(chosen.same),
        telling=tuple(chosen.telling),
        row=_row_of(chosen, proposals, sample),
        at_most=at_most,
        by=_when([c for c in others if c.name not in chosen.same]) if at_most else None,
        left_out=int(np.maximum(sizes - at_most, 0).sum()) if at_most else 0,
        cut_units=int(np.sum(sizes > at_most)) if at_most else 0,
    )


def _may_name(proposal: RoleProposal) -> bool:
    """Tell whether a column repeats and names something, by its name, its spelling or the few rows of its values."""
    column = proposal.column
    if column.distinct <= _LEAST_UNITS or column.unique == 1 or column.is_nested:
        return False
    if proposal.role == IDENTIFIERS:
        return True
    is_name = column.is_whole if column.is_numeric else column.remark in ("", CODES) and not column.tells_sex
    is_few = _LEAST_ON_AVERAGE <= column.valid / column.distinct <= _MOST_ON_AVERAGE
    return is_name and is_few and "float" not in column.type and not column.missing and not meanings_of(column.name)


def _chosen(candidates: Sequence[_Units], proposals: Sequence[RoleProposal]) -> _Units | None:
    """Choose the units: of persons within households the households, which are fewer."""
    named = {p.column.name for p in proposals if p.role == IDENTIFIERS}
    is_single = any(p.role == IDENTIFIERS and p.column.unique == 1 and not p.column.missing for p in proposals)
    chosen: _Units | None = None
    for units in sorted(candidates, key=lambda one: (-len(one.sizes), "id" not in meanings_of(one.column.name))):
        name = units.column.name
        is_few = len(units.unit) <= _MOST_ON_AVERAGE * len(units.sizes)
        is_told = is_few and len(units.telling) >= (1 if name in named else _LEAST_SAME)
        is_number = name in named and (units.column.is_numeric or "id" in meanings_of(name))
        if chosen is None:
            chosen = units if is_told or (is_number and not is_single) else None
        elif is_told and chosen.is_within(units):
            chosen = units
    return chosen


def _row_of(units: _Units, proposals: Sequence[RoleProposal], sample: pa.Table) -> str | None:
    """Find the column that tells the rows of each unit apart: an identifier, or numbers from 0 or 1 on."""
    for proposal in sorted(proposals, key=lambda one: -one.column.unique):
        column = proposal.column
        is_id = proposal.role == IDENTIFIERS or "id" in meanings_of(column.name)
        is_number = "int" in column.type and not {"date", "time"}.intersection(meanings_of(column.name))
        if column.missing or column.name == units.column.name or not (is_id or is_number):
            continue
        values = one_array(sample.column(column.name)).filter(pa.array(units.has_value))
        pairs = np.column_stack([units.unit.astype(np.uint64), hash_rows([values], len(values), 0)])
        if len(np.unique(pairs, axis=0)) == len(pairs) and (is_id or _counts(np.asarray(values), units)):
            return column.name
    return None


def _counts(values: Ints, units: _Units) -> bool:
    """Tell whether numbers, of which none repeats in a unit, count the rows of each from 0 or 1 on."""
    greatest = np.zeros(len(units.sizes), dtype=np.int64)
    np.maximum.at(greatest, units.unit, values.astype(np.int64))
    start = int(values.min())
    return start in (0, 1) and bool(np.array_equal(greatest, units.sizes - 1 + start))


def _at_most(sizes: Ints) -> int | None:
    """Propose the rows of a unit that are released at most, where too few units have more; None: all of them."""
    rows, units = np.unique(sizes, return_counts=True)
    most = min(most_rows(rows, units, STARTER_K), MOST_ROWS)
    if np.mean(sizes > _LONG_TAIL) <= _SHARE_OF_TAIL:
        most = min(most, _LONG_TAIL)
    return most if most < rows[-1] else None


def _when(columns: Sequence[ColumnProfile]) -> str | None:
    """Find the column by which rows of a unit are newer or older."""

    def is_time(column: ColumnProfile) -> bool:
        return column.type.startswith(("date", "timestamp")) or (
            "int" in column.type and "time" in meanings_of(column.name)
        )

    return next((c.name for c in sorted(columns, key=lambda c: ("int" in c.type, c.missing)) if is_time(c)), None)
