"""Units: one record each, or the run stops.

What names a unit is hashed to 128 bits under a secret of the run, so that repeated units are found without the
identifiers themselves going anywhere. Digests are written in ascending order, in runs of bounded size; a task then
compares one range of them from all runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import UInt64s
from microagg_core.blocking.memory import RUN_UNITS, TASK_UNITS
from microagg_core.errors import DataError
from microagg_core.spec.release import ReleaseSpec
from microagg_core.steps.keys import KEYS
from microagg_core.steps.pieces import Piece, Range, read_ranges, sealed, unsealed
from microagg_core.steps.work import Receipt, Run, Task
from microagg_core.storage.layout import RunLayout
from microagg_core.storage.objects import sha256_hex
from microagg_core.tables.hashing import hash_rows
from microagg_core.tables.slices import Slice, Slices

_SEEDS = (0x5EED, 0xF00D)
_ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_BUCKETS = 256
#: The number of the first object of digests in a part's survey, behind that of its keys.
FIRST_DIGESTS = KEYS + 1
_DIGEST_BYTES = 16

Pairs = UInt64s


def unit_checks(spec: ReleaseSpec) -> list[tuple[str, ...]]:
    """The column sets whose values may not repeat: each identifier. Units that are named are met with the ledger."""
    return [(name,) for name in spec.roles.identifiers] if spec.unit == "row" else []


def draw_salt(run: Run) -> Piece:
    """Draw the run's secret, once, and again where it is damaged; it lies with the digests and is in no message."""
    name = run.layout.salt()
    while True:
        data, version = run.work.versioned(name)
        if data is not None and unsealed(data) is not None:
            return Piece(name, len(data), sha256_hex(data), "salt", 0)
        run.work.put_if(name, sealed(str(secrets.randbits(62)).encode()), version)


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
        #: Digests by their first byte, of every object; objects are numbered over the checks of all runs.
        self.slices = Slices()

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
            pairs = np.ascontiguousarray(pairs[np.argsort(pairs[:, 0])])
            number = FIRST_DIGESTS + self._run * len(self._checks) + check
            self.pieces.append(self._task.put(_name(self._task.layout, self._task.number, number), pairs.tobytes()))
            self.slices += _buckets(pairs, self._task.number, number)
        self._held = [[] for _ in self._checks]
        self._rows, self._run = 0, self._run + 1


def _name(layout: RunLayout, part: int, number: int) -> str:
    return layout.survey(part, f"units-{number}.digests")


def _buckets(pairs: Pairs, part: int, number: int) -> Slices:
    """Where the digests of each first byte lie in an object."""
    edges = np.searchsorted(pairs[:, 0] >> np.uint64(56), np.arange(_BUCKETS + 1, dtype=np.uint64)).tolist()
    return Slices.of(
        Slice(part, number, bucket, a * _DIGEST_BYTES, b * _DIGEST_BYTES, b - a, _sum_of(pairs[a:b]))
        for bucket, (a, b) in enumerate(pairwise(edges))
        if b > a
    )


def unit_tasks(receipts: Sequence[Receipt], n_checks: int, run: Run) -> list[Task]:
    """Tasks that look for repeated units, each over a range of digests from all objects of one check."""
    array = Slices.joined(receipt.slices for receipt in receipts).array
    tasks: list[Task] = []
    for check in range(n_checks):
        mine = array[(array["object"] >= FIRST_DIGESTS) & (_check_of(array["object"], n_checks) == check)]
        digests = np.bincount(mine["destination"], mine["rows"], _BUCKETS).astype(np.int64)
        # Neighbouring buckets of an object lie behind each other, so that they are read together.
        mine["destination"] = ((np.cumsum(digests) - digests) // TASK_UNITS)[mine["destination"]]
        sent = Slices(mine).by_destination(int(mine["destination"].max(initial=0)) + 1)
        wanted = [slices for slices in sent if len(slices)]
        tasks += [Task("units", len(tasks) + place, run, slices) for place, slices in enumerate(wanted)]
    return tasks


def _check_of(number: NDArray[np.integer[Any]] | int, n_checks: int) -> Any:
    """The check for which an object was written."""
    return (number - FIRST_DIGESTS) % n_checks


def check_units(task: Task) -> Receipt:
    """Count repeated units in a range of digests; the receipt's rows are the repetitions.

    Raises:
        DamagedWorkError: digests are gone or not what was written.
    """
    ranges = [
        Range(_name(task.layout, s.maker, s.object), s.start, s.end, s.checksum, "survey", s.maker) for s in task.slices
    ]
    runs = read_ranges(task.run.work, ranges, lambda data: _sum_of(_pairs(data)))
    return Receipt(task.step, task.number, count_repeated(_pairs(b"".join(runs))), ())


def count_repeated(pairs: Pairs) -> int:
    """How many rows repeat an earlier one; quick where few share even the first half.

    >>> count_repeated(np.array([[1, 2], [1, 3], [1, 2], [4, 4]], dtype=np.uint64))
    1
    """
    first = pairs[np.argsort(pairs[:, 0])]
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
    checks = unit_checks(spec)
    repeated = [0] * len(checks)
    for task, receipt in zip(tasks, receipts, strict=True):
        repeated[_check_of(task.slices[0].object, len(checks))] += receipt.rows
    for names, count in zip(checks, repeated, strict=True):
        if count:
            raise DataError(repeated_units(spec, names, count))


def repeated_units(spec: ReleaseSpec, names: tuple[str, ...], count: int) -> str:
    """What is to be said of so many records whose unit has another one."""
    columns = ", ".join(map(repr, names))
    if spec.unit == "row":
        return (
            f"identifier {columns} repeats in {count} records, so a row is not a person or firm of its own: "
            "name the unit's columns under unit, or give the column the role drop if it does not identify"
        )
    return (
        f"unit {columns} repeats in {count} records: this version releases one record a unit and counts no unit "
        "twice; aggregate the input to one record a unit first"
    )
