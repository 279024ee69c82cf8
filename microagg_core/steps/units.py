"""Units: one record each, or the run stops.

What names a unit is hashed to 128 bits under a secret of the run, so that repeated units are found without the
identifiers themselves going anywhere. Digests are written in ascending order, in runs of bounded size; a task then
compares one range of them from all runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.blocking.memory import RUN_UNITS, TASK_UNITS
from microagg_core.errors import DataError
from microagg_core.spec.release import ReleaseSpec
from microagg_core.steps.pieces import Piece, Range, read_ranges, sealed, unsealed
from microagg_core.steps.work import Receipt, Task, put_piece
from microagg_core.storage.layout import RunLayout
from microagg_core.storage.objects import Store, sha256_hex
from microagg_core.tables.hashing import hash_rows

_SEEDS = (0x5EED, 0xF00D)
_ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_BUCKETS = 256
_DIGEST_BYTES = 16

Pairs = NDArray[np.uint64]


def unit_checks(spec: ReleaseSpec) -> list[tuple[str, ...]]:
    """The column sets whose values may not repeat: each identifier, or the columns that name a unit."""
    if spec.unit == "row":
        return [(name,) for name in spec.roles.identifiers]
    return [tuple(spec.unit)]


def draw_salt(work: Store, key: str) -> Piece:
    """Draw the run's secret, once, and again where it is damaged; it lies with the digests and is in no message."""
    name = RunLayout(key).salt()
    while True:
        data, version = work.versioned(name)
        if data is not None and unsealed(data) is not None:
            return Piece(name, len(data), sha256_hex(data), "salt", 0)
        work.put_if(name, sealed(str(secrets.randbits(62)).encode()), version)


def read_salt(task: Task) -> int:
    """The run's secret."""
    return int(unsealed(task.pieces.read(task.layout.salt())) or b"")


def _pairs(data: bytes) -> Pairs:
    return np.frombuffer(data, dtype=np.uint64).reshape(-1, 2)


def _sum_of(pairs: Pairs) -> int:
    """A checksum of digests that adds up: that of a range is the sum, modulo 2^64, of those of its parts."""
    return int(((pairs[:, 0] * _ODD[0]) ^ (pairs[:, 1] * _ODD[1])).sum())


class UnitDigests:
    """The digests of one input part, for each check, written in runs as they come."""

    def __init__(self, task: Task, spec: ReleaseSpec, salt: int) -> None:
        self._task, self._salt = task, salt
        self._checks = unit_checks(spec)
        self._held: list[list[Pairs]] = [[] for _ in self._checks]
        self._rows = 0
        self._run = 0
        self.pieces: list[Piece] = []
        #: (check, bucket, start, end, digests, checksum, run) of every run.
        self.slices: list[tuple[int, ...]] = []

    def add(self, table: pa.Table) -> None:
        """Account for the part's next rows."""
        for held, columns in zip(self._held, self._checks, strict=True):
            arrays = [table[name] for name in columns]
            held.append(np.column_stack([hash_rows(arrays, table.num_rows, self._salt ^ seed) for seed in _SEEDS]))
        self._rows += table.num_rows
        if self._rows >= RUN_UNITS:
            self.flush()

    def flush(self) -> None:
        """Write what is held; a range of an ascending run is a range of bytes, one bound a bucket."""
        if not self._rows:
            return
        for check, held in enumerate(self._held):
            pairs = np.concatenate(held)
            pairs = np.ascontiguousarray(pairs[np.argsort(pairs[:, 0], kind="stable")])
            name = self._task.layout.survey(self._task.number, _name(check, self._run))
            self.pieces.append(put_piece(self._task, name, pairs.tobytes()))
            edges = np.searchsorted(pairs[:, 0] >> np.uint64(56), np.arange(_BUCKETS + 1, dtype=np.uint64)).tolist()
            self.slices += [
                (
                    check,
                    bucket,
                    start * _DIGEST_BYTES,
                    end * _DIGEST_BYTES,
                    end - start,
                    _sum_of(pairs[start:end]),
                    self._run,
                )
                for bucket, (start, end) in enumerate(pairwise(edges))
                if end > start
            ]
        self._held = [[] for _ in self._checks]
        self._rows, self._run = 0, self._run + 1


def _name(check: int, run: int) -> str:
    return f"units-{check}-{run}.bin"


def unit_tasks(receipts: Sequence[Receipt], work: Store, key: str) -> list[Task]:
    """Tasks that look for repeated units, each over a range of digests from all runs of all parts."""
    tasks: list[Task] = []
    for check in sorted({s[0] for r in receipts for s in r.slices}):
        mine = [(r.number, s) for r in receipts for s in r.slices if s[0] == check]
        digests = np.zeros(_BUCKETS, dtype=np.int64)
        for _, s in mine:
            digests[s[1]] += s[4]
        group = (np.cumsum(digests) - digests) // TASK_UNITS
        ranges: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        for part, (_, bucket, start, end, _, checksum, run) in mine:
            place = (int(group[bucket]), part, run)
            first, last, total = ranges.get(place, (start, end, 0))
            ranges[place] = (min(first, start), max(last, end), (total + checksum) % 2**64)
        for number in np.unique(group).tolist():
            wanted = sorted((part, run, *rest) for (g, part, run), rest in ranges.items() if g == number)
            tasks.append(Task("units", len(tasks), work, key, ((check,), *wanted)))
    return tasks


def check_units(task: Task) -> Receipt:
    """Count repeated units in a range of digests; the receipt's rows are the repetitions.

    Raises:
        DamagedWorkError: digests are gone or not what was written.
    """
    (check,), *ranges = task.arguments
    places = [
        Range(task.layout.survey(part, _name(check, run)), start, end, checksum, "survey", part)
        for part, run, start, end, checksum in ranges
    ]
    runs = read_ranges(task.work, places, lambda data: _sum_of(_pairs(data)))
    return Receipt(task.stage, task.number, count_repeated(_pairs(b"".join(runs))), ())


def count_repeated(pairs: Pairs) -> int:
    """How many rows repeat an earlier one; quick where few share even the first half.

    >>> count_repeated(np.array([[1, 2], [1, 3], [1, 2], [4, 4]], dtype=np.uint64))
    1
    """
    first = pairs[np.argsort(pairs[:, 0], kind="stable")]
    same = first[1:, 0] == first[:-1, 0]
    if not same.any():
        return 0
    suspects = first[np.append(same, False) | np.append(False, same)]
    ordered = suspects[np.lexsort((suspects[:, 1], suspects[:, 0]))]
    return int(np.sum(np.all(ordered[1:] == ordered[:-1], axis=1)))


def refuse_repeated_units(spec: ReleaseSpec, tasks: Sequence[Task], receipts: Sequence[Receipt]) -> None:
    """Stop where a unit has more than one record.

    Raises:
        DataError: naming the column(s) and how many records repeat.
    """
    repeated: dict[int, int] = {}
    for task, receipt in zip(tasks, receipts, strict=True):
        check = task.arguments[0][0]
        repeated[check] = repeated.get(check, 0) + receipt.rows
    for check, count in repeated.items():
        if not count:
            continue
        columns = ", ".join(repr(name) for name in unit_checks(spec)[check])
        if spec.unit == "row":
            raise DataError(
                f"identifier {columns} repeats in {count} records, so a row is not a person or firm of its own: "
                "name the unit's columns under unit, or give the column the role drop if it does not identify"
            )
        raise DataError(
            f"unit {columns} repeats in {count} records: this version releases one record a unit and counts no unit "
            "twice; aggregate the input to one record a unit first"
        )
