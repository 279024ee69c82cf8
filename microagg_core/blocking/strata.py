"""Strata: what blocking keys become after merging or suppression, and the labels they are released under."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Ints, UInt64s
from microagg_core.blocking.holding import Holding, keys_that_go
from microagg_core.blocking.labels import label_of, parse_label
from microagg_core.blocking.merging import merge_some
from microagg_core.errors import DataError, InternalError
from microagg_core.tables.hashing import hash_rows, one_array
from microagg_core.tables.ordering import distinct_in_order

SUPPRESSED = -1


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

    def stratum_of(self, hashes: UInt64s) -> Ints:
        """The stratum of records with these key hashes.

        Raises:
            DataError: a key that was not there when the input was surveyed.
        """
        position = np.searchsorted(self.key_hashes, hashes)
        position[position == len(self.key_hashes)] = 0
        if len(hashes) and (len(self.key_hashes) == 0 or np.any(self.key_hashes[position] != hashes)):
            raise DataError(
                "the input changed while it was read: it holds a blocking key that was not there at first; run again"
            )
        return self.stratum_of_hash[position]

    def rows_of_labels(self) -> Ints:
        """Released records under each label."""
        return np.bincount(self.label, weights=self.rows, minlength=self.labels.num_rows).astype(np.int64)


def hash_keys(columns: list[pa.ChunkedArray | pa.Array], pattern: UInt64s, seed: int) -> UInt64s:
    """The hash by which a record's key (pattern of missing values, blocking values) is found."""
    return hash_rows([pa.array(pattern), *columns], len(pattern), seed)


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
    label_ids, labels = _label(codes, merged, depth, keep, values, undersized == "merge", released_types)
    strata = _ordered(blocking, order, pattern, merged, merged_rows, keep, depth, label_ids, labels, n_undersized, rows)
    return strata.holding() if is_night else strata


def _codes(pattern: UInt64s, blocking: list[pa.Array]) -> tuple[Ints, list[list[object]]]:
    """Codes of pattern and blocking values in the order of the values, nulls last; and the values as label parts."""
    patterns, first = np.unique(pattern, return_inverse=True)
    columns, values = [first.reshape(-1)], [list(patterns)]
    for array in blocking:
        distinct = distinct_in_order(array)
        columns.append(np.asarray(pc.index_in(array, value_set=distinct)).astype(np.int64))
        values.append(distinct)
    return np.column_stack(columns).astype(np.int64), values


def _label(
    codes: Ints,
    merged: Ints,
    depth: Ints,
    keep: Bools,
    values: list[pa.Array],
    as_text: bool,
    released_types: list[pa.DataType],
) -> tuple[Ints, pa.Table]:
    """The label of each kept stratum and the table of labels, sorted by what they say."""
    n_attributes = codes.shape[1] - 1
    texts = [v.cast(pa.string()).to_pylist() for v in values[1:]] if as_text else []
    by_stratum = np.argsort(merged, kind="stable")
    bounds = np.searchsorted(merged[by_stratum], np.arange(len(depth) + 1))
    tuples: list[tuple[object, ...]] = []
    for number in range(len(depth)):
        keys = codes[by_stratum[bounds[number] : bounds[number + 1]], 1:]
        if as_text:
            label = tuple(label_of([texts[j][c] for c in np.unique(keys[:, j])]) for j in range(n_attributes))
            _check_label(label, keys, texts)
            tuples.append(label)
        else:
            tuples.append(tuple(keys[0]))
    kept = sorted({t for t, ok in zip(tuples, keep, strict=True) if ok}, key=lambda t: [(v is None, v) for v in t])
    number_of = {t: i for i, t in enumerate(kept)}
    ids = np.array([number_of.get(t, -1) for t in tuples], dtype=np.int64)
    if as_text:
        columns = [pa.array([t[j] for t in kept], pa.string()) for j in range(n_attributes)]
    else:
        columns = [values[j + 1].take(pa.array([t[j] for t in kept], pa.int64())) for j in range(n_attributes)]
    columns = [c.cast(kind) for c, kind in zip(columns, released_types, strict=True)]
    numbers = pa.array(np.arange(len(kept)))
    return ids, pa.table([numbers, *columns], names=["label", *(f"b{j}" for j in range(n_attributes))])


def _check_label(label: tuple[str | None, ...], keys: Ints, texts: list[list[str | None]]) -> None:
    """A label must read back to exactly the values it stands for; anything else would be a wrong release."""
    for j, text in enumerate(label):
        if parse_label(text) != [texts[j][c] for c in np.unique(keys[:, j])]:
            raise InternalError("a bug: a merged blocking label does not read back to its values; please report it")


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
