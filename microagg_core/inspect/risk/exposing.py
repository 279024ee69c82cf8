"""From tables to what measures look at: the released rows of a file, and the input's values of the same records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.hashing import hash_rows, one_array
from microagg_core.data.tables.ordering import as_key, combinations
from microagg_core.inspect.demands import codes_of
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.risk.asking import is_asked
from microagg_core.inspect.risk.contract import AskedRecords, ConfidentialValues, Exposure
from microagg_core.inspect.risk.intervals import interval_widths


@dataclass(frozen=True)
class OtherColumns:
    """What columns of a released table are: blocking, and confidential with their distributions over the release."""

    blocking: tuple[str, ...]
    confidential: tuple[tuple[str, Distribution | None], ...]


def expose(
    encoding: Encoding,
    table: pa.Table,
    roles: OtherColumns,
    records: Ints,
    origins: Sequence[pa.ChunkedArray | pa.Array] | None,
    *,
    asking: float = 1.0,
    seed: int = 0,
) -> Exposure:
    """What a released table shows.

    Args:
        encoding: the kinds of the quasi-identifiers, which are columns of the table, and the scale of distances.
        table: the rows as they are released.
        roles: what its other columns are.
        records: the rows' private numbers.
        origins: row by row, the quasi-identifiers of the input; None where they are not at hand.
        asking: the share of records of which linkage and intervals are asked.
        seed: of all that is drawn.
    """
    names = tuple(kind.name for kind in encoding.kinds)
    groups, first = combinations([table[name] for name in (*roles.blocking, *names)], table.num_rows)
    shown = table.select([*roles.blocking, *names]).take(pa.array(first))
    labels = combinations([shown[name] for name in roles.blocking], len(first))[0]
    offsets, missing = _released_offsets(encoding, shown)
    means = encoding.standardize(offsets, missing)
    confidential = tuple(_confidential(table, name, distribution) for name, distribution in roles.confidential)
    exposure = Exposure(names, groups, labels, means, missing, confidential, seed=seed)
    if origins is None:
        return exposure
    rows = np.flatnonzero(is_asked(records, asking, seed)) if asking < 1.0 else np.arange(len(records))
    asked = _asked(encoding, offsets[groups[rows]], rows, records[rows], origins)
    hashes = tuple(hash_rows([as_key(one_array(column))], len(records), seed=j) for j, column in enumerate(origins))
    return replace(exposure, asked=asked, originals=hashes)


def _asked(
    encoding: Encoding,
    released: Floats,
    rows: Ints,
    records: Ints,
    origins: Sequence[pa.ChunkedArray | pa.Array],
) -> AskedRecords:
    """What is true of some rows; column by column, as the input's values of a file weigh as much as the file."""
    values, widths = np.zeros((len(rows), len(origins))), np.zeros((len(rows), len(origins)))
    missing = np.zeros(values.shape, dtype=np.bool_)
    for j, (kind, origin) in enumerate(zip(encoding.kinds, encoding.origins, strict=True)):
        ticks, none = kind.ticks(origins[j])
        offsets = kind.offsets(ticks, origin)
        values[:, j], missing[:, j] = offsets[rows], none[rows]
        there = ~missing[:, j]
        ascending = np.sort(offsets[~none] if none.any() else offsets)
        widths[there, j] = interval_widths(ascending, values[there, j], released[there, j])
    return AskedRecords(rows, records, encoding.standardize(values, missing), widths)


def _released_offsets(encoding: Encoding, shown: pa.Table) -> tuple[Floats, Bools]:
    """What is released, as offsets from the input's origins, and what of it is missing."""
    offsets = np.empty((shown.num_rows, len(encoding.kinds)))
    missing = np.zeros(offsets.shape, dtype=np.bool_)
    for j, (kind, origin) in enumerate(zip(encoding.kinds, encoding.origins, strict=True)):
        ticks, missing[:, j] = kind.reader.ticks(shown[kind.name])
        offsets[:, j] = kind.released_offsets(ticks, origin)
    # No release has such values, but a file that the gate is about to stop may.
    broken = ~np.isfinite(offsets)
    offsets[broken] = 0.0
    return offsets, missing | broken


def _confidential(table: pa.Table, name: str, distribution: Distribution | None) -> ConfidentialValues:
    """Code a column's values: places in its distribution, or where there is none, in the order as they come."""
    if distribution is not None:
        codes = distribution.codes(table[name])
        if codes.min(initial=0) >= 0:
            return ConfidentialValues(name, codes, distribution)
    return ConfidentialValues(name, codes_of(table[name]), None)
