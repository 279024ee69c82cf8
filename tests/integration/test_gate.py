"""The gate, with files that were broken for real between anonymizing and validating."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inputs.people import people
from microagg_core.data.tables.slices import RECORD, read_slice
from microagg_core.errors import DamagedWorkError, DataError, GateError
from microagg_core.inspect.contract import ReleasedFile
from microagg_core.inspect.gate import Inspected, make_checks, note_file
from microagg_core.release.steps.candidate import CANDIDATE, ORIGINS
from microagg_core.release.steps.checking import EXPECTED, notes_of_input, promise_of
from microagg_core.release.steps.demands import DISTRIBUTIONS
from releasing.runs import ROLES, Release, forge, released_table, run_stages, start, write_release

Breaking = Callable[[pa.Table], pa.Table]


def anonymized(folder: Path, tables: list[pa.Table] | None = None, **changes: Any) -> Release:
    spec = write_release(folder, tables or [people(400), people(300, first=400)], **changes)
    return run_stages(start(spec), "survey", "plan", "scatter", "anonymize")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return anonymized(tmp_path_factory.mktemp("made"))


def same(table: pa.Table) -> pa.Table:
    return table


def wrong(release: Release, breaking: Breaking = same, beside: Breaking = same) -> str:
    """What the gate would say, had the first file, or what lies beside it, been broken."""
    promise, noted = promise_of(release.planned, release.known(DISTRIBUTIONS)), []
    pieces = [release.written(output).pieces for output in (CANDIDATE, ORIGINS)]
    for number, (file, of_file) in enumerate(zip(*pieces, strict=True)):
        table = pq.read_table(Path(release.work.url) / file.name)
        origins = read_slice(release.work.read(of_file.name))
        if not number:
            table, origins = breaking(table), beside(origins)
        parts = release.planned.survey.parts_of(np.asarray(origins[RECORD]).astype(np.int64))
        noted.append(note_file(ReleasedFile(promise, table.combine_chunks(), origins, parts, number)))
    checks = make_checks(promise, Inspected.of(noted), notes_of_input(release.written(EXPECTED)))
    return "; ".join(f"{check.name}: {check.detail}" for check in checks if not check.passed)


def broken_file(release: Release, breaking: Breaking) -> tuple[str, bytes]:
    name, sink = release.written(CANDIDATE).pieces[0].name, io.BytesIO()
    pq.write_table(breaking(pq.read_table(Path(release.work.url) / name)), sink)
    return name, sink.getvalue()


def replaced(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    position = table.column_names.index(column)
    return table.set_column(position, table.schema.field(position), pa.array(values, table.schema.field(position).type))


def swapped(table: pa.Table, column: str) -> pa.Table:
    values = table[column].to_pylist()
    other = next(i for i, v in enumerate(values) if v != values[0])
    return replaced(replaced(table, column, 0, values[other]), column, other, values[0])


def alone(table: pa.Table) -> pa.Table:
    """One record of a group of exactly k moved to another combination of its block, so that k-1 are left."""
    keys = list(zip(*(table[c].to_pylist() for c in ("region", "town", "x", "y")), strict=True))
    row = next(i for i, key in enumerate(keys) if keys.count(key) == 3)
    other = next(k for k in keys if k[:2] == keys[row][:2] and k != keys[row])
    return replaced(replaced(table, "x", row, other[2]), "y", row, other[3])


def shifted(table: pa.Table) -> pa.Table:
    """Every record of one combination moved alike: still k-anonymous, but the mean is gone."""
    x = table["x"].to_pylist()
    return table.set_column(
        table.column_names.index("x"), "x", pa.array([v + 500 if v == x[0] else v for v in x], table["x"].type)
    )


BROKEN: dict[str, tuple[Breaking, str]] = {
    "a combination k-1 times": (alone, "1 combinations have fewer than k=3 units"),
    "a row missing": (lambda t: t.slice(1), "699 records instead of 700"),
    "a row twice": (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "701 records instead of 700"),
    "an identifier left in": (
        lambda t: t.add_column(0, "id", pa.array([f"P{i}" for i in range(t.num_rows)])),
        "column 'id' is not declared",
    ),
    "a column lost": (lambda t: t.drop_columns(["note"]), "column 'note' is missing"),
    "another type": (lambda t: t.set_column(2, "x", t["x"].cast(pa.float64())), "column 'x' is double, not int64"),
    "two confidential values exchanged": (lambda t: swapped(t, "note"), "values differ from the input's in part"),
    "two big numbers exchanged": (lambda t: swapped(t, "amount"), "values differ from the input's in part"),
    "a blocking value changed": (lambda t: replaced(t, "region", 0, "west"), "values differ from the input's in part"),
    "a value lost": (lambda t: replaced(t, "note", 0, None), "column 'note' has 1 missing values instead of 0"),
    "an infinite value": (
        lambda t: replaced(t, "y", 0, float("inf")),
        "1 released quasi-identifiers are not finite",
    ),
    "a mean moved": (shifted, "the mean of 'x' is not kept"),
}


@pytest.fixture(scope="module")
def blanked(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Of which some lacked a y, and three more in a town or a region lose theirs."""
    tables = [people(400), people(300, first=400)]
    y = [pa.array(table["y"].to_numpy(), mask=np.arange(table.num_rows) % 80 == 0) for table in tables]
    tables = [table.set_column(table.column_names.index("y"), "y", of) for table, of in zip(tables, y, strict=True)]
    return anonymized(tmp_path_factory.mktemp("blanked"), tables, missing="blank")


def null_places(table: pa.Table, *, is_null: bool) -> list[int]:
    return [i for i, value in enumerate(table["y"].to_pylist()) if (value is None) == is_null]


def with_a_value(table: pa.Table) -> pa.Table:
    return replaced(table, "y", null_places(table, is_null=True)[0], 0.5)


def with_a_null(table: pa.Table) -> pa.Table:
    return replaced(table, "y", null_places(table, is_null=False)[0], None)


def test_gate_counts_blanked_cells_and_stops_a_value_that_nobody_gave(blanked: Release) -> None:
    n_missing, n_blanked = 9, sum(promise_of(blanked.planned).blanked or ())
    n = n_missing + n_blanked
    assert n_blanked >= 3
    assert wrong(blanked) == ""
    assert f"column 'y' has {n + 1} missing values instead of {n}" in wrong(blanked, with_a_null)
    assert f"column 'y' has {n - 1} missing values instead of {n}" in wrong(blanked, with_a_value)
    # A value for whom there was none, and a cell more that is blanked: as many as announced.
    origins = read_slice(blanked.work.read(blanked.written(ORIGINS).pieces[0].name))
    lacked = origins["q1"].to_numpy()
    of_none = next(i for i, value in enumerate(lacked) if np.isnan(value))
    told = wrong(blanked, lambda table: with_a_null(replaced(table, "y", of_none, 0.5)))
    assert "missing values instead of" not in told
    assert "values of 'y' lie outside the range of the records that share them" in told
    assert "the mean of 'y' is not kept" in wrong(blanked, with_a_null)


def with_zeros(n: int) -> pa.Table:
    """People of whom four fifths have an income of nothing, the others one of dollars and cents."""
    rng = np.random.default_rng(5)
    income = np.where(np.arange(n) % 5 > 0, 0.0, np.round(rng.gamma(2.0, 9000.0, n), 2))
    return people(n).append_column("income", pa.array(income))


def moved(column: str, chosen: Callable[[Any], bool], by: Callable[[Any], Any]) -> Breaking:
    def breaking(table: pa.Table) -> pa.Table:
        names = [name for name in ("region", "town", "x", "y", "income") if name in table.column_names]
        keys = list(zip(*(table[c].to_pylist() for c in names), strict=True))
        values = table[column].to_pylist()
        key = next(key for key, value in zip(keys, values, strict=True) if chosen(value))
        values = [by(v) if k == key else v for k, v in zip(keys, values, strict=True)]
        position = table.column_names.index(column)
        return table.set_column(position, column, pa.array(values, table.schema.field(position).type))

    return breaking


def last_place(value: float) -> float:
    return float(np.nextafter(value, math.inf))


OUTSIDE: dict[str, tuple[Breaking, dict[str, Any], str]] = {
    "an equal group's zero moved by the least float": (
        moved("income", lambda v: v == 0.0, lambda v: 5e-324),
        {},
        "values of 'income' lie outside",
    ),
    "an equal group's zero made a little negative": (
        moved("income", lambda v: v == 0.0, lambda v: -7.28e-12),
        {"rounding": {"income": "type"}},
        "values of 'income' lie outside",
    ),
    "an equal group's number moved by one unit in the last place": (
        moved("y", lambda v: v == 3.25, last_place),
        {"rounding": {"y": "type"}},
        "values of 'y' lie outside",
    ),
    "an equal group's whole number moved by one": (
        moved("x", lambda v: v == 2**53 + 1, lambda v: v + 1),
        {},
        "values of 'x' lie outside",
    ),
    "a group's values moved above the greatest of them": (
        moved("x", lambda v: v < 900, lambda v: 1000),
        {},
        "values of 'x' lie outside",
    ),
    "a group's values moved by more than its rounding step": (
        moved("x", lambda v: v < 900, lambda v: 1050),
        {"rounding": {"x": 50}},
        "values of 'x' lie outside",
    ),
    "a value beside the rounding step's multiples": (
        moved("x", lambda v: v == 2**53, lambda v: v + 20),
        {"rounding": {"x": 16}},
        "values of 'x' lie outside",
    ),
}


def with_equal_group(n: int) -> pa.Table:
    table = with_zeros(n).slice(0, n - 7)
    equal = table.slice(0, 7)
    replace = {"x": [2**53 + 1] * 7, "y": [3.25] * 7, "region": ["far"] * 7, "town": ["off"] * 7}
    replace |= {"id": [f"Q{i}" for i in range(7)]}
    for column, values in replace.items():
        position = equal.column_names.index(column)
        equal = equal.set_column(position, column, pa.array(values, equal.schema.field(position).type))
    return pa.concat_tables([table, equal])


def outside_of(folder: Path, rounding: dict[str, Any]) -> Release:
    roles = {**ROLES, "quasi_identifiers": ["x", "y", "income"]}
    tables = [with_zeros(400), with_equal_group(300).slice(100)]
    tables[1] = tables[1].set_column(0, "id", pa.array([f"R{i}" for i in range(200)]))
    return anonymized(folder, tables, roles=roles, blocks={"undersized": "suppress"}, rounding=rounding)


@pytest.mark.parametrize("rounding", [{}, {"income": "type", "y": "type"}, {"x": 50}, {"x": 16}], ids=str)
def test_gate_stops_a_value_outside_the_range_of_its_records(rounding: dict[str, Any], tmp_path: Path) -> None:
    release = outside_of(tmp_path, rounding)
    assert wrong(release) == ""
    for name, (breaking, changes, says) in OUTSIDE.items():
        if changes.items() <= rounding.items() and (changes or not rounding):
            assert f"groups: 1 {says}" in re.sub(r"groups: \d+", "groups: 1", wrong(release, breaking)), name


def test_gate_lets_pass_groups_that_a_rounding_step_takes_out_of_their_range(tmp_path: Path) -> None:
    roles = {**ROLES, "quasi_identifiers": ["x", "y", "income"]}
    rounding = {"x": 10_000, "y": 0.7, "income": 10}
    release = run_stages(start(write_release(tmp_path, [with_equal_group(300)], roles=roles, rounding=rounding)))
    assert all(check.passed for check in release.checks)
    assert set(released_table(tmp_path / "output")["x"].to_pylist()) == {0, 9007199254740000}


@pytest.mark.parametrize("name", BROKEN)
def test_gate_sees_what_is_broken(name: str, made: Release) -> None:
    breaking, says = BROKEN[name]
    assert says in wrong(made, breaking)


def test_gate_stops_what_is_broken(tmp_path: Path) -> None:
    release = anonymized(tmp_path)
    forge(release, *broken_file(release, alone))
    with pytest.raises(GateError, match="1 combinations have fewer than k=3 units") as stopped:
        run_stages(release, "validate", "measure", "publish")
    assert stopped.value.exit_code == 4
    assert not (tmp_path / "output").exists()


def test_gate_lets_pass_what_is_right(tmp_path: Path) -> None:
    release = run_stages(anonymized(tmp_path), "validate", "measure", "publish", "report")
    assert all(check.passed for check in release.checks)
    assert release.published is not None
    assert release.published.manifest.rows == 700


def _exchanged(values: list[Any]) -> list[Any]:
    return [values[-1], *values[1:-1], values[0]]


#: What is done to a column of what lies beside a candidate file.
BESIDE: dict[str, tuple[str, Callable[[list[Any]], list[Any]]]] = {
    "record numbers exchanged": (RECORD, _exchanged),
    "a record twice, another never": (RECORD, lambda values: [values[1], *values[1:]]),
    "a number that the input does not have": (RECORD, lambda values: [250, *values[1:]]),
    "a quasi-identifier that did not come in": ("q0", lambda values: [values[0] + 1, *values[1:]]),
    "quasi-identifiers exchanged": ("q1", _exchanged),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_lies_beside_a_file_is_not_trusted(name: str, made: Release) -> None:
    """The private numbers and the values that came in belong to the rows: the input's sums are over all jointly."""
    column, changed = BESIDE[name]

    def beside(origins: pa.Table) -> pa.Table:
        position = origins.column_names.index(column)
        values = pa.array(changed(origins[column].to_pylist()), origins.schema.field(position).type)
        return origins.set_column(position, column, values)

    assert "values: values differ from the input's in part" in wrong(made, beside=beside)


def test_a_row_without_a_record_number_is_seen(made: Release) -> None:
    assert "record numbers differ in length" in wrong(made, beside=lambda origins: origins.slice(1))


def test_file_changed_after_the_gate_is_not_published(tmp_path: Path) -> None:
    release = run_stages(anonymized(tmp_path), "validate", "measure")
    release.work.put(*broken_file(release, lambda table: table.slice(1)))
    with pytest.raises(DamagedWorkError, match="not what was written"):
        run_stages(release, "publish")
    assert not list((tmp_path / "output").rglob("*.parquet"))


def test_input_changed_after_the_survey_stops_the_run(tmp_path: Path) -> None:
    release = run_stages(start(write_release(tmp_path, [people(400)])), "survey", "plan")
    table = people(400)
    pq.write_table(replaced(table, "note", 7, "99"), tmp_path / "input" / "part-0.parquet")
    with pytest.raises(DataError, match="changed while the release was made"):
        run_stages(release, "scatter")
    assert not (tmp_path / "output").exists()


def test_input_changed_after_scattering_is_not_read_again(tmp_path: Path) -> None:
    """The release is that of the rows that were surveyed and scattered, whatever becomes of the file."""
    release = anonymized(tmp_path, [people(400)])
    pq.write_table(replaced(people(400), "amount", 7, 1), tmp_path / "input" / "part-0.parquet")
    run_stages(release, "validate", "measure", "publish", "report")
    amounts = released_table(tmp_path / "output")["amount"].to_pylist()
    assert sorted(amounts) == sorted(people(400)["amount"].to_pylist())
