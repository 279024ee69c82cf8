"""A night of a series: marks hide records from every step, and what is released is as if these had never come."""

from __future__ import annotations

import contextlib
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from inputs.people import people
from microagg_core.errors import DataError, MicroaggError
from microagg_core.release.records import MARKS
from microagg_core.release.step import Receipt
from microagg_core.release.steps.cuts import COUNT_LEAVES
from microagg_core.series.match import ARRIVAL, CLOSED, MARK, WAITED, marks_of, take_part
from releasing.runs import Release, data_digests, released_table, run_stages, start, write_release

Codes = list[np.ndarray[Any, Any]]
TO_MEASURE = ("survey", "plan", "scatter", "anonymize", "validate", "measure")


def drawn_codes(tables: list[pa.Table], shares: dict[int, float], seed: int = 7) -> Codes:
    rng = np.random.default_rng(seed)
    return [rng.choice(list(shares), size=t.num_rows, p=list(shares.values())).astype(np.uint8) for t in tables]


def night(path: Path, codes: Codes) -> Release:
    release, marked = start(path), start(path)
    with contextlib.suppress(DataError):  # a night may have too few records for a release of its own
        run_stages(release, "survey")  # from now on the run has a name
    receipts, begin_anew = (
        [marks_receipt(release, part, of_part) for part, of_part in enumerate(codes)],
        marked.begin_anew,
    )

    def begin_marked() -> None:
        begin_anew()
        marked.note(MARK, receipts)

    marked.begin_anew = begin_marked  # type: ignore[method-assign]
    return marked


def marks_receipt(release: Release, part: int, codes: np.ndarray[Any, Any]) -> Receipt:
    piece = release.run.put(MARKS, MARKS.encode(marks_of(codes)), MARK.name, part)
    return Receipt(MARK.name, part, len(codes), (piece,))


def arrivals_of(tables: list[pa.Table], codes: Codes) -> list[pa.Table]:
    return [table.filter(pa.array(take_part(of_part))) for table, of_part in zip(tables, codes, strict=True)]


SOME = {ARRIVAL: 0.5, WAITED: 0.1, CLOSED: 0.4}


@pytest.mark.parametrize(
    "changes",
    [
        {"blocks": {"undersized": "suppress", "totals_known": "file"}},
        {"algorithm": {"name": "v_mdav", "gamma": 0.4}, "refine": "off", "output": {"url": "output", "format": "csv"}},
    ],
    ids=["suppress", "csv"],
)
def test_hidden_records_leave_no_trace(tmp_path: Path, changes: dict[str, Any]) -> None:
    tables = [people(700), people(10, first=700), people(400, first=710)]
    codes = drawn_codes(tables, SOME)
    codes[1][:] = CLOSED  # a part of which nothing takes part
    marked = run_stages(night(write_release(tmp_path / "night", tables, **changes), codes))
    arrivals = [table for table in arrivals_of(tables, codes) if table.num_rows]
    alone = run_stages(start(write_release(tmp_path / "alone", arrivals, **changes)))
    digests = data_digests(tmp_path / "night" / "output")
    assert digests and digests == data_digests(tmp_path / "alone" / "output")
    assert marked.measured.figures == alone.measured.figures
    outline, expected = marked.planned.outline, alone.planned.outline
    assert (outline.withheld_rows, outline.suppressed_rows) == (expected.suppressed_rows, 0)
    survey = marked.planned.survey
    assert (survey.rows, survey.arrivals) == (1110, alone.planned.survey.rows)
    assert survey.fingerprints != alone.planned.survey.fingerprints


def test_blocks_of_arrivals_are_cut_and_counted_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("microagg_core.release.steps.cuts._SAMPLE_ROWS", 100)  # a sample, so that leaves are counted
    monkeypatch.setattr("microagg_core.release.steps.cuts._ENOUGH", 10**9)
    monkeypatch.setattr("microagg_core.release.steps.sampling._LEAST_ROWS", 100)
    monkeypatch.setattr("microagg_core.release.steps.sampling._MOST_ROWS", 100)
    tables = [people(1500), people(900, first=1500)]
    codes = drawn_codes(tables, SOME)
    release = run_stages(night(write_release(tmp_path, tables, blocks={"max_records": 150}), codes))
    assert release.planned.outline.trees and COUNT_LEAVES.name in release.steps
    arrivals = pa.concat_tables(arrivals_of(tables, codes))
    released = released_table(tmp_path / "output")
    assert int(release.planned.outline.rows.sum()) == released.num_rows == arrivals.num_rows
    assert sorted(released["amount"].to_pylist()) == sorted(arrivals["amount"].to_pylist())


def test_held_records_are_counted_and_the_gate_knows_them(tmp_path: Path) -> None:
    tables = [people(700), people(400, first=700)]
    marked = night(write_release(tmp_path, tables), drawn_codes(tables, {ARRIVAL: 0.79, WAITED: 0.01, CLOSED: 0.2}))
    marked.hold_until = 60
    run_stages(marked)
    outline, arrivals = marked.planned.outline, marked.planned.survey.arrivals
    held = outline.withheld_rows
    assert held > 0 == outline.suppressed_rows
    assert released_table(tmp_path / "output").num_rows == arrivals - held
    rows = next(check for check in marked.checks if check.name == "rows")
    assert rows.passed and str(held) not in rows.detail
    report = marked.plan_report
    assert report is not None and (report.records, report.held, report.withheld) == (arrivals, held, 0)
    assert f"{held} records held for a later night" in report.sentence()


@pytest.mark.parametrize(("arrivals", "undersized"), [(0, "merge"), (2, "suppress")])
def test_a_night_without_a_block(tmp_path: Path, arrivals: int, undersized: str) -> None:
    tables = [people(40), people(30, first=40)]
    codes = [np.full(t.num_rows, CLOSED, dtype=np.uint8) for t in tables]
    codes[1][:arrivals] = ARRIVAL
    path = write_release(tmp_path, tables, blocks={"undersized": undersized})
    release = run_stages(night(path, codes), *TO_MEASURE)
    report = release.plan_report
    assert report is not None
    assert (report.records, report.held, report.blocks, report.files) == (arrivals, arrivals, 0, 0)
    assert all(check.passed for check in release.checks)
    assert release.measured.figures.records == 0 and release.measured.blocks.num_rows == 0


def test_a_night_whose_input_has_parts_without_a_record(tmp_path: Path) -> None:
    rows = [0, 90]
    path = write_release(tmp_path, [people(90).slice(0, n) for n in rows])
    release = run_stages(night(path, [np.full(n, CLOSED, dtype=np.uint8) for n in rows]), *TO_MEASURE)
    survey = release.planned.survey
    assert (survey.rows_of_parts, survey.arrivals_of_parts) == (tuple(rows), (0, 0))
    assert all(check.passed for check in release.checks)


KINDS: dict[str, pa.Array] = {
    "float": pa.array(np.linspace(0.0, 9.0, 90), pa.float32()),
    "unsigned": pa.array(np.arange(90, dtype=np.uint64) + 2**63),
    "decimal": pa.array([decimal.Decimal(i) / 4 for i in range(90)], pa.decimal128(12, 2)),
    "date": pa.array(range(90), pa.date32()),
    "timestamp": pa.array(range(90), pa.timestamp("ns", tz="UTC")),
    "boolean": pa.array([i % 3 == 0 for i in range(90)]),
}


def test_quasi_identifiers_of_every_kind(tmp_path: Path) -> None:
    notes = {"note": pa.array([i % 7 for i in range(90)]), "town": pa.array([i % 2 == 0 for i in range(90)])}
    tables = [pa.table({**KINDS, **notes})]
    roles = {"quasi_identifiers": list(KINDS), "blocking": ["town"], "confidential": ["note"]}
    codes = [np.where(np.arange(90) < 45, ARRIVAL, CLOSED).astype(np.uint8)]
    path = write_release(tmp_path, tables, roles=roles, blocks={"undersized": "suppress"}, missing="separate")
    release = run_stages(night(path, codes), *TO_MEASURE)
    assert all(check.passed for check in release.checks)
    assert int(release.planned.outline.rows.sum()) == 45


@pytest.mark.parametrize("rows", [20, 40])
def test_marks_of_another_number_of_records_stop_the_release(tmp_path: Path, rows: int) -> None:
    marked = night(write_release(tmp_path, [people(30)]), [np.zeros(rows, dtype=np.uint8)])
    with pytest.raises(DataError, match="changed while the release was made"):
        run_stages(marked)


def test_without_marks_the_errors_stay(tmp_path: Path) -> None:
    for n, message in ((2, "the input has 2 records, fewer than k=3"), (5, "no block reaches k=5")):
        path = write_release(tmp_path / str(n), [people(n)], k=max(3, n), blocks={"undersized": "suppress"})
        with pytest.raises(MicroaggError, match=message):
            run_stages(start(path))
