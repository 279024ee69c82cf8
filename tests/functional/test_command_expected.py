"""What ``microagg plan`` expects of a release: beside what the run then measures, and for its operator alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import AGAIN, Project

from microagg_core.compare import drawing
from microagg_core.demo import make_people
from microagg_flows import trials

ROLES = {
    "quasi_identifiers": ["dwelling_area_m2", "commute_km", "year_of_arrival"],
    "blocking": ["region", "sex"],
    "confidential": ["education", "diagnosis"],
    "drop": ["person_id", "birth_date", "district", "monthly_income", "benefits", "weekly_hours"],
}
#: Deviations that a figure of some blocks may be off; the draw is fixed, so it is or is not.
DEVIATIONS = 3.0


def people(n: int, missing: int = 0) -> pa.Table:
    """So many people, of whom every so many-th has no commute."""
    table = make_people(n)
    if missing:
        commute = [None if i % missing == 0 else value for i, value in enumerate(table["commute_km"].to_pylist())]
        column = pa.array(commute, table["commute_km"].type)
        table = table.set_column(table.column_names.index("commute_km"), "commute_km", column)
    return table


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose releases this process makes, not of the same people night after night."""
    return Project(tmp_path, "none")


def expected_of(project: Project, *arguments: str) -> dict[str, Any]:
    ended = project.call("plan", "release.yaml", "--expected", "--json", "-q", *arguments)
    assert ended.code == 0, ended.err
    document: dict[str, Any] = ended.document()["expected"]
    return document


def untimed(document: dict[str, Any]) -> dict[str, Any]:
    """All but what a clock says, which says something else each time."""
    times = ("seconds", "whole_seconds", "pace")
    figures = [{name: value for name, value in one.items() if name not in times} for one in document["expected"]]
    return {**document, "expected": figures, "in_words": None}


def of_k(document: dict[str, Any], k: int) -> dict[str, Any]:
    (one,) = [one for one in document["expected"] if one["k"] == k]
    figures: dict[str, Any] = one
    return figures


def measured(project: Project, *arguments: str) -> tuple[float, dict[str, Any]]:
    """The loss and the risk of a run, of which every record is asked."""
    document = project.release("--set", "risk=full", *arguments)
    (path,) = (project.work / "audit").glob(f"{document['id']}/{document['revision']}/risk.json")
    return document["losses"]["l_sse"], json.loads(path.read_text())


@pytest.mark.parametrize("blanks", [False, True], ids=["all there", "cells blanked"])
def test_of_a_small_input_everything_is_as_the_run_measures_it(blanks: bool, project: Project) -> None:
    """Digit for digit, and with other rules, in test_command_compare.py."""
    project.write(people(4000, 1000 * blanks))
    project.write_spec(ROLES, k=4, **AGAIN, **({"missing": "blank", "blocks": {"max_records": 120}} if blanks else {}))
    document = expected_of(project)
    assert [one["k"] for one in document["expected"]] == [2, 4, 8] and not document["left_out"]
    for k in (4, 8):
        one = of_k(document, k)
        assert one["is_whole"] and one["l_sse_error"] is None
        loss, risk = measured(project, "--set", f"k={k}", "--id", f"k{k}")
        assert one["drawn_records"] == one["records"] == risk["records"]
        assert one["l_sse"] == pytest.approx(loss, rel=1e-5)
        for name in ("own_nearest", "expected_correct"):
            assert one[name] == pytest.approx(risk["linkage"][name], abs=1e-6)


def test_of_a_larger_input_it_is_near_what_the_run_measures(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of tens of records and of thousands, these in pieces; off by as much as the figures say that they are."""
    monkeypatch.setattr("microagg_flows.releasing.MOST_ROWS", 8_000)
    monkeypatch.setattr(drawing, "_PIECES", 16)
    monkeypatch.setattr(drawing, "_PIECE_ROWS", 500)
    project.write(people(20_000))
    project.write_spec(ROLES, k=4, **AGAIN)
    one = of_k(expected_of(project), 4)
    loss, risk = measured(project)
    assert not one["is_whole"] and 4_000 < one["drawn_records"] <= 8_500 < one["records"]
    assert abs(one["l_sse"] - loss) < DEVIATIONS * one["l_sse_error"] < loss
    # A piece has 500 records and so 125 groups; those at its border miss neighbours that might be nearer.
    assert one["own_nearest"] == pytest.approx(risk["linkage"]["own_nearest"], abs=0.03)
    assert one["expected_correct"] == pytest.approx(risk["linkage"]["expected_correct"], abs=0.01)
    assert one["unique_before"] == pytest.approx(risk["uniqueness"]["before"], abs=0.05)
    for name, column in one["certain"].items():
        assert column["records_certain"] == pytest.approx(risk["inference"][name]["records_certain"], abs=0.05)


def test_the_same_is_expected_however_the_input_is_parted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microagg_flows.releasing.MOST_ROWS", 3_000)
    monkeypatch.setattr(drawing, "_PIECES", 10)
    monkeypatch.setattr(drawing, "_PIECE_ROWS", 300)
    table = people(6_000)
    project.write_spec(ROLES, k=4, input={"url": "input/*.parquet"})
    project.write(table, "input/a.parquet")
    first = untimed(expected_of(project))
    assert untimed(expected_of(project)) == first
    (project.folder / "input/a.parquet").unlink()
    for i, start in enumerate((0, 1_000, 2_500)):
        project.write(table[start : (1_000, 2_500, 6_000)[i]], f"input/{i}.parquet")
    assert untimed(expected_of(project)) == first
    assert untimed(expected_of(project, "--set", "seed=5"))["expected"] != first["expected"]


def test_the_table_in_words(project: Project) -> None:
    project.write(people(2_000))
    project.write_spec(ROLES, k=4, protect={"diagnosis": {"distinct": 2}})
    shown = project.call("plan", "release.yaml", "-q")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    start = lines.index("expected from all 2,000 records; for you alone")
    assert " ".join(lines[start + 1].split()) == "k withheld loss right group right record value certain CPU"
    assert [line.split()[0] for line in lines[start + 2 : start + 4]] == ["4", "8"]
    assert all(len(line) <= 80 for line in lines[start : start + 4])
    rest = "\n".join(lines[start + 4 :])
    # Some block has two or three records, which may be of one diagnosis.
    for words in (
        "left out: k=2: protect.diagnosis.distinct",
        "k=8 would lose",
        "the worst column (by chance",
        "stand alone",
        "all as protect: demands it",
    ):
        assert words in rest
    without = project.call("plan", "release.yaml", "-q", "--no-expected")
    assert without.code == 0 and "expected from" not in without.out


def test_the_time_of_kernels_is_told_once(project: Project) -> None:
    """In the plan and beside what is expected it is one number: the cost model's, at the pace of what was grouped."""
    project.write(people(2_000))
    project.write_spec(ROLES, k=4)
    plan = project.call("plan", "release.yaml", "-q", "--json").document()
    one = of_k(plan["expected"], 4)
    assert one["whole_seconds"] == pytest.approx(plan["seconds"], rel=0.02) and one["pace"] == plan["pace"] > 0
    without = project.call("plan", "release.yaml", "-q", "--json", "--no-expected").document()
    assert without["pace"] is None and without["expected"] is None
    assert without["seconds"] * plan["pace"] == pytest.approx(plan["seconds"], rel=0.02)


def test_what_would_take_long_is_looked_at_only_where_somebody_asks(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(people(3_000))
    project.write_spec(ROLES, k=4, **AGAIN)
    asked = expected_of(project)
    monkeypatch.setattr(trials, "ANYWAY", 0.0)
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    plan = project.call("plan", "release.yaml")
    assert "what other k would lose is not looked at" in plan.out and "left out" not in plan.out
    assert "draw-rows" not in plan.err
    assert [one["k"] for one in asked["expected"]] == [2, 4, 8] and untimed(expected_of(project)) == untimed(asked)
    run = project.call("run", "release.yaml", "--direct")
    assert run.code == 0 and "expect:" not in run.err
    (page,) = project.work.rglob("report.html")
    assert "Not looked at by this run; microagg report SPEC" in page.read_text()
    assert project.call("report", "release.yaml").code == 0
    assert "Not looked at by this run" not in page.read_text()
