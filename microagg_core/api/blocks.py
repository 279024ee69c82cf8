"""A table masked block by block, as a release of it would be: no group crosses the borders of blocks.

What decides is the code of releases: which blocking keys join or are withheld, the scale, each block's seed and groups.
So the result is, to the last digit, what ``microagg run`` releases of the same table without rounding, where no block
is so large that a release would cut it: here none is cut.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from microagg_core.api.arguments import Options
from microagg_core.api.masking import Microaggregated, read_quasi_identifiers, refuse_nominal
from microagg_core.api.tables import Table
from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.blocks.blanking import BlankedRecords
from microagg_core.blocks.masking import BlockOutcome, Blocks, Demanded, Masked, Mend, loss_scale, mask_blocks
from microagg_core.blocks.routes import SUPPRESSED, hash_keys, missing_pattern
from microagg_core.blocks.strata import (
    HEAVIEST,
    IDENTIFYING,
    LEAST_LABELLED,
    ROWS,
    WEIGHT,
    Strata,
    StrataRules,
    plan_strata,
    sizes_of,
)
from microagg_core.data.kinds.encoding import Encoding, QuasiIdentifiers
from microagg_core.data.tables.ordering import as_key
from microagg_core.errors import DataError, SpecError
from microagg_core.group.algorithms import AlgorithmInfo
from microagg_core.group.bounds import Bound, Certificate
from microagg_core.group.labels import checked_labels
from microagg_core.group.metrics.statistics import attribute_losses, losses_of
from microagg_core.inspect.protect.groups import BlockDemands, mended_groups
from microagg_core.spec.columns import MISSING_PATTERN_LIMIT


def _read(table: Table, names: Sequence[Hashable], options: Options) -> QuasiIdentifiers:
    quasi = read_quasi_identifiers(table, names, options)
    if quasi.missing.any() and len(names) > MISSING_PATTERN_LIMIT:
        raise SpecError(
            f'missing="{options.missing}": takes at most {MISSING_PATTERN_LIMIT} quasi_identifiers (got {len(names)}); '
            "replace missing values first"
        )
    return quasi


def _released_scale(quasi: QuasiIdentifiers, released: Bools) -> Encoding:
    """Standardize losses by the released records."""
    encoding = quasi.encoding.steadied()
    columns = zip(encoding.kinds, quasi.ticks, quasi.missing.T, strict=True)
    return loss_scale(encoding, [kind.moments(ticks[released & ~missing]) for kind, ticks, missing in columns])


def _strata(table: Table, quasi: QuasiIdentifiers, options: Options) -> tuple[Strata, Ints]:
    """Merge or withhold blocking keys with fewer than k records; returns what became of them, and each record's.

    A key is a pattern of missing values and the blocking values. Where cells are blanked, records may yet move.
    """
    missing, weights = quasi.missing, quasi.encoding.weights_of(quasi.ticks)
    pattern, values = missing_pattern(missing), [_blocking_column(table, name) for name in options.blocking]
    columns = ["pattern", *(f"b{i}" for i in range(len(values)))]
    keys = pa.Table.from_arrays([pa.array(pattern), *values], names=columns)
    sums = []
    if weights is not None:
        keys = keys.append_column(WEIGHT, pa.array(weights)).append_column(HEAVIEST, pa.array(weights))
        sums = [(WEIGHT, "sum"), (HEAVIEST, "max")]
    counted = keys.group_by(columns, use_threads=False).aggregate([([], "count_all"), *sums])
    counted = counted.rename_columns([*columns, ROWS, *(name for name, _ in sums)])
    _refuse_identifiers(counted, options.blocking, len(missing))
    strata = _planned(counted, [column.type for column in values], options)
    hashes = hash_keys(values, pattern, strata.hash_seed)
    return strata, strata.stratum_of_hash[np.searchsorted(strata.key_hashes, hashes)]


def _blanked(quasi: QuasiIdentifiers, strata: Strata, stratum: Ints) -> tuple[QuasiIdentifiers, Ints]:
    """Blank cells of records that are released; and find the stratum in which each is."""
    rows = np.flatnonzero(stratum != SUPPRESSED)
    ticks, missing, stratum = [values.copy() for values in quasi.ticks], quasi.missing.copy(), stratum.copy()
    own = [values[rows] for values in ticks]
    encoding = quasi.encoding.steadied()
    made = BlankedRecords.of(encoding, own, missing[rows], stratum[rows], strata.pattern, strata.moves)
    stratum[rows], missing[rows] = made.stratum, made.missing
    for values, blanked in zip(ticks, made.ticks, strict=True):
        values[rows] = blanked
    return replace(quasi, ticks=tuple(ticks), missing=missing), stratum


def _refuse_identifiers(counted: pa.Table, names: Sequence[Hashable], n: int) -> None:
    """Stop where a column names records rather than what they have in common, as a release does."""
    if n < LEAST_LABELLED or counted.num_rows <= IDENTIFYING * n:
        return
    for i, name in enumerate(names):
        counts = np.asarray(counted.group_by(f"b{i}").aggregate([(ROWS, "sum")])[f"{ROWS}_sum"])
        if (counts == 1).sum() > IDENTIFYING * n:
            raise DataError(
                f"blocking column {name!r} looks like an identifier: most records have a value of their own in it; "
                "leave it out of blocking="
            )


def _planned(counted: pa.Table, types: list[pa.DataType], options: Options) -> Strata:
    what, blanks, keys = "combinations of blocking= and of missing values", options.missing == "blank", counted
    if blanks:
        names = [name for name in counted.column_names if name not in ("pattern", ROWS)]
        what, keys = "combinations of blocking=", counted.group_by(names).aggregate([(ROWS, "sum")])
        keys = keys.rename_columns([*names, ROWS])
    n_small = int(np.sum(sizes_of(keys).too_small(options.k)))
    few = f"{n_small} of {keys.num_rows} {what} have fewer than k={options.k}"
    if options.weight is not None:
        few = f"{few}, or one with more than half of their weight, among their"
    if n_small and options.undersized == "error":
        raise DataError(
            f'{few} records; say undersized="merge" or undersized="suppress", or use fewer or coarser columns'
        )
    if options.undersized == "merge":
        types = [pa.string()] * len(types)
    try:
        return plan_strata(counted, StrataRules(options.k, options.undersized, blanks=blanks), types)
    except DataError:
        raise DataError(
            f"{few} records, and too much would have to be withheld for them; use a smaller k, fewer or coarser "
            'columns, or undersized="merge", or replace missing values'
        ) from None


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
    """Mask the named columns of a table, in blocks of equal blocking values and patterns of missing ones."""
    # A release takes quasi-identifiers as they stand in its file, and sums over them in this order.
    averaged = {*names} if options.weight is None else {*names, options.weight}
    ordered = [name for name in table.names if name in averaged]
    quasi = _read(table, ordered, options)
    refuse_nominal(info, quasi)
    strata, stratum = _strata(table, quasi, options)
    scale = _released_scale(quasi, stratum != SUPPRESSED)
    if options.missing == "blank":
        quasi, stratum = _blanked(quasi, strata, stratum)
    order, masked = _masked(quasi, scale, stratum, options)
    rows = np.flatnonzero(stratum != SUPPRESSED)
    replaced = _released_columns(quasi, order, masked, rows)
    if options.undersized == "merge":
        labels = strata.labels.take(pa.array(strata.label[stratum[rows]]))
        replaced |= {name: labels[f"b{i}"].combine_chunks() for i, name in enumerate(options.blocking)}
    statistics = masked.statistics(scale)
    outcomes, stretch = masked.outcomes, scale.steadied().least_stretch(scale)
    lost = losses_of(statistics)
    shares = dict(zip(ordered, attribute_losses(statistics)["l_sse"], strict=True))
    return Microaggregated(
        data=table.exchanged(replaced, None if len(rows) == len(table) else rows, names),
        groups=_numbered(order, masked, len(table))[rows],
        losses=lost.certified(_certificate(outcomes, stretch)) if info.certified else lost,
        k=options.k,
        by_attribute={name: shares[name] for name in names},
        bound=_bound(outcomes, stretch) if options.bound else None,
        withheld=np.setdiff1d(np.arange(len(table)), rows),
        blanked=dict(zip(ordered, strata.blanked_cells or (), strict=False)),
    )


def _masked(quasi: QuasiIdentifiers, scale: Encoding, stratum: Ints, options: Options) -> tuple[Ints, Masked]:
    """Mask the blocks; returns the places of their records, and what was made of them in this order."""
    order = np.argsort(stratum, kind="stable")
    order = order[stratum[order] != SUPPRESSED]
    encoding, weights = quasi.encoding.steadied(), quasi.encoding.weights_of(quasi.ticks)
    blocks = Blocks.of(stratum[order], [values[order] for values in quasi.ticks], quasi.missing[order])

    def demanded(rows: slice) -> Demanded:
        return Demanded(mend=None if weights is None else _mend(weights[order[rows]], options.weight))

    return order, mask_blocks(options, encoding, scale.steadied(), blocks, demanded, proving=options.bound)


def _mend(weights: Floats, name: Hashable) -> Mend:
    demands = BlockDemands((), (), (), weights)
    demands.refuse_dominated(name, "use fewer or coarser blocking columns, or trim the weight")
    return partial(mended_groups, demands=demands)


def _released_columns(quasi: QuasiIdentifiers, order: Ints, masked: Masked, rows: Ints) -> dict[Hashable, pa.Array]:
    released = {}
    columns = zip(quasi.names, quasi.encoding.kinds, masked.released, strict=True)
    for j, (name, kind, of_records) in enumerate(columns):
        ticks = np.zeros(len(quasi.missing), dtype=of_records.dtype)
        ticks[order] = of_records
        released[name] = kind.to_arrow(ticks[rows], quasi.missing[rows, j])
    return released


def _numbered(order: Ints, masked: Masked, n: int) -> Ints:
    """Number the groups by their first records; -1 for records that are withheld."""
    labels = np.full(n, -1, dtype=np.int64)
    labels[order] = masked.labels
    labels[labels >= 0] = checked_labels(labels[labels >= 0], (1, None), "a table in blocks")
    return labels


def _bound(outcomes: Sequence[BlockOutcome], stretch: float) -> Bound:
    """Add the bounds of all blocks, on the scale of losses, and round down."""
    total = math.fsum(outcome.lower_bound for outcome in outcomes) * stretch * (1.0 - 2.0**-50)
    return Bound(total, "blocks", {"blocks": len(outcomes)})


def _certificate(outcomes: Sequence[BlockOutcome], stretch: float) -> Certificate:
    """Add what the algorithm has proved of each block."""
    proved = [outcome.certificate for outcome in outcomes if outcome.certificate is not None]
    return Certificate(
        sse=math.fsum(certificate.sse for certificate in proved),
        weight=math.fsum(certificate.weight for certificate in proved),
        bound=math.fsum(certificate.bound for certificate in proved) * min(stretch, 1.0) * (1.0 - 2.0**-50),
    )
