"""A table masked block by block, as a release of it would be: no group crosses the borders of blocks.

What decides is the code of releases: which blocking keys join or are withheld, the scale, each block's seed and groups.
So the result is, to the last digit, what ``microagg run`` releases of the same table without rounding, where no block
is so large that a release would cut it: here none is cut.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa

from microagg_core.api.arguments import Options
from microagg_core.api.masking import Microaggregated
from microagg_core.api.tables import Table, quasi_identifier
from microagg_core.arrays import Bools, Ints
from microagg_core.blocks.masking import BlockOutcome, block_statistics, loss_scale, run_block
from microagg_core.blocks.routes import SUPPRESSED, hash_keys, missing_pattern
from microagg_core.blocks.strata import IDENTIFYING, LEAST_LABELLED, ROWS, Strata, StrataRules, plan_strata
from microagg_core.data.kinds.contract import Kind, Ticks
from microagg_core.data.kinds.encoding import Encoding, finite_ticks
from microagg_core.data.tables.ordering import as_key
from microagg_core.errors import DataError, SpecError
from microagg_core.group.algorithms import AlgorithmInfo
from microagg_core.group.bounds import Bound, Certificate
from microagg_core.group.metrics.statistics import LossStatistics, attribute_losses, losses_of
from microagg_core.spec.columns import MISSING_PATTERN_LIMIT


@dataclass(frozen=True)
class _Columns:
    """The quasi-identifiers of all records, in the order of the table."""

    kinds: tuple[Kind, ...]
    ticks: list[Ticks]
    missing: Bools
    encoding: Encoding

    @classmethod
    def of(cls, table: Table, names: Sequence[Hashable], options: Options) -> _Columns:
        read = [finite_ticks(name, quasi_identifier(table, name)) for name in names]
        missing = np.zeros((len(table), len(names)), dtype=np.bool_)
        for j, (_, _, places) in enumerate(read):
            missing[places, j] = True
        if options.missing == "error" and missing.any():
            name = names[int(np.argmax(missing.any(axis=0)))]
            raise DataError(
                f"quasi-identifier {name!r} has missing values; remove or replace them first, or mask the table with "
                'missing="separate"'
            )
        if missing.any() and len(names) > MISSING_PATTERN_LIMIT:
            raise SpecError(
                f'missing="separate": takes at most {MISSING_PATTERN_LIMIT} quasi_identifiers (got {len(names)}); '
                "replace missing values first"
            )
        kinds, ticks = tuple(kind for kind, _, _ in read), [values for _, values, _ in read]
        moments = tuple(kind.moments(ticks[j][~missing[:, j]]) for j, kind in enumerate(kinds))
        return cls(kinds, ticks, missing, Encoding.from_moments(kinds, moments).steadied())

    def scale(self, released: Bools) -> Encoding:
        """Standardize losses by the released records."""
        there = [released & ~self.missing[:, j] for j in range(len(self.kinds))]
        pairs = zip(self.kinds, self.ticks, there, strict=True)
        return loss_scale(self.encoding, [kind.moments(ticks[rows]) for kind, ticks, rows in pairs])

    def of_block(self, rows: Ints) -> tuple[list[Ticks], Bools]:
        return [ticks[rows] for ticks in self.ticks], self.missing[rows]


@dataclass(frozen=True)
class _Keys:
    """The blocking key of each record: its pattern of missing values, and its blocking values."""

    names: tuple[Hashable, ...]
    pattern: pa.Array
    values: list[pa.Array]

    @classmethod
    def of(cls, table: Table, names: Sequence[Hashable], missing: Bools) -> _Keys:
        return cls(tuple(names), pa.array(missing_pattern(missing)), [_blocking_column(table, name) for name in names])

    def strata(self, options: Options) -> Strata:
        """Merge or withhold keys with fewer than k records."""
        columns = ["pattern", *(f"b{i}" for i in range(len(self.values)))]
        keys = pa.Table.from_arrays([self.pattern, *self.values], names=columns)
        counted = keys.group_by(columns, use_threads=False).aggregate([([], "count_all")])
        counted = counted.rename_columns([*columns, ROWS])
        self._refuse_identifiers(counted)
        types = [pa.string() if options.undersized == "merge" else values.type for values in self.values]
        n_small = int(np.sum(np.asarray(counted[ROWS]) < options.k))
        what = "combinations of blocking= and of missing values"
        few = f"{n_small} of {counted.num_rows} {what} have fewer than k={options.k}"
        if n_small and options.undersized == "error":
            raise DataError(
                f'{few} records; say undersized="merge" or undersized="suppress", or use fewer or coarser columns'
            )
        try:
            return plan_strata(counted, StrataRules(options.k, options.undersized), types)
        except DataError:
            raise DataError(
                f"{few} records, and too much would have to be withheld for them; use a smaller k, fewer or coarser "
                'columns, or undersized="merge", or replace missing values'
            ) from None

    def stratum(self, strata: Strata) -> Ints:
        hashes = hash_keys(self.values, np.asarray(self.pattern), strata.hash_seed)
        return strata.stratum_of_hash[np.searchsorted(strata.key_hashes, hashes)]

    def _refuse_identifiers(self, counted: pa.Table) -> None:
        """Stop where a column names records rather than what they have in common, as a release does."""
        n = len(self.pattern)
        if n < LEAST_LABELLED or counted.num_rows <= IDENTIFYING * n:
            return
        for i, name in enumerate(self.names):
            counts = np.asarray(counted.group_by(f"b{i}").aggregate([(ROWS, "sum")])[f"{ROWS}_sum"])
            if (counts == 1).sum() > IDENTIFYING * n:
                raise DataError(
                    f"blocking column {name!r} looks like an identifier: most records have a value of their own in it; "
                    "leave it out of blocking="
                )


def _blocking_column(table: Table, name: Hashable) -> pa.Array:
    array = table.column(name)
    if pa.types.is_dictionary(array.type):
        values = array.dictionary
        texts = pa.types.is_string_view(values.type) or pa.types.is_large_string(values.type)
        array = pa.DictionaryArray.from_arrays(array.indices, values.cast(pa.string()) if texts else values)
        array = array.dictionary_decode()
    held = array.type
    if pa.types.is_nested(held) or pa.types.is_binary(held) or pa.types.is_large_binary(held):
        raise DataError(f"blocking column {name!r} has the type {held}, which makes no blocks; make it text or numbers")
    if pa.types.is_string_view(held) or pa.types.is_large_string(held):
        array = array.cast(pa.string())
    return as_key(array)


def mask_by_blocks(table: Table, names: Sequence[Hashable], info: AlgorithmInfo, options: Options) -> Microaggregated:
    """Mask the named columns of a table, in blocks of equal blocking values and patterns of missing ones.

    Raises:
        SpecError: more quasi-identifiers than patterns of missing values can have.
        DataError: columns that cannot be averaged or make no blocks, or too many records to be withheld.
    """
    # A release takes quasi-identifiers as they stand in its file, and sums over them in this order.
    ordered = [name for name in table.names if name in set(names)]
    columns = _Columns.of(table, ordered, options)
    keys = _Keys.of(table, options.blocking, columns.missing)
    strata = keys.strata(options)
    stratum = keys.stratum(strata)
    scale = columns.scale(stratum != SUPPRESSED)
    blocks = _run_blocks(columns, scale, stratum, options)
    rows = np.flatnonzero(stratum != SUPPRESSED)
    replaced = _released_columns(columns, ordered, blocks, rows)
    if options.undersized == "merge":
        labels = strata.labels.take(pa.array(strata.label[stratum[rows]]))
        replaced |= {name: labels[f"b{i}"].combine_chunks() for i, name in enumerate(options.blocking)}
    statistics = reduce(add, _block_statistics(columns, scale, blocks))
    outcomes, stretch = [outcome for _, outcome in blocks], scale.steadied().least_stretch(scale)
    lost = losses_of(statistics)
    shares = dict(zip(ordered, (of.l_sse for of in attribute_losses(statistics)), strict=True))
    return Microaggregated(
        data=table.exchanged(replaced, None if len(rows) == len(table) else rows),
        groups=_numbered(blocks, len(table))[rows],
        losses=lost.certified(_certificate(outcomes, stretch)) if info.certified else lost,
        k=options.k,
        by_attribute={name: shares[name] for name in names},
        bound=_bound(outcomes, stretch) if options.bound else None,
        withheld=np.setdiff1d(np.arange(len(table)), rows),
    )


#: Of each block the places of its records, ascending, and what was made of them.
_Blocks = list[tuple[Ints, BlockOutcome]]


def _run_blocks(columns: _Columns, scale: Encoding, stratum: Ints, options: Options) -> _Blocks:
    order = np.argsort(stratum, kind="stable")
    numbers, first = np.unique(stratum[order], return_index=True)
    steady, blocks = scale.steadied(), []
    for number, rows in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
        if number == SUPPRESSED:
            continue
        ticks, missing = columns.of_block(rows)
        outcome = run_block(options, columns.encoding, steady, ticks, missing, number, proving=options.bound)
        blocks.append((rows, outcome))
    return blocks


def _block_statistics(columns: _Columns, scale: Encoding, blocks: _Blocks) -> Iterator[LossStatistics]:
    for rows, outcome in blocks:
        ticks, missing = columns.of_block(rows)
        yield block_statistics(columns.encoding, scale, ticks, outcome, missing)


def _released_columns(
    columns: _Columns, names: Sequence[Hashable], blocks: _Blocks, rows: Ints
) -> dict[Hashable, pa.Array]:
    released = {}
    for j, (name, kind) in enumerate(zip(names, columns.kinds, strict=True)):
        ticks = np.zeros(len(columns.missing), dtype=blocks[0][1].representatives[j].dtype)
        for at, outcome in blocks:
            ticks[at] = outcome.representatives[j][outcome.labels]
        released[name] = kind.to_arrow(ticks[rows], columns.missing[rows, j])
    return released


def _numbered(blocks: _Blocks, n: int) -> Ints:
    """Number the groups by their first records; -1 for records that are withheld."""
    labels, n_groups = np.full(n, -1, dtype=np.int64), 0
    for rows, outcome in blocks:
        labels[rows] = outcome.labels + n_groups
        n_groups += int(outcome.labels.max()) + 1
    there = labels >= 0
    _, first, group = np.unique(labels[there], return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    labels[there] = rank[group.reshape(-1)]
    return labels


def _bound(outcomes: Sequence[BlockOutcome], stretch: float) -> Bound:
    """Add the bounds of all blocks, on the scale of losses, and round down."""
    total = math.fsum(outcome.lower_bound for outcome in outcomes) * stretch * (1.0 - 2.0**-50)
    return Bound(total, "blocks", {"blocks": len(outcomes)})


def _certificate(outcomes: Sequence[BlockOutcome], stretch: float) -> Certificate:
    """Add what the algorithm has proved of each block."""
    proved = [one for outcome in outcomes if (one := outcome.proposal.certificate) is not None]
    return Certificate(
        sse=math.fsum(one.sse for one in proved),
        weight=math.fsum(one.weight for one in proved),
        bound=math.fsum(one.bound for one in proved) * min(stretch, 1.0) * (1.0 - 2.0**-50),
    )
