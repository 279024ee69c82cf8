"""How an input is cut into parts: no byte of a release depends on it, and messages name files and lines as ever."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command_line import Project, after_stage

from covering import cover
from microagg_flows import stages

ROLES = {"quasi_identifiers": ["x", "y"], "blocking": ["place"], "confidential": ["note", "code"]}
TYPES = {"x": "int64", "y": "float64"}
NOTES = ["plain", 'says "no"', "two\nlines", "a,b", "three\r\n\r\nlines", "é" * 40, "", '"\n"\n",'] + [""] * 40
MANY_PARTS = "microagg_core.data.formats.reading.MANY_PARTS"
RANGE_BYTES = "microagg_core.data.formats.csv_bytes.RANGE_BYTES"


def people(n: int = 2500) -> pa.Table:
    """Records on a grid, some with notes of several lines."""
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "x": rng.integers(0, 25, n),
            "y": rng.integers(0, 25, n) * 0.1,
            "place": [f"p{v}" for v in rng.integers(0, 4, n)],
            "note": [NOTES[v] for v in rng.integers(0, len(NOTES), n)],
            "code": [f"{v:02d}" for v in rng.integers(0, 20, n)],
        }
    )


def write_csv(table: pa.Table, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([table.column_names, *zip(*(c.to_pylist() for c in table.columns), strict=True)])
    return path


def write_spec(project: Project, url: str) -> None:
    source: dict[str, Any] = {"url": url} | ({"csv": {"types": TYPES}} if url.endswith("csv") else {})
    project.write_spec(ROLES, input=source, blocks={"max_records": 300})


@pytest.fixture
def alone(tmp_path: Path) -> Project:
    return Project(tmp_path, {"none": {}})


def released(project: Project) -> tuple[list[str], int]:
    """The checksums of what is released, and the number of parts that the input had."""
    says = project.release()["stages"][0]["says"]
    found = re.search(r"(\d+) records in (\d+) parts", says)
    assert found
    assert int(found[1]) == 2500
    return project.data_checksums(), int(found[2])


def test_the_same_bytes_however_the_input_is_cut(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MANY_PARTS, 1)
    table = people()
    pieces = [table.slice(start, 100) for start in range(0, 2500, 100)]

    def checksums(name: str, url: str, write: Callable[[Project], object]) -> tuple[list[str], int]:
        mine = Project(project.folder / name, project.cluster)
        mine.folder.mkdir()
        write(mine)
        write_spec(mine, url)
        return released(mine)

    def many(mine: Project, ending: str) -> None:
        for i, piece in enumerate(pieces):
            path = f"in/{i:02d}.{ending}"
            mine.write(piece, path) if ending == "parquet" else write_csv(piece, mine.folder / path)

    made = [
        checksums("parquet", "people.parquet", lambda mine: mine.write(table)),
        checksums("csv", "people.csv", lambda mine: write_csv(table, mine.folder / "people.csv")),
        checksums("many", "in/*.csv", lambda mine: many(mine, "csv")),
        checksums("many-parquet", "in/*.parquet", lambda mine: many(mine, "parquet")),
    ]
    assert [parts for _, parts in made] == [1] * 4
    monkeypatch.setattr(RANGE_BYTES, 8000)
    made.append(checksums("ranges", "people.csv", lambda mine: write_csv(table, mine.folder / "people.csv")))
    assert made[-1][1] > 5
    monkeypatch.setattr("microagg_core.data.formats.reading.OPENING_BYTES", 40 * 2**20)
    made.append(checksums("fewer", "in/*.parquet", lambda mine: many(mine, "parquet")))
    assert made[-1][1] == 9  # three files each, for which 120 of 128 MiB are reckoned
    assert [found for found, _ in made] == [made[0][0]] * len(made)


FIELDS, TYPE = (":{line}", "7 fields instead of 5"), (":{line}", "column 'x'", "not of its declared type int64")


@pytest.mark.parametrize(
    ("row", "words", "n_bytes"), [(1900, FIELDS, 9000), (17, FIELDS, 2**26), (2400, TYPE, 9000), (2400, TYPE, 2**26)]
)
def test_the_line_is_that_of_the_file(
    row: int, words: tuple[str, ...], n_bytes: int, alone: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also behind records of several lines, and whether the file is cut or not."""
    monkeypatch.setattr(RANGE_BYTES, n_bytes)
    path = write_csv(people(), alone.folder / "people.csv")
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        for _ in range(row + 1):
            next(lines)
        line = lines.line_num + 1
    content = path.read_bytes().decode().split("\n")
    bad = "canary,1,p0,,77" if "column 'x'" in words else "1,1,p0,,77,canary,8"
    path.write_bytes("\n".join([*content[: line - 1], bad, *content[line - 1 :]]).encode())
    write_spec(alone, "people.csv")
    refused = alone.call("run", "release.yaml", "--direct")
    refused.assert_refused(3, *(word.replace("{line}", str(line)) for word in words), "people.csv")
    assert "canary" not in refused.err


def test_a_bad_line_in_one_of_many_files_is_told_by_its_file(alone: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MANY_PARTS, 1)
    for i in range(12):
        write_csv(people(30), alone.folder / "in" / f"{i:02d}.csv")
    with (alone.folder / "in" / "07.csv").open("a") as file:
        file.write("1,2\n")
    write_spec(alone, "in/*.csv")
    alone.call("run", "release.yaml", "--direct").assert_refused(3, "07.csv:", "2 fields instead of 5")


@pytest.mark.parametrize(("value", "what"), [("", "missing"), ("inf", "infinite")])
def test_a_value_that_stops_the_release_is_told_by_its_file(
    value: str, what: str, alone: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MANY_PARTS, 1)
    for i in range(12):
        write_csv(people(30), alone.folder / "in" / f"{i:02d}.csv")
    for i in (7, 9):
        with (alone.folder / "in" / f"{i:02d}.csv").open("a") as file:
            file.write(f"1,{value},p1,,07\n")
    write_spec(alone, "in/*.csv")
    refused = alone.call("run", "release.yaml", "--direct")
    refused.assert_refused(3, f"quasi-identifier 'y' has 2 {what} values (the first in ", "in/07.csv, part 0)")


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"1,0.1,p1,,07\n" * 30)


def replace_in_place(path: Path) -> None:
    """Other records, of which none begins where one did, in a file of the same size."""
    content = path.read_bytes()
    header, rest = content.split(b"\n", 1)
    path.write_bytes(header + b"\n" + rest[7:] + b"\n" * 7)


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def cut_short(path: Path) -> None:
    os.truncate(path, 40_000)


CHANGES = {"appended": append, "replaced": replace_in_place, "touched": touch, "cut short": cut_short}


@pytest.mark.parametrize(("change", "when"), cover(CHANGES, ["cut", "survey", "plan"]))
def test_a_cut_file_that_changes_meanwhile_stops_the_run(
    change: str, when: str, alone: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it was cut is right for what it was; also between that and the first time that its records are read."""
    path = write_csv(people(), alone.folder / "people.csv")
    os.utime(path, ns=(10**18, 10**18))
    before = path.read_bytes()
    write_spec(alone, "people.csv")
    monkeypatch.setattr(RANGE_BYTES, 8000)
    if when == "cut":
        cut_input = stages.cut_input

        def cut_and_change(*arguments: Any) -> Any:
            listing = cut_input(*arguments)
            CHANGES[change](path)
            return listing

        monkeypatch.setattr(stages, "cut_input", cut_and_change)
    else:
        after_stage(monkeypatch, when, lambda _: CHANGES[change](path))
    alone.call("run", "release.yaml", "--direct").assert_refused(3, "people.csv changed while the release was made")
    alone.assert_nothing_published()
    monkeypatch.undo()
    monkeypatch.setattr(RANGE_BYTES, 8000)
    path.write_bytes(before)
    os.utime(path, ns=(10**18, 10**18))
    assert alone.release()["status"] == "released"


def test_where_a_file_is_cut_is_looked_for_once(alone: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on takes it from the work area; where that is damaged, it looks again."""
    write_csv(people(), alone.folder / "people.csv")
    write_spec(alone, "people.csv")
    monkeypatch.setattr(RANGE_BYTES, 8000)
    looked: list[Any] = []
    run_scan = stages.run_scan
    monkeypatch.setattr(stages, "run_scan", lambda scan: looked.append(scan) or run_scan(scan))
    assert alone.call("plan", "release.yaml").code == 0
    n_looks = len(looked)
    assert n_looks > 5
    assert alone.call("plan", "release.yaml").code == 0
    (kept,) = alone.work.rglob("input-parts.json")
    if len(looked) > n_looks:
        pytest.fail("looked again")
    kept.write_bytes(kept.read_bytes()[:-9])
    assert alone.release()["status"] == "released"
    assert len(looked) == 2 * n_looks


def compressed(content: bytes, ending: str) -> bytes:
    """In two members, as who appends to such a file leaves it."""
    codec = pa.Codec("gzip" if ending == "gz" else "zstd")
    return b"".join(bytes(codec.compress(piece)) for piece in (content[:20_000], content[20_000:]))


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_compressed_file_is_one_part_and_the_plan_says_so(
    ending: str, alone: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = write_csv(people(), alone.folder / "people.csv")
    write_spec(alone, "people.csv")
    expected = released(alone)
    content = compressed(plain.read_bytes(), ending)
    packed = Project(alone.folder / "packed", {"none": {}})
    packed.folder.mkdir()
    path = packed.folder / f"people.csv.{ending}"
    path.write_bytes(content)
    packed.write_spec(ROLES, input={"url": path.name, "csv": {"types": TYPES}}, blocks={"max_records": 300})
    monkeypatch.setattr(RANGE_BYTES, 8000)
    told = packed.call("plan", "release.yaml")
    assert told.code == 0, told.err
    assert f"people.csv.{ending} is one part, read by one worker: it is compressed" in told.err
    assert released(packed) == expected
    assert "compressed" not in alone.call("plan", "release.yaml").err


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_compressed_file_that_is_cut_short(ending: str, alone: Project) -> None:
    plain = write_csv(people(), alone.folder / "people.csv")
    path = alone.folder / f"people.csv.{ending}"
    path.write_bytes(compressed(plain.read_bytes(), ending)[:-500])
    alone.write_spec(ROLES, input={"url": path.name, "csv": {"types": TYPES}})
    alone.call("run", "release.yaml", "--direct").assert_refused(3, f"people.csv.{ending} cannot be unpacked")
    path.write_bytes(b"no such thing")
    alone.call("run", "release.yaml", "--direct").assert_refused(3, f"people.csv.{ending} cannot be unpacked")


def test_an_encoding_of_several_bytes_is_one_part(alone: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_csv(people(), alone.folder / "people.csv")
    write_spec(alone, "people.csv")
    expected = released(alone)
    other = Project(alone.folder / "other", {"none": {}})
    other.folder.mkdir()
    (other.folder / "people.csv").write_bytes(path.read_bytes().decode().encode("utf-16"))
    dialect = {"types": TYPES, "encoding": "utf-16"}
    other.write_spec(ROLES, input={"url": "people.csv", "csv": dialect}, blocks={"max_records": 300})
    monkeypatch.setattr(RANGE_BYTES, 8000)
    assert "its encoding is utf-16" in other.call("plan", "release.yaml").err
    assert released(other) == expected
