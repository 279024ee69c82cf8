"""The gate, with files that were broken for real between anonymizing and validating."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from microagg_core.errors import GateError, StorageError
from people import people
from releases import Release, run_stages, start, write_release

Breaking = Callable[[pa.Table], pa.Table]


def anonymized(folder: Path) -> Release:
    release = start(write_release(folder, [people(400), people(300, first=400)]))
    return run_stages(release, "survey", "plan", "stage", "anonymize")


def break_file(release: Release, breaking: Breaking) -> None:
    path = Path(release.work.url) / release.layout.candidate(0, "parquet")
    pq.write_table(breaking(pq.read_table(path)), path)


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


@pytest.mark.parametrize("name", BROKEN)
def test_gate_stops_what_is_broken(name: str, tmp_path: Path) -> None:
    breaking, says = BROKEN[name]
    release = anonymized(tmp_path)
    break_file(release, breaking)
    with pytest.raises(GateError) as stopped:
        run_stages(release, "validate", "measure", "publish")
    assert stopped.value.exit_code == 4
    assert says in stopped.value.message
    assert not (tmp_path / "output").exists()


def test_gate_lets_pass_what_is_right(tmp_path: Path) -> None:
    release = run_stages(anonymized(tmp_path), "validate", "measure", "publish", "report")
    assert all(check.passed for check in release.checks)
    assert release.published is not None
    assert release.published.manifest.rows == 700


def test_record_numbers_exchanged_are_seen(tmp_path: Path) -> None:
    """The private numbers belong to the rows: the gate compares jointly, not column by column."""
    from microagg_core.tables.slices import read_slice, to_bytes

    release = anonymized(tmp_path)
    name = release.layout.numbers(0)
    numbers = read_slice(release.work.read(name))["record"].to_pylist()
    numbers[0], numbers[-1] = numbers[-1], numbers[0]
    release.work.put(name, to_bytes(pa.table({"record": numbers})))
    with pytest.raises(GateError, match="values differ"):
        run_stages(release, "validate")


def test_file_changed_after_the_gate_is_not_published(tmp_path: Path) -> None:
    release = run_stages(anonymized(tmp_path), "validate", "measure")
    break_file(release, lambda table: table.slice(1))
    with pytest.raises(StorageError, match="not what the gate checked"):
        run_stages(release, "publish")
    assert not list((tmp_path / "output").rglob("*.parquet"))


def test_input_changed_after_the_survey_stops_the_run(tmp_path: Path) -> None:
    from microagg_core.errors import DataError

    release = run_stages(start(write_release(tmp_path, [people(400)])), "survey", "plan")
    table = people(400)
    pq.write_table(replaced(table, "note", 7, "99"), tmp_path / "input" / "part-0.parquet")
    with pytest.raises(DataError, match="changed while the release was made"):
        run_stages(release, "stage")
    assert not (tmp_path / "output").exists()


def test_input_changed_after_staging_stops_at_the_gate(tmp_path: Path) -> None:
    from microagg_core.errors import DataError

    release = run_stages(start(write_release(tmp_path, [people(400)])), "survey", "plan", "stage", "anonymize")
    pq.write_table(replaced(people(400), "amount", 7, 1), tmp_path / "input" / "part-0.parquet")
    with pytest.raises(DataError, match="changed while the release was made"):
        run_stages(release, "validate")
