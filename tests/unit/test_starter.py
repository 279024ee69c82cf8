"""The starter spec: complete but for what only its user knows, and safe whatever the columns are called."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from covering import each
from microagg_core.data.formats.options import CsvInput
from microagg_core.errors import DataError, SpecError
from microagg_core.profile.profile import FileProfile, profile_of
from microagg_core.profile.starter import starter_of
from microagg_core.spec.loading import load_spec
from microagg_core.spec.marked_yaml import parse
from microagg_core.spec.release import ReleaseSpec
from microagg_core.spec.units import SeveralRows

AWKWARD = [
    "no", "2020", "a: b # c", "with 'both\" quotes", "line\nbreak", "é😀", " padded ", "- x", "{y}", "%", "\u2028",
    "a/b",
]  # fmt: skip


def load(tmp_path: Path, text: str) -> ReleaseSpec:
    path = tmp_path / "release.yaml"
    path.write_text(text, encoding="utf-8")
    return load_spec(str(path))


def complaint(tmp_path: Path, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        load(tmp_path, text)
    return caught.value.message


def starter_for(data: Path, spec: Path, is_accepted: bool = False) -> str:
    return starter_of(profile_of(str(data)), str(data), spec, is_accepted)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> FileProfile:
    """The profile of a file with a column for each role."""
    path = tmp_path_factory.mktemp("people") / "people-2026-11-18.csv"
    rows = [f"P{i};{'fm'[i % 2]};{20 + i % 50};{i * 7 % 23 + 0.5};web" for i in range(120)]
    path.write_text("\n".join(["pid;sex;age;income;source", *rows]).replace(".5", ",5") + "\n")
    return profile_of(str(path))


def starter(people: FileProfile, folder: Path, is_accepted: bool = False) -> str:
    return starter_of(people, people.source.url, folder / "release.yaml", is_accepted)


def test_columns_to_decide_are_sorted_by_what_is_proposed_and_say_why(people: FileProfile, tmp_path: Path) -> None:
    text = starter(people, tmp_path)
    assert [line.strip() for line in text.splitlines() if ": propose " in line] == [
        "- pid       # text, 120 distinct, 100 % unique: propose identifiers (called an id)",
        "- age       # int64, 50 distinct, 21 to 67: propose quasi_identifiers (a number, known from outside)",
        "- sex       # text, 2 distinct: propose blocking (categories, known from outside)",
        "- income    # float64, 23 distinct, 0 to 22: propose confidential (money, which others do not know)",
        "- source    # text, 1 distinct: propose drop (one value in every record)",
    ]
    assert "unit: [pid] " in text and "Series: the file's name holds a day" in text


def test_run_unchanged_it_says_which_columns_lack_a_role(people: FileProfile, tmp_path: Path) -> None:
    text = starter(people, tmp_path)
    line = 1 + text.splitlines().index("  to_decide:")
    assert complaint(tmp_path, text) == (
        f"{tmp_path}/release.yaml:{line}: roles.to_decide: columns without a role yet: 'pid', 'age', 'sex', 'income', "
        "'source'; move each to identifiers, quasi_identifiers, blocking, confidential, weight or drop"
    )
    start, end = text.index("  # to decide"), text.index("  identifiers: []")
    assert "roles.quasi_identifiers: must name at least one column" in complaint(tmp_path, text[:start] + text[end:])


def test_accepted_proposals_are_roles_below_a_line_that_says_so(people: FileProfile, tmp_path: Path) -> None:
    text = starter(people, tmp_path, is_accepted=True)
    assert "# PROPOSED BY A PROGRAM" in text.splitlines()[2]
    assert '("01" stays "01"): a category where it is a\n    # quasi-identifier' in text
    spec = load(tmp_path, text)
    assert spec.roles.role_of() == {
        "pid": "identifiers", "age": "quasi_identifiers", "sex": "blocking", "income": "confidential", "source": "drop",
    }  # fmt: skip
    assert (spec.unit, spec.missing) == (("pid",), "error")
    assert spec.input.csv == CsvInput(delimiter=";", decimal_mark=",", types={"age": "int64", "income": "float64"})


def test_missing_values_and_repeated_ids_are_met(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    lines = [f"P{i // 2},{20 + i % 50},{'NA' if i % 9 == 0 else i % 4}\n" for i in range(100)]
    path.write_text("".join(["pid,age,floor\n", *lines]))
    text = starter_for(path, tmp_path / "release.yaml", is_accepted=True)
    spec = load(tmp_path, text)
    assert (spec.several, spec.missing, spec.input.csv.null_words) == (SeveralRows(id=("pid",)), "error", ("", "NA"))
    assert "# unit: pid has 50 values, 2 rows each, with nothing in common: so k counts these" in text


def test_a_file_with_types_is_released_in_its_own_format(tmp_path: Path) -> None:
    table = pa.table(
        {
            "age": pa.array([20 + i % 50 for i in range(120)], pa.int16()),
            "region": pa.array(["a", "b"] * 60).dictionary_encode(),
            "visits": [[1, 2]] * 120,
        }
    )
    pa.feather.write_feather(table, tmp_path / "people.feather")
    text = starter_for(tmp_path / "people.feather", tmp_path / "release.yaml", is_accepted=True)
    spec = load(tmp_path, text)
    assert [q.name for q in spec.roles.quasi_identifiers] == ["age"] and set(spec.roles.drop) >= {"visits"}
    assert spec.output.format == spec.input.format == "arrow" and spec.input.url == str(tmp_path / "people.feather")
    assert "# int16, 50 distinct, 21 to 67: " in text and "# list<" in text


def test_awkward_names_come_through_yaml_unharmed(tmp_path: Path) -> None:
    data = tmp_path / "x: y" / "# 1.csv"
    data.parent.mkdir()
    with data.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([AWKWARD, *([i * 7 % 31 + j / 2 for j in range(len(AWKWARD))] for i in range(40))])
    tree, wrong = parse(starter_for(data, tmp_path / "release.yaml"))
    assert tree is not None and not wrong
    assert sorted(tree.plain()["roles"]["to_decide"]) == sorted(AWKWARD)
    assert tree.plain()["input"]["url"] == "x: y/# 1.csv"
    assert set(tree.plain()["input"]["csv"]["types"]) == set(AWKWARD)
    spec = load(tmp_path, starter_for(data, tmp_path / "release.yaml", is_accepted=True))
    assert set(spec.roles.role_of()) == set(AWKWARD)


@each(
    "url, name",
    [
        ("data/People 2026.parquet", "People-2026"),
        ("s3://bucket/in/*.parquet", "release"),
        ("_x_.csv", "x"),
        ("yes.csv", "yes"),
        ("a" * 90 + ".csv", "a" * 64),
    ],
)
def test_the_name_comes_from_the_file(people: FileProfile, tmp_path: Path, url: str, name: str) -> None:
    assert load(tmp_path, starter_of(people, url, tmp_path / "release.yaml", True)).name == name


@pytest.mark.parametrize(
    ("names", "why"),
    [(["a", ""], "column 2 of the input has no name"), (["a", "a"], "more than one column named 'a'")],
)
def test_what_no_spec_can_describe_is_refused(tmp_path: Path, names: list[str], why: str) -> None:
    pq.write_table(pa.table([[1], [2]], names=names), tmp_path / "people.parquet")
    with pytest.raises(DataError, match=why):
        profile_of(str(tmp_path / "people.parquet"))
