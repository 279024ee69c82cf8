"""Input and output as files: CSV in its varieties, many files, files from pandas, and what readers find in the end."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import Project
from recount import Expected, check_release

CLUSTER = "none"  # releases are made by the process that is called
UNIQUE = {"nearly_unique": ["tag"]}
ROLES = {"quasi_identifiers": ["x"], "blocking": ["place"], "confidential": ["tag", "note"]}
NOTES = [
    "01", "", "NA", "a;b", "two\nlines", "two\r\nlines", 'say "hi"', "=1+1", "+1", "-1", "@x", "\tx", " x", "é", "'=x",
    "nul\0", "\r",
]  # fmt: skip


def rows_of(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def as_csv(header: list[str], rows: list[list[Any]], delimiter: str = ",", line_end: str = "\n") -> str:
    """Text in quotes where it needs them, which a lone carriage return does; numbers without."""

    def cell(value: Any) -> str:
        text = str(value)
        return f'"{text.replace(chr(34), chr(34) * 2)}"' if set(text) & {delimiter, '"', "\r", "\n"} else text

    return "".join(delimiter.join(map(cell, row)) + line_end for row in [header, *rows])


def notes_table(n: int = 60) -> tuple[list[list[Any]], pa.Table]:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 9, n).tolist()
    rows = [[i, x[i], "été" if i % 2 else "hiver", NOTES[i % len(NOTES)]] for i in range(n)]
    columns = {name: [row[j] for row in rows] for j, name in enumerate(["tag", "x", "place", "note"])}
    return rows, pa.table(columns)


def test_csv_with_other_delimiter_encoding_line_ends_and_null_words(project: Project) -> None:
    rows, table = notes_table()
    # A text is kept to the byte: words that mean 'missing' in numbers are texts here.
    measured = [["-", "n/a", "", "7"][i % 4] for i in range(len(rows))]
    measured_rows = [[*row, word] for row, word in zip(rows, measured, strict=True)]
    text = as_csv(["tag", "x", "place", "note", "measured"], measured_rows, ";", "\r\n")
    (project.folder / "people.csv").write_bytes(text.encode("latin-1"))
    types = {"tag": "int64", "x": "int16", "measured": "float64"}
    dialect = {"delimiter": ";", "encoding": "latin-1", "null_words": ["-", "n/a", ""], "types": types}
    roles = {**ROLES, "confidential": ["tag", "note", "measured"]}
    project.write_spec(roles, acknowledge=UNIQUE, input={"url": "people.csv", "csv": dialect})
    project.release()
    numbers = pa.array([float(m) if m == "7" else None for m in measured])
    expected = table.set_column(1, "x", table["x"].cast(pa.int16())).append_column("measured", numbers)
    check_release(expected, project.released(), Expected(3, ["x"], ["place"], ["tag", "note", "measured"]))


def test_csv_of_all_declared_types(project: Project) -> None:
    values = {
        "int8": "-5", "int16": "7", "int32": "7", "int64": "9007199254740993", "uint8": "5", "uint16": "5",
        "uint32": "5", "uint64": "18446744073709551615", "float32": "0.1", "float64": "1e300", "bool": "true",
        "date": "2020-02-29", "timestamp": "2020-02-29 12:00:00.123456", "decimal(9,2)": "1234567.89",
        "text": "007",
    }  # fmt: skip
    rows = [[i, i % 5, *values.values()] for i in range(30)]
    (project.folder / "people.csv").write_text(as_csv(["tag", "x", *values], rows))
    types = {"tag": "int64", "x": "int32"} | {name: name for name in values if name != "text"}
    project.write_spec(
        {"quasi_identifiers": ["x"], "confidential": ["tag", *values]},
        acknowledge=UNIQUE,
        input={"url": "people.csv", "csv": {"types": types}},
    )
    project.release()
    released = project.released()
    kinds = {
        "bool": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("us"), "decimal(9,2)": pa.decimal128(9, 2),
        "text": pa.string(),
    }  # fmt: skip
    for name, text in values.items():
        assert released[name].type == (kinds[name] if name in kinds else pa.type_for_alias(name)), name
        assert released[name].unique().cast(pa.string()).to_pylist()[0].startswith(text.lower().replace("e", "e+")[:3])
    assert released["int64"].unique().to_pylist() == [9007199254740993]
    assert released["uint64"].unique().to_pylist() == [2**64 - 1]


@pytest.mark.parametrize(("url", "form"), [("people.data", "csv"), ("people.TXT", "auto")])
def test_csv_by_its_ending_or_by_the_spec(url: str, form: str, project: Project) -> None:
    rows, table = notes_table()
    (project.folder / url).write_bytes(as_csv(["tag", "x", "place", "note"], rows, "\t").encode("utf-8-sig"))
    types = {"tag": "int64", "x": "int64"}
    source = {"url": url, "format": form, "csv": {"delimiter": "\t", "types": types}}
    project.write_spec(ROLES, acknowledge=UNIQUE, input=source)
    project.release()
    check_release(table, project.released(), Expected(3, ["x"], ["place"], ["tag", "note"]))


@pytest.mark.parametrize(
    ("delimiter", "formulas", "done"),
    [("\t", "keep", "are as they came"), (";", "escape", "have an apostrophe before them")],
)
def test_csv_out(delimiter: str, formulas: str, done: str, project: Project) -> None:
    """Text comes out to the byte, or with an apostrophe before what a spreadsheet would run; numbers never do."""
    _, table = notes_table()
    places = ["=été" if p == "été" else p for p in table["place"].to_pylist()]
    table = table.set_column(2, "place", pa.array(places)).append_column("balance", pa.array([-5] * table.num_rows))
    project.write(table)
    dialect = {"delimiter": delimiter, "formulas": formulas}
    project.write_spec(
        {**ROLES, "confidential": ["tag", "note", "balance"]},
        acknowledge=UNIQUE,
        output={"url": "release", "format": "csv", "csv": dialect},
    )
    assert len(formula_lines(project)) == (formulas == "keep")
    project.release()
    assert project.call("verify", "release").code == 0
    (part,) = project.parts()
    found = {int(row["tag"]): row for row in rows_of(part, delimiter)}

    def released(text: str) -> str:
        return f"'{text}" if formulas == "escape" and text[:1] in ("=", "+", "-", "@", "\t", "\r") else text

    for row in table.to_pylist():
        assert found[row["tag"]]["note"] == released(row["note"])
        assert found[row["tag"]]["place"] == released(row["place"])
        assert found[row["tag"]]["balance"] == "-5"
    assert all("begin like a formula" in page and done in page for page in pages(project))


def formula_lines(project: Project) -> list[str]:
    plan = project.call("plan", "release.yaml", "-q")
    lines = [line for line in plan.out.splitlines() if "begin with = + - @" in line]
    assert plan.code == 0 and all("formulas: escape" in line for line in lines), plan.out
    return lines


def pages(project: Project) -> list[str]:
    return [path.read_text() for name in ("README.html", "README.md") for path in project.output.rglob(name)]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_nothing_is_told_of_formulas_where_none_is_released(form: str, project: Project) -> None:
    _, table = notes_table()
    project.write(table)
    dropped = ["place", "note"] if form == "csv" else []
    kept = [name for name in ("place", "note") if name not in dropped]
    roles = {"quasi_identifiers": ["x"], "confidential": ["tag", *kept], "drop": dropped}
    project.write_spec(roles, acknowledge=UNIQUE, output={"url": "release", "format": form})
    assert formula_lines(project) == []
    project.release()
    assert len(pages(project)) == 2 and not any("begin like a formula" in page for page in pages(project))


@pytest.mark.parametrize("null_word", ["", "NA"])
def test_csv_out_tells_a_missing_value_from_an_empty_text(null_word: str, project: Project) -> None:
    texts = ["", None, "NA", "-", "x"]
    numbers = [1, None, 2, 3, 4]
    n = 60
    table = pa.table(
        {
            "tag": range(n),
            "x": [i % 7 for i in range(n)],
            "note": [texts[i % 5] for i in range(n)],
            "count": pa.array([numbers[i % 5] for i in range(n)], pa.int8()),
            "place": [None if i % 3 else "" for i in range(n)],
        }
    )
    project.write(table)
    project.write_spec(
        {**ROLES, "confidential": ["tag", "note", "count"]},
        acknowledge=UNIQUE,
        output={"url": "release", "format": "csv", "csv": {"null_word": null_word}},
    )
    project.release()
    assert project.call("verify", "release").code == 0
    assert project.manifest()["csv"]["null_word"] == null_word
    (part,) = project.parts()
    lines = part.read_text().splitlines()
    assert lines[0] == '"tag","x","note","count","place"'
    for line in lines[1:]:
        tag, _, note, count, place = line.split(",")
        text, number = texts[int(tag) % 5], numbers[int(tag) % 5]
        assert note == (null_word if text is None else f'"{text}"')
        assert count == (null_word if number is None else str(number))
        assert place == (null_word if int(tag) % 3 else '""')


def test_many_files_one_without_records_and_one_with_other_column_order(project: Project) -> None:
    _, table = notes_table(400)
    for i in range(20):
        piece = table.slice(i * 20, 20)
        project.write(piece.select(["note", "place", "tag", "x"]) if i % 3 == 1 else piece, f"in/{i:02d}.parquet")
    project.write(table.slice(0, 0), "in/00-empty.parquet")
    project.write(table.slice(0, 0), "in/99-empty.parquet")
    (project.folder / "in" / "readme.txt").write_text("no data")
    project.write_spec(ROLES, acknowledge=UNIQUE, input={"url": "in/*.parquet"})
    project.release()
    check_release(table, project.released(), Expected(3, ["x"], ["place"], ["tag", "note"]))


def test_many_csv_files_one_without_records_and_one_with_other_column_order(project: Project) -> None:
    rows, table = notes_table()
    (project.folder / "in").mkdir()
    header = ["tag", "x", "place", "note"]
    (project.folder / "in" / "0.csv").write_bytes(as_csv(header, rows[:20]).encode())
    (project.folder / "in" / "1.csv").write_bytes(as_csv(header, []).encode())
    (project.folder / "in" / "2.csv").write_bytes(as_csv(header[::-1], [row[::-1] for row in rows[20:]]).encode())
    types = {"tag": "int64", "x": "int64"}
    project.write_spec(ROLES, acknowledge=UNIQUE, input={"url": "in/*.csv", "csv": {"types": types}})
    project.release()
    check_release(table, project.released(), Expected(3, ["x"], ["place"], ["tag", "note"]))


def test_a_file_from_pandas(project: Project) -> None:
    """Its index, categories nobody has, and its metadata do not come out."""
    n = 60
    frame = pd.DataFrame(
        {
            "tag": range(n),
            "x": pd.array([i % 9 for i in range(n)], dtype="Int16"),
            "place": pd.Categorical(["a", "b"] * (n // 2), categories=["a", "b", "nobody-lives-here"]),
            "note": pd.Categorical(
                ["u", "v", "w"] * (n // 3), categories=["w", "v", "u", "nobody-has-this"], ordered=True
            ),
            "seen": pd.date_range("2020-01-01", periods=n, tz="Europe/Berlin"),
        },
        index=pd.Index([f"person-{i}" for i in range(n)], name="who"),
    )
    frame.to_parquet(project.folder / "people.parquet")
    # pandas stores its index as one more column.
    project.write_spec(
        {
            "identifiers": ["who"],
            "quasi_identifiers": ["x", "seen"],
            "blocking": ["place"],
            "confidential": ["tag", "note"],
        },
        # The tag counts up, as the days do; the note is x modulo 3.
        acknowledge={**UNIQUE, "fixes_quasi_identifier": ["tag"], "completes_mean": ["note"]},
    )
    project.release()
    table = pq.read_table(project.folder / "people.parquet")
    check_release(table, project.released(), Expected(3, ["x", "seen"], ["place"], ["tag", "note"]))
    (part,) = project.parts()
    assert (pq.read_schema(part).metadata or {}).keys() <= {b"ARROW:schema"}
    written = part.read_bytes()
    for word in (b"pandas", b"nobody", b"person-", b"who"):
        assert word not in written
    read = pd.read_parquet(part)
    assert list(read.columns) == ["tag", "x", "place", "note", "seen"]
    assert isinstance(read.index, pd.RangeIndex)


def test_dropped_columns_may_be_anything(project: Project) -> None:
    _, table = notes_table()
    table = table.append_column("nested", pa.array([[{"a": 1}]] * 60)).append_column(
        "half", pa.array([1.0] * 60, pa.float16())
    )
    project.write(table)
    project.write_spec({**ROLES, "drop": ["nested", "half"]}, acknowledge=UNIQUE)
    project.release()
    check_release(table, project.released(), Expected(3, ["x"], ["place"], ["tag", "note"]))


def test_folders_and_files_of_any_name(project: Project) -> None:
    folder, (_, table) = "my [data] #1, 50% é?", notes_table()
    inner = Project(project.folder / folder / "specs", project.cluster)
    inner.write(table, "people (1) [2] #é%20.parquet")
    inner.write_spec(ROLES, acknowledge=UNIQUE, input={"url": "people (1) [2] #é%20.parquet"})
    # Paths in a spec start at its own folder, wherever the command is called.
    ended = project.call("run", f"{folder}/specs/release.yaml", "--direct", "--quiet")
    assert ended.code == 0, ended.err
    check_release(table, inner.released(), Expected(3, ["x"], ["place"], ["tag", "note"]))
    assert inner.call("verify", "release").code == 0
    assert project.call("verify", f"{folder}/specs/release/one").code == 0


def test_csv_in_which_everything_is_quoted(project: Project) -> None:
    """As many programs write it; then a missing number has quotes, too; and empty texts stay, quoted or not."""
    notes = [['""', "", "NULL"][i % 3] for i in range(50)]
    lines = ['"tag","x","note"'] + [f'"{i}","{i % 5 or ""}",{notes[i]}' for i in range(50)]
    (project.folder / "people.csv").write_text("\n".join(lines))  # and no line end at the end
    project.write_spec(
        {"quasi_identifiers": ["x"], "confidential": ["tag", "note"]},
        acknowledge=UNIQUE,
        missing="separate",
        input={"url": "people.csv", "csv": {"types": {"tag": "int64", "x": "int64"}}},
    )
    project.release()
    x = pa.array([i % 5 or None for i in range(50)])
    table = pa.table({"tag": range(50), "x": x, "note": [note.strip('"') for note in notes]})
    check_release(table, project.released(), Expected(3, ["x"], (), ["tag", "note"]))


def test_csv_with_an_awkward_header(project: Project) -> None:
    header = ["ta\ng", 'x"q', "é,"]
    rows = [[i, i % 7, "a"] for i in range(30)]
    (project.folder / "people.csv").write_text("\n\n" + as_csv(header, rows), encoding="utf-8")
    types = {"ta\ng": "int64", 'x"q': "int64"}
    project.write_spec(
        {"quasi_identifiers": ['x"q'], "confidential": ["ta\ng", "é,"]},
        acknowledge={"nearly_unique": ["ta\ng"]},
        input={"url": "people.csv", "csv": {"types": types}},
    )
    assert project.release()["records"] == 30
    assert project.released().column_names == header


def test_a_csv_file_that_is_read_in_several_pieces(project: Project) -> None:
    """Quoted line ends and letters of two bytes lie across the pieces' borders; none is lost."""
    n = 600
    rng = np.random.default_rng(8)
    x = rng.integers(0, 50, n)
    note = [f"ligne {v}\n{'é' * int(w)}" for v, w in zip(rng.integers(0, 9, n), rng.integers(100, 500, n), strict=True)]
    rows = [[int(v), text] for v, text in zip(x, note, strict=True)]
    (project.folder / "people.csv").write_bytes(as_csv(["x", "note"], rows).encode("latin-1"))
    project.write_spec(
        {"quasi_identifiers": ["x"], "confidential": ["note"]},
        input={"url": "people.csv", "csv": {"encoding": "latin-1", "types": {"x": "int64"}}},
        acknowledge={"free_text": ["note"]},
    )
    with mock.patch("microagg_core.data.formats.inputs.csv._BLOCK_BYTES", 2**16):
        assert project.release()["records"] == n
    released = project.released()
    assert sorted(released["note"].to_pylist()) == sorted(note)
    assert abs(np.mean(released["x"]) - x.mean()) <= 0.5


def test_a_unit_of_several_columns(project: Project) -> None:
    table = pa.table(
        {
            "tag": range(40),
            "house": [i // 2 for i in range(40)],
            "person": [i % 2 for i in range(40)],
            "x": [i % 9 for i in range(40)],
        }
    )
    project.write(table)
    roles = {"identifiers": ["house", "person"], "quasi_identifiers": ["x"], "confidential": ["tag"]}
    meant = {**UNIQUE, "part_of_unit": ["house"]}
    project.write_spec(roles, acknowledge=meant, unit=["house", "person"])
    project.release()
    check_release(table, project.released(), Expected(3, ["x"]))
    assert project.manifest()["unit"] == "units"
