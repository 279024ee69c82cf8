"""Recheck distinct values and closeness from a release's files alone: what its manifest promises, what is demanded.

All records of a combination are in one file. Where a file says otherwise, its share of a combination has to hold what
is promised by itself: then all of them together do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from microagg_core.data.tables.runs import combinations
from microagg_core.inspect.check import Check
from microagg_core.inspect.demand import Demand
from microagg_core.inspect.distributions import MOST_VALUES_OF_PROTECTED, Distribution, ValueCounts
from microagg_core.release.manifest import Manifest
from microagg_core.release.released import part_batches
from microagg_core.store.objects import Store


def protection_checks(
    folder: Store, manifest: Manifest, uncounted: int, demanded: Sequence[Demand] = ()
) -> tuple[Check, ...]:
    """A check for each column of which something is promised, and for each of which something is demanded.

    Combinations are those of the manifest's key columns. Over fewer columns, combinations are some of these together,
    and no worse than the worst of them.

    Args:
        folder: of the release.
        manifest: what it promises.
        uncounted: parts that cannot be read, of which other checks tell.
        demanded: by the receiver, whatever is promised.
    """
    demands = {f"protection of {name!r}": Demand.of(name, entry) for name, entry in manifest.protect.items()}
    demands |= {f"protection of {demand.column!r} demanded": demand for demand in demanded}
    role_of = {column.name: column.role for column in manifest.columns}
    failed = {
        name: f"not certain: {uncounted} parts could not be counted"
        if uncounted
        else f"{demand.column!r} is not a confidential column of the release"
        for name, demand in demands.items()
        if uncounted or role_of.get(demand.column) != "confidential"
    }
    counted = {name: demand for name, demand in demands.items() if name not in failed}
    wholes = _distributions(folder, manifest, [demand for demand in counted.values() if demand.t is not None])
    broken = dict.fromkeys(counted, 0)
    for table in _parts(folder, manifest) if counted else ():
        labels = combinations([table[name] for name in manifest.key_columns], table.num_rows)[0]
        for name, demand in counted.items() if table.num_rows else ():
            whole, column = wholes.get(demand.column), table[demand.column]
            broken[name] += int(np.sum(demand.broken(demand.codes(column, whole), labels, whole)))
    return tuple(
        Check(name, False, failed[name]) if name in failed else _check(name, demand, broken[name], wholes)
        for name, demand in demands.items()
    )


def _check(name: str, demand: Demand, broken: int, wholes: Mapping[str, Distribution]) -> Check:
    words = [f"at least {demand.distinct} distinct values"] if demand.distinct > 1 else []
    if demand.t is not None:
        words.append(f"a distribution, and a share of missing values, within t = {demand.t:g} of the whole's")
    promise, is_counted = " and ".join(words), demand.column in wholes
    if demand.t is not None and not is_counted:
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
