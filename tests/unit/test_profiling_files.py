"""Files that nobody has described: how they are written is found out, or a sentence says what is not understood."""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from covering import cover, each
from microagg_core.data.places import Input
from microagg_core.errors import DataError, MicroaggError, SpecError
from microagg_core.profile import reading
from microagg_core.profile.reading import sampled, understood

PEOPLE = [("name", "town", "age", "height"), ("Zoë", "Ayr", "41", "1.80"), ("José", "Bern", "39", "1.65")]
PEOPLE += [(f"Renée {i}", "Cork", str(20 + i), f"1.{60 + i}") for i in range(20)]


def lines(delimiter: str = ",", end: str = "\n", comma: bool = False) -> str:
    rows = [[cell.replace(".", ",") if comma else cell for cell in row] for row in PEOPLE]
    return "".join(delimiter.join(f'"{c}"' if delimiter in c else c for c in row) + end for row in rows)


def write(tmp_path: Path, content: bytes | str, name: str = "people.csv") -> str:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def sentence(url: str, **options: str) -> str:
    with pytest.raises(DataError) as caught:
        understood(url, **options)
    assert caught.value.exit_code == 3
    assert "\n" not in caught.value.message
    return caught.value.message


ENCODINGS = ["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


@pytest.mark.parametrize(("delimiter", "encoding", "comma"), cover(",;\t|", ENCODINGS, [False, True]))
def test_a_dialect_is_found(tmp_path: Path, delimiter: str, encoding: str, comma: bool) -> None:
    """And the file is read with it: the values are those that were written."""
    expected = {"utf-8-sig": "utf-8", "latin-1": "cp1252"}.get(encoding, encoding)
    result = understood(write(tmp_path, lines(delimiter, "\r\n", comma).encode(encoding)))
    dialect = result.source.csv
    assert (dialect.delimiter, dialect.encoding, dialect.decimal_mark) == (delimiter, expected, "," if comma else ".")
    assert dialect.types == {"age": "int64", "height": "float64"}
    expected_rows = [(name, town, int(age), float(height)) for name, town, age, height in PEOPLE[1:]]
    assert [tuple(row.values()) for row in result.sample.table.to_pylist()] == expected_rows


@pytest.mark.parametrize("name", ["people.csv.gz", "people.txt", "people.tsv", "people.data", "people"])
def test_text_is_csv_whatever_its_ending(tmp_path: Path, name: str) -> None:
    content = lines(";").encode()
    result = understood(write(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name))
    assert result.source.format == "csv" and result.sample.table.num_rows == len(PEOPLE) - 1


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_with_types_keep_them(tmp_path: Path, form: str) -> None:
    table = pa.table({"age": pa.array([1, 2], pa.int8()), "code": ["1", "2"]})
    path = tmp_path / ("people" + (".parquet" if form == "parquet" else ".feather"))
    (pq.write_table if form == "parquet" else pyarrow.feather.write_feather)(table, path)
    result = understood(str(path))
    assert (result.source.format, result.sample.table) == (form, table)
    assert result.remarks == {"code": "int64 written as text: cast it"}


def test_several_files_are_one_input(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, lines(";"), f"{number}.csv")
    result = understood(str(tmp_path / "*.csv"))
    assert result.sample.in_words() == f"all {3 * (len(PEOPLE) - 1)} rows"
    write(tmp_path, lines(";").replace("town", "city"), "9.csv")
    assert "9.csv has no column 'town'; it has a column 'city' more" in sentence(str(tmp_path / "*.csv"))


def test_of_a_large_input_some_rows_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of parts that lie evenly over it: never all of it."""
    monkeypatch.setattr(reading, "MOST_ROWS", 100)
    monkeypatch.setattr(reading, "_ROWS_OF_PLACES", 7 * 16)
    for number in range(40):
        pq.write_table(pa.table({"x": range(number * 1000, number * 1000 + 10)}), tmp_path / f"{number:02}.parquet")
    sample = sampled(Input(url=str(tmp_path / "*.parquet")))
    assert not sample.is_whole
    assert sample.in_words() == "112 rows, the first of 16 of the input's 40 parts"
    firsts = sample.table.column("x").to_pylist()[::7]
    assert len(firsts) == 16 and firsts[0] == 0 and firsts[-1] > 35_000


HEADER, ROW = "name,age,town\n", "Zoë,41,Ayr\n"
DOUBTFUL: list[tuple[str | bytes, str]] = [
    (b"", "is empty"),
    ("\n\n", "has no lines"),
    (HEADER, "has no records behind its header"),
    (HEADER + 30 * ROW + "Ayr,3\n" + ROW, ":32: the line has 2 cells instead of 3"),
    (HEADER + 30 * ROW + "a,3,b,c\n", ":32: the line has 4 cells instead of 3"),
    (HEADER + 9 * ROW + "Zoë;41;Ayr\n", ":11: the line is separated by a semicolon and others by a comma"),
    ("name,age,town\n" + 9 * "Zoë;41;Ayr\n", "is separated by a comma and others by a semicolon"),
    ("Report of 2026\n\n" + HEADER + 9 * ROW, ":1: the line has 1 cells and most have 3"),
    ("name,age\n" + 9 * ROW, ":1: the header has 2 names and the lines below 3 cells"),
    (9 * "Zoë,41,Ayr\n", ":1: the first line looks like a record"),
    ("yes,no\n" + 9 * "yes,no\nno,yes\n", ":1: the first line looks like a record"),
    ("name,age,name\n" + 9 * ROW, ":1: more than one column is named 'name'"),
    (",age,town\n" + 9 * ROW, ":1: column 1 has no name; give it one (row names or an index"),
    ("name,,town\n" + 9 * ROW, ":1: column 2 has no name; give it one"),
    ("size,age\nin cm,years\n" + 9 * "180,41\n", "holds text where the lines below hold numbers or dates, in 2 of"),
    ("a,b\n" + 9 * "'x','y'\n", "cells are quoted with '"),
    ("a;b,c\n" + 9 * "1;2,3\n", "can be read with a comma (2 columns) and a semicolon (2 columns) between its cells"),
    ((HEADER + 99 * ROW).encode() + b"Ren\xe9e,1,Bern\n", ":101: the text is UTF-8 elsewhere and not in this line"),
    (b"a,b\n1,\x00\x01\x02\n", "holds bytes that no text has"),
    (codecs.BOM_UTF16_LE + "a,b\n1,2\n".encode("utf-16-le") + b"\x00", "its first bytes say utf-16, which it is not"),
    (b"PK\x03\x04" + 99 * b"x", "is a zip archive, as Excel workbooks are too, which is not read here"),
    (b"\xd0\xcf\x11\xe0" + 99 * b"x", "is an Office file"),
    (b"SQLite format 3\x00", "is an SQLite database"),
    (gzip.compress(HEADER.encode()), "is packed with gzip; rename it to end in .csv.gz"),
    ('{"name": "x"}\n', "is JSON, no table"),
    ("<!DOCTYPE html><html>\n", "is a page of HTML"),
    (HEADER + 5000 * ROW + '"Zoë,41,Ayr\n' + 90000 * ROW, ":5002: the line has"),
    (HEADER + ROW + 'Zoë,41,"Ayr\n' + 300 * ROW + 'Zoë,41,Ayr"\n' + ROW, "of column 'town' has more than 200 lines"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "expected"), DOUBTFUL, ids=[words[:40] for _, words in DOUBTFUL])
def test_a_file_that_is_not_understood_is_refused(tmp_path: Path, content: str | bytes, expected: str) -> None:
    said = sentence(write(tmp_path, content))
    assert "people.csv" in said and expected in said
    told = said.replace(str(tmp_path), "")  # whose number may be that of a cell
    assert not any(cell in told for cell in ("Zoë", "Ayr", "41", "Ren"))


@each(
    "name, make, expected",
    [
        ("people.csv", lambda path: pq.write_table(pa.table({"a": [1]}), path), "holds parquet, not csv as its ending"),
        ("people.parquet", lambda path: path.write_text(HEADER + ROW), "holds text, not parquet as its ending says"),
        ("people.feather", lambda path: pq.write_table(pa.table({"a": [1]}), path), "holds parquet, not arrow"),
        ("people.csv.gz", lambda path: path.write_text(HEADER + ROW), "is not packed with gzip, as its ending says"),
        ("people.csv.gz", lambda path: path.write_bytes(gzip.compress(b"x" * 99999)[:40]), "cut short"),
        ("people.parquet", lambda path: path.write_bytes(b"PAR1xxxxxxxx"), "is not a readable Parquet file"),
    ],
)
def test_a_file_that_is_not_what_it_says(
    tmp_path: Path, name: str, make: Callable[[Path], object], expected: str
) -> None:
    make(tmp_path / name)
    assert expected in sentence(str(tmp_path / name))


def test_an_error_far_behind_the_head_is_met_too(tmp_path: Path) -> None:
    """All of a small file is read before a spec is written for it."""
    body = 200_000 * "Ayr,41,Bern\n"
    said = sentence(write(tmp_path, HEADER + body + "Ayr,41\n"))
    assert ":200002: the line has 2 fields instead of 3" in said


def test_what_the_user_says_is_not_looked_for(tmp_path: Path) -> None:
    url = write(tmp_path, "a;b,c\n" + 9 * "1;2,3\n")
    assert understood(url, delimiter=";").source.csv.types == {"a": "int64", "b,c": "float64"}
    polish = write(tmp_path, ("imię,wiek\n" + 30 * "Łucja,4\nŚwiętosława,5\n").encode("cp1250"))
    assert understood(polish, encoding="cp1250").sample.table.column_names == ["imię", "wiek"]
    with pytest.raises(SpecError, match="--encoding: 'klingon' is none that Python has"):
        understood(polish, encoding="klingon")


@each(
    "url, error, expected",
    [
        ("s3://me:canary@bucket/a.csv", SpecError, "must not hold a user or password"),
        ("a{x}.csv", SpecError, "neither {id}"),
        ("nowhere.csv", MicroaggError, "nowhere.csv"),
    ],
)
def test_places_that_cannot_be_read(url: str, error: type[MicroaggError], expected: str) -> None:
    with pytest.raises(error) as caught:
        understood(url)
    assert expected in caught.value.message and "canary" not in caught.value.message
