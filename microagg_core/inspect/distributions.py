"""How the values of a confidential column are distributed over a release, and how far groups are from that.

The distance is the earth mover's distance of t-closeness. Where values have an order (numbers, dates, times, booleans)
it is the mean of ``|F - G|`` over the distinct values but the last, F and G being the shares of records up to a value
in the release and in the group; so two neighbouring values are a step apart, whatever they are. Of other values it is
half the sum of the differences of their shares.

A missing value is no value, and NaN is missing: the distance above is among records that have a value, in the group and
in the release. Beside it stands the distance between having one and having none, which is the difference of the shares
of records without a value. A group is as far from the release as the larger of the two says; one without any value has
the second alone. All are computed in whole numbers and divided once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.ordering import as_key
from microagg_core.errors import InternalError

#: Distinct values up to which a column is counted where nothing is demanded of its distribution: what has more is
#: nearly a number of its record, and its counts would weigh as much as the column itself.
MOST_VALUES = 65_536
#: The same where t-closeness is demanded: 4 million values and counts are about 100 MiB in every worker.
MOST_VALUES_OF_PROTECTED = 4_000_000
_LIMITS = b"microagg.limits"
#: Counts of batches are added up when they have come to so many times the limit.
_GATHERED = 2
#: Groups whose distances are computed together: what is computed on the way stays near the processor.
_TOGETHER = 2**13
#: Numbers below this are sorted in half the time.
_SHORT = 2**32
#: Whole numbers of 64 bits hold sums of a few numbers below this.
_EXACT = 2**60


def is_ordered_type(kind: pa.DataType) -> bool:
    """Tell types whose values have an order that means something.

    >>> is_ordered_type(pa.int8()), is_ordered_type(pa.date32()), is_ordered_type(pa.string())
    (True, True, False)
    """
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_temporal(kind)
        or pa.types.is_boolean(kind)
    )


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
        return np.cumsum(self.sizes) - self.sizes

    def parts(self, n_groups: int) -> Iterator[GroupValues]:
        """Cut into parts of so many groups."""
        ends = np.append(self.first, len(self.codes))
        for start in range(0, len(self.sizes), n_groups):
            stop = min(start + n_groups, len(self.sizes))
            yield GroupValues(self.codes[ends[start] : ends[stop]], self.sizes[start:stop])

    @cached_property
    def is_new(self) -> Bools:
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
        met = np.append(0, np.cumsum(self.codes == 0))
        return np.asarray(met[self.first + self.sizes] - met[self.first])

    def valued(self) -> GroupValues:
        """Leave out the records without a value, and groups that have no others."""
        sizes = self.sizes - self.missing
        return GroupValues(self.codes[self.codes > 0], sizes[sizes > 0])


def distinct_values(codes: Ints, groups: Ints) -> Ints:
    """Count the distinct values of each group; code 0 is none."""
    return GroupValues.of(codes, groups).distinct


def codes_of(column: pa.ChunkedArray | pa.Array) -> Ints:
    """Number values: 1, 2, ... in the order as they come, the same for equal ones; 0 where there is none.

    >>> codes_of(pa.array(["flu", None, "flu"])).tolist()
    [1, 0, 1]
    """
    keys = as_key(one_array(column))
    if pa.types.is_null(keys.type):
        return np.zeros(len(keys), dtype=np.int64)
    return np.asarray(pc.fill_null(pc.dictionary_encode(keys).indices, -1)).astype(np.int64) + 1


@dataclass(frozen=True, eq=False)
class Distribution:
    """Null and the distinct values of a column, ascending, and how many records have each; of null perhaps none.

    >>> incomes = Distribution.of(pa.array([30, 10, 20, 20]))
    >>> incomes.values.to_pylist(), incomes.counts.tolist(), incomes.is_ordered
    ([None, 10, 20, 30], [0, 1, 2, 1], True)
    >>> incomes.distances(incomes.codes(pa.array([10, 20, 20, 30])), np.array([0, 0, 1, 1])).tolist()
    [0.25, 0.25]
    >>> gaps = Distribution.of(pa.array([10, 20, None, None]))
    >>> gaps.distances(gaps.codes(pa.array([10, 20, None, None])), np.array([0, 0, 0, 1])).tolist()
    [0.16666666666666666, 0.5]
    """

    values: pa.Array
    counts: Ints

    @classmethod
    def of(cls, column: pa.ChunkedArray | pa.Array) -> Distribution:
        counted = ValueCounts(column.type, len(column) + 1)
        counted.add(column)
        distribution = counted.distribution()
        if distribution is None:
            raise InternalError("a bug: a column with more values than records; please report it")
        return distribution

    @property
    def is_ordered(self) -> bool:
        return is_ordered_type(self.values.type)

    @cached_property
    def total(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def valued(self) -> int:
        return self.total - int(self.counts[0])

    @cached_property
    def cumulative(self) -> Ints:
        """Records up to each value, of those that have one; up to null there is none."""
        return np.asarray(np.cumsum(self.counts) - self.counts[0])

    @cached_property
    def _prefix(self) -> Ints:
        return np.concatenate([[0], np.cumsum(self.cumulative)])

    def codes(self, column: pa.ChunkedArray | pa.Array) -> Ints:
        """Code values by their place among the distinct ones: 0 where there is none, -1 for one that is not there."""
        keys = as_key(one_array(column))
        if pa.types.is_null(keys.type):
            return np.zeros(len(keys), dtype=np.int64)
        return np.asarray(pc.fill_null(pc.index_in(keys, value_set=self.values), -1)).astype(np.int64)

    def same_as(self, other: Distribution | None) -> bool:
        return other is not None and self.values.equals(other.values) and np.array_equal(self.counts, other.counts)

    def distances(self, codes: Ints, labels: Ints) -> Floats:
        """Measure the distance of each group, 0 to g-1, from the whole; codes are among the distinct values'."""
        if len(codes) and int(codes.min()) < 0:
            raise InternalError("a bug: a value that was not counted; please report it")
        return self.distances_of(GroupValues.of(codes, labels))

    def distances_of(self, groups: GroupValues) -> Floats:
        """Measure groups whose values, each among the distinct ones, are in order."""
        sizes, missing = groups.sizes, groups.missing
        far = np.asarray(np.abs(missing * self.total - sizes * self.counts[0]) / (sizes * max(self.total, 1)))
        has_value = missing < sizes
        if len(self.counts) > 2 and has_value.any():
            of_some = self._ordered if self.is_ordered else self._nominal
            among = np.concatenate([of_some(part) for part in groups.valued().parts(_TOGETHER)])
            far[has_value] = np.maximum(far[has_value], among)
        return far

    def _ordered(self, groups: GroupValues) -> Floats:
        """Measure groups of values with an order.

        Between two values of a group, its share of records stands still, and that of the whole passes it once.
        Up to where it does, the whole's records up to a value are below the group's share of them, and then above. With
        c the values of the group's ranks r = 1..s, p where they are passed, P the sums of what is cumulative, and the
        values 1..m of T records in all, the sum of ``|F - G|`` times ``s T`` comes to
        ``T sum(2 r (p - c) + c) + 2 s sum(P[c] - P[p]) + s (P[m] - T m)``.
        """
        codes, sizes, first, last = groups.codes, groups.sizes, groups.first, len(self.counts) - 1
        wide = (last + 1) * self.valued * int(sizes.max()) >= _EXACT
        after = np.append(codes[1:], last)
        after[first + sizes - 1] = last
        rank, passed = self._passed(groups, wide)
        passed = np.clip(passed, codes, after, out=after)
        prefix = self._prefix.astype(object) if wide else self._prefix
        steps = np.add.reduceat(2 * rank * (passed - codes) + codes, first)
        level = np.add.reduceat(prefix[codes] - prefix[passed], first)
        size = _times(sizes, 1, wide)
        moved = _times(steps, self.valued, wide) + size * (2 * level + (prefix[last] - self.valued * last))
        return np.asarray(moved / (size * self.valued * (last - 1)), dtype=np.float64)

    def _passed(self, groups: GroupValues, wide: bool) -> tuple[Ints, Ints]:
        """Rank each record in its group, and find the value at which the whole's share reaches that of this rank.

        Where that is depends on the rank and the group's size alone.
        """
        there = np.flatnonzero(np.bincount(groups.sizes))
        ranks = np.concatenate([np.arange(1, size + 1) for size in there.tolist()])
        level = -(-_times(ranks, self.valued, wide) // np.repeat(there, there))
        values = np.searchsorted(self.cumulative, level.astype(np.int64))
        start = np.zeros(int(there[-1]) + 1, dtype=np.int64)
        start[there] = np.cumsum(there) - there
        place = np.arange(len(groups.codes)) + np.repeat(start[groups.sizes] - groups.first, groups.sizes)
        return ranks[place], values[place]

    def _nominal(self, groups: GroupValues) -> Floats:
        total, sizes, start = self.valued, groups.sizes, np.flatnonzero(groups.is_new)
        times, whole = np.diff(np.append(start, len(groups.codes))), self.counts[groups.codes[start]]
        first = np.cumsum(groups.distinct) - groups.distinct
        differs = np.add.reduceat(np.abs(times * total - whole * np.repeat(sizes, groups.distinct)), first)
        absent = (total - np.add.reduceat(whole, first)) * sizes
        return np.asarray((differs + absent) / (2 * sizes * total), dtype=np.float64)


def _times(numbers: Ints, factor: int, wide: bool) -> Ints:
    """Multiply, as Python's whole numbers where 64 bits might not hold what becomes of them."""
    return numbers.astype(object) * factor if wide else numbers * factor


@dataclass
class ValueCounts:
    """Count the values of a column, batch by batch; give up where there are more distinct ones than the limit."""

    type: pa.DataType
    limit: int
    is_given_up: bool = False
    _counted: list[tuple[pa.Array, Ints]] = field(default_factory=list)
    _gathered: int = 0

    def add(self, column: pa.ChunkedArray | pa.Array) -> None:
        if not self.is_given_up and len(column):
            counted = pc.value_counts(as_key(one_array(column)))
            self.merge(counted.field("values"), np.asarray(counted.field("counts")))

    def merge(self, values: pa.Array, counts: Ints) -> None:
        if self.is_given_up:
            return
        self._counted.append((values, counts))
        self._gathered += len(values)
        if self._gathered > _GATHERED * self.limit:
            self._add_up()

    def give_up(self) -> None:
        self.is_given_up, self._counted = True, []

    def __add__(self, other: ValueCounts) -> ValueCounts:
        gathered = self._gathered + other._gathered
        both = ValueCounts(self.type, self.limit, False, [*self._counted, *other._counted], gathered)
        if self.is_given_up or other.is_given_up:
            both.give_up()
        elif gathered > _GATHERED * self.limit:
            both._add_up()
        return both

    def _add_up(self) -> None:
        """Count each value once; by dictionaries, as Arrow's groups take a hundred times as long for some floats."""
        if len(self._counted) > 1:
            every = pa.concat_arrays([values for values, _ in self._counted])
            counts = np.concatenate([counts for _, counts in self._counted])
            encoded = pc.dictionary_encode(every, null_encoding="encode")
            summed = np.zeros(len(encoded.dictionary), dtype=np.int64)
            np.add.at(summed, np.asarray(encoded.indices), counts)
            self._counted = [(encoded.dictionary, summed)]
        self._gathered = sum(len(values) for values, _ in self._counted)
        if self._gathered > self.limit:
            self.give_up()

    def distribution(self) -> Distribution | None:
        """Put what was counted in order; None where there were too many distinct values."""
        self._add_up()
        if self.is_given_up:
            return None
        values, counts = self._counted[0] if self._counted else (pa.array([], self.type), np.zeros(0, dtype=np.int64))
        if not values.null_count:
            values, counts = pa.concat_arrays([values, pa.nulls(1, values.type)]), np.append(counts, 0)
        order = _in_order(values)
        return Distribution(values.take(order), counts.astype(np.int64)[np.asarray(order)])


def _in_order(values: pa.Array) -> pa.Array:
    """Order distinct values: missing first, then ascending."""
    if pa.types.is_null(values.type):
        return pa.array(np.arange(len(values)))
    sortable = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    return pc.array_sort_indices(sortable, null_placement="at_start")


def table_of(distributions: Iterable[Distribution | None]) -> pa.Table:
    """Put distributions into a table of one row, to be written and sent; inverse of :func:`distributions_in`."""
    columns: dict[str, pa.Array] = {}
    for j, distribution in enumerate(distributions):
        is_none = distribution is None
        values = pa.array([], pa.null()) if distribution is None else distribution.values
        counts = pa.array([] if distribution is None else distribution.counts, pa.int64())
        columns |= {f"v{j}": _in_a_list(values, is_none), f"n{j}": _in_a_list(counts, is_none)}
    return pa.table(columns)


def _in_a_list(values: pa.Array, is_none: bool) -> pa.Array:
    if is_none:
        return pa.nulls(1, pa.large_list(values.type))
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def distributions_in(table: pa.Table) -> tuple[Distribution | None, ...]:
    read = []
    for j in range(table.num_columns // 2):
        values, counts = (one_array(table[f"{letter}{j}"]) for letter in "vn")
        whole = Distribution(values.flatten(), np.asarray(counts.flatten()).astype(np.int64))
        read.append(None if counts.null_count else whole)
    return tuple(read)


def counts_table(columns: Sequence[ValueCounts]) -> pa.Table:
    """Put the counts of columns into a table of one row; inverse of :func:`counts_in`."""
    limits = json.dumps([counts.limit for counts in columns])
    table = table_of(counts.distribution() for counts in columns)
    return table.replace_schema_metadata({_LIMITS: limits})


def counts_in(table: pa.Table) -> tuple[ValueCounts, ...]:
    limits = json.loads(table.schema.metadata[_LIMITS])
    columns = []
    for j, (distribution, limit) in enumerate(zip(distributions_in(table), limits, strict=True)):
        counts = ValueCounts(table.schema.field(f"v{j}").type.value_type, limit, distribution is None)
        if distribution is not None:
            counts.merge(distribution.values, distribution.counts)
        columns.append(counts)
    return tuple(columns)
