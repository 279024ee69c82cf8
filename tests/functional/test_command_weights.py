"""A file with survey weights through the command: from a proposal to files in two formats, judged with pandas."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import Project

CLUSTER = "none"
KEYS = ["region", "age", "income", "rb050"]


def survey(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    return pd.DataFrame(
        {
            "pid": [f"P{i}" for i in range(n)],
            "region": rng.choice(["north", "south"], n),
            "age": rng.integers(18, 80, n),
            "income": rng.lognormal(10, 1, n).round(),
            "answer": rng.choice(["yes", "no"], n),
            "rb050": rng.lognormal(5, 1, n).round(3),
        }
    )


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_weighted_totals_of_a_release(project: Project, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    before = survey()
    project.write(pa.Table.from_pandas(before, preserve_index=False))
    roles = {"identifiers": ["pid"], "quasi_identifiers": ["age", "income"], "blocking": ["region"],
             "confidential": ["answer"], "weight": "rb050"}  # fmt: skip
    project.write_spec(roles, output={"url": "release", "format": form})  # type: ignore[arg-type]
    run = project.call("run", "release.yaml", "--direct", "--json", "--quiet")
    assert run.code == 0, run.err
    assert {check["name"] for check in run.document()["checks"]} >= {"weights", "k-anonymity"}
    folder = project.output / "one" / "r0001"
    read = {"parquet": pd.read_parquet, "csv": pd.read_csv}[form]
    after = pd.concat(
        [read(folder / part["name"]) for part in json.loads((folder / "manifest.json").read_text())["parts"]]
    )
    for by in ("region", lambda _: 0):
        for column in ("age", "income", None):
            sums = [(t["rb050"] * (t[column] if column else 1)).groupby(t["region"] if by == "region" else by).sum()
                    for t in (before, after)]  # fmt: skip
            assert (sums[1] / sums[0] - 1).abs().max() < 1e-9
    assert after.groupby(KEYS).size().min() >= 3
    page = next((project.work / "audit").rglob("report.html")).read_text()
    assert "Weighted totals" in page and "rb050 (sum)" in page
    assert "survey weight of each record" in (folder / "README.html").read_text()


def test_a_weight_is_proposed_and_planned(project: Project) -> None:
    project.write(pa.Table.from_pandas(survey(), preserve_index=False))
    made = project.call("init", "people.parquet", "--accept-proposals")
    assert made.code == 0 and "\n  weight: rb050 " in (project.folder / "release.yaml").read_text()
    plan = project.call("plan", "release.yaml", "--quiet")
    assert plan.code == 0 and "at most half of a group's weight in one record" in " ".join(plan.out.split())
    undecided = project.call("init", "people.parquet", "-o", "other.yaml")
    assert undecided.code == 0 and "propose weight" in (project.folder / "other.yaml").read_text()
