"""Figures as people read them: years, large numbers, shares of nearly all and of none; and nothing said twice."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from command_line import Project

from microagg_core.group.headway import Headway, listening
from microagg_core.pages.operator.charts import correlation_chart
from microagg_flows.executors import InProcess
from microagg_flows.progress import Silence
from microagg_flows.trials import expect_release, full_budget
from releasing.runs import run_stages, start

ROLES = {"quasi_identifiers": ["born", "wealth"], "confidential": ["code", "party"]}


def table(n: int = 900) -> pa.Table:
    rng = np.random.default_rng(4)
    born = rng.integers(1900, 1990, n)
    wealth = np.round(np.exp(rng.normal(17, 1, n)), 2)
    return pa.table({"born": born, "wealth": wealth, "code": rng.permutation(n), "party": rng.permutation(n) % 50})


def test_a_release_writes_years_and_large_numbers_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the terminal, the public pages and the operator's: no power of ten, no comma in a year."""
    monkeypatch.delenv("MICROAGG_REPORT")
    project = Project(tmp_path, "none")
    project.write(table())
    project.write_spec(ROLES, acknowledge={"nearly_unique": ["code"]})
    ended = project.call("run", "release.yaml", "--direct")
    assert ended.code == 0, ended.err
    folder = project.parts()[0].parents[1]
    (page,) = project.work.glob("audit/*/*/report.html")
    text = re.sub(r"data:[^\"]*|<path[^>]*>|\bd=\"[^\"]*\"", "", page.read_text("utf-8"))
    wealth = np.asarray(project.released()["wealth"])
    means = f"{float(f'{wealth.mean():.6g}'):,.0f}", f"{float(f'{wealth.std():.6g}'):,.0f}"
    assert re.search(rf"^wealth .* {means[0]}  +\S+ ", ended.out, re.MULTILINE), ended.out
    assert f"| {means[0]} |" in (folder / "README.md").read_text()
    for where in (ended.out, text, *((folder / name).read_text("utf-8") for name in ("README.md", "ddi.xml"))):
        assert not re.search(r"\d(\.\d+)?e\+\d", where)
        assert not re.search(r"\b1,9\d\d\b(?!,)", where), "a year"
        assert not re.search(r"\b0\s%[^.]{0,90}by chance[^.]{0,20}\b0\s%", where)
    # No two records have one code, so nobody's is certain, nor would be by chance.
    assert "for no record the value of 'code' can be inferred with certainty\n" in ended.out
    assert re.search(r"\b19\d0\b", text), "years are there"


def test_a_difference_of_correlations_has_the_digits_of_its_scale() -> None:
    chart = correlation_chart("", np.array([[0.0, -0.0087], [0.004, 1.5]]), 0.01)
    assert re.findall(r">([-.\d]+)</text>", chart) == [".000", "-.009", ".004", "1.5"]


def test_nearly_all_are_not_1e02_percent(tmp_path: Path) -> None:
    """A column of money in which all but a few records have a value of their own."""
    income = np.arange(2000.0) * 17.25
    income[:8] = 5.0
    people = pa.table({"age": np.arange(2000) % 70, "income": np.random.default_rng(0).permutation(income)})
    pyarrow.csv.write_csv(people, tmp_path / "people.csv")
    ended = Project(tmp_path).call("init", "people.csv")
    assert "more than 99 % of records have a value of their own" in " ".join(ended.out.split())
    assert "e+" not in ended.out and "e+" not in (tmp_path / "release.yaml").read_text()


def test_a_plan_says_what_it_refuses_once(tmp_path: Path) -> None:
    people = table()
    project = Project(tmp_path, "none")
    project.write(people.append_column("twice_born", pa.array(np.asarray(people["born"]) * 2.0)))
    project.write_spec({**ROLES, "confidential": ["twice_born", "party"], "drop": ["code"]})
    ended = project.call("plan", "release.yaml", "--no-expected")
    assert ended.code == 3
    said = Counter(re.findall(r"confidential column[^:]*: ", ended.out + ended.err))
    assert said and set(said.values()) == {1}, said


def test_looking_ahead_says_of_how_many_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for what is expected reads which block is grouped, and how many records that has."""
    heard: list[Headway] = []

    def at_once(listener: Any) -> Any:
        return listening(heard.append, every=0.0)

    project = Project(tmp_path, "none")
    project.write(table())
    places = {name: {"url": str(tmp_path / name)} for name in ("output", "work")}
    roles = {**ROLES, "confidential": ["party"], "drop": ["code"]}
    path = project.write_spec(roles, refine="thorough", input={"url": str(tmp_path / "people.parquet")}, **places)
    release = run_stages(start(path), "survey", "plan")
    monkeypatch.setattr("microagg_flows.executors.listening", at_once)
    release.workers = InProcess(Silence())
    expect_release(release, full_budget(60_000, release.spec.k))
    assert heard and {(one.block, one.records) for one in heard} == {(0, 900)}
