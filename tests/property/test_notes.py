"""Notes of pieces add up to those of the whole, in any order: of every check, limit and measure that is registered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.arrays import Ints
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.kinds.registry import kind_of
from microagg_core.group.metrics.moments import Groups
from microagg_core.inspect import gate
from microagg_core.inspect.check import Check
from microagg_core.inspect.contract import InputBatch, Promise, ReleasedFile
from microagg_core.inspect.demand import Demand, Protection
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.gate import Inspected, make_checks, note_batch, note_file, notes_from_bytes, notes_to_bytes
from microagg_core.inspect.notes import Notes, total
from microagg_core.spec.columns import Column, FileSchema
from microagg_core.spec.edits import Edit

KINDS = (kind_of("x", pa.int64(), "type"), kind_of("y", pa.float64()))
COLUMNS = {"town": pa.string(), "x": pa.int64(), "y": pa.float64(), "note": pa.string(), "income": pa.int64()}
ROLES = ("blocking", "quasi_identifiers", "quasi_identifiers", "confidential", "confidential")
SCHEMA = FileSchema(
    tuple(Column(name, kind, role) for (name, kind), role in zip(COLUMNS.items(), ROLES, strict=True)),
    (Column("town", pa.string(), "blocking"),),
    KINDS,
    (None,) * len(KINDS),
    (False,) * len(KINDS),
    pa.schema(COLUMNS),
)
PROTECTION = Protection((Demand("note", 2, inference=0.9), Demand("income", t=0.9)), 1.0)
EDITS = (Edit(rule="x >= 0", stop=True), Edit(rule="x < income"))
N, TOWNS, N_PARTS = 180, 3, 4


def people(seed: int) -> pa.Table:
    """People of three towns, by combination."""
    draw = np.random.default_rng(seed)
    columns = {
        "town": np.repeat(list("abc"), N // TOWNS),
        "x": draw.integers(0, 50, N),
        "y": draw.normal(size=N).round(3),
        "note": draw.choice(["flu", "no", "hiv"], N),
        "income": draw.integers(0, 9, N) * 1000,
    }
    return pa.table({name: pa.array(values, COLUMNS[name]) for name, values in columns.items()})


def released(table: pa.Table) -> pa.Table:
    groups = Groups.of(np.arange(N) // 6)
    for kind in KINDS:
        means = kind.representatives(kind.ticks(table[kind.name])[0], groups)
        column = kind.to_arrow(np.repeat(means, groups.sizes))
        table = table.set_column(table.column_names.index(kind.name), kind.name, column)
    return table


def promise_of(table: pa.Table) -> Promise:
    moments = tuple(kind.moments(kind.ticks(table[kind.name])[0]) for kind in KINDS)
    counted = tuple(Distribution.of(table[name]) for name in ("note", "income"))
    scale = Encoding.from_moments(KINDS, moments)
    others: dict[str, Any] = {"edits": EDITS, "known": (("x", "town"), ("income",)), "distributions": counted}
    return Promise(SCHEMA, scale, 3, N, 0, N_PARTS, protection=PROTECTION, risk="full", **others)


def file_of(promise: Promise, table: pa.Table, masked: pa.Table, rows: Ints, number: int) -> Notes:
    origins = pa.table({"record": rows, "q0": table["x"].take(rows), "q1": table["y"].take(rows)})
    notes = note_file(ReleasedFile(promise, masked.take(rows), origins, rows % N_PARTS, number))
    return notes_from_bytes(notes_to_bytes(notes))


def part_of(promise: Promise, table: pa.Table, part: int, n_batches: int) -> Notes:
    notes = Notes()
    for rows in np.array_split(np.flatnonzero(np.arange(N) % N_PARTS == part), n_batches):
        batch = table.take(rows)
        came = tuple(batch[kind.name].combine_chunks() for kind in KINDS)
        values = tuple(kind.ticks(column)[0] for kind, column in zip(KINDS, came, strict=True))
        notes = note_batch(notes, InputBatch(promise, part, rows, batch, came, values, rows))
    return notes_from_bytes(notes_to_bytes(notes))


def judged(promise: Promise, files: Sequence[Notes], parts: Sequence[Notes]) -> list[Check]:
    return make_checks(promise, Inspected.of(files), total(parts))


def figures_of(files: Sequence[Notes]) -> dict[str, Any]:
    """All figures, but for ranks, which are among the values of a file."""
    whole = Inspected.of(files)
    figures = {m.name: m.figures(whole.of_all(m), ("x", "y")) for m in gate.measures()}
    figures["intervals"].pop("rank")
    return figures


@pytest.mark.parametrize("seed", range(4))
def test_sums_over_pieces_in_any_order_are_the_whole(seed: int) -> None:
    draw, table = np.random.default_rng(seed), people(seed)
    promise, masked = promise_of(table), released(table)
    towns = np.array_split(np.arange(N), TOWNS)
    whole = [file_of(promise, table, masked, np.arange(N), 0)]
    pieces = [file_of(promise, table, masked, towns[i], i) for i in draw.permutation(TOWNS)]
    parts = [part_of(promise, table, part, 1) for part in range(N_PARTS)]
    cut = [part_of(promise, table, int(part), int(draw.integers(1, 5))) for part in draw.permutation(N_PARTS)]
    checks = judged(promise, whole, parts)
    assert judged(promise, pieces, cut) == checks and all(check.passed for check in checks)
    assert {check.name for check in checks} >= {check.name for check in gate.checks()} - {"weights", "profiles", "ties"}
    assert _flat(figures_of(pieces)) == pytest.approx(_flat(figures_of(whole)), rel=1e-5)
    lines = [Inspected.of(files).whole.by_key["risk: labels"] for files in (whole, pieces)]
    assert sorted(lines[0]["records"].to_pylist()) == sorted(lines[1]["records"].to_pylist())


def _flat(figures: Any) -> list[float]:
    if isinstance(figures, dict):
        return [number for name in sorted(figures) for number in _flat(figures[name])]
    if isinstance(figures, list):
        return [number for figure in figures for number in _flat(figure)]
    return [float(figures)] if isinstance(figures, int | float) else []


@pytest.mark.parametrize("seed", range(2))
def test_what_is_wrong_in_a_piece_is_wrong_in_the_sum(seed: int) -> None:
    """Another value in one of the pieces fails the same checks as in the whole."""
    table = people(seed)
    promise, masked = promise_of(table), released(table)
    notes = masked["note"].to_pylist()
    notes[7] = None
    wrong = masked.set_column(3, "note", pa.array(notes, pa.string()))
    parts = [part_of(promise, table, part, 2) for part in range(N_PARTS)]
    whole = judged(promise, [file_of(promise, table, wrong, np.arange(N), 0)], parts)
    towns = np.array_split(np.arange(N), TOWNS)
    pieces = judged(promise, [file_of(promise, table, wrong, rows, i) for i, rows in enumerate(towns)], parts)
    failed = [check.name for check in whole if not check.passed]
    assert pieces == whole and failed == ["missing values", "values", "distributions"]
    strict = replace(promise, protection=Protection((Demand("note", 3),)))
    files = [file_of(strict, table, masked, rows, i) for i, rows in enumerate(towns)]
    (few,) = [check for check in judged(strict, files, parts) if not check.passed]
    assert few.detail == "a combination has fewer than 3 distinct values of 'note'"
