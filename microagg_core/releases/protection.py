"""Rechecking what a manifest promises besides k, from the release's files alone: distinct values, and closeness.

All records of a combination are in one file. Where a file says otherwise, its share of a combination has to hold what
is promised by itself: then all of them together do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from microagg_core.privacy.check import Check
from microagg_core.privacy.demands import Demand, codes_of, combinations_of
from microagg_core.privacy.distributions import MOST_VALUES_OF_PROTECTED, Distribution, ValueCounts
from microagg_core.releases.manifest import Manifest
from microagg_core.releases.released import part_batches
from microagg_core.storage.objects import Store


def protection_checks(folder: Store, manifest: Manifest, uncounted: int) -> tuple[Check, ...]:
    """A check for each column of which something is promised; none where nothing is.

    Args:
        folder: of the release.
        manifest: what it promises.
        uncounted: parts that cannot be read, of which other checks tell.
    """
    if uncounted:
        return tuple(
            Check(f"protection of {name!r}", False, f"not certain: {uncounted} parts could not be counted")
            for name in manifest.protect
        )
    demands = [Demand(name, of.distinct or 1, of.t) for name, of in manifest.protect.items()]
    if not demands:
        return ()
    wholes = _distributions(folder, manifest, [demand for demand in demands if demand.closeness is not None])
    broken = dict.fromkeys(manifest.protect, 0)
    for table in _parts(folder, manifest):
        labels = combinations_of([table[name] for name in manifest.key_columns], table.num_rows)
        for demand in demands if table.num_rows else ():
            whole, column = wholes.get(demand.column), table[demand.column]
            codes = codes_of(column) if whole is None else whole.codes(column)
            broken[demand.column] += int(np.sum(demand.broken(codes, labels, whole)))
    return tuple(_check(demand, broken[demand.column], demand.column in wholes) for demand in demands)


def _check(demand: Demand, broken: int, is_counted: bool) -> Check:
    words = [f"at least {demand.distinct} distinct values"] if demand.distinct > 1 else []
    if demand.closeness is not None:
        words.append(f"a distribution within t = {demand.closeness:g} of the whole release's")
    name, promise = f"protection of {demand.column!r}", " and ".join(words)
    if demand.closeness is not None and not is_counted:
        return Check(name, False, f"not certain: the column has more than {MOST_VALUES_OF_PROTECTED} distinct values")
    if broken:
        return Check(name, False, f"{broken} combinations do not have {promise}")
    return Check(name, True, f"every combination has {promise}")


def _parts(folder: Store, manifest: Manifest) -> Iterator[pa.Table]:
    """The parts one by one, of which each fits into memory."""
    for part in manifest.parts:
        with folder.local_copy(part.name) as path:
            schema, batches = part_batches(path, manifest)
            tables = list(batches)
        yield pa.concat_tables(tables) if tables else schema.empty_table()


def _distributions(folder: Store, manifest: Manifest, demands: list[Demand]) -> dict[str, Distribution]:
    """How the columns of these demands are distributed over all parts; without those that have too many values."""
    types = {demand.column: ValueCounts(pa.null(), MOST_VALUES_OF_PROTECTED) for demand in demands}
    for table in _parts(folder, manifest) if demands else ():
        for name, counts in types.items():
            counts.add(table[name])
    wholes = {name: counts.distribution() for name, counts in types.items()}
    return {name: whole for name, whole in wholes.items() if whole is not None}
