"""Releases with nominal and ordinal columns, judged by pandas alone: k, modes, medians, and every published figure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import Project

CLUSTER = "none"  # releases are made by the process that is called
ADULT = os.environ.get("MICROAGG_ADULT", "")
LEVELS = ["none", "primary", "secondary", "degree"]
SCHOOLS = [
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college"),
    *("Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"),
]
NOBODY = "~missing"
MEANT = {name: ["row"] for name in ("nearly_unique", "fixes_quasi_identifier", "completes_mean")}


def people(n: int) -> pd.DataFrame:
    """Incomes with many digits, so that no two groups look the same; jobs of which some are rare, and some missing."""
    rng = np.random.default_rng(5)
    job = rng.choice([f"job {i:02}" for i in range(40)], n, p=(w := 0.8 ** np.arange(40)) / w.sum())
    return pd.DataFrame(
        {
            "row": np.arange(n),
            "income": rng.lognormal(10, 1, n),
            "school": rng.choice(LEVELS, n, p=[0.1, 0.3, 0.4, 0.2]),
            "job": pd.Series(job).mask(rng.random(n) < 0.05),
            "roof": pd.Series(rng.choice([1.0, 2.0, 3.0, 9.0], n, p=[0.5, 0.3, 0.15, 0.05])),
            "sex": rng.choice(["f", "m"], n),
        }
    )


def without_gaps(column: pd.Series) -> pd.Series:
    return column.astype(object).where(column.notna(), NOBODY)


def modes(column: pd.Series, classes: pd.Series) -> pd.Series:
    """The most frequent value of each class; of several that which fewest of all records have, then the first."""
    counts = pd.DataFrame({"of": classes, "value": column}).value_counts().rename("n").reset_index()
    counts["all"] = counts["value"].map(column.value_counts())
    ordered = counts.sort_values(["of", "n", "all", "value"], ascending=[True, False, True, True])
    return ordered.groupby("of")["value"].first()


def medians(places: pd.Series, classes: pd.Series) -> pd.Series:
    return places.sort_values(kind="stable").groupby(classes).agg(lambda own: own.iloc[(len(own) - 1) // 2])


def percent_within(dense: pd.DataFrame, classes: pd.Series) -> float:
    """Of the squares about the mean of all, those that are about the means of classes."""
    within = ((dense - dense.groupby(classes).transform("mean")) ** 2).to_numpy().sum()
    return float(100 * within / ((dense - dense.mean()) ** 2).to_numpy().sum())


def judge(project: Project, came: pd.DataFrame, nominal: list[str], ordinal: dict[str, list[Any]]) -> dict[str, Any]:
    """Compare a release with its input by the row that each record has; returns the manifest."""
    manifest, released = project.manifest(), project.released().to_pandas().set_index("row")
    came = came.set_index("row").loc[released.index]
    quasi = [c["name"] for c in manifest["columns"] if c["role"] == "quasi_identifier"]
    classes = released.groupby(quasi, dropna=False).ngroup()
    assert len(released) == manifest["rows"] and classes.value_counts().min() >= manifest["k"]
    attributes, within = manifest["losses"]["attributes"], manifest["losses"]["coarser"]
    n = len(released)
    for name in nominal:
        before, after, own = without_gaps(came[name]), without_gaps(released[name]), attributes[name]
        assert (modes(before, classes).loc[classes].to_numpy() == after.to_numpy()).all()
        changed = int((before != after).sum())
        assert own["mismatches"] == pytest.approx(100 * changed / n, rel=1e-5)
        shares = [side.value_counts(normalize=True) for side in (before, after)]
        moved = shares[0].sub(shares[1], fill_value=0).abs().sum() * 50
        assert abs(own["margins"] - moved) <= within[f"attributes.{name}.margins"]
        chance = own["l_sse"] / 100 * n * (1 - (shares[0] ** 2).sum()) / 2
        assert chance * (1 - 1e-5) <= changed <= 2 * chance * (1 + 1e-5)
        assert (own["categories"], own["categories_kept"]) == (len(shares[0]), len(shares[1]))
        counted_shares(own, *shares, max(10, manifest["k"]), n)
    for name, levels in ordinal.items():
        before, after = (pd.Series(pd.Categorical(of[name], levels).codes, of.index) for of in (came, released))
        assert (medians(before, classes).loc[classes].to_numpy() == after.to_numpy()).all()
        assert attributes[name]["mismatches"] == pytest.approx(100 * (before != after).mean(), rel=1e-5)
        midranks = before.rank().groupby(before).first()
        apart = (before.map(midranks) - after.map(midranks.reindex(range(len(levels))).ffill())).abs().mean()
        assert attributes[name]["rank_displacement"] == pytest.approx(100 * apart / n, rel=1e-5)
    return manifest


def counted_shares(own: dict[str, Any], before: pd.Series, after: pd.Series, fewest: int, n: int) -> None:
    """Shares as anybody counts them; those before as far off as is said, and of no category that few had."""
    names = {value: "(missing)" if value == NOBODY else f"{value:g}" if isinstance(value, float) else value
             for value in {*before.index, *after.index}}  # fmt: skip
    told = {of["category"]: of for of in own["shares"]}
    assert len(told) == len(own["shares"]) <= 30
    assert sum(of["share"] for of in own["shares"]) + own["other_shares"] == pytest.approx(100, abs=1e-3)
    for value, name in names.items():
        if name not in told:
            continue
        assert told[name]["share"] == pytest.approx(100 * after.get(value, 0.0), rel=1e-5)
        if "share_before" in told[name]:
            assert before[value] * n >= fewest
            assert abs(told[name]["share_before"] - 100 * before[value]) <= told[name]["within"] * (1 + 1e-9)
            assert 2 * told[name]["within"] / 100 * n >= fewest


def test_what_people_get_is_what_pandas_counts(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    came = people(3000)
    project.write(pa.Table.from_pandas(came, preserve_index=False))
    job = {"name": "job", "kind": "nominal", "missing": "category"}
    school = {"name": "school", "kind": "ordinal", "levels": LEVELS}
    quasi: list[Any] = ["income", school, job, {"name": "roof", "kind": "nominal"}]
    project.write_spec(
        {"quasi_identifiers": quasi, "blocking": ["sex"], "confidential": ["row"]},
        k=6, refine="fast", acknowledge=MEANT, rounding={"income": "type"},
    )  # fmt: skip
    assert project.call("plan", "release.yaml").code == 0
    document = project.release()
    manifest = judge(project, came, ["job", "roof"], {"school": LEVELS})
    assert project.call("verify", f"release/{manifest['id']}/{manifest['revision']}").code == 0
    released = project.released().to_pandas().set_index("row")
    came = came.set_index("row").loc[released.index]
    classes = released.groupby("income").ngroup()  # groups: no two have one mean
    attributes = manifest["losses"]["attributes"]
    dense = {
        "income": came[["income"]],
        "school": pd.DataFrame(came["school"].map(LEVELS.index).rank()),
        **{name: pd.get_dummies(without_gaps(came[name])).astype(float) for name in ("job", "roof")},
    }
    lost = {name: percent_within(columns, classes) for name, columns in dense.items()}
    for name, loss in lost.items():
        assert attributes[name]["l_sse"] == pytest.approx(loss, rel=1e-5)
    assert manifest["losses"]["l_sse"] == pytest.approx(sum(lost.values()) / 4, rel=1e-5)
    page = Path(document["report"]).read_text(encoding="utf-8")
    text = page[page.index('id="categories"') :].replace("\u00a0", " ")
    for value, count in without_gaps(came["job"]).value_counts().items():
        name = "(missing)" if value == NOBODY else value
        assert (f'<th scope="row">{name}</th><td class="n">{count:,}</td>' in text) == (count >= 10), name
    assert "‘job’: S = " in text and "‘roof’: S = " in text and "‘school’: S" not in text
    public = (project.output / manifest["id"] / manifest["revision"] / "README.md").read_text(encoding="utf-8")
    assert "A missing value of `job` is a category like any other." in public and "Categories of roof:" in public


def test_a_sample_of_adult(project: Project) -> None:
    if not ADULT:
        pytest.skip("MICROAGG_ADULT does not name the census file adult.csv of 30,162 records, with semicolons")
    came = pd.read_csv(ADULT, sep=";").sample(4000, random_state=1)
    came.insert(0, "row", np.arange(len(came)))
    came.to_csv(project.folder / "adult.csv", sep=";", index=False)
    nominal = ["sex", "race", "marital-status", "native-country", "workclass", "occupation"]
    education = {"name": "education", "kind": "ordinal", "levels": SCHOOLS}
    csv = {"delimiter": ";", "types": {"row": "int64", "age": "int64"}}
    project.write_spec(
        {"quasi_identifiers": ["age", education, *nominal], "confidential": ["row"], "drop": ["salary-class"]},
        k=5, input={"url": "adult.csv", "format": "csv", "csv": csv}, acknowledge=MEANT, rounding={"age": "none"},
    )  # fmt: skip
    project.release()
    manifest = judge(project, came, nominal, {"education": SCHOOLS})
    released = project.released().to_pandas().set_index("row")
    age = came.set_index("row").loc[released.index, "age"]
    lost = 100 * ((age - released["age"]) ** 2).sum() / ((age - age.mean()) ** 2).sum()
    assert manifest["losses"]["attributes"]["age"]["l_sse"] == pytest.approx(lost, rel=1e-5)


def test_categories_that_only_differ_by_an_apostrophe(project: Project) -> None:
    came = people(300)
    came["job"] = np.random.default_rng(1).choice(["a", "'a", "=a", "-b"], 300)
    roles: dict[str, Any] = {"quasi_identifiers": ["income", "job"], "drop": ["school", "roof", "sex"]}
    roles["confidential"] = ["row"]
    project.write(pa.Table.from_pandas(came, preserve_index=False))
    escaped = {"url": "release", "format": "csv", "csv": {"formulas": "escape"}}
    project.write_spec(roles, output=escaped, acknowledge=MEANT)
    project.release()
    (file,) = project.parts()
    assert set(pd.read_csv(file)["job"]) == {"a", "'a", "'=a", "'-b"}
    came["job"] = came["job"].replace("-b", "'=a")
    project.write(pa.Table.from_pandas(came, preserve_index=False))
    project.call("plan", "release.yaml", "--set", "id=two").assert_refused(
        3, "'job' has categories that only differ by"
    )
