"""Zeros, heaps and tails of quasi-identifiers, as the command tells them and as the spec has them treated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import Project

ROLES = {"quasi_identifiers": ["wind", "temp"], "confidential": ["station"]}


def weather(*gusts: float, n: int = 1500) -> pa.Table:
    """Hours with wind and temperature; in the last ones stands what an instrument wrote wrongly."""
    rng = np.random.default_rng(9)
    wind = rng.gamma(4, 3, n).round(2)
    wind[len(wind) - len(gusts) :] = gusts
    return pa.table({"wind": wind, "temp": rng.normal(12, 8, n).round(1), "station": rng.choice(["a", "b"], n)})


@pytest.mark.parametrize("gusts", [(1048.36,), (420.5, 431.25, -400.75), ()])
def test_plan_names_the_column_that_few_records_dominate(tmp_path: Path, gusts: tuple[float, ...]) -> None:
    table, project = weather(*gusts), Project(tmp_path, "none")
    for i in range(3):
        project.write(table.slice(i * 500, 500), f"hours/{i}.parquet")
    project.write_spec(ROLES, input={"url": "hours/*.parquet"}, k=5)
    ended = project.call("plan", "release.yaml")
    assert ended.code == 0, ended.err
    wind = np.asarray(table["wind"])
    far = np.sort((wind - wind.mean()) ** 2)[::-1]
    shares = far.cumsum() / far.sum()
    told = [line for line in ended.out.splitlines() if "of the variance" in line]
    if not gusts:
        assert told == [] and shares[4] < 0.1
        return
    records = int((shares < 0.25).sum()) + 1
    who = "one record makes" if records == 1 else f"{records} records make"
    assert len(told) == 1 and f"{who} {100 * shares[records - 1]:.0f} % of the variance of" in told[0]
    assert "'wind'" in told[0]
    said = ended.out + ended.err + json.dumps(project.call("plan", "release.yaml", "--json").document())
    assert not [gust for gust in gusts if f"{abs(gust):g}" in said or f"{abs(gust):.0f}" in said]


def declared(**columns: dict[str, object]) -> dict[str, list[object]]:
    names: list[object] = [{"name": name, **columns[name]} if name in columns else name for name in QUASI]
    return {"quasi_identifiers": names, "confidential": ["number"]}


QUASI = ["age", "wealth", "debt"]


def households(n: int = 900) -> pa.Table:
    """Many have no wealth or no debt; both are skewed where they are not zero."""
    rng = np.random.default_rng(4)
    wealth = np.where(rng.random(n) < 0.4, 0, rng.lognormal(9, 1.5, n).round(-2))
    debt = np.where(rng.random(n) < 0.8, 0, rng.lognormal(7, 1, n).round(-1))
    return pa.table({"age": rng.integers(18, 90, n), "wealth": wealth, "debt": debt, "number": rng.permutation(n)})


def sides(project: Project, table: pa.Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    released = project.released().to_pandas().set_index("number").sort_index()
    return table.to_pandas().set_index("number").loc[released.index], released


def release(folder: Path, table: pa.Table, **spec: object) -> tuple[Project, dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    project = Project(folder, "none")
    project.write(table)
    project.write_spec(**{"k": 5, "acknowledge": {"nearly_unique": ["number"]}, **spec})  # type: ignore[arg-type]
    return project, project.release()


def test_zeros_that_are_separate_stay_zeros_and_nobody_gets_some(tmp_path: Path) -> None:
    table = households()
    apart = declared(wealth={"zeros": "separate"}, debt={"zeros": "separate"})
    project, document = release(tmp_path / "apart", table, roles=apart)
    before, after = sides(project, table)
    for name in ("wealth", "debt"):
        assert ((before[name] == 0) == (after[name] == 0)).all()
    assert not [warning for warning in document["warnings"] if "zeros" in warning]
    assert after.groupby(QUASI).size().min() >= 5
    plain, _ = release(tmp_path / "plain", table, roles=declared())
    before, after = sides(plain, table)
    assert ((before["debt"] == 0) & (after["debt"] != 0)).sum() > 50
    # What any groups lose at least is the same: it is about values, and about all groups.
    lines = [pd.read_parquet(made.work / "audit" / "one" / "r0001" / "blocks.parquet") for made in (project, plain)]
    assert lines[0]["lower_bound"].sum() == pytest.approx(lines[1]["lower_bound"].sum(), rel=1e-4)
    assert (lines[0]["lower_bound"] <= lines[0]["sse"]).all()
    manifest, page = project.manifest(), (project.parts()[0].parents[1] / "README.md").read_text()
    assert manifest["metric"] == {name: {"zeros": "separate"} for name in ("wealth", "debt")}
    assert (
        "How `debt` counted when groups were made: zeros in groups of their own, where k and other demands allow."
        in page
    )
    assert "metric" not in plain.manifest()


def test_zeros_that_too_few_have_join_the_others_and_are_counted(tmp_path: Path) -> None:
    """By place, with blocks of which some have fewer than k zeros; and where debts are split by wealth already."""
    table = households(400)
    place = pa.array([f"p{i % 40}" for i in range(400)])
    roles = {**declared(wealth={"zeros": "separate"}, debt={"zeros": "separate"}), "blocking": ["place"]}
    project, document = release(tmp_path, table.append_column("place", place), roles=roles, k=3)
    before, after = sides(project, table)
    after["group"] = after.groupby([*QUASI, "place"]).ngroup()
    joined = {}
    for name in ("wealth", "debt"):
        zeros = (before[name] == 0).groupby(after["group"]).transform("mean")
        joined[name] = int(((before[name] == 0) & (zeros < 1)).sum())
    assert 0 < joined["wealth"] < joined["debt"]
    told = [warning for warning in document["warnings"] if "zeros of" in warning]
    assert [warning.partition(" are ")[0] for warning in told] == [
        f"{n} zeros of {name!r}" for name, n in joined.items()
    ]
    # Where a place has k of both, no wealth is mixed with none.
    counts = (before["wealth"] == 0).groupby(after["place"]).agg(["sum", "size"])
    enough = counts.index[(counts["sum"] >= 3) & (counts["size"] - counts["sum"] >= 3)]
    there = after["place"].isin(enough)
    assert there.sum() > 100 and ((before["wealth"] == 0) == (after["wealth"] == 0))[there].all()


SCALED = declared(
    wealth={"scale": "log1p", "zeros": "separate"}, debt={"scale": "rank", "top": "99%"}, age={"scale": "robust"}
)


def test_a_scale_groups_alike_and_releases_means_of_values(tmp_path: Path) -> None:
    table = households()
    project, _ = release(tmp_path / "scaled", table, roles=SCALED)
    before, after = sides(project, table)
    for name in QUASI:
        means = before[name].groupby(after.groupby(QUASI).ngroup()).transform("mean")
        assert (after[name] - means).abs().max() <= (0.5 if name == "age" else 0.1)
    plain, _ = release(tmp_path / "plain", table, roles=declared())
    small = before["wealth"].between(1, 5000)
    off = [
        (abs(out["wealth"] / came["wealth"] - 1))[small].median()
        for came, out in (sides(p, table) for p in (project, plain))
    ]
    assert off[0] < off[1] / 2  # by orders of magnitude
    text = project.call("plan", "release.yaml").out
    assert "'debt': by rank; values above the quantile at 99% as that\n" in text
    assert "none is top-coded" in (project.parts()[0].parents[1] / "README.md").read_text()


def test_scales_and_zeros_give_the_same_bytes_however_the_input_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("microagg_core.data.kinds.scales.MOST_VALUES", 64)
    table, digests = households(), []
    for n, size in ((1, 900), (4, 41)):
        (tmp_path / f"{n}").mkdir()
        project = Project(tmp_path / f"{n}", "none")
        for i in range(n):
            project.write(table.slice(i * 900 // n, 900 // n), f"in/{i}.parquet", row_group_size=size)
        blocks = {"max_records": 200}
        project.write_spec(
            SCALED, k=5, blocks=blocks, input={"url": "in/*.parquet"}, acknowledge={"nearly_unique": ["number"]}
        )
        project.release()
        digests.append([part["sha256"] for part in project.manifest()["parts"]])
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ({"name": "born", "scale": "log1p"}, "scale of 'born' is for amounts, and it is of type date32"),
        ({"name": "born", "top": 5}, "top of 'born' is for amounts"),
        ({"name": "member", "zeros": "separate"}, "zeros of 'member' is for amounts, and it is of type bool"),
    ],
)
def test_dates_and_truth_values_are_no_amounts(tmp_path: Path, column: dict[str, object], why: str) -> None:
    project, born = Project(tmp_path, "none"), pa.array(range(60), pa.int32()).cast(pa.date32())
    project.write(pa.table({"born": born, "member": [i % 2 == 0 for i in range(60)]}))
    other = {"born": "member", "member": "born"}[str(column["name"])]
    project.write_spec({"quasi_identifiers": [column, other]})  # type: ignore[dict-item]
    project.call("run", "release.yaml", "--direct").assert_refused(2, why)


def test_zeros_that_protection_groups_with_others_are_told_with_that_reason(tmp_path: Path) -> None:
    table = households(300)
    roles = declared(debt={"zeros": "separate"})
    project, document = release(tmp_path, table, roles=roles, protect={"number": {"t": 0.15}})
    before, after = sides(project, table)
    assert ((before["debt"] == 0) & (after["debt"] != 0)).any()
    (told,) = [warning for warning in document["warnings"] if "zeros of" in warning]
    assert told.endswith("or groups would not hold what is asked of them besides k")
