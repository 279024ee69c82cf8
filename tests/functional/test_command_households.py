"""Households through the command line: what is said of them on terminals and pages, and figures, counted by hand."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import Project

from reference.profiles import least_profile
from twins.naive_risk import cells_of_units, fewer_than, have_a_value_in_common

K = 3
KEYS = ["town", "age", "job"]
ROLES = {
    "identifiers": ["home"],
    "quasi_identifiers": ["age", "job"],
    "blocking": ["town"],
    "confidential": ["ill", "tag"],
}


def households() -> pd.DataFrame:
    """Persons in any order: 138 homes of 1 to 3, ten of 4 and two of 6, each in one town; ``tag`` is each one's own."""
    rng = np.random.default_rng(4)
    sizes = np.append(rng.choice([1, 2, 3], 138), [4] * 10 + [6] * 2)
    home, n = np.repeat(np.arange(150), sizes), sizes.sum()
    town = np.repeat(np.append(rng.choice(["north", "south"], 138), ["north", "south"] * 6), sizes)
    data = pd.DataFrame({"home": home, "town": town, "age": rng.integers(0, 90, n), "job": rng.choice([*"abc"], n)})
    return data.assign(ill=rng.choice(["flu", "no"], n, p=[0.3, 0.7]), tag=rng.permutation(n)).sample(
        frac=1, random_state=1
    )


def words_of(page: str) -> str:
    """The text of an HTML page."""
    text = re.sub(r"<(style|svg).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(text))


def test_what_is_said_of_households_is_true_and_about_households(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    came = households()
    project.write(pa.Table.from_pandas(came, preserve_index=False))
    meant = {look: ["tag"] for look in ("nearly_unique", "fixes_quasi_identifier", "completes_mean")}
    unit = {"id": "home", "rows": {"at_most": 5}}
    project.write_spec(ROLES, k=K, unit=unit, acknowledge={**meant, "jointly_unique": ["ill", "tag"]})
    plan = project.call("plan", "release.yaml")
    assert plan.code == 0, plan.err
    ended = project.call("run", "release.yaml", "--direct")
    assert ended.code == 0, ended.err

    out = project.released().to_pandas()
    out["home"] = came.set_index("tag")["home"].reindex(out["tag"]).to_numpy()
    sizes, of_home = came["home"].value_counts().clip(upper=5), out["home"].value_counts()
    assert (sizes.reindex(of_home.index) == of_home).all() and not set(sizes.index[sizes == 5]) & set(of_home.index)
    assert least_profile(out["home"].tolist(), list(out[KEYS].itertuples(index=False, name=None))) >= K
    n_gone = 150 - len(of_home)
    assert n_gone >= K

    assert re.search(rf"^units +150 \({n_gone} withheld\)$", plan.out, re.MULTILINE)
    assert re.search(r"^left out +2 rows of 2 units$", plan.out, re.MULTILINE)
    assert "withheld: 2 units have 5 rows each, and fewer than k=3 in their block have as many" in plan.out
    assert "withheld: unit: {rows: {at_most: 3}} would release 3 rows of each unit that has more" in plan.out
    n_records = sizes.sum() - len(out)
    assert f"withheld: {n_records - 10} more records so that totals known elsewhere" in plan.out
    assert f"{n_records} records of {n_gone} units withheld ({n_records - 10} of them for company)" in plan.err
    assert "units of 2 rows" in plan.out and "missing" not in plan.out

    manifest = project.manifest()
    assert manifest["several"] == {"shared": "profile", "per_unit": [], "at_most": 5, "keep": "first"}
    assert not {"lower_bound", "gap", "certificate"} & {
        name for name, of in manifest["losses"].items() if of is not None
    }
    folder = project.output / manifest["id"] / manifest["revision"]
    page = (folder / "README.md").read_text()
    for sentence in (
        "whoever knows some or all records of a unit finds at least 3 units that fit",
        "of some or all records of a unit finds at least 3 units that fit: at least 3 have equally many records",
        "So units that have equally many records and share `town` were put together, at least 3 at a time",
        "Some units of the source are withheld, with all their records, at least 3.",
        "only the first 5 are in the release: how many others are left out is not told",
        "but for the records that are withheld or left out",
        "Anything about whole units, such as the income of a household",
        "nobody can count again, as no record tells whose it is",
        "How much of it better groups could have avoided is not known",
    ):
        assert sentence in page, sentence
    published = [path.read_text() for path in folder.iterdir() if path.suffix in (".md", ".html", ".xml", ".json")]
    for wrong in ("people or firms", "person or firm", "lose less than the rest"):
        assert not any(wrong in text for text in published), wrong

    assert "(at least k units withheld)" in ended.out and "some records, beyond the first 5 of a unit" in ended.out
    assert "lower bound" not in ended.out and "could be avoided" not in ended.out + ended.err
    verified = project.call("verify", "release")
    assert verified.code == 0 and "the files cannot tell, as no row names its unit" in verified.out

    (audit,) = (project.work / "audit").rglob("risk.json")
    risk = json.loads(audit.read_text())
    assert risk["units"]["units"] == risk["units"]["asked"] == len(of_home)
    assert (
        0
        < risk["units"]["by_one_row"]
        < risk["units"]["by_all_rows"]
        <= risk["units"]["largest_chance"]
        <= 1 / K + 1e-6
    )
    cells = cells_of_units(out, out["home"].to_numpy(), "ill")
    certain = {home for cell in cells if have_a_value_in_common(cell) for home, _ in cell}
    assert risk["units"]["certain"]["ill"] == round(len(certain) / len(of_home), 6) > 0
    values = {number: [value for _, own in cell for value in own] for number, cell in enumerate(cells)}
    assert risk["inference"]["ill"]["records_certain"] == round(fewer_than(values, 2), 6)
    shown = words_of((audit.parent / "report.html").read_text())
    assert f"{n_gone} units withheld or held" in shown and "shared by at least k = 3 units" in shown
    assert "Who knows all records of a unit picks the right unit for" in shown and "The bound is proved" not in shown


def test_rows_of_households_one_by_one_are_those_of_k(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    came = households()
    came["town"] = np.random.default_rng(5).choice(["north", "south", "west"], len(came), p=[0.5, 0.48, 0.02])
    project.write(pa.Table.from_pandas(came, preserve_index=False))
    meant = {look: ["tag"] for look in ("nearly_unique", "fixes_quasi_identifier", "completes_mean")}
    unit = {"id": "home", "rows": {"at_most": 4}, "rows_tied": "impossible"}
    project.write_spec(ROLES, k=K, unit=unit, acknowledge={**meant, "jointly_unique": ["ill", "tag"]})
    plan = project.call("plan", "release.yaml")
    assert plan.code == 0 and "by rows of a unit" not in plan.out, plan.err
    project.release()

    out = project.released().to_pandas()
    out["home"] = came.set_index("tag")["home"].reindex(out["tag"]).to_numpy()
    assert len(out) == len(came) - 4 and out.groupby(KEYS)["home"].nunique().min() >= K
    assert out.groupby(KEYS).size().sum() > out.groupby(KEYS)["home"].nunique().sum(), "no home is twice in a group"

    manifest = project.manifest()
    assert manifest["several"] == {"shared": "combination", "per_unit": [], "at_most": 4, "keep": "first"}
    folder = project.output / manifest["id"] / manifest["revision"]
    page = (folder / "README.md").read_text()
    for sentence in (
        "is shared by at least 3 units (k-anonymity, k = 3)",
        "were put into groups of at least 3 units that are as alike as possible",
        "they were found to be no more alike than in others that share these combinations",
        "only the first 4 are in the release",
        "that no value tells which are of one, nobody can count again",
    ):
        assert sentence in page, sentence
    (report,) = (project.work / "audit").rglob("report.html")
    published = [path.read_text() for path in folder.iterdir() if path.suffix in (".md", ".html", ".xml", ".json")]
    for wrong in ("units that fit", "equally many records", "all their records", "shares? all that is released"):
        assert not any(re.search(wrong, words_of(text)) for text in (*published, report.read_text())), wrong
    verified = project.call("verify", "release")
    assert verified.code == 0 and "that k=3 units share each combination was counted before" in verified.out
