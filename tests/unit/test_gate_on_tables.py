"""The gate on plain tables: no task, no storage, no release; what is noted survives being written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.kinds.registry import kind_of
from microagg_core.errors import GateError
from microagg_core.inspect import gate
from microagg_core.inspect.check import Check
from microagg_core.inspect.checks.profiles import Profiles
from microagg_core.inspect.checks.ties import Ties
from microagg_core.inspect.checks.weights import Weights
from microagg_core.inspect.contract import InputBatch, Limit, Promise, ReleasedFile, Shown
from microagg_core.inspect.demand import Demand, Protection
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.gate import (
    Inspected,
    make_checks,
    note_batch,
    note_file,
    notes_from_bytes,
    notes_to_bytes,
    nothing_noted,
    refuse_failed,
)
from microagg_core.inspect.limits.distinct import DistinctValues
from microagg_core.inspect.notes import Notes, total
from microagg_core.spec.columns import Column, FileSchema
from microagg_core.spec.edits import Edit

KINDS = (kind_of("x", pa.int64(), "type"),)
SCHEMA = FileSchema(
    (Column("x", pa.int64(), "quasi_identifiers"), Column("note", pa.string(), "confidential")),
    (),
    KINDS,
    (None,) * len(KINDS),
    (False,) * len(KINDS),
    pa.schema({"x": pa.int64(), "note": pa.string()}),
)
ORIGINAL = pa.table({"x": [1, 3, 5, 7], "note": ["a", "b", "c", None]})
RELEASED = pa.table({"x": [2, 2, 6, 6], "note": ["a", "b", "c", None]})
RECORDS, PARTS = np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1])
SCALE = Encoding.from_moments(KINDS, (KINDS[0].moments(np.array([1, 3, 5, 7])),))
COUNTED = (Distribution.of(ORIGINAL["note"]),)
BESIDES: dict[str, Any] = {"edits": (Edit(rule="x >= 1", stop=True),), "known": (("x",),)}
PROMISE = Promise(SCHEMA, SCALE, k=2, rows=5, withheld=1, n_parts=2, distributions=COUNTED, **BESIDES)


def written(notes: Notes) -> Notes:
    return notes_from_bytes(notes_to_bytes(notes))


def file_of(table: pa.Table, origins: pa.Table | None = None) -> Notes:
    origins = origins or pa.table({"record": RECORDS, "q0": ORIGINAL["x"]})
    return written(note_file(ReleasedFile(PROMISE, table, origins, PARTS[: origins.num_rows])))


def part_of(part: int) -> Notes:
    """One input part, read in batches of one record."""
    notes = Notes()
    for row in np.flatnonzero(part == PARTS).tolist():
        expected = ORIGINAL.slice(row, 1)
        came = expected["x"].combine_chunks()
        batch = InputBatch(
            PROMISE, part, RECORDS[row : row + 1], expected, (came,), (np.asarray(came),), RECORDS[row : row + 1]
        )
        notes = note_batch(notes, batch)
    return written(notes)


def checks_of(*files: Notes) -> dict[str, Check]:
    parts = total([part_of(0), part_of(1)])
    return {check.name: check for check in make_checks(PROMISE, Inspected.of(files), parts)}


def test_what_is_right_passes_every_check() -> None:
    checks = checks_of(file_of(RELEASED))
    promised = [check.name for check in gate.checks() if not isinstance(check, Limit | Weights | Profiles | Ties)]
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


def test_a_file_of_which_nothing_was_noted_passes_for_none() -> None:
    with pytest.raises(KeyError):
        checks_of(Notes(4))
    with pytest.raises(KeyError):
        Inspected.of([file_of(RELEASED)], [Notes(4)])


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
