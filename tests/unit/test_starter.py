"""The starter spec: complete but for what only its user knows, and safe whatever the columns are called."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pytest

from microagg_core.data.formats.options import CsvInput
from microagg_core.errors import DataError, SpecError
from microagg_core.profile.starting import starter_for
from microagg_core.spec.loading import load_spec
from microagg_core.spec.marked_yaml import parse
from microagg_core.spec.release import ReleaseSpec
from microagg_core.spec.starter import starter_spec

SCHEMA = pa.schema(
    [
        ("person", pa.string()),
        ("age", pa.int16()),
        ("born", pa.date32()),
        ("seen", pa.timestamp("us", "UTC")),
        ("income", pa.decimal128(9, 2)),
        ("region", pa.dictionary(pa.int8(), pa.string())),
        ("visits", pa.list_(pa.int32())),
        ("photo", pa.binary()),
        ("vaccinated", pa.bool_()),
    ]
)
AWKWARD = [
    "no",
    "2020",
    "a: b # c",
    "with 'both\" quotes",
    "line\nbreak",
    "é😀",
    " padded ",
    "- x",
    "{y}",
    "%",
    "\u2028",
    "a/b",
]


def load(tmp_path: Path, text: str) -> ReleaseSpec:
    path = tmp_path / "release.yaml"
    path.write_text(text, encoding="utf-8")
    return load_spec(str(path))


def complaint(tmp_path: Path, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        load(tmp_path, text)
    return caught.value.message


def decided(text: str, quasi: str) -> str:
    """The starter as its user completes it: one quasi-identifier, everything else confidential or dropped."""
    before, _, rest = text.partition("  # to decide")
    columns, _, after = rest.partition("  identifiers: []")
    listed = [
        line.split("    # ")[0].strip().removeprefix("- ") for line in columns.splitlines() if line.startswith("    - ")
    ]
    others = ", ".join(name for name in listed if name.strip() != quasi)
    after = after.replace("quasi_identifiers: []", f"quasi_identifiers: [{quasi}]").replace(
        "drop: []", f"drop: [{others}]"
    )
    return f"{before}  identifiers: []{after}"


@pytest.mark.parametrize("url", ["data/people.parquet", "people.csv", "s3://bucket/in/*.parquet"])
def test_run_unchanged_it_says_which_columns_lack_a_role(tmp_path: Path, url: str) -> None:
    text = starter_spec(url, SCHEMA)
    said = complaint(tmp_path, text)
    line = 1 + text.splitlines().index("  to_decide:")
    assert said == (
        f"{tmp_path}/release.yaml:{line}: roles.to_decide: columns without a role yet: "
        f"{', '.join(repr(name) for name in SCHEMA.names)}; "
        "move each to identifiers, quasi_identifiers, blocking, confidential or drop"
    )


def test_with_the_columns_deleted_it_wants_a_quasi_identifier(tmp_path: Path) -> None:
    text = starter_spec("people.parquet", SCHEMA)
    start, end = text.index("  # to decide"), text.index("  identifiers: []")
    assert "roles.quasi_identifiers: must name at least one column" in complaint(tmp_path, text[:start] + text[end:])


@pytest.mark.parametrize(("url", "form"), [("a.parquet", "parquet"), ("a.csv", "csv"), ("a.feather", "arrow")])
def test_with_roles_it_loads(tmp_path: Path, url: str, form: str) -> None:
    spec = load(tmp_path, decided(starter_spec(url, SCHEMA, output_format=form), "age"))
    assert spec.roles.quasi_identifiers == ("age",)
    assert set(spec.roles.drop) == set(SCHEMA.names) - {"age"}
    assert spec.input.url == str(tmp_path / url)
    assert spec.output.format == spec.input.format == form


def test_every_column_is_listed_once_with_its_type_and_no_role() -> None:
    text = starter_spec("people.parquet", SCHEMA)
    tree, wrong = parse(text)
    assert tree is not None and not wrong
    roles = tree.plain()["roles"]
    assert roles.pop("to_decide") == SCHEMA.names
    assert list(roles.values()) == [[]] * 5
    comments = {line.split()[1]: line.split("# ")[1] for line in text.splitlines() if line.startswith("    - ")}
    assert comments == {
        "person": "string",
        "age": "int16, a number",
        "born": "a date",
        "seen": "a timestamp",
        "income": "decimal128(9, 2), a number",
        "region": "string",
        "visits": "nested; cannot be released, so drop it",
        "photo": "bytes",
        "vaccinated": "bool",
    }


def test_awkward_names_come_through_yaml_unharmed(tmp_path: Path) -> None:
    (tmp_path / "x: y").mkdir()
    with (tmp_path / "x: y" / "# 1.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([AWKWARD, range(1, len(AWKWARD) + 1)])
    text = starter_for(str(tmp_path / "x: y" / "# 1.csv"), tmp_path / "release.yaml")
    tree, wrong = parse(text)
    assert tree is not None and not wrong
    assert sorted(tree.plain()["roles"]["to_decide"]) == sorted(AWKWARD)
    assert tree.plain()["input"]["url"] == "x: y/# 1.csv"
    assert tree.plain()["input"]["csv"]["types"] == dict.fromkeys(AWKWARD, "int64")


def people(tmp_path: Path, n: int = 120) -> str:
    """A file with a role of each kind."""
    rows = [
        "pid;sex;age;income;source",
        *(f"P{i};{'fm'[i % 2]};{20 + i % 50};{i * 7 % 23 + 0.5};web" for i in range(n)),
    ]
    (tmp_path / "people-2026-11-18.csv").write_text("\n".join(rows).replace(".5", ",5") + "\n")
    return str(tmp_path / "people-2026-11-18.csv")


def test_what_was_understood_of_a_csv_file_stands_in_the_spec(tmp_path: Path) -> None:
    text = starter_for(people(tmp_path), tmp_path / "release.yaml")
    spec = load(tmp_path, decided(text, "age").replace("unit: [pid]", "unit: row"))
    assert spec.input.csv == CsvInput(delimiter=";", decimal_mark=",", types={"age": "int64", "income": "float64"})


def test_columns_to_decide_are_sorted_by_what_is_proposed_and_say_why(tmp_path: Path) -> None:
    text = starter_for(people(tmp_path), tmp_path / "release.yaml")
    assert [line.strip() for line in text.splitlines() if ": propose " in line] == [
        "- pid       # text, 120 distinct, 100 % unique: propose identifiers (called an id)",
        "- age       # int64, 50 distinct, 21 to 67: propose quasi_identifiers (a number, known from outside)",
        "- sex       # text, 2 distinct: propose blocking (categories, known from outside)",
        "- income    # float64, 23 distinct, 0 to 22: propose confidential (money, which others do not know)",
        "- source    # text, 1 distinct: propose drop (one value in every record)",
    ]
    assert "unit: [pid] " in text and "Series: the file's name holds a day" in text
    assert "roles.to_decide: columns without a role yet: 'pid', 'age', 'sex'" in complaint(tmp_path, text)


def test_accepted_proposals_are_roles_below_a_line_that_says_so(tmp_path: Path) -> None:
    text = starter_for(people(tmp_path), tmp_path / "release.yaml", is_accepted=True)
    assert "# PROPOSED BY A PROGRAM" in text.splitlines()[2]
    spec = load(tmp_path, text)
    assert spec.roles.role_of() == {
        "pid": "identifiers", "age": "quasi_identifiers", "sex": "blocking", "income": "confidential", "source": "drop",
    }  # fmt: skip
    assert (spec.unit, spec.missing) == (("pid",), "error")


def test_missing_values_and_repeated_ids_are_met(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("pid,age\n" + "".join(f"P{i // 2},{'NA' if i % 9 == 0 else 20 + i % 50}\n" for i in range(100)))
    text = starter_for(str(path), tmp_path / "release.yaml", is_accepted=True)
    spec = load(tmp_path, text)
    assert (spec.unit, spec.missing, spec.input.csv.null_words) == (("pid",), "separate", ("", "NA"))
    assert "# Unit: pid has 50 values in 100 records. If each is one person or firm with several rows," in text


def test_accepted_awkward_names_come_through_yaml_unharmed(tmp_path: Path) -> None:
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([AWKWARD, *([i * 7 % 31 + j / 2 for j in range(len(AWKWARD))] for i in range(40))])
    spec = load(tmp_path, starter_for(str(tmp_path / "a.csv"), tmp_path / "release.yaml", is_accepted=True))
    assert set(spec.roles.role_of()) == set(AWKWARD)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("data/People 2026.parquet", "People-2026"),
        ("s3://bucket/in/*.parquet", "release"),
        ("é.csv", "release"),
        ("_x_.csv", "x"),
        ("yes.csv", "yes"),
        ("2026.csv", "2026"),
        ("a" * 90 + ".csv", "a" * 64),
    ],
)
def test_the_name_comes_from_the_file(tmp_path: Path, url: str, name: str) -> None:
    assert load(tmp_path, decided(starter_spec(url, SCHEMA), "age")).name == name


def test_what_no_spec_can_describe_is_refused() -> None:
    with pytest.raises(DataError, match="column 2 of the input has no name"):
        starter_spec("a.csv", pa.schema([("a", pa.string()), ("", pa.string())]))
    with pytest.raises(DataError, match="more than one column named 'a'"):
        starter_spec("a.csv", pa.schema([("a", pa.string()), ("a", pa.string())]))
    with pytest.raises(SpecError) as caught:
        starter_spec("s3://me:canary@bucket/a.csv", SCHEMA)
    assert "canary" not in caught.value.message
