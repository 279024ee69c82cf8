"""What cannot be released is refused: one clear sentence, the right exit code, nothing at the output."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import Project

ROLES = {
    "identifiers": ["who"],
    "quasi_identifiers": ["x", "y"],
    "blocking": ["place"],
    "confidential": ["code"],
}
#: Values of records that no message may show.
SECRETS = ("Canary-Cornelia", "Canaryville", "canary-code", "77771", "88882.5")


def good(n: int = 60) -> pa.Table:
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 20, n), rng.normal(size=n)
    x[0], y[0] = 77771, 88882.5
    return pa.table(
        {
            "who": [f"Canary-Cornelia-{i}" for i in range(n)],
            "x": x,
            "y": y,
            "place": ["Canaryville", "Canaryville-on-Sea"] * (n // 2),
            "code": ["canary-code", "other-canary-code", "canary-code"] * (n // 3),
        }
    )


def changed(name: str, row: int, value: Any) -> pa.Table:
    table = good()
    values = table[name].to_pylist()
    values[row] = value
    return with_column(table, name, pa.array(values, table[name].type))


def with_column(table: pa.Table, name: str, column: Any) -> pa.Table:
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)


def as_csv(rows: list[list[Any]], header: tuple[str, ...] = ("who", "x", "y", "place", "code")) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([list(header), *rows])
    return text.getvalue()


def csv_rows() -> list[list[Any]]:
    return [list(row.values()) for row in good().to_pylist()]


Prepare = Callable[[Project], None]


def both(*prepares: Prepare) -> Prepare:
    def prepare(project: Project) -> None:
        for step in prepares:
            step(project)

    return prepare


def table(made: pa.Table) -> Prepare:
    return files(people=made, folder="")


def files(folder: str = "in/", **named: pa.Table) -> Prepare:
    def write(project: Project) -> None:
        for name, made in named.items():
            project.write(made, f"{folder}{name}.parquet")

    return write


def data(name: str, content: bytes | str) -> Prepare:
    def write(project: Project) -> None:
        (project.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def csv_file(text: str) -> Prepare:
    return data("people.csv", text)


CSV = {"url": "people.csv", "csv": {"types": {"x": "int64", "y": "float64"}}}
MANY = {"url": "in/*.parquet"}


@dataclass(frozen=True)
class Case:
    """How a release is spoilt, and what the user is told."""

    code: int
    says: tuple[str, ...]
    prepare: Prepare | None = None  # a file in which nothing is wrong
    spec: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ("run", "release.yaml", "--direct")


def truncated() -> bytes:
    sink = io.BytesIO()
    pq.write_table(good(), sink)
    return sink.getvalue()[:-50]


def damaged() -> bytes:
    """A file whose footer is right and whose pages are not."""
    sink = io.BytesIO()
    pq.write_table(good(3000), sink, compression="none")
    content = bytearray(sink.getvalue())
    content[100:4000] = b"\xff" * 3900
    return bytes(content)


def unit_twice() -> pa.Table:
    return changed("who", 1, "Canary-Cornelia-0")


QUASI = "quasi-identifier 'x'"
CASES: dict[str, Case] = {
    # --- the spec (2) ---
    "no such spec": Case(2, ("there is no such file",), arguments=("run", "nowhere.yaml", "--direct")),
    "not YAML": Case(2, ("broken.yaml:",), data("broken.yaml", "k: [1, 2\nname: x"), arguments=("run", "broken.yaml")),
    "a list": Case(2, ("must be a mapping",), data("list.yaml", "- a\n- b\n"), arguments=("run", "list.yaml")),
    "empty spec": Case(2, ("is empty",), data("empty.yaml", ""), arguments=("plan", "empty.yaml")),
    "unknown key": Case(2, ("kk: is not a key", "did you mean k"), spec={"kk": 5}),
    "k of 1": Case(2, ("k: must be at least 2 (got 1)",), spec={"k": 1}),
    "k as text": Case(2, ("k:",), spec={"k": "three"}),
    "no k": Case(2, ("k:",), spec={"k": None}),
    "several errors at once": Case(2, ("k: must be", "kk: is not", "seed:"), spec={"k": 1, "kk": 2, "seed": -1}),
    "Excel workbook": Case(
        3, ("people.xlsx is a zip archive, as Excel", "CSV UTF-8"), data("people.xlsx", b"PK\x03\x04" + b"\0" * 99),
        {"input": {"url": "people.xlsx"}},
    ),
    "SPSS, planned": Case(
        3, ("is a file of SPSS",), data("people.sav", b"$FL2@(#)" + b"\xff" * 99), {"input": {"url": "people.sav"}},
        ("plan", "release.yaml"),
    ),
    "semicolons and declared columns": Case(
        3, ("no column 'x', but a single one with ';'",), csv_file("who;x;y\na;1;2\n"), {"input": CSV},
    ),
    "misspelt algorithm": Case(2, ("must be one of mdav", "did you mean mdav?"), spec={"algorithm": "mdva"}),
    "semicolons": Case(
        2, ("single column, whose name holds semicolons", "input.csv.delimiter", "input.csv.decimal_mark"),
        csv_file("who;x;y;place;code\na;1;2,5;b;c\n"), {"input": {"url": "people.csv"}},
    ),
    "NUL in a path": Case(2, ("input.url: must not hold a NUL",), spec={"input": {"url": "a\0b.parquet"}}),
    "refinement without seconds": Case(2, ("refine.seconds: is missing",), spec={"refine": {}}),
    "secret in options": Case(
        2, ("secret", "environment"), spec={"input": {"url": "s3://b/x", "storage_options": {"secret": "abc"}}}
    ),
    "secret in URL": Case(2, ("must not hold a user or password",), spec={"output": {"url": "s3://me:pw@b/x"}}),
    "column without a role": Case(
        2, ("columns without a role: 'extra'",), table(with_column(good(), "extra", pa.array([1] * 60)))
    ),
    "role without a column": Case(2, ("has no column 'code'",), table(good().drop_columns(["code"]))),
    "role with a misspelt column": Case(
        2, ("has no column 'codes'", "did you mean 'code'"), spec={"roles": {**ROLES, "confidential": ["codes"]}}
    ),
    "no quasi-identifier": Case(2, ("quasi_identifiers",), spec={"roles": {**ROLES, "quasi_identifiers": []}}),
    "half a step of days": Case(
        2, ("rounding.x", "whole number of days"),
        table(with_column(good(), "x", pa.array(range(60), pa.int32()).cast(pa.date32()))), {"rounding": {"x": 0.5}},
    ),
    "too many attributes for patterns": Case(
        2, ("at most 62 quasi-identifiers (got 63)",),
        table(pa.table({f"q{i}": [1, 2, 3] for i in range(63)})),
        {"roles": {"quasi_identifiers": [f"q{i}" for i in range(63)]}, "missing": "separate"},
    ),
    "null word that would end its cell": Case(
        2, ("output.csv.null_word: must hold neither",),
        spec={"output": {"url": "release", "format": "csv", "csv": {"null_word": "n;a", "delimiter": ";"}}},
    ),
    "bad id on the command line": Case(2, ("id:",), arguments=("run", "release.yaml", "--direct", "--id", "../up")),
    "bytes in CSV": Case(
        2, ("holds bytes",), table(with_column(good(), "code", pa.array([b"canary-code"] * 60))),
        {"output": {"url": "release", "format": "csv"}},
    ),
    "unknown file system": Case(2, ("nosuch",), spec={"input": {"url": "nosuch://x/y.parquet"}}),
    # --- the data (3) ---
    **{
        f"time zone {zone}": Case(
            3, ("column 't'", "time zone"),
            table(with_column(good(), "t", pa.array(range(60), pa.int64()).view(pa.timestamp("us", zone)))),
            {"roles": {**ROLES, role: [*ROLES[role], "t"]}},
        )
        for zone, role in (("+99:99", "quasi_identifiers"), ("Nowhere/Land", "blocking"))
    },
    "no records": Case(3, ("no records",), table(good().slice(0, 0))),
    "CSV of nothing": Case(3, ("people.csv", "empty"), csv_file(""), {"input": CSV}),
    "fewer records than k": Case(3, ("2 records, fewer than k=3",), table(good().slice(0, 2))),
    "text as a number": Case(
        3, ("quasi-identifier 'code'", "cannot be number"),
        spec={"roles": {**ROLES, "quasi_identifiers": ["x", {"name": "code", "kind": "number"}], "drop": ["y"],
                        "confidential": []}},
    ),
    "undeclared number in CSV": Case(
        3, (QUASI, "input.csv.types"), csv_file(as_csv(csv_rows())), {"input": {"url": "people.csv"}}
    ),
    "null in a quasi-identifier": Case(3, (QUASI, "1 missing"), table(changed("x", 3, None))),
    "Inf in a quasi-identifier": Case(3, ("quasi-identifier 'y'", "1 infinite"), table(changed("y", 3, -np.inf))),
    "Inf where missing values are kept apart": Case(
        3, ("1 infinite",), table(changed("y", 3, np.inf)), {"missing": "separate"}
    ),
    "parts with another column": Case(
        3, ("b.parquet", "column 'extra'"), files(a=good(), b=with_column(good(), "extra", pa.array([1] * 60))),
        {"input": MANY},
    ),
    "parts with a column less": Case(
        3, ("b.parquet", "has no column 'code'"), files(a=good(), b=good().drop_columns(["code"])),
        {"input": MANY},
    ),
    "parts with another type": Case(
        3, ("b.parquet", "column 'x' as int32 instead of int64"),
        files(a=good(), b=with_column(good(), "x", good()["x"].cast(pa.int32()))), {"input": MANY},
    ),
    "CSV parts with other columns": Case(
        3, ("1.csv", "has no column 'code'"),
        both(data("0.csv", as_csv(csv_rows())), data("1.csv", as_csv([], ("who", "x", "y", "place", "other")))),
        {"input": {**CSV, "url": "?.csv"}},
    ),
    "truncated Parquet": Case(3, ("people.parquet", "truncated"), data("people.parquet", truncated())),
    "damaged Parquet": Case(3, ("people.parquet", "damaged"), data("people.parquet", damaged())),
    "Parquet of no bytes": Case(3, ("people.parquet", "not a readable"), data("people.parquet", b"")),
    "ragged line": Case(
        3, ("people.csv:4", "6 fields instead of 5"),
        csv_file(as_csv([*csv_rows()[:2], ["Canary-Cornelia", 1, 2, "Canaryville", "canary-code", 77771]])),
        {"input": CSV},
    ),
    "quote that is not closed": Case(
        3, ("people.csv",), csv_file(as_csv(csv_rows()) + '"Canary-Cornelia,77771,1,Canaryville,canary-code\n'),
        {"input": CSV},
    ),
    "value that is no number": Case(
        3, ("people.csv", "column 'x'", "not of its declared type int64"),
        csv_file(as_csv([*csv_rows(), ["w", "canary-code", 1, "Canaryville", "c"]])), {"input": CSV},
    ),
    "number that is too large": Case(
        3, ("column 'x'", "declared type int64"),
        csv_file(as_csv([*csv_rows(), ["w", "77771" * 9, 1, "Canaryville", "c"]])), {"input": CSV},
    ),
    "text that is not UTF-8": Case(
        3, ("people.csv", "not utf-8", "encoding"),
        data("people.csv", as_csv(csv_rows()).encode() + b"w,1,1,Canary\xe9,c\n"), {"input": CSV},
    ),
    "header that is not UTF-8": Case(
        3, ("people.csv", "not utf-8"), data("people.csv", b"who,x,y,place,cod\xe9\n"), {"input": CSV}
    ),
    "declared column that is not there": Case(
        3, ("no column 'nowhere'",), csv_file(as_csv(csv_rows())),
        {"input": {"url": "people.csv", "csv": {"types": {"nowhere": "int64"}}}},
    ),
    "two columns of one name": Case(
        3, ("more than one column named 'x'",), csv_file(as_csv([], ("who", "x", "x", "place", "code"))),
        {"input": {"url": "people.csv"}},
    ),
    "nested column": Case(
        3, ("column 'code'", "nested"), table(with_column(good(), "code", pa.array([["canary-code"]] * 60)))
    ),
    "blocking text that is not UTF-8": Case(
        3, ("column 'place'", "not UTF-8"),
        table(with_column(good(), "place", pa.array([b"Canaryville\xff", b"b"] * 30).view(pa.string()))),
    ),
    "confidential text that is not UTF-8, as CSV": Case(
        3, ("column 'code'", "not UTF-8"),
        table(with_column(good(), "code", pa.array([b"canary-code\xff", b"b"] * 30).view(pa.string()))),
        {"output": {"url": "release", "format": "csv"}},
    ),
    "date that CSV cannot carry": Case(
        5, ("parquet may carry what CSV cannot",),
        table(with_column(good(), "x", pa.array([10**9] * 60, pa.int32()).cast(pa.date32()))),
        {"output": {"url": "release", "format": "csv"}},
    ),
    "bytes as blocking": Case(
        3, ("blocking column 'place'", "bytes"), table(with_column(good(), "place", pa.array([b"Canaryville"] * 60)))
    ),
    "identifier twice": Case(3, ("identifier 'who' repeats in 1 records",), table(unit_twice())),
    "plan of the same": Case(
        3, ("fixes the quasi-identifier 'x'",),
        table(with_column(good(), "code", pa.array([f"canary-code-{v}" for v in good()["x"].to_pylist()]))),
        arguments=("plan", "release.yaml"),
    ),
    # --- the gate (4) ---
    "known set with a rare code": Case(
        4, ("known sets: 1 combinations of [code] have fewer than k=3 units", "make 'code' a quasi-identifier"),
        table(changed("code", 5, "canary-code of one")), {"known": [["x"], ["code"]], "k": 3},
    ),
    # --- storage (5) ---
    "a folder": Case(5, ("is a folder",), files(a=good()), {"input": {"url": "in"}}),
    "output is a file": Case(
        5, ("a file stands where a folder is needed",), both(table(good()), data("out", "x")),
        {"output": {"url": "out"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_released_is_refused(name: str, tmp_path: Path) -> None:
    case, project = CASES[name], Project(tmp_path, "none")
    project.write_spec(**{"roles": ROLES, **case.spec})
    (case.prepare or table(good()))(project)
    ended = project.call(*case.arguments)
    ended.assert_refused(case.code, *case.says)
    project.assert_nothing_published()
    assert [secret for secret in SECRETS if secret in ended.err + ended.out] == []
