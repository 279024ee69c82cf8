"""The gate: what would be published, as re-read from its files, compared with the input, as re-read from its own.

It knows nothing of groups. All inspections of the folders checks, limits, risk and portrait look at a file in one pass.
Here are the checks that come before all others, which can look only at files of the declared columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import GateError
from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import (
    UNIT,
    GateCheck,
    InputBatch,
    Inspection,
    Limit,
    N,
    Promise,
    ReleasedFile,
    RiskMeasure,
)
from microagg_core.inspect.notes import Notes, added, total
from microagg_core.registry import classes

T = TypeVar("T")


def _members(folder: str, of: type[T]) -> tuple[T, ...]:
    return tuple(member() for member in classes(f"microagg_core.inspect.{folder}", of))


def checks() -> tuple[GateCheck[Any], ...]:
    """The checks of the gate, in the order of the manifest."""
    return (*_members("checks", GateCheck), *limits())


def limits() -> tuple[Limit, ...]:
    """The checks of what is demanded besides k."""
    return _members("limits", Limit)


def measures() -> tuple[RiskMeasure[Any], ...]:
    """The measures of disclosure risk, in the order of their figures."""
    return _members("risk", RiskMeasure)


def inspections() -> tuple[Inspection[Any], ...]:
    """All that is noted of a file that would be published."""
    return (*checks(), *_members("risk", Inspection), *_members("portrait", Inspection))


def notes_to_bytes(notes: Notes) -> bytes:
    return notes.to_bytes({inspection.key: inspection.notes for inspection in inspections()})


def notes_from_bytes(data: bytes) -> Notes:
    return Notes.from_bytes(data, {inspection.key: inspection.notes for inspection in inspections()})


def note_file(file: ReleasedFile) -> Notes:
    """Have all inspections look at a file that would be published; of survivors those that can."""
    wrong = tuple(_wrong_columns(file.table, file.promise.schema.released_schema))
    numbered = file.origins.num_rows == file.table.num_rows
    noted: dict[str, Any] = {}
    for inspection in inspections() if numbered and not wrong else ():
        if inspection.of_survivors or not file.is_carried:
            noted[inspection.key] = inspection.note(file)
    by_key = {key: notes for key, notes in noted.items() if notes is not None}
    return Notes(file.table.num_rows, by_key, wrong, numbered)


def note_batch(before: Notes, batch: InputBatch) -> Notes:
    """Have all inspections look at the next batch of an input part, and add their notes to those before."""
    noted = {i.key: i.note_input(batch, before.by_key.get(i.key)) for i in inspections()}
    return before + Notes(len(batch.records), {key: notes for key, notes in noted.items() if notes is not None})


@dataclass(frozen=True)
class Inspected:
    """Notes of all files that would be published: those of arrivals, and those of a series' survivors."""

    arrivals: Notes
    survivors: Notes = field(default_factory=Notes)

    @classmethod
    def of(cls, arrivals: Iterable[Notes], survivors: Iterable[Notes] = ()) -> Inspected:
        """Add the notes of files up; a KeyError where a check noted nothing of a file that it can look at."""
        keys = [check.key for check in checks()]
        of_all = [check.key for check in checks() if check.judges_survivors]
        return cls(
            total(_complete(file, keys) for file in arrivals), total(_complete(file, of_all) for file in survivors)
        )

    @cached_property
    def whole(self) -> Notes:
        return self.arrivals + self.survivors

    def of_all(self, inspection: Inspection[Any]) -> Any:
        """The notes of all files; None where there are none."""
        return self.whole.by_key.get(inspection.key)


def _complete(file: Notes, keys: Iterable[str]) -> Notes:
    """Take no notes of a readable file that a check forgot."""
    for key in keys if file.readable else ():
        file.by_key[key]
    return file


def make_checks(promise: Promise, files: Inspected, parts: Notes) -> list[Check]:
    """Compare both sides; every check is made, whichever fail, if the files can be looked at."""
    outcomes = [_check_columns(files.whole)]
    if not outcomes[0].passed:
        return outcomes
    outcomes.append(_check_rows(promise, files.whole))
    if not files.whole.readable:
        return [*outcomes, Check("record numbers", False, "a file and its private record numbers differ in length")]
    judged = (_judged(check, promise, files, parts) for check in checks())
    return outcomes + [check for check in judged if check is not None]


def _judged(check: GateCheck[Any], promise: Promise, files: Inspected, parts: Notes) -> Check | None:
    nothing = nothing_noted(check, promise)
    released = files.arrivals.by_key.get(check.key, nothing)
    if check.judges_survivors and check.key in files.survivors.by_key:
        released = added(released, files.survivors.by_key[check.key])
    return check.judge(promise, released, parts.by_key.get(check.key, nothing))


def nothing_noted(check: GateCheck[N], promise: Promise) -> N:
    """Note what a check notes of an empty file: where there is no file, and no record of the input."""
    came = {f"q{j}": pa.array([], kind.source_type) for j, kind in enumerate(promise.kinds)}
    units = {UNIT: pa.array([], pa.int64())} if promise.several else {}
    origins = pa.table({RECORD: pa.array([], pa.int64()), **came, **units})
    table = promise.schema.released_schema.empty_table()
    return check.note(ReleasedFile(promise, table, origins, np.zeros(0, dtype=np.int64)))


def refuse_failed(outcomes: Sequence[Check]) -> None:
    """Stop the release if any check failed."""
    failed = [check for check in outcomes if not check.passed]
    if failed:
        details = "; ".join(f"{check.name}: {check.detail}" for check in failed)
        raise GateError(f"the privacy gate stopped the release, nothing was published: {details}")


def _wrong_columns(table: pa.Table, expected: pa.Schema) -> list[str]:
    if table.column_names != expected.names:
        extra = [n for n in table.column_names if n not in expected.names]
        lost = [n for n in expected.names if n not in table.column_names]
        words = [f"column {n!r} is not declared" for n in extra] + [f"column {n!r} is missing" for n in lost]
        return words or ["the columns are not in the declared order"]
    return [
        f"column {f.name!r} is {table[f.name].type}, not {f.type}" for f in expected if table[f.name].type != f.type
    ]


def _check_columns(files: Notes) -> Check:
    detail = "; ".join(files.wrong_columns)
    return Check("columns", not detail, detail or "exactly the declared columns and types")


def _check_rows(promise: Promise, files: Notes) -> Check:
    expected = promise.rows - promise.withheld + promise.carried
    if files.rows != expected:
        return Check("rows", False, f"{files.rows} records instead of {expected}")
    if promise.in_series or promise.withheld:  # how many wait or are withheld is for the operator alone
        return Check("rows", True, f"{files.rows} records, as many as should be")
    return Check("rows", True, f"{files.rows} records, all that are in the input")
