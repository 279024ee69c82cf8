"""The gate on plain tables: no task, no storage, no release; what is noted survives being written."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.kinds.registry import kind_of
from microagg_core.errors import GateError
from microagg_core.inspect import gate
from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import GateCheck, InputBatch, Limit, Promise, ReleasedFile, Shown
from microagg_core.inspect.demand import Demand, Protection
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.gate import (
    Inspected,
    PartNotes,
    make_checks,
    note_file,
    notes_from_bytes,
    notes_to_bytes,
    nothing_noted,
    refuse_failed,
)
from microagg_core.inspect.limits.distinct import DistinctValues
from microagg_core.inspect.notes import Notes, total
from microagg_core.spec.columns import Column, FileSchema

KINDS = (kind_of("x", pa.int64(), "type"),)
SCHEMA = FileSchema(
    (Column("x", pa.int64(), "quasi_identifiers"), Column("note", pa.string(), "confidential")),
    (),
    KINDS,
    (pa.int64(), pa.string()),
)
ORIGINAL = pa.table({"x": [1, 3, 5, 7], "note": ["a", "b", "c", None]})
RELEASED = pa.table({"x": [2, 2, 6, 6], "note": ["a", "b", "c", None]})
RECORDS, PARTS = np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1])
SCALE = Encoding.from_moments(KINDS, (KINDS[0].moments(np.array([1, 3, 5, 7])),))
COUNTED = (Distribution.of(ORIGINAL["note"]),)
PROMISE = Promise(SCHEMA, SCALE, k=2, rows=5, withheld=1, n_parts=2, distributions=COUNTED)


def written(notes: Notes) -> Notes:
    return notes_from_bytes(notes_to_bytes(notes))


def file_of(table: pa.Table, origins: pa.Table | None = None) -> Notes:
    origins = origins or pa.table({"record": RECORDS, "q0": ORIGINAL["x"]})
    return written(note_file(ReleasedFile(PROMISE, table, origins, PARTS[: origins.num_rows])))


def part_of(part: int) -> Notes:
    """One input part, read in batches of one record."""
    notes = PartNotes()
    for row in np.flatnonzero(part == PARTS).tolist():
        expected = ORIGINAL.slice(row, 1)
        came = expected["x"].combine_chunks()
        notes.add(InputBatch(PROMISE, part, RECORDS[row : row + 1], expected, (came,), (np.asarray(came),)))
    return written(notes.finished())


def checks_of(*files: Notes) -> dict[str, Check]:
    parts = total([part_of(0), part_of(1)])
    return {check.name: check for check in make_checks(PROMISE, Inspected.of(files), parts)}


def test_what_is_right_passes_every_check() -> None:
    checks = checks_of(file_of(RELEASED))
    promised = [check.name for check in gate.checks() if not isinstance(check, Limit)]
    assert list(checks) == ["columns", "rows", *promised]
    assert [name for name, check in checks.items() if not check.passed] == []
    refuse_failed(list(checks.values()))


@pytest.mark.parametrize(
    ("x", "note", "fails"),
    [
        ([2, 2, 5, 7], ["a", "b", "c", None], ["k-anonymity"]),
        ([2, 2, 6, 6], ["a", "b", None, None], ["missing values", "values", "distributions"]),
        ([3, 3, 7, 7], ["a", "b", "c", None], ["means"]),
        ([6, 6, 2, 2], ["a", "b", "c", None], ["groups"]),
        ([2, 2, 6, 6], ["b", "a", "c", None], ["values"]),
    ],
)
def test_each_check_fails_alone(x: list[int], note: list[str | None], fails: list[str]) -> None:
    checks = checks_of(file_of(pa.table({"x": x, "note": note})))
    assert [name for name, check in checks.items() if not check.passed] == fails
    with pytest.raises(GateError, match=f"nothing was published: {fails[0]}: "):
        refuse_failed(list(checks.values()))


def test_files_that_cannot_be_looked_at_end_the_checks() -> None:
    other = file_of(RELEASED.rename_columns(["x", "id"]))
    assert list(checks_of(other)) == ["columns"] and not checks_of(other)["columns"].passed
    short = checks_of(file_of(RELEASED, pa.table({"record": RECORDS[:3], "q0": ORIGINAL["x"][:3]})))
    assert list(short) == ["columns", "rows", "record numbers"] and not short["record numbers"].passed


@pytest.mark.parametrize(("records", "x"), [([1, 0, 3, 4], [1, 3, 5, 7]), ([0, 1, 3, 4], [1, 2, 5, 7])])
def test_what_lies_beside_a_file_has_to_be_the_input_s(records: list[int], x: list[int]) -> None:
    """Else a file could be held against what was made up together with it."""
    checks = checks_of(file_of(RELEASED, pa.table({"record": records, "q0": x})))
    assert [name for name, check in checks.items() if not check.passed] == ["values"]


@dataclass(frozen=True)
class Lengths:
    """Characters of the longest note."""

    longest: int

    def __add__(self, other: Lengths) -> Lengths:
        return Lengths(max(self.longest, other.longest))


class ShortNotes(GateCheck[Lengths]):
    """A check that nobody has thought of yet: no note is longer than what came in."""

    name = "short notes"
    notes = Lengths

    def note(self, file: ReleasedFile) -> Lengths:
        return Lengths(pc.max(pc.utf8_length(file.table["note"])).as_py() or 0)

    def note_input(self, batch: InputBatch, before: Lengths | None) -> Lengths:
        return Lengths(pc.max(pc.utf8_length(batch.expected["note"])).as_py() or 0)

    def judge(self, promise: Promise, released: Lengths, expected: Lengths) -> Check:
        return Check(self.name, released.longest <= expected.longest)


def test_a_new_check_is_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    every, checks = (*gate.inspections(), ShortNotes()), (*gate.checks(), ShortNotes())
    monkeypatch.setattr(gate, "checks", lambda: checks)
    monkeypatch.setattr(gate, "inspections", lambda: every)
    assert checks_of(file_of(RELEASED))["short notes"].passed
    long = pa.table({"x": RELEASED["x"], "note": ["a", "b", "cc", None]})
    assert not checks_of(file_of(long))["short notes"].passed


def test_a_file_of_which_nothing_was_noted_passes_for_none() -> None:
    with pytest.raises(KeyError):
        checks_of(Notes(4))


class NotesOfAll(ShortNotes):
    """It is to judge survivors, and forgets to look at them."""

    judges_survivors = True


def test_survivors_of_which_nothing_was_noted_pass_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError):
        Inspected.of([file_of(RELEASED)], [Notes(4)])
    every, checks = (*gate.inspections(), NotesOfAll()), (*gate.checks(), NotesOfAll())
    monkeypatch.setattr(gate, "checks", lambda: checks)
    monkeypatch.setattr(gate, "inspections", lambda: every)
    of_survivors = note_file(ReleasedFile(PROMISE, RELEASED, pa.table({"record": RECORDS}), PARTS, is_carried=True))
    with pytest.raises(KeyError, match="short notes"):
        Inspected.of([file_of(RELEASED)], [of_survivors])


@pytest.mark.parametrize("others", [(), (Shown(2, {"note": 2.0}, "least"),), (Shown(2, {"note": None}, "least"),)])
def test_a_limit_of_which_nothing_was_noted_is_not_kept(others: tuple[Shown, ...]) -> None:
    """But where there is no record, there is nothing to keep."""
    promise = replace(PROMISE, protection=Protection((Demand("note", 2),)))
    limit = DistinctValues()
    nothing = nothing_noted(limit, promise)
    for order in ((Shown(2, {}, "least"), *others), (*others, Shown(2, {}, "least"))):
        check = limit.judge(promise, sum(order, nothing), nothing)
        assert check is not None and not check.passed
    empty = limit.judge(promise, nothing, nothing)
    assert empty is not None and empty.passed
