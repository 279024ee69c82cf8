"""The evidence of an outsider: each release's groups with their means, and which records of several releases are one.

Records are known again by confidential values that occur once in each release; or as those of a group that is released
again which are all of it that is not known by its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.data.tables.hashing import hash_rows
from microagg_core.data.tables.ordering import as_key
from microagg_core.errors import StorageError
from microagg_core.release.manifest import Manifest, PartEntry
from microagg_core.release.publish import is_whole
from microagg_core.release.revisions import part_batches
from microagg_core.series.digests import numbered_rows
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown

_SEEDS = (0x5D8E3A1C70B94F26, 0x1F83D9ABFB41BD6B)


@dataclass(frozen=True)
class Evidence:
    """The records of one release, in the order of its parts; of confidential and blocking values only digests."""

    #: The group of each record: equal released quasi-identifiers and blocking values.
    group: Ints
    #: By group: its mean in each quasi-identifier as a number, and how many records it has.
    means: Floats
    sizes: Ints
    #: Two words a record: over its confidential values, and over these and its blocking values.
    confidential: UInt64s
    labelled: UInt64s
    #: Two words a group: over its quasi-identifiers and blocking values.
    keys: UInt64s


@dataclass(frozen=True)
class ColumnsOfAttack:
    #: Those whose values are means: others are part of a group's key alone.
    quasi_identifiers: tuple[str, ...]
    blocking: tuple[str, ...]
    confidential: tuple[str, ...]


def comparable_type(kind: pa.DataType) -> pa.DataType:
    """Choose the type in which two releases' values are compared: neither width nor encoding is part of a value.

    >>> comparable_type(pa.dictionary(pa.int8(), pa.string())), comparable_type(pa.int16())
    (DataType(large_string), DataType(int64))
    """
    if pa.types.is_dictionary(kind):
        return comparable_type(kind.value_type)
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    return pa.float64() if pa.types.is_floating(kind) else kind


def read_evidence(folder: Store, manifest: Manifest, columns: ColumnsOfAttack) -> Evidence:
    """Read a release's parts, each against its checksum."""
    gathered = [_of_part(folder, manifest, part, columns) for part in manifest.parts]
    keys, confidential, labelled, means = (np.concatenate(arrays) for arrays in zip(*gathered, strict=True))
    group = numbered_rows(keys)[0]
    _, first, sizes = np.unique(group, return_index=True, return_counts=True)
    return Evidence(group, means[first], sizes, confidential, labelled, keys[first])


def _of_part(
    folder: Store, manifest: Manifest, part: PartEntry, columns: ColumnsOfAttack
) -> tuple[UInt64s, UInt64s, UInt64s, Floats]:
    damaged = StorageError(
        f"{shown(folder.url_of(part.name))} is missing or not what was published; restore it, or attack other releases"
    )
    if not is_whole(folder, part.name, part):
        raise damaged
    try:
        with folder.local_copy(part.name) as path:
            schema, batches = part_batches(path, manifest)
            tables = [schema.empty_table(), *batches]
            table = pa.concat_tables(tables)
            return (
                _digests(table, manifest.key_columns),
                _digests(table, columns.confidential),
                _digests(table, (*columns.confidential, *columns.blocking)),
                np.column_stack([_numbers(table.column(name)) for name in columns.quasi_identifiers]),
            )
    except (pa.ArrowException, OSError, ValueError, KeyError):  # the library's message may quote a value
        raise damaged from None


def _digests(table: pa.Table, names: Sequence[str]) -> UInt64s:
    columns = [_comparable(table.column(name)) for name in names]
    return np.column_stack([hash_rows(columns, table.num_rows, seed) for seed in _SEEDS])


def _comparable(column: pa.ChunkedArray) -> pa.Array:
    return as_key(pc.cast(column, comparable_type(column.type)).combine_chunks())


def _numbers(column: pa.ChunkedArray) -> Floats:
    """Convert means to numbers: dates and times to counts of days or ticks; NaN where one is missing."""
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = pc.cast(column, pa.int32())
    elif pa.types.is_temporal(kind):
        column = pc.cast(column, pa.int64())
    numbers: Floats = np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return numbers


ABSENT = -1


@dataclass(frozen=True)
class MatchedRows:
    """All releases' rows, one release after another, with the records they belong to as far as an outsider can tell."""

    #: Of each row: its release, its group (numbered through all releases), its combination of confidential values, and
    #: its record. A row that is not matched is a record of its own.
    release: Ints
    group: Ints
    combination: Ints
    record: Ints
    #: Of each record: whether it is certain in which releases it is, and in which it is not.
    certain: Bools

    @property
    def n_records(self) -> int:
        return len(self.certain)

    def traces(self) -> Ints:
        """The group of each record in each release, ``ABSENT`` where it was not seen."""
        groups = np.full((self.n_records, int(self.release.max(initial=0)) + 1), ABSENT, dtype=np.int64)
        groups[self.record, self.release] = self.group
        return groups


def match_records(releases: Sequence[Evidence]) -> MatchedRows:
    """Match the records of releases.

    A combination of confidential values that no release has twice is one record. Of the others, blocking values tell
    rows apart: a combination with them that a release has once is the same record as that of another release. Labels
    of merged blocks may differ, so that a combination that is wanting under its labels is not certainly absent.
    """
    release = np.repeat(np.arange(len(releases)), [len(of.group) for of in releases])
    combination = numbered_rows(np.concatenate([of.confidential for of in releases]))[0]
    labelled = numbered_rows(np.concatenate([of.labelled for of in releases]))[0]
    counts, counts_labelled = _counts_by_release(release, combination), _counts_by_release(release, labelled)
    n_combinations, n_labelled = counts.shape[1], counts_labelled.shape[1]
    alone = np.arange(len(release)) + n_combinations + n_labelled
    told_apart = np.where(counts_labelled[release, labelled] == 1, n_combinations + labelled, alone)
    is_single = np.asarray((counts <= 1).all(axis=0))
    key = np.where(is_single[combination], combination, told_apart)
    _, first, record, n_rows = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    is_certain = n_rows == (counts > 0).sum(axis=0)[combination[first]]
    record, is_certain = _with_corrected(releases, release, np.asarray(record), is_certain)
    starts = np.cumsum([0, *(len(of.sizes) for of in releases)])
    group = np.concatenate([of.group + start for of, start in zip(releases, starts, strict=False)])
    return MatchedRows(release, group, combination, record, is_certain)


def _with_corrected(releases: Sequence[Evidence], release: Ints, record: Ints, is_certain: Bools) -> tuple[Ints, Bools]:
    """Join records that are known again by their group alone.

    The mean of a group tells it to the last digit: where a later release has the very group, of as many, its records
    are the same people, and who is not known again by his confidential values is one of those whose values were
    corrected. Which of these is which makes no difference to what follows.
    """
    keys = numbered_rows(np.concatenate([of.keys[of.group] for of in releases]))[0]
    follows = np.arange(len(is_certain))
    for number in range(1, len(releases)):
        now = np.flatnonzero(release == number)
        for before in range(number - 1, -1, -1):
            then = np.flatnonzero(release == before)
            for olds, news in _unmatched(keys, record, follows, then, now):
                follows[record[news]] = follows[record[olds]]
                now = np.setdiff1d(now, news, assume_unique=True)
    _, renumbered = np.unique(follows[record], return_inverse=True)
    certain = np.ones(int(renumbered.max(initial=-1)) + 1, dtype=np.bool_)
    np.logical_and.at(certain, renumbered, is_certain[record])
    # Who is in all of them is nowhere absent.
    is_in_all = np.bincount(renumbered, minlength=len(certain)) == len(releases)
    return np.asarray(renumbered), certain | is_in_all


def _unmatched(keys: Ints, record: Ints, follows: Ints, then: Ints, now: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield, by group that two releases share with equal size, the rows of each that match no row of the other."""
    n = int(keys.max(initial=-1)) + 1
    same_size = np.bincount(keys[then], minlength=n) == np.bincount(keys[now], minlength=n)
    old = then[same_size[keys[then]] & ~np.isin(follows[record[then]], follows[record[now]])]
    new = now[same_size[keys[now]] & ~np.isin(follows[record[now]], follows[record[then]])]
    n_old, n_new = np.bincount(keys[old], minlength=n), np.bincount(keys[new], minlength=n)
    for key in np.flatnonzero((n_old == n_new) & (n_old > 0)):
        yield old[keys[old] == key], new[keys[new] == key]


def _counts_by_release(release: Ints, numbers: Ints) -> Ints:
    n, n_releases = int(numbers.max(initial=-1)) + 1, int(release.max(initial=0)) + 1
    return np.bincount(release * n + numbers, minlength=n_releases * n).reshape(n_releases, n)
