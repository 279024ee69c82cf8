"""Units of several rows, as a user meets them: a household survey, fifteen and more mistakes, and every command."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import Project
from jsonschema import Draft202012Validator

from microagg_core.spec.json_schema import spec_schema

CLUSTER = "none"
UNIT = {"id": ["household"], "rows": "several"}
ROLES: dict[str, Any] = {
    "identifiers": ["household", "person"],
    "quasi_identifiers": ["age", "sex", "tenure"],
    "confidential": ["income"],
    "drop": ["since", "moved", "town"],
}
TYPES = {"age": "int64", "income": "int64", "since": "date", "person": "int64"}
SURVEY: dict[str, Any] = {
    "roles": ROLES,
    "unit": UNIT,
    "input": {"url": "people.csv", "csv": {"types": TYPES}},
    "acknowledge": {"nearly_unique": ["income"], "ties_few_records": ["income"], "completes_mean": ["income"]},
}


def households(*more: int, times: int = 6) -> pd.DataFrame:
    """List the persons of households: some of each size from 1 to 4, and of others; their income is their own."""
    sizes = [1, 2, 3, 4] * times + [*more]
    household = np.repeat(np.arange(len(sizes)), sizes)
    person = np.concatenate([np.arange(size) for size in sizes])
    return pd.DataFrame(
        {
            "household": [f"H{number}" for number in household],
            "person": person,
            "age": np.random.default_rng(1).integers(0, 90, len(person)),
            "sex": np.array(["f", "m"])[person % 2],
            "tenure": np.array(["own", "rent"])[household % 2],
            "town": np.array(["Ayr", "Bath"])[household // 12 % 2],
            "since": [f"2024-{1 + number:02}-01" for number in person],
            "moved": [f"{28 + number}.1.2024" for number in person],
            "income": 1000 + 7 * household,
        }
    )


def written(project: Project, people: pd.DataFrame, **spec: Any) -> Project:
    people.to_csv(project.folder / "people.csv", index=False)
    project.write_spec(**{**SURVEY, **spec})
    return project


@dataclass(frozen=True)
class Mistake:
    code: int
    says: str
    spec: dict[str, Any] = field(default_factory=dict)
    #: Column -> row -> what stands there instead.
    data: dict[str, dict[int, Any]] = field(default_factory=dict)


def unit(**fields: Any) -> dict[str, Any]:
    return {"unit": {**UNIT, **fields}}


def roles(**fields: Any) -> dict[str, Any]:
    return {"roles": {**ROLES, **fields}}


NEWEST = {"at_most": 2, "keep": "newest", "by": "since"}
APART = {"rows_tied": "impossible"}
NIGHTS = {"mode": "atoms", "leavers": "withhold", "key_file": "series.key"}
MISTAKES = {
    "unknown field": Mistake(2, "unit.rwo: is not a key the spec knows; did you mean row?", unit(rwo=["person"])),
    "no id": Mistake(2, "unit.id: is missing", {"unit": {"rows": "several"}}),
    "id is no column": Mistake(2, "unit.id[0]: 'hid' must be an identifier", unit(id=["hid"])),
    "id is confidential": Mistake(2, "unit.id[0]: 'income' must be an identifier", unit(id=["income"])),
    "rows are a number": Mistake(2, "unit.rows: must be 'several', or the most that are released", unit(rows=4)),
    "at most none": Mistake(2, "unit.rows.at_most: must be at least 1 (got 0)", unit(rows={"at_most": 0})),
    "by without newest": Mistake(2, "unit.rows.by: says which rows", unit(rows={"at_most": 2, "by": "since"})),
    "by text": Mistake(
        2, "unit.rows.by: 'moved' is text, by which no row is newer", unit(rows={**NEWEST, "by": "moved"})
    ),
    "by no date": Mistake(3, "column 'since'", unit(rows=NEWEST), {"since": {5: "last spring"}}),
    "per unit differs": Mistake(3, "unit.per_unit: 'sex' has several values within 18 units", unit(per_unit=["sex"])),
    "per unit is confidential": Mistake(2, "unit.per_unit[0]: 'income' is not a quasi-id", unit(per_unit=["income"])),
    "blocking differs": Mistake(
        3,
        "blocking column 'sex' has several values within 18 units, whose rows would be parted",
        roles(quasi_identifiers=["age", "tenure"], blocking=["sex"]),
    ),
    "ids missing": Mistake(3, "2 record(s) name no unit; fill in", data={"household": {3: "", 8: ""}}),
    "ids in two spellings": Mistake(
        3, "unit 'household': the rows of 1 units spell it in several ways", data={"household": {4: "h2"}}
    ),
    "rows named twice": Mistake(3, "unit.row: 1 rows have the 'person' of", unit(row=["person"]), {"person": {4: 0}}),
    "rows not named": Mistake(
        3, "1 record(s) name no row of a unit; fill in", unit(row=["person"]), {"person": {4: ""}}
    ),
    "series without rows": Mistake(2, "unit: needs 'row' for a series", {"series": NIGHTS}),
    "series of the newest rows": Mistake(
        2, "unit.rows.keep: must be oldest", {**unit(row=["person"], rows=NEWEST), "series": NIGHTS}
    ),
    "series with ghosts": Mistake(
        2, "series.leavers: must be withhold", {**unit(row=["person"]), "series": {**NIGHTS, "leavers": "ghosts"}}
    ),
    "series of its own nights": Mistake(
        2,
        "series.mode: independent cannot be",
        {**unit(row=["person"]), "series": {"mode": "independent", "acknowledge": "overlapping_releases"}},
    ),
    "weight differs": Mistake(
        3,
        "weight 'age' has several values within 18 units; give all rows of a unit the unit's weight",
        roles(quasi_identifiers=["sex", "tenure"], weight="age"),
    ),
    "zeros apart": Mistake(
        2,
        "roles.quasi_identifiers[0].zeros: separate is for units of one row each",
        roles(quasi_identifiers=[{"name": "age", "zeros": "separate"}, "sex", "tenure"]),
    ),
    "rows tied perhaps": Mistake(2, "unit.rows_tied: must be one of possible or", unit(rows_tied="perhaps")),
    "rows tied by values": Mistake(
        4,
        "ties: values of 'income' are more alike in rows of a unit than by chance, and so tell which these are; say "
        "unit.rows_tied: possible, with",
        unit(**APART),
    ),
    "rows tied per unit": Mistake(2, "unit.per_unit: is for units whose rows stay", unit(**APART, per_unit=["tenure"])),
    "rows tied by nights": Mistake(
        2, "series.mode: must be disjoint with rows_tied", {**unit(row=["person"], **APART), "series": NIGHTS}
    ),
    "rows tied, protected": Mistake(
        2, "protect: cannot be combined with rows_tied", {**unit(**APART), "protect": {"income": {"distinct": 2}}}
    ),
    "rows tied, weighed": Mistake(
        2,
        "roles.weight: cannot be combined with rows_tied",
        {**unit(**APART), **roles(quasi_identifiers=["sex", "tenure"], weight="age")},
    ),
    "rows tied, known": Mistake(
        2, "known[0]: 'income' is confidential, and with", {**unit(**APART), "known": [["age", "income"]]}
    ),
    "missing blanked": Mistake(2, "missing: blank cannot be combined with units", {"missing": "blank"}),
    "fewer units than k": Mistake(3, "the input has 24 units, fewer than k=25", {"k": 25}),
    "no word of several rows": Mistake(
        3, "identifier 'household' repeats in 36 records, so a row is not a person", {"unit": None}
    ),
    "a row for a unit": Mistake(
        3,
        "unit 'household' repeats in 36 records: write unit: {id: [household], rows: several}",
        {"unit": ["household"]},
    ),
    "a part of the unit": Mistake(
        3, "k counts something smaller: write unit: {id: [household], rows: several}", {"unit": ["household", "person"]}
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_a_sentence(name: str, project: Project) -> None:
    mistake, people = MISTAKES[name], households().astype(object)
    for column, changes in mistake.data.items():
        people.loc[list(changes), column] = list(changes.values())
    ended = written(project, people, **mistake.spec).call("run", "release.yaml", "--direct", "--quiet")
    ended.assert_refused(mistake.code, mistake.says)
    assert len(ended.err.splitlines()) == 1
    project.assert_nothing_published()


def test_who_ties_the_rows_of_a_household_finds_k(project: Project) -> None:
    """By the income, which is each household's own: then the receiver has what the gate counts, and no other has."""
    spec = {**unit(rows={"at_most": 3}, per_unit="tenure"), "known": [["age", "sex"]]}
    written(project, households(), **spec).release()
    schema = Draft202012Validator(spec_schema())
    assert schema.is_valid(project.spec) and not schema.is_valid({**project.spec, **unit(rwo=["person"])})
    released = project.released().to_pandas().sort_values(ROLES["quasi_identifiers"])
    combinations = released[ROLES["quasi_identifiers"]].astype(str).agg("/".join, axis=1)
    profiles = combinations.groupby(released["income"]).agg(" ".join)
    assert len(released) == 54 and profiles.value_counts().min() >= 3
    assert project.manifest()["several"] == {
        "shared": "profile", "per_unit": ["tenure"], "at_most": 3, "keep": "first", "left_out": 6
    }  # fmt: skip
    verified = project.call("verify", "release", "--k", "3")
    assert verified.code == 0 and "ok   units: that k=3 units share all rows of each was counted" in verified.out
    again = project.call("run", "release.yaml", "--direct", "--quiet")
    assert again.code == 0 and again.out.startswith("already released")
    other = project.call("run", "release.yaml", "--direct", "--quiet", "--id", "other")
    other.assert_refused(4, "54 of 54 records were released before", "under unit.row, from the first release on")
    status = project.call("series", "status", "release.yaml").out
    assert "rows            54 live" in status and "bytes a row" in status


def test_a_plan_tells_which_households_are_withheld(project: Project) -> None:
    planned = written(project, households(6, 6, 6, 9, times=50)).call("plan", "release.yaml")
    assert planned.code == 0, planned.err
    assert "blocking keys          6, by rows of a unit (1 below k)" in planned.out
    assert "withheld: one unit has 9 rows, and fewer than k=3 in its block have as many" in planned.out
    assert "withheld: 18 more records so that totals known elsewhere do not tell of the others" in planned.out
    assert "withheld: unit: {rows: {at_most: 4}} would release 4 rows of each unit that has more" in planned.out
    assert "\nof units of several rows nothing is expected, as" in planned.out
    refused = written(project, households(9)).call("plan", "release.yaml")
    refused.assert_refused(3, "here records are units", "with unit: {rows: {at_most: 4}} at least k=3 units have each")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("compare", "release.yaml"), "units of several rows cannot be compared yet"),
        (("plan", "release.yaml", "--describe", "rows=1e6"), "units of several rows cannot be forecast yet"),
    ],
)
def test_what_is_not_for_households_yet_says_so(project: Project, arguments: tuple[str, ...], says: str) -> None:
    written(project, households()).release()
    before = _files(project)
    project.call(*arguments).assert_refused(2, says)
    assert _files(project) == before


def _files(project: Project) -> list[Path]:
    """List the files at the output and in the work area, but for records of the calls themselves."""
    paths = [*project.output.rglob("*"), *project.work.rglob("*")]
    return sorted(path for path in paths if path.parent != project.work / "audit" / "runs")
