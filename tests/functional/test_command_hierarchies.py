"""Hierarchies through the command: what groups and merged keys are released as, judged with pandas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import Project

CLUSTER = "none"
#: By value what it is below, from the top; the root has no name.
TOWNS = {town: (side,) for side, towns in {"North": "abcd", "South": "efg"}.items() for town in towns}
ROOFS = {n: ("Flat", "Green") if n < 3 else ("Flat",) if n < 5 else ("Steep",) for n in range(1, 9)}
JOBS = {**{f"m{i}": ("Manual",) for i in range(4)}, **{f"o{i}": ("Office",) for i in range(4)}, "none": ()}


def people(n: int = 600, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": [f"P{i}" for i in range(n)],
            "town": rng.choice(list(TOWNS), n, p=[0.5, 0.003, 0.002, 0.005, 0.44, 0.02, 0.03]),
            "age": rng.integers(18, 80, n),
            "roof": rng.integers(1, 9, n),
            "job": pd.Series(rng.choice(list(JOBS), n)).where(rng.random(n) > 0.1),
            "row": range(n),
        }
    )


def write(project: Project, frame: pd.DataFrame, **changes: Any) -> None:
    project.write(pa.Table.from_pandas(frame, preserve_index=False))
    lines = ["code,parent,label", *(f"{town},{side[0][0]}," for town, side in TOWNS.items()), "N,,North", "S,,South"]
    (project.folder / "towns.csv").write_text("\n".join(lines))
    roofs = {"Flat": [3, 4, {"Green": [1, 2]}], "Steep": [5, 6, 7, 8]}
    jobs = {"Manual": ["m0", "m1", "m2", "m3"], "Office": ["o0", "o1", "o2", "o3"], "none": None}
    roles: dict[str, Any] = {"identifiers": ["id"], "quasi_identifiers": ["age", "roof", "job"], "blocking": ["town"],
                             "confidential": ["row"]}  # fmt: skip
    meant = {"nearly_unique": ["row"], "fixes_quasi_identifier": ["row"], "completes_mean": ["row"]}
    hierarchies = {"town": "towns.csv", "roof": roofs, "job": jobs}
    project.write_spec(
        roles, **{"k": 4, "missing": "separate", "acknowledge": meant, "hierarchies": hierarchies, **changes}
    )


def released(project: Project, read: Any = pd.read_parquet) -> tuple[dict[str, Any], pd.DataFrame]:
    folder: Path = project.output / "one" / "r0001"
    manifest = json.loads((folder / "manifest.json").read_text())
    return manifest, pd.concat([read(folder / part["name"]) for part in manifest["parts"]]).set_index("row")


def least_common(tree: dict[Any, tuple[str, ...]], values: list[Any]) -> str:
    paths = [("*", *tree[value]) for value in values]
    return [level[0] for level in zip(*paths, strict=False) if len(set(level)) == 1][-1]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_released_parents_are_recounted(project: Project, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    frame = people()
    write(project, frame, output={"url": "release", "format": form})
    run = project.call("run", "release.yaml", "--direct", "--json", "--quiet")
    assert run.code == 0, run.err
    manifest, after = released(project, pd.read_parquet if form == "parquet" else pd.read_csv)
    came = frame.set_index("row").loc[after.index]
    key = ["town", "age", "roof", "job"]
    assert after.groupby(key, dropna=False).size().min() >= 4
    for label, rows in after.groupby("town").groups.items():
        towns = came.loc[rows, "town"].unique().tolist()
        assert label == (towns[0] if len(towns) == 1 else least_common(TOWNS, towns))
    assert {"North", "a"} <= set(after["town"]) and not after["town"].isin(["N", "b", "*"]).any()
    classes = after.groupby(key, dropna=False).ngroup()
    for name, tree in (("roof", ROOFS), ("job", JOBS)):
        there = came[name].notna()
        assert (there == after[name].notna()).all()
        own, shown = came.loc[there, name], after.loc[there, name].astype(str)
        is_parent = ~shown.isin([str(value) for value in tree])
        n_below = {parent: sum(parent in path for path in tree.values()) for path in tree.values() for parent in path}
        for _, rows in own.groupby(classes[there]).groups.items():
            value, counts = shown.loc[rows].iloc[0], own.loc[rows].value_counts()
            if is_parent[rows[0]]:
                assert value == least_common(tree, counts.index.tolist()) and len(counts) > 1
            else:
                assert counts[int(value) if name == "roof" else value] == counts.max()
        other = [str(a) != b and b not in tree[a] for a, b in zip(own, shown, strict=True)]
        general = shown[is_parent].map(lambda parent, n=n_below, of=tree: (n[parent] - 1) / (len(of) - 1))
        figures = manifest["losses"]["attributes"][name]
        assert figures["generalized"] == pytest.approx(100 * is_parent.mean(), rel=1e-5) and is_parent.any()
        assert figures["generality"] == pytest.approx(100 * general.astype(float).sum() / len(own), rel=1e-5)
        assert figures["mismatches"] == pytest.approx(100 * np.mean(other), rel=1e-5)
        moved = pd.concat([own.astype(str).value_counts(normalize=True), shown.value_counts(normalize=True)], axis=1)
        within = manifest["losses"]["coarser"].get(f"attributes.{name}.margins", 0.0) + 1e-9
        assert figures["margins"] == pytest.approx(50 * np.abs(moved.fillna(0) @ [1, -1]).sum(), rel=1e-5, abs=within)
        for of in figures["shares"]:
            assert of["share"] == pytest.approx(100 * (shown == of["category"]).mean(), rel=1e-5)
            came_so = 100 * (own.astype(str) == of["category"]).mean()
            assert abs(of.get("share_before", came_so) - came_so) <= of.get("within", 0.0) + 1e-9
        assert {of["category"] for of in figures["shares"]} == set(shown)
    columns = {column["name"]: column for column in manifest["columns"]}
    assert columns["roof"]["type"] == "string" and columns["town"]["hierarchy"] and "hierarchy" not in columns["age"]
    verified = project.call("verify", "release/one")
    assert verified.code == 0, verified.err
    pages = [(project.output / "one" / "r0001" / "README.md").read_text(),
             next((project.work / "audit").rglob("report.html")).read_text()]  # fmt: skip
    assert all("of records have a parent in place of a value" in page for page in pages)
    assert "the parent of values that were merged stands for them" in pages[0]


def test_values_that_are_no_leaves_are_counted_and_never_told(project: Project) -> None:
    frame = people()
    frame.loc[[5, 9], "job"] = "CANARY"
    write(project, frame)
    refused = project.call("run", "release.yaml", "--direct", "--quiet")
    refused.assert_refused(3, "'job' has 2 values that are no leaves of its hierarchy", "add or correct them")
    frame = people()
    frame.loc[[5, 9, 11], "town"] = ["CANARY", "North", "CANARY"]
    write(project, frame)
    refused_too = project.call("run", "release.yaml", "--direct", "--quiet")
    refused_too.assert_refused(3, "blocking column 'town' has 3 values that are no leaves of its hierarchy")
    assert "CANARY" not in refused.err + refused_too.err


def test_a_later_night_keeps_what_was_released_and_takes_no_value_that_is_no_leaf(project: Project) -> None:
    key = project.folder / "series.key"
    key.write_text("the key of a test's series", encoding="utf-8")
    key.chmod(0o600)
    series = {"unit": ["id"], "series": {"mode": "atoms", "key_file": "series.key"}}
    frame = people(300)
    more = people(100, seed=8).assign(id=[f"Q{i}" for i in range(100)], row=range(300, 400))
    nights = [frame, pd.concat([frame, more]), pd.concat([frame, more, more.assign(id="R" + more["id"], job="X")])]
    shown = []
    for night, (rows, code) in enumerate(zip(nights, (0, 0, 3), strict=True)):
        write(project, rows, **series)
        ended = project.call("run", "release.yaml", "--direct", "--quiet", "--id", f"n{night}")
        assert ended.code == code, ended.err
        if not code:
            files = sorted((project.output / f"n{night}" / "r0001" / "data").glob("*.parquet"))
            shown.append(pd.concat(map(pd.read_parquet, files)).set_index("row").sort_index())
    assert "'job' has 100 values that are no leaves of its hierarchy" in ended.err
    kept = shown[0].index
    assert shown[1].loc[kept, ["roof", "job"]].equals(shown[0][["roof", "job"]]) and len(shown[1]) > len(kept)
    assert shown[0]["job"].isin(["Manual", "Office"]).any()
    write(project, nights[1], **series, hierarchies={"town": "towns.csv", "roof": {"Any": list(range(1, 9))}})
    other = project.call("run", "release.yaml", "--direct", "--quiet", "--id", "n3")
    other.assert_refused(2, "groups got the mode or parent of 'job' and would get its mode")
