"""Strata: what blocking keys become after merging or suppression, and the labels they are released under."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Ints, UInt64s
from microagg_core.blocking.holding import Holding, keys_that_go
from microagg_core.blocking.labels import label_of, labels_of_values, parse_label
from microagg_core.blocking.merging import merge_some
from microagg_core.blocking.routes import SUPPRESSED, hash_keys
from microagg_core.errors import DataError, InternalError
from microagg_core.tables.hashing import one_array
from microagg_core.tables.ordering import distinct_in_order, ranks


@dataclass(frozen=True)
class Strata:
    """Keys and what they became.

    Attributes:
        key_hashes: hash of each key, ascending; the way a record finds its stratum.
        stratum_of_hash: the stratum of the key with that hash, or ``SUPPRESSED``.
        hash_seed: the seed under which no two keys share a hash.
        rows, pattern, label, depth: of each stratum; ``pattern`` has a bit for each missing quasi-identifier.
        n_keys: keys in each stratum.
        labels: released blocking values, one row a label.
        suppressed_keys, suppressed_rows: what is withheld for good.
        undersized_keys: keys that had fewer than k records.
        held_keys, held_rows: what waits for a later night of a series.
    """

    key_hashes: UInt64s
    stratum_of_hash: Ints
    hash_seed: int
    rows: Ints
    pattern: UInt64s
    label: Ints
    depth: Ints
    n_keys: Ints
    labels: pa.Table
    suppressed_keys: int
    suppressed_rows: int
    undersized_keys: int
    held_keys: int = 0
    held_rows: int = 0

    @property
    def withheld_rows(self) -> int:
        """Records that are not released now, for whatever reason."""
        return self.suppressed_rows + self.held_rows

    def holding(self) -> Strata:
        """The same in a night of a series: what is withheld comes again."""
        held = replace(self, held_keys=self.suppressed_keys, held_rows=self.suppressed_rows)
        return replace(held, suppressed_keys=0, suppressed_rows=0)

    def rows_of_labels(self) -> Ints:
        """Released records under each label."""
        return np.bincount(self.label, weights=self.rows, minlength=self.labels.num_rows).astype(np.int64)


def plan_strata(
    keys: pa.Table, k: int, undersized: str, released_types: list[pa.DataType], hold: Holding | None = None
) -> Strata:
    """Turn counted keys into strata.

    Args:
        keys: columns ``pattern``, ``b0`` .. (blocking values, typed) and ``rows``, one row a key; and ``waited`` in a
            night of a series, which may have no stratum at all.
        k: least number of records.
        undersized: ``merge``, ``suppress`` or ``error``.
        released_types: Arrow types of the released blocking columns.
        hold: for how many records the keys of a night wait.

    Raises:
        DataError: nothing reaches k, or a key is below k where that is an error.
    """
    blocking = [one_array(c) for name, c in zip(keys.column_names, keys.columns, strict=True) if name.startswith("b")]
    pattern = np.asarray(keys["pattern"]).astype(np.uint64)
    rows = np.asarray(keys["rows"]).astype(np.int64)
    codes, values = _codes(pattern, blocking)
    order = np.lexsort(codes.T[::-1])
    codes, rows, pattern = codes[order], rows[order], pattern[order]
    is_night = "waited" in keys.column_names
    waited = np.asarray(keys["waited"])[order] if is_night else np.zeros_like(rows)
    by_itself, merging = keys_that_go(rows, waited, k, hold)
    n_undersized = int(np.sum(rows < k))
    if undersized == "error" and n_undersized:
        raise DataError(
            f"{n_undersized} of {len(rows)} blocking keys have fewer than k={k} records and blocks.undersized "
            "is 'error'; use merge or suppress, or coarser blocking columns"
        )
    if undersized == "merge":
        merged, depth = merge_some(codes, rows, k, merging, fixed=1)
    else:
        merged, depth = np.arange(len(rows)), np.full(len(rows), codes.shape[1])
    merged_rows = np.bincount(merged, weights=rows, minlength=len(depth)).astype(np.int64)
    goes = np.bincount(merged, weights=by_itself | merging, minlength=len(depth)) > 0
    keep = goes & (merged_rows >= k)
    if not is_night and not keep.any():
        raise DataError(
            f"no block reaches k={k} records ({int(rows.sum())} records in {len(rows)} blocking keys); "
            "use a smaller k, fewer blocking columns, or undersized: merge"
        )
    label_ids, labels = _label(codes, merged, keep, values, undersized == "merge", released_types)
    strata = _ordered(blocking, order, pattern, merged, merged_rows, keep, depth, label_ids, labels, n_undersized, rows)
    return strata.holding() if is_night else strata


def _codes(pattern: UInt64s, blocking: list[pa.Array]) -> tuple[Ints, list[pa.Array]]:
    """Codes of pattern and blocking values in the order of the values, nulls last; and what they stand for."""
    patterns, first = np.unique(pattern, return_inverse=True)
    columns, values = [first.reshape(-1)], [pa.array(patterns)]
    for array in blocking:
        distinct = distinct_in_order(array)
        columns.append(np.asarray(pc.index_in(array, value_set=distinct)).astype(np.int64))
        values.append(distinct)
    return np.column_stack(columns).astype(np.int64), values


def _label(
    codes: Ints,
    merged: Ints,
    keep: Bools,
    values: list[pa.Array],
    as_text: bool,
    released_types: list[pa.DataType],
) -> tuple[Ints, pa.Table]:
    """The label of each kept stratum and the table of labels, sorted by what they say."""
    first = np.unique(merged, return_index=True)[1]
    attributes = range(1, codes.shape[1])
    columns = [values[j].take(pa.array(codes[first, j])) for j in attributes]
    if as_text:
        texts = [labels_of_values(values[j].cast(pa.string())) for j in attributes]
        columns = [text.take(pa.array(codes[first, j])) for text, j in zip(texts, attributes, strict=True)]
        columns = _with_merged(columns, codes, merged, values)
    kept = np.flatnonzero(keep)
    numbers, places = _distinct_rows([ranks(column)[kept] for column in columns], len(kept))
    ids = np.full(len(keep), -1, dtype=np.int64)
    ids[kept] = numbers
    listed = [
        column.take(pa.array(kept[places])).cast(kind) for column, kind in zip(columns, released_types, strict=True)
    ]
    names = ["label", *(f"b{j}" for j in range(len(listed)))]
    return ids, pa.table([pa.array(np.arange(len(places))), *listed], names=names)


def _with_merged(columns: list[pa.Array], codes: Ints, merged: Ints, values: list[pa.Array]) -> list[pa.Array]:
    """The labels by stratum, with lists of values for those that several keys went to."""
    sizes = np.bincount(merged)
    several = np.flatnonzero(sizes > 1)
    by_stratum, bounds = np.argsort(merged, kind="stable"), np.append(0, np.cumsum(sizes))
    lists = []
    for j, column in enumerate(columns, start=1):
        texts = [_list_label(codes[by_stratum[bounds[s] : bounds[s + 1]], j], values[j]) for s in several.tolist()]
        places = np.full(len(sizes), -1)
        places[several] = np.arange(len(several))
        chosen = np.where(places >= 0, len(column) + places, np.arange(len(sizes)))
        lists.append(pa.concat_arrays([column, pa.array(texts, pa.string())]).take(pa.array(chosen)))
    return lists


def _list_label(codes: Ints, values: pa.Array) -> str | None:
    """The label of a stratum's values; one that does not read back to just them would be a wrong release."""
    texts: list[str | None] = values.take(pa.array(np.unique(codes))).cast(pa.string()).to_pylist()
    label = label_of(texts)
    if parse_label(label) != texts:
        raise InternalError("a bug: a merged blocking label does not read back to its values; please report it")
    return label


def _distinct_rows(columns: list[Ints], n_rows: int) -> tuple[Ints, Ints]:
    """The number of each row among the distinct ones, in ascending order, and where each of those is first met."""
    if not columns:
        return np.zeros(n_rows, dtype=np.int64), np.arange(min(n_rows, 1))
    order = np.lexsort(columns[::-1])
    differs = np.zeros(max(n_rows - 1, 0), dtype=np.bool_)
    for column in columns:
        differs |= column[order][1:] != column[order][:-1]
    ordered = np.concatenate([np.zeros(min(n_rows, 1), dtype=np.int64), np.cumsum(differs)])
    numbers = np.empty(n_rows, dtype=np.int64)
    numbers[order] = ordered
    return numbers, order[np.unique(ordered, return_index=True)[1]]


def _ordered(
    blocking: list[pa.Array],
    order: Ints,
    pattern: UInt64s,
    merged: Ints,
    merged_rows: Ints,
    keep: Bools,
    depth: Ints,
    label_ids: Ints,
    labels: pa.Table,
    n_undersized: int,
    rows: Ints,
) -> Strata:
    """Number the kept strata by label and pattern, and index the keys by their hash."""
    pattern_of = np.zeros(len(depth), dtype=np.uint64)
    pattern_of[merged] = pattern  # all keys of a stratum share it
    kept = np.flatnonzero(keep)
    kept = kept[np.lexsort((pattern_of[kept], label_ids[kept]))]
    new_number = np.full(len(depth), SUPPRESSED, dtype=np.int64)
    new_number[kept] = np.arange(len(kept))
    stratum_of_key = new_number[merged]
    seed, hashes = _hashes_without_collision([b.take(pa.array(order)) for b in blocking], pattern)
    by_hash = np.argsort(hashes, kind="stable")
    withheld = stratum_of_key == SUPPRESSED
    return Strata(
        key_hashes=hashes[by_hash],
        stratum_of_hash=stratum_of_key[by_hash],
        hash_seed=seed,
        rows=merged_rows[kept],
        pattern=pattern_of[kept],
        label=label_ids[kept],
        depth=depth[kept] - 1,
        n_keys=np.bincount(merged, minlength=len(depth))[kept],
        labels=labels,
        suppressed_keys=int(withheld.sum()),
        suppressed_rows=int(rows[withheld].sum()),
        undersized_keys=n_undersized,
    )


def _hashes_without_collision(blocking: list[pa.Array], pattern: UInt64s) -> tuple[int, UInt64s]:
    for seed in range(100):
        hashes = hash_keys(blocking, pattern, seed)
        if len(np.unique(hashes)) == len(hashes):
            return seed, hashes
    raise InternalError("a bug: blocking keys collide under every hash seed; please report it")
