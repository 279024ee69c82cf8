"""The gate: what would be published, as re-read from its files, compared with the input, as re-read from its own.

It knows nothing of groups. From the files it recounts combinations, columns, types, nulls and means. From the input, as
re-read after the survey, it learns what should be there: each record's blocking and confidential values, and its own
quasi-identifiers, hashed together with the private record number, must add up to the same sums on both sides. So what
lies beside a file is known to be the input's, and no released value may lie outside the range that came in among the
records that share its combination. Any difference stops the release.

All inspections look at a file in one pass: the checks (:mod:`microagg_core.inspect.checks`), the limits of what is
demanded besides k (:mod:`microagg_core.inspect.limits`), the measures of risk (:mod:`microagg_core.inspect.risk`), and
the portrait. A new one is a file in one of these folders. Here are those that come before all others, which can look
only at files of the declared columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from microagg_core.errors import GateError
from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, InputBatch, Inspection, Limit, Promise, ReleasedFile, RiskMeasure
from microagg_core.inspect.notes import Notes, total
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


def note_types() -> dict[str, type[Any]]:
    return {inspection.key: inspection.notes for inspection in inspections()}


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


@dataclass
class PartNotes:
    """What is noted of an input part, batch by batch."""

    rows: int = 0
    _by_key: dict[str, Any] = field(default_factory=dict)

    def add(self, batch: InputBatch) -> None:
        """Look at the part's next batch."""
        self.rows += len(batch.records)
        for inspection in inspections():
            before = self._by_key.get(inspection.key)
            notes = inspection.note_input(batch, before)
            if notes is not None:
                self._by_key[inspection.key] = notes if before is None else before + notes

    def finished(self) -> Notes:
        return Notes(self.rows, self._by_key)


@dataclass(frozen=True)
class Inspected:
    """What was noted of all files that would be published: those of arrivals, and those of a series' survivors."""

    arrivals: Notes
    survivors: Notes = field(default_factory=Notes)

    @classmethod
    def of(cls, arrivals: Iterable[Notes], survivors: Iterable[Notes] = ()) -> Inspected:
        """Add the notes of files up.

        Raises:
            KeyError: a check noted nothing of a file that it can look at.
        """
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
    nothing = check.nothing(promise)
    released = files.arrivals.by_key.get(check.key, nothing)
    if check.judges_survivors and check.key in files.survivors.by_key:
        released = released + files.survivors.by_key[check.key]
    return check.judge(promise, released, parts.by_key.get(check.key, nothing))


def refuse_failed(outcomes: Sequence[Check]) -> None:
    """Stop the release if any check failed.

    Raises:
        GateError: naming the checks that failed.
    """
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
