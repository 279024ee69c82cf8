"""The gate: what would be published, as re-read from its files, compared with the input, as re-read from its own.

It knows nothing of groups. From the files it recounts combinations, columns, types, nulls and means. From the input, as
re-read after the survey, it learns what should be there: each record's blocking and confidential values, and its own
quasi-identifiers, hashed together with the private record number, must add up to the same sums on both sides. So what
lies beside a file is known to be the input's, and no released value may lie outside the range that came in among the
records that share its combination. Any difference stops the release.

Here is what comes before all other checks, and how they are made together; they themselves are in
:mod:`microagg_core.inspect.checks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.errors import GateError
from microagg_core.inspect.check import Check
from microagg_core.inspect.checks import CHECKS
from microagg_core.inspect.checks.contract import InputBatch, Inspection, N, Promise, ReleasedFile
from microagg_core.plain import from_plain, to_plain


@dataclass(frozen=True)
class Notes:
    """What was noted of a released file or of an input part, by the names of checks, as plain values."""

    rows: int
    notes: dict[str, Any]
    #: How a file's columns differ from the declared ones, in words, and whether it has a record number for each row.
    columns: tuple[str, ...] = ()
    numbered: bool = True
    #: Whether it is a file of survivors, of which only some checks are asked.
    is_carried: bool = False

    @property
    def readable(self) -> bool:
        """Whether a file is one that the checks can look at."""
        return self.numbered and not self.columns


def note_file(promise: Promise, table: pa.Table, origins: pa.Table, parts: Ints) -> Notes:
    """What to note of a released file.

    Args:
        promise: what the release has to keep.
        table: the file's rows, read back.
        origins: what lies beside it: for each row the private record number, and q0, q1, ..., as they came in.
        parts: the input parts of these records.
    """
    columns = tuple(_wrong_columns(table, promise.schema.released_schema))
    numbered = origins.num_rows == table.num_rows
    if columns or not numbered:
        return Notes(table.num_rows, {}, columns, numbered)
    file = ReleasedFile(promise, table, origins, parts)
    return Notes(table.num_rows, {inspection.name: to_plain(inspection.of_file(file)) for inspection in CHECKS})


def note_carried_file(promise: Promise, table: pa.Table, origins: pa.Table) -> Notes:
    """What to note of a file of survivors; what they should be is told by the ledger of their series."""
    columns = tuple(_wrong_columns(table, promise.schema.released_schema))
    numbered = origins.num_rows == table.num_rows
    if columns or not numbered:
        return Notes(table.num_rows, {}, columns, numbered, is_carried=True)
    file = ReleasedFile(promise, table, origins, np.zeros(table.num_rows, dtype=np.int64))
    asked = (inspection for inspection in CHECKS if inspection.of_all_files or inspection.notes_all_files)
    notes = {inspection.name: to_plain(inspection.of_file(file)) for inspection in asked}
    return Notes(table.num_rows, notes, is_carried=True)


@dataclass
class PartNotes:
    """What is noted of an input part, batch by batch."""

    rows: int = 0
    _notes: dict[str, Any] = field(default_factory=dict)

    def add(self, batch: InputBatch) -> None:
        """Look at the part's next batch."""
        self.rows += len(batch.records)
        for inspection in CHECKS:
            self._notes[inspection.name] = inspection.of_batch(batch, self._notes.get(inspection.name))

    def finished(self) -> Notes:
        """What there is to note of the whole part."""
        return Notes(self.rows, {name: to_plain(note) for name, note in self._notes.items() if note is not None})


def notes_of(inspection: Inspection[N], side: Sequence[Notes]) -> list[N]:
    """One check's notes of files or parts."""
    return [from_plain(inspection.note, of_one.notes[inspection.name]) for of_one in side]


def make_checks(promise: Promise, files: Sequence[Notes], parts: Sequence[Notes]) -> list[Check]:
    """Compare both sides; every check is made, whichever fail, if the files can be looked at."""
    checks = [_check_columns(files)]
    if not checks[0].passed:
        return checks
    checks.append(_check_rows(promise, files))
    if not all(file.readable for file in files):
        return [*checks, Check("record numbers", False, "a file and its private record numbers differ in length")]
    return checks + [_made(inspection, promise, files, parts) for inspection in CHECKS]


def _made(inspection: Inspection[N], promise: Promise, files: Sequence[Notes], parts: Sequence[Notes]) -> Check:
    asked = [file for file in files if inspection.of_all_files or not file.is_carried]
    noted = [part for part in parts if inspection.name in part.notes]
    return inspection.check(promise, notes_of(inspection, asked), notes_of(inspection, noted))


def refuse_failed(checks: Sequence[Check]) -> None:
    """Stop the release if any check failed.

    Raises:
        GateError: naming the checks that failed.
    """
    failed = [c for c in checks if not c.passed]
    if failed:
        what = "; ".join(f"{c.name}: {c.detail}" for c in failed)
        raise GateError(f"the privacy gate stopped the release, nothing was published: {what}")


def _wrong_columns(table: pa.Table, expected: pa.Schema) -> list[str]:
    """Differences from the declared columns, in words."""
    if table.column_names != expected.names:
        extra = [n for n in table.column_names if n not in expected.names]
        lost = [n for n in expected.names if n not in table.column_names]
        words = [f"column {n!r} is not declared" for n in extra] + [f"column {n!r} is missing" for n in lost]
        return words or ["the columns are not in the declared order"]
    return [
        f"column {f.name!r} is {table[f.name].type}, not {f.type}" for f in expected if table[f.name].type != f.type
    ]


def _check_columns(files: Sequence[Notes]) -> Check:
    problems = sorted({words for file in files for words in file.columns})
    return Check("columns", not problems, "; ".join(problems) or "exactly the declared columns and types")


def _check_rows(promise: Promise, files: Sequence[Notes]) -> Check:
    expected = promise.rows - promise.withheld + promise.carried
    released = sum(file.rows for file in files)
    if released != expected:
        return Check("rows", False, f"{released} records instead of {expected}")
    if promise.in_series or promise.withheld:  # how many wait or are withheld is for the operator alone
        return Check("rows", True, f"{released} records, as many as should be")
    return Check("rows", True, f"{released} records, all that are in the input")
