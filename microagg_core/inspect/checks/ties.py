"""Ties: no confidential values tell which rows are those of one unit, where units of several rows are parted.

Then who knows a unit finds each of its rows among those of k units, and nothing leads from one of them to the others.
Key columns lead nowhere: all rows of a released combination have the same values in them, so that they are as they were
if any of these rows are exchanged between units. Confidential values must be so, too. Two rows of a unit are *near* in
a column by minus the logarithm of the share of rows whose value is between theirs: equal values that few have are very
near, and so are incomes of 20,000 and 20,001; names are near only where they are equal. That is added up over pairs of
rows of a unit, once as they are, and once with either row exchanged for another unit's of the same combination. Rows
are tied where they are nearer than the exchanged ones by more than chance: in any column, in two at once, in all, or
one row in one column to the other in another. Units are drawn by their numbers, so that notes do not grow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.tables.hashing import hash_rows, one_array
from microagg_core.data.tables.ordering import as_key, ranks
from microagg_core.data.tables.slices import RECORD
from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import UNIT, GateCheck, Promise, ReleasedFile
from microagg_core.inspect.distributions import is_ordered_type
from microagg_core.inspect.exposure import is_asked, uniform
from microagg_core.inspect.notes import PlainTable
from microagg_core.kernels.tools.hashing import mix_words

#: Rows that are noted of a release, and their values: of many columns fewer rows, as each two columns are looked at.
_MOST_ROWS, _MOST_VALUES = 100_000, 1_000_000
#: Each row is compared with so many others of its unit, which come in a random order.
_OTHERS = 3
#: The share of releases that may be stopped by chance; so many pairs of rows, as near as any are, stop none.
_BY_CHANCE, _HANDFUL = 1e-4, 5.0
#: The word that tells the draws of exchanged rows from others of the same seed.
_EXCHANGED = 0x7E1D


class Ties(GateCheck[PlainTable]):
    name = "ties"
    notes = PlainTable

    def note(self, file: ReleasedFile) -> pa.Table:
        """Note the values of drawn units' rows, and beside each those of a row that it may be exchanged for."""
        promise = file.promise
        if promise.rows_tied:
            return pa.table({})
        columns = [_comparable(file.table[column.name]) for column in promise.schema.confidential]
        most = min(_MOST_ROWS, _MOST_VALUES // max(1, len(columns)))
        drawn = np.flatnonzero(is_asked(file.units, most / max(1, promise.rows), promise.seed))
        draws = uniform(file.records, promise.seed, _EXCHANGED)
        other = exchanged_rows(file.combinations[0], file.units, draws)[drawn]
        noted = {UNIT: file.units[drawn], RECORD: file.records[drawn]}
        for j, column in enumerate(columns):
            noted |= {f"own {j}": column.take(pa.array(drawn)), f"other {j}": column.take(pa.array(other))}
        return pa.table(noted)

    def judge(self, promise: Promise, released: pa.Table, expected: pa.Table) -> Check | None:
        if promise.rows_tied:
            return None
        columns = promise.schema.confidential
        tied = tied_columns(released, [is_ordered_type(column.type) for column in columns])
        wrong = [" with ".join(repr(columns[j].name) for j in of) for of in tied]
        if tied == [tuple(range(len(columns)))] and len(columns) > 2:
            wrong = ["all confidential columns together"]
        told = (
            f"values of {', '.join(wrong)} are more alike in rows of a unit than by chance, and so tell which these "
            "are; say unit.rows_tied: possible, with which k units share all of their rows, or make what ties them a "
            "quasi-identifier, or drop it"
        )
        return Check(self.name, not wrong, told if wrong else "no values tell which rows are those of a unit")


def _comparable(column: pa.ChunkedArray) -> pa.Array:
    """Take values that have an order as they are, and of others hashes."""
    return one_array(column) if is_ordered_type(column.type) else pa.array(hash_rows([column], len(column), 0))


def exchanged_rows(groups: Ints, units: Ints, draws: Floats) -> Ints:
    """Find for each row another of its group, and of another unit, by a draw from 0 to 1; itself where there is none.

    >>> exchanged_rows(np.array([0, 0, 0, 1]), np.array([5, 6, 5, 7]), np.array([0.9, 0.9, 0.1, 0.5])).tolist()
    [1, 2, 1, 3]
    """
    order = np.lexsort((units, groups))
    starts_group = np.diff(groups[order], prepend=-1) != 0
    first, size = _runs(starts_group)
    own_first, own_size = _runs(starts_group | (np.diff(units[order], prepend=-1) != 0))
    place = first + (draws[order] * (size - own_size)).astype(np.int64)
    place += np.where(place >= own_first, own_size, 0)
    other = np.empty(len(order), dtype=np.int64)
    other[order] = order[np.where(size > own_size, place, np.arange(len(order)))]
    return other


def _runs(starts: Bools) -> tuple[Ints, Ints]:
    """Find, for each row, where its run begins, and how many rows it has."""
    first = np.flatnonzero(starts)
    sizes = np.diff(first, append=len(starts))
    return np.repeat(first, sizes), np.repeat(sizes, sizes)


def tied_columns(noted: pa.Table, ordered: Sequence[bool]) -> list[tuple[int, ...]]:
    """List sets of columns that tie rows, by their places: single ones, two, or all; none that has another in it."""
    pairs = _Pairs.of(np.asarray(noted[UNIT]), np.asarray(noted[RECORD])) if ordered and noted.num_rows else None
    if pairs is None:
        return []
    values = [_values(noted, j) for j in range(len(ordered))]
    columns, near = list[tuple[int, ...]]([()]), [np.ones((3, len(pairs.one)))]
    for j, has_order in enumerate(ordered):
        ranked = _Ranked.of(values[j : j + 1])
        for by_order in (False, True)[: 1 + has_order]:
            columns.append((j,))
            near.append(pairs.nearness(ranked, by_order=by_order))
    columns.append(tuple(range(len(ordered))))
    near.append(pairs.nearness(_Ranked.of([pa.array(hash_rows(values, len(values[0]), 0))])))
    each = list(combinations_with_replacement(range(len(near)), 2))
    most = deviations(len(each) + len(ordered) * (len(ordered) - 1) // 2)
    found = {tuple(sorted({*columns[a], *columns[b]})) for a, b in each if pairs.are_nearer(near[a] * near[b], most)}
    found |= set(_crossed(values, pairs, most))
    return sorted(of for of in found if not any(set(other) < set(of) for other in found))


def deviations(looks: int) -> float:
    """Find the deviations beyond which none of so many looks would be by chance.

    >>> [round(deviations(looks), 1) for looks in (1, 10, 300)]
    [3.7, 4.3, 5.0]
    """
    from scipy.special import ndtri

    return float(-ndtri(_BY_CHANCE / looks))


def _crossed(values: Sequence[pa.Array], pairs: _Pairs, most: float) -> Iterator[tuple[int, int]]:
    """Find columns of which one has in a row what the other has in the next, as last year's income has."""
    for kind in {str(of_column.type): of_column.type for of_column in values}.values():
        places = [j for j, of_column in enumerate(values) if of_column.type == kind]
        ranked = _Ranked.of([values[j] for j in places])
        for a, b in combinations(range(len(places)), 2):
            if pairs.are_nearer(pairs.nearness(ranked, a, b) + pairs.nearness(ranked, b, a), most):
                yield places[a], places[b]


def _values(noted: pa.Table, j: int) -> pa.Array:
    """Take the values of a column: of the rows, and then of those that they may be exchanged for."""
    return as_key(one_array(pa.chunked_array([*noted[f"own {j}"].chunks, *noted[f"other {j}"].chunks])))


@dataclass(frozen=True)
class _Ranked:
    """Columns of one type, ranked together."""

    #: By column, the ranks of the rows' values, and of those that they may be exchanged for.
    ranks: Ints
    #: By rank, how many values are below it, and how many are not above it.
    below: Ints
    upto: Ints

    @classmethod
    def of(cls, values: Sequence[pa.Array]) -> _Ranked:
        of_values = ranks(pa.concat_arrays(values))
        counts = np.bincount(of_values)
        upto = np.cumsum(counts)
        return cls(of_values.reshape(len(values), 2, -1), upto - counts, upto)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of rows of a unit: each row and the next few of its unit, in a random order."""

    one: Ints
    two: Ints
    #: Whether the first has an even place in that order, and the second an odd one; others have two even or odd ones.
    is_mixed: Bools
    #: Where the pairs of each unit begin.
    first: Ints

    @classmethod
    def of(cls, units: Ints, records: Ints) -> _Pairs | None:
        """Pair rows; None where no unit has two."""
        order = np.lexsort((mix_words(records.astype(np.uint64)), units))
        is_odd = (np.arange(len(order)) - _runs(np.diff(units[order], prepend=-1) != 0)[0]) % 2 == 1
        pairs = list[Ints]()
        for lag in range(1, _OTHERS + 1):
            a, b, flips = order[:-lag], order[lag:], is_odd[:-lag]
            of_lag = np.array([np.where(flips, b, a), np.where(flips, a, b), np.full(len(a), lag % 2)])
            pairs.append(of_lag[:, units[a] == units[b]])
        one, two, mixed = np.concatenate(pairs, axis=1)
        by_unit = np.argsort(units[one], kind="stable")
        first = np.flatnonzero(np.diff(units[one[by_unit]], prepend=-1))
        return cls(one[by_unit], two[by_unit], mixed[by_unit] > 0, first) if len(one) else None

    def nearness(self, ranked: _Ranked, a: int = 0, b: int = 0, *, by_order: bool = False) -> Floats:
        """Measure how near column a of one row is to column b of the other: as they are, and with either exchanged."""
        near = []
        for first, second in ((0, 0), (0, 1), (1, 0)):
            x, y = ranked.ranks[a, first][self.one], ranked.ranks[b, second][self.two]
            between = np.maximum(ranked.upto[x], ranked.upto[y]) - np.minimum(ranked.below[x], ranked.below[y])
            unlikely = -np.log(between / ranked.ranks.size)
            near.append(unlikely if by_order else np.where(x == y, unlikely, 0.0))
        return np.array(near)

    def are_nearer(self, near: Floats, most: float) -> bool:
        """Tell whether rows of a unit are nearer to each other than exchanged ones, by more than so many deviations.

        A deviation is what exchanging all even rows of a unit makes other than exchanging all odd ones, as either way
        no two rows are left together that something may tie. One more pair may always be chance.
        """
        more = float((near[0] - (near[1] + near[2]) / 2).sum())
        of_units = np.add.reduceat((near[1] - near[2]) * self.is_mixed, self.first)
        nearest = near.max()
        return bool(more > most * np.sqrt((of_units**2).sum() + nearest**2) + _HANDFUL * nearest)
