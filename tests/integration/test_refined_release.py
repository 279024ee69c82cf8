"""Every release is refined and certified: its manifest has the loss of what is released, a proved bound and the gap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from inputs.people import people
from microagg_core import lower_bound
from microagg_core.errors import SpecError
from microagg_core.group.bounds import gap_percent
from microagg_core.group.metrics.losses import standardize
from microagg_core.pages.release_report import release_document, summary_rows
from microagg_flows.release import Release
from releasing.runs import data_digests, released_table, run_stages, start, write_release

#: One blocking column without small keys, so that a block is a region; ``number`` finds a record again.
ROLES = {
    "identifiers": ["id"],
    "quasi_identifiers": ["x", "y"],
    "blocking": ["region"],
    "confidential": ["number"],
    "drop": ["town", "note", "amount"],
}
SPEC: dict[str, Any] = {
    "roles": ROLES,
    "acknowledge": {"nearly_unique": ["number"]},
    "k": 4,
}


def numbered(n: int) -> pa.Table:
    return people(n).append_column("number", pa.array(range(n)))


def made(folder: Path, table: pa.Table, **changes: Any) -> Release:
    return run_stages(start(write_release(folder, [table], **{**SPEC, **changes})))


def before_and_after(folder: Path, table: pa.Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    after = released_table(folder / "output").to_pandas().set_index("number").sort_index()
    before = table.to_pandas().set_index("number").loc[after.index]
    return before, after


def regions_bound(table: pa.Table, k: int, effort: str = "fast") -> float:
    frame = table.to_pandas()
    Z = standardize(frame[["x", "y"]].to_numpy(np.float64))
    regions = [np.ascontiguousarray(Z[frame["region"] == region]) for region in frame["region"].unique()]
    return sum(lower_bound(X, k, effort).sse for X in regions)


def test_the_manifest_has_loss_bound_and_gap_of_what_was_released(tmp_path: Path) -> None:
    table = numbered(900)
    release = made(tmp_path, table)
    assert release.published is not None
    manifest = release.published.manifest
    assert (manifest.refine, manifest.reproducible) == ("fast", True)
    found = manifest.losses
    before, after = before_and_after(tmp_path, table)
    deviation = before[["x", "y"]].std(ddof=0)
    sse = (((before[["x", "y"]] - after[["x", "y"]]) / deviation) ** 2).to_numpy().sum()
    assert found.sse == pytest.approx(sse, rel=1e-5), "of the values that are released, after rounding"
    bound = regions_bound(table, 4)
    assert bound * (1 - 1e-5) <= found.lower_bound <= bound * (1 + 1e-9), "rounded down to six digits"
    assert found.gap == pytest.approx(gap_percent(found.sse, found.lower_bound), rel=1e-5)
    assert 0 < found.gap < 60
    assert found.refined is True
    rows = dict(summary_rows(release_document(release.published, [])))
    assert rows["refined"] == "fast"
    assert rows["information loss"].startswith(f"L_SSE {found.l_sse} %")
    assert "for any groups of at least k in these blocks" in rows["lower bound"]
    assert rows["gap"] == f"at most {found.gap} % of the loss could be avoided"
    assert float(rows["lower bound"].split()[1]) == pytest.approx(100 * found.lower_bound / found.sst, rel=1e-5)


def test_refinement_loses_less_and_off_leaves_the_algorithms_groups(tmp_path: Path) -> None:
    table = numbered(900)
    loss = {}
    for refine in ("off", "fast", "thorough"):
        release = made(tmp_path / refine, table, refine=refine, k=6)
        assert release.published is not None and release.published.manifest.refine == refine
        loss[refine] = release.measured.figures
    assert loss["fast"].lower_bound == loss["off"].lower_bound, "the bound is not about the groups"
    assert loss["thorough"].lower_bound == loss["off"].lower_bound, "prices take too long for k = 6"
    assert loss["thorough"].sse <= loss["fast"].sse < 0.93 * loss["off"].sse
    assert not loss["off"].refined and loss["fast"].refined
    sizes = released_table(tmp_path / "off" / "output").to_pandas().groupby(["region", "x", "y"]).size()
    assert (sizes == 6).sum() >= len(sizes) - 6, "MDAV's groups have k records, but for two a block"


@pytest.mark.parametrize("step", [50, 400])
def test_rounded_values_never_lose_more_for_being_refined(step: int, tmp_path: Path) -> None:
    table = numbered(400)
    rounding = {"x": step, "y": step / 100}
    off, fast = (made(tmp_path / r, table, rounding=rounding, refine=r).measured.figures for r in ("off", "fast"))
    assert fast.sse <= off.sse * (1 + 1e-5)
    if step < 400:
        assert fast.lower_bound == off.lower_bound <= fast.sse
    else:  # of what rounding loses, one group has more than half of the bound
        assert fast.lower_bound is off.lower_bound is None and "lower_bound" in fast.withheld


def test_two_records_a_group_are_certified_by_the_factor(tmp_path: Path) -> None:
    table = numbered(300)
    release = made(tmp_path, table, k=2, algorithm="two_mu_approx")
    strong = regions_bound(table, 2, "thorough")
    assert strong > 1.1 * regions_bound(table, 2)
    assert release.measured.figures.lower_bound == pytest.approx(strong, rel=1e-5)
    assert release.measured.figures.gap < 10


def test_patterns_of_missing_values_are_bounded_by_what_they_have(tmp_path: Path) -> None:
    frame = numbered(400).to_pandas().astype({"x": "Int64"})
    frame.loc[:20, "x"] = pd.NA
    frame.loc[10:60, "y"] = np.nan
    table = pa.Table.from_pandas(frame, preserve_index=False)
    release = made(tmp_path, table, missing="separate")
    assert 0 < release.measured.figures.lower_bound < release.measured.figures.sse


def test_equal_records_lose_nothing_and_have_no_gap(tmp_path: Path) -> None:
    frame = numbered(300).to_pandas()
    frame["x"], frame["y"] = 7, (frame["region"] == "north") * 2.5
    release = made(tmp_path, pa.Table.from_pandas(frame, preserve_index=False))
    figures = release.measured.figures
    assert (figures.sse, figures.lower_bound, figures.gap) == (0, 0, 0)


def test_a_time_budget_is_told_in_the_manifest(tmp_path: Path) -> None:
    table = numbered(200)
    release = made(tmp_path, table, refine={"seconds": 0.3}, reproducible=False)
    off = made(tmp_path / "off", table, refine="off")
    manifest = json.loads(next((tmp_path / "output").rglob("manifest.json")).read_text())
    assert (manifest["refine"], manifest["reproducible"]) == ({"seconds": 0.3}, False)
    assert release.measured.figures.sse < off.measured.figures.sse
    assert release.published is not None
    rows = dict(summary_rows(release_document(release.published, [])))
    assert rows["refined"] == "0.3 s a block (not reproducible)"


def test_thorough_proves_more(tmp_path: Path) -> None:
    table = numbered(240)
    fast, thorough = (made(tmp_path / r, table, refine=r, k=3).measured.figures for r in ("fast", "thorough"))
    assert thorough.lower_bound > 1.2 * fast.lower_bound
    assert thorough.lower_bound == pytest.approx(regions_bound(table, 3, "thorough"), rel=1e-4)
    assert fast.gap > 20 and 0 < thorough.gap < 8


def test_the_best_algorithm_is_told(tmp_path: Path) -> None:
    table = numbered(300)
    release = made(tmp_path, table, algorithm="best")
    assert release.published is not None
    found = release.published.manifest.losses
    assert {"mdav", "mdav_star", "v_mdav", "md"} <= set(found.tried) and "search" not in found.tried
    assert 1 <= len(found.chosen) <= 3 and set(found.chosen) < set(found.tried)
    rows = dict(summary_rows(release_document(release.published, [])))
    assert rows["tried"] == f"{', '.join(found.tried)}; least loss: {', '.join(found.chosen)}"
    assert found.sse <= made(tmp_path / "one", table).measured.figures.sse * (1 + 1e-5)


@pytest.mark.parametrize("reproducible", [True, False])
def test_a_search_for_some_seconds_is_no_reproducible_release(reproducible: bool, tmp_path: Path) -> None:
    spec = {"algorithm": {"name": "search", "seconds": 0.2}, "reproducible": reproducible}
    if reproducible:
        with pytest.raises(SpecError, match=r"algorithm\.seconds: makes the release depend on the machine's speed"):
            made(tmp_path, numbered(100), **spec)
        return
    release = made(tmp_path, numbered(100), **spec)
    assert release.published is not None and release.published.manifest.reproducible is False


def test_steps_give_the_same_bytes_again(tmp_path: Path) -> None:
    table = numbered(500)
    for name in ("one", "two"):
        made(tmp_path / name, table, refine="thorough", algorithm={"name": "search", "steps": 200})
    one, two = (data_digests(tmp_path / name / "output") for name in ("one", "two"))
    assert one == two and len(one) > 0


@pytest.mark.parametrize("refine", ["off", "fast"])
def test_without_a_bound_the_same_groups_are_released_and_nothing_is_proved(refine: str, tmp_path: Path) -> None:
    table = numbered(300)
    quick, off = (made(tmp_path / name, table, refine=refine, bound=name, k=2) for name in ("quick", "off"))
    assert off.published is not None and quick.measured.figures.lower_bound is not None
    assert data_digests(tmp_path / "off" / "output") == data_digests(tmp_path / "quick" / "output")
    found = off.published.manifest.losses
    assert (found.lower_bound, found.gap, found.certificate) == (None, None, None)
    assert found.sse == quick.measured.figures.sse
    page = next((tmp_path / "off" / "output").rglob("README.html")).read_text(encoding="utf-8")
    assert "lower bound" not in page.lower() and "could have avoided" not in page


def test_a_large_block_is_begun_by_slabs_and_says_so(tmp_path: Path) -> None:
    values = np.random.default_rng(0).lognormal(size=(2600, 30)).round(3)
    table = pa.table({f"v{j}": values[:, j] for j in range(30)})
    spec = {"roles": {"quasi_identifiers": table.column_names}, "k": 3}
    for refine, name in (("off", "mdav"), ("fast", "slabs")):
        release = run_stages(start(write_release(tmp_path / refine, [table], **spec, refine=refine)))
        assert release.published is not None and release.published.manifest.algorithm.name == "mdav"
        assert release.measured.blocks["algorithm"].to_pylist() == [name]
        assert release.published.manifest.losses.chosen == (None if name == "mdav" else ("slabs",))
