"""k-anonymity, recounted from released rows alone, over parts that need not fit into memory together.

Within one part every combination of the key columns is counted exactly. A combination that reaches k there is
done; the others, few in a release that is right, are carried on to the other parts. A carried combination may
have been done in another part, though, and then its remainder is no failure: so when something stays below k at
the end, a second pass over all parts counts just those suspects (:class:`Recount`) and decides.

Nulls are values like any other, and floating-point numbers count as equal when their bits are. What counters carry
holds values of records, so it travels as rows do, and never in a message.

k is about units. A release does not tell which rows are a unit's, so rows are counted here; where units have several,
whoever knows them hands over one row of those of a unit that are equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.ordering import no_two_are_equal, runs_of

_COUNT = "n"
_META = b"microagg.counter"
#: Combinations gathered from the batches of a part before they are counted together.
_GATHER_ROWS = 2**20
#: Combinations that lie in several parts and are held together: 100 MB, of some columns of numbers and short texts.
MOST_SPREAD = 1_000_000


def _names(columns: Sequence[str]) -> list[str]:
    return [f"c{i}" for i in range(len(columns))]


def _values(column: pa.ChunkedArray) -> pa.Array:
    """Decode a column, as dictionaries of different parts differ."""
    return one_array(column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column)


def _bits(array: pa.Array) -> pa.Array:
    unsigned = {pa.float16(): pa.uint16(), pa.float32(): pa.uint32(), pa.float64(): pa.uint64()}.get(array.type)
    return array if unsigned is None else array.view(unsigned)


def _counted(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Make a row for each combination of a table, with its count.

    Equal rows that follow each other are one from the start. Where these ascend, as those of a released file do, none
    comes twice, and nothing is left to be added up.
    """
    arrays = [_values(table.column(name)) for name in columns]
    runs = runs_of(arrays, table.num_rows)
    shown = runs.one_of_each(arrays)
    counts = pa.table([*map(_bits, shown), pa.array(runs.lengths)], names=[*_names(columns), _COUNT])
    return counts if no_two_are_equal(shown, counts.num_rows) else _summed([counts], columns)


def _summed(tables: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    whole = pa.concat_tables(tables)
    names = _names(columns)
    # One thread: Dask owns the cores.
    sums = whole.group_by(names, use_threads=False).aggregate([(_COUNT, "sum")])
    return sums.select([*names, f"{_COUNT}_sum"]).rename_columns([*names, _COUNT])


def _count_part(batches: Iterable[pa.Table], columns: Sequence[str]) -> pa.Table | None:
    """Count a part, adding up where enough combinations are gathered to be worth it."""
    gathered: list[pa.Table] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            gathered.append(_counted(batch, columns))
            rows += gathered[-1].num_rows
        if rows >= _GATHER_ROWS:
            # What did not shrink does not count again, or every further batch would add it all up anew.
            gathered, rows = [_summed(gathered, columns)], 0
    return _summed(gathered, columns) if len(gathered) > 1 else next(iter(gathered), None)


class CombinationCounter:
    """Counts the combinations of ``columns`` over parts; carries on only those below k.

    >>> counter = CombinationCounter(["age", "town"], k=2)
    >>> counter.add(pa.table({"age": [30, 30, 41], "town": ["a", "a", None]}))
    >>> counter.failing(), counter.smallest()
    (1, 1)
    >>> counter.add(pa.table({"age": [41], "town": pa.array([None], pa.string())}))
    >>> counter.failing(), counter.smallest()
    (0, 2)
    """

    def __init__(self, columns: Sequence[str], k: int) -> None:
        if not columns or k < 1:
            raise ValueError("count at least one column, with k of at least 1")
        self.columns = tuple(columns)
        self.k = min(k, 2**63 - 1)  # what Arrow compares with, and more than any count
        self._carried: pa.Table | None = None
        self._smallest_done: int | None = None
        self.is_given_up = False

    def add(self, table: pa.Table) -> None:
        """Count one whole part."""
        self.add_batches([table])

    def add_batches(self, batches: Iterable[pa.Table]) -> None:
        """Count one part that comes as a stream of tables; holds its combinations, not its rows."""
        counts = _count_part(batches, self.columns)
        if counts is not None:
            self._take(counts)

    def _with_carried(self, counts: pa.Table) -> pa.Table:
        if self._carried is None:
            return counts
        if self._carried.schema.types != counts.schema.types:
            raise ValueError("parts whose key columns have different types cannot be counted together")
        return _summed([self._carried, counts], self.columns)

    def _take(self, counts: pa.Table) -> None:
        total = self._with_carried(counts)
        below = pc.less(total.column(_COUNT), self.k)
        done = total.filter(pc.invert(below)).column(_COUNT)
        self._carried = total.filter(below)
        if len(done):
            self._see_done(pc.min(done).as_py())

    def _see_done(self, count: int) -> None:
        self._smallest_done = count if self._smallest_done is None else min(self._smallest_done, count)

    def failing(self) -> int:
        """Count combinations that stay below k; 0 is certain, more is to be confirmed by :meth:`recount`."""
        return 0 if self._carried is None else int(self._carried.num_rows)

    def smallest(self) -> int:
        """The smallest count met (0 where no row was): never more than the true one, once nothing fails.

        A combination that was done twice in different parts has more records than either part shows.
        """
        if self._carried is not None and self._carried.num_rows:
            return int(pc.min(self._carried.column(_COUNT)).as_py())
        return self._smallest_done or 0

    def __add__(self, other: CombinationCounter) -> Self:
        if (other.columns, other.k) != (self.columns, self.k):
            raise ValueError("only counters of the same columns and k can be added")
        both = type(self).from_table(self.to_table())
        both.is_given_up |= other.is_given_up
        if other._smallest_done is not None:
            both._see_done(other._smallest_done)
        if other._carried is not None:
            both._take(other._carried)
        return both

    def to_table(self) -> pa.Table:
        facts: dict[str, Any] = {"columns": self.columns, "k": self.k, "smallest_done": self._smallest_done}
        facts["given_up"] = self.is_given_up
        empty = self._carried is None
        table = pa.table({_COUNT: pa.array([], pa.int64())}) if self._carried is None else self._carried
        return table.replace_schema_metadata({_META: json.dumps({**facts, "empty": empty}).encode()})

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        facts = json.loads((table.schema.metadata or {})[_META])
        counter = cls(facts["columns"], facts["k"])
        counter._carried = None if facts["empty"] else table.replace_schema_metadata(None)
        counter._smallest_done, counter.is_given_up = facts["smallest_done"], facts["given_up"]
        return counter

    def recount(self) -> Recount:
        return Recount(self.to_table())


class SpreadCounter(CombinationCounter):
    """Counts combinations that lie in several parts: carries all of them on, done ones with a count of k.

    More of them than the flow can hold are given up, and then nobody knows that each has k.

    >>> counter = SpreadCounter(["job"], k=2)
    >>> counter.add(pa.table({"job": ["cook", "cook", "judge"]}))
    >>> other = SpreadCounter(["job"], k=2)
    >>> other.add(pa.table({"job": ["cook", "judge"]}))
    >>> counter.failing(), (counter + other).failing()
    (1, 0)
    """

    def _take(self, counts: pa.Table) -> None:
        if self.is_given_up:
            return
        total = self._with_carried(counts)
        if total.num_rows > MOST_SPREAD:
            self.is_given_up, total = True, total.slice(0, 0)
        up_to_k = pc.min_element_wise(total.column(_COUNT), pa.scalar(self.k, pa.int64()))
        self._carried = total.set_column(total.num_columns - 1, _COUNT, up_to_k)

    def failing(self) -> int:
        """Count combinations that have fewer than k; of some that were given up nobody knows."""
        return 0 if self._carried is None else int(pc.sum(pc.less(self._carried.column(_COUNT), self.k)).as_py() or 0)


class Recount:
    """An exact count, over all parts, of the combinations that a :class:`CombinationCounter` left below k.

    >>> counter = CombinationCounter(["age"], k=2)
    >>> parts = [pa.table({"age": [30, 30]}), pa.table({"age": [30]})]
    >>> for part in parts: counter.add(part)
    >>> recount = counter.recount()
    >>> recount.add_batches(parts)
    >>> counter.failing(), recount.failing(), recount.smallest()
    (1, 0, 3)
    """

    def __init__(self, suspects: pa.Table) -> None:
        counter = CombinationCounter.from_table(suspects)
        self.columns, self.k = counter.columns, counter.k
        self._suspects = suspects.replace_schema_metadata(None)
        self._counts = self._suspects.set_column(
            self._suspects.num_columns - 1, _COUNT, pa.repeat(pa.scalar(0, pa.int64()), suspects.num_rows)
        )

    def add_batches(self, batches: Iterable[pa.Table]) -> None:
        for batch in batches:
            if batch.num_rows and self._suspects.num_rows:
                self._take(_counted(batch, self.columns))

    def _take(self, counts: pa.Table) -> None:
        # Joins do not match nulls, so suspects are marked and added up instead.
        mark = 2**62
        marked = self._counts.set_column(
            self._counts.num_columns - 1, _COUNT, pc.add(self._counts.column(_COUNT), mark)
        )
        total = _summed([marked, counts], self.columns)
        suspect = total.filter(pc.greater_equal(total.column(_COUNT), mark))
        self._counts = suspect.set_column(suspect.num_columns - 1, _COUNT, pc.subtract(suspect.column(_COUNT), mark))

    def failing(self) -> int:
        return int(pc.sum(pc.less(self._counts.column(_COUNT), self.k)).as_py() or 0)

    def smallest(self) -> int:
        """Smallest number of records of a suspect combination; 0 where there is no suspect."""
        return int(pc.min(self._counts.column(_COUNT)).as_py() or 0)
