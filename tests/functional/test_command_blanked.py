"""Missing values that few records share: cells are blanked and no record is withheld, counted by plain Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import AGAIN, Project
from recount import Expected, check_release

CLUSTER = "none"  # releases are made by the process that is called
K = 5
QUASI = ["x", "y", "day"]
ROLES = {"quasi_identifiers": QUASI, "blocking": ["region", "town"], "confidential": ["tag"]}
SPEC: dict[str, Any] = {"k": K, "acknowledge": {"nearly_unique": ["tag"]}, "missing": "blank"}


def people(n: int, seed: int, share: float = 0.02) -> pa.Table:
    """Records in towns of all sizes, of which some lack a value, by chance, and a few lack all."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["n", "s"], n)
    lacking = rng.random((3, n)) < share * np.array([[1.0], [3.0], [0.1]])
    return pa.table(
        {
            "tag": np.arange(n),
            "region": region,
            "town": [f"{r}{t}" for r, t in zip(region, rng.geometric(0.4, n).clip(1, 7), strict=True)],
            "x": pa.array(rng.normal(size=n).round(2), mask=lacking[0] | lacking[2]),
            "y": pa.array(rng.integers(0, 500, n), mask=lacking[1] | lacking[2]),
            "day": pa.array(rng.integers(0, 9000, n).astype(np.int32), pa.date32(), mask=lacking[2]),
        }
    )


def cells(came: pd.DataFrame, out: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Of each quasi-identifier how many values are missing in the input, and how many more in the release."""
    return {
        name: (int(came[name].isna().sum()), int(out[name].isna().sum() - came[name].isna().sum())) for name in QUASI
    }


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        (people(700, 1), {}),
        (people(2000, 2, 0.1), {"blocks": {"max_records": 4 * K}, "input": {"url": "*.parquet"}}),
        (people(40, 3), {"blocks": {"labels": "star"}}),
        (people(300, 4), {"blocks": {"undersized": "suppress", "totals_known": "file"}}),
    ],
)
def test_a_release_with_blanked_cells(
    table: pa.Table, changes: dict[str, Any], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    if "input" in changes:
        for i, part in enumerate((table[:100], table[100:])):
            project.write(part, f"part-{i}.parquet")
    else:
        project.write(table)
    project.write_spec(ROLES, **{**SPEC, **changes})
    plan = json.loads(project.call("plan", "release.yaml", "--json").out)
    assert not any("a bug" in reason for reason in plan["expected"]["left_out"])
    project.release()
    out, withheld = project.released(), plan["withheld"]
    suppresses = changes.get("blocks", {}).get("undersized") == "suppress"
    assert (withheld > 0) == suppresses
    came = table.to_pandas().set_index("tag").loc[out["tag"].to_pylist()]
    counted = cells(came, out.to_pandas())
    blanked = {name: n for name, (_, n) in counted.items()}
    assert sum(blanked.values()) > 0 and all(n == 0 or n >= K for n in blanked.values())
    by_labels = changes.get("blocks", {}).get("labels") != "star"
    if by_labels:
        expected = Expected(K, QUASI, ROLES["blocking"], blanked=blanked, suppressed=withheld, merged=not suppresses)
        check_release(table, out, expected)
    sizes = out.to_pandas().groupby([*QUASI, "region", "town"], dropna=False).size()
    assert sizes.min() >= K
    assert {name: tuple(of) for name, of in plan["blanked"].items()} == {
        name: of for name, of in counted.items() if any(of)
    }
    _assert_published(project, counted)


def _assert_published(project: Project, counted: dict[str, tuple[int, int]]) -> None:
    """In the manifest and on the page for readers; no number of fewer than k, nor what would tell it."""
    told = {}
    for name, (missing, blanked) in counted.items():
        few = 0 < missing < K or 0 < blanked < K
        if missing or blanked:
            told[name] = {"missing": None if few else missing, "blanked": None if few else blanked}
    assert project.manifest()["blanked"] == told
    manifest = project.output / json.loads((project.output / "latest.json").read_text())["manifest"]
    page = (manifest.parent / "README.md").read_text()
    for name, entry in told.items():
        of_row = [f"{entry[what]:,}" if entry[what] is not None else f"not told, as one of the two is below {K}"
                  for what in ("missing", "blanked")]  # fmt: skip
        assert f"| `{name}` | {of_row[0]} | {of_row[1]} |" in page
    (report,) = (project.work / "audit").rglob("report.html")
    assert "blanked, so that k records lack the same" in report.read_text()
    assert project.call("verify", "release", "--strict").code == 0


def test_a_single_record_that_lacks_a_value_costs_k_cells(project: Project) -> None:
    """And none is withheld, for which hundreds were needed."""
    table = people(600, 5, 0.0)
    table = table.set_column(4, "y", pa.array([None, *table["y"].to_pylist()[1:]], pa.int64()))
    project.write(table.drop_columns(["town"]))
    project.write_spec({**ROLES, "blocking": ["region"]}, **SPEC)
    plan = project.call("plan", "release.yaml")
    assert plan.code == 0
    assert ["y", "1", str(K)] in [line.split() for line in plan.out.splitlines()]
    project.release()
    out = project.released().to_pandas()
    lacking = out[out["y"].isna()]
    assert len(out) == 600 and len(lacking) == K + 1 and 0 in set(lacking["tag"])
    assert len(lacking.groupby(["x", "day", "region"])) == 1
    # Those beside it are the nearest, in what all of them have.
    came = table.to_pandas()
    came["day"] = pd.to_datetime(came["day"]).astype("datetime64[s]").astype(np.int64)
    z = (came[["x", "day"]] - came[["x", "day"]].mean()) / came[["x", "day"]].std(ddof=0)
    far = ((z - z.iloc[0]) ** 2).sum(axis=1)[came["region"] == came["region"][0]].sort_values()
    assert set(lacking["tag"]) == set(far.index[: K + 1])


def test_nothing_is_blanked_where_k_lack_the_same(project: Project) -> None:
    table = people(500, 6, 0.0)
    table = table.set_column(4, "y", pa.array([None] * 20 + table["y"].to_pylist()[20:], pa.int64()))
    project.write(table)
    released = {}
    for missing in ("blank", "separate"):
        project.write_spec(
            {**ROLES, "blocking": [], "drop": ["region", "town"]}, **{**SPEC, **AGAIN, "missing": missing}
        )
        project.release("--id", missing)
        released[missing] = project.released().sort_by("tag")
    assert released["blank"]["y"].null_count == 20
    assert released["blank"] == released["separate"]
