"""Losses combined from blocks equal those of the whole file, computed from what was released."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inputs.people import people
from releasing.runs import run_stages, start, write_release

#: Confidential and unique, so that a test can find a record again.
ACKNOWLEDGED = {"acknowledge": {"nearly_unique": ["amount"]}}


def with_unique_amount(n: int) -> pd.DataFrame:
    frame = people(n).to_pandas()
    frame["amount"] = np.arange(n)
    return frame


def run(folder: Path, frame: pd.DataFrame, **changes: object) -> tuple[dict[str, object], pd.DataFrame, pd.DataFrame]:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    release = run_stages(start(write_release(folder, [table], **{**ACKNOWLEDGED, **changes})))
    assert release.published is not None
    files = [
        folder / "output" / release.published.manifest.layout.absolute(p.name) for p in release.published.manifest.parts
    ]
    released = pd.concat([pq.read_table(f).to_pandas() for f in files]).set_index("amount").sort_index()
    figures = release.measured.figures.model_dump(mode="json")
    return figures, frame.set_index("amount").loc[released.index], released


@pytest.mark.parametrize(
    "changes",
    [
        {"blocks": {"max_records": 200}},
        {"blocks": {"undersized": "suppress"}},
        {"rounding": {"x": 50, "y": 0.5}, "algorithm": {"name": "v_mdav", "gamma": 0.7}},
    ],
)
def test_the_whole_equals_the_sum_of_the_blocks(changes: dict[str, object], tmp_path: Path) -> None:
    losses, before, after = run(tmp_path, with_unique_amount(1500), **changes)
    assert losses["records"] == len(before)
    names = ["x", "y"]
    mean, deviation = before[names].mean(), before[names].std(ddof=0)
    z, masked = (before[names] - mean) / deviation, (after[names] - mean) / deviation
    sse = float(((z - masked) ** 2).to_numpy().sum())
    sst = float((z**2).to_numpy().sum())
    sde = float(np.sqrt(((z - masked) ** 2).sum(axis=1)).sum())
    sdt = float(np.sqrt((z**2).sum(axis=1)).sum())
    expected = {"sse": sse, "sst": sst, "l_sse": 100 * sse / sst, "sde": sde, "sdt": sdt, "l_e": 100 * sde / sdt}
    assert {name: losses[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    for name in names:
        found = losses["attributes"][name]  # type: ignore[index]
        assert found["l_sse"] == pytest.approx(100 * ((z - masked)[name] ** 2).sum() / (z[name] ** 2).sum(), rel=1e-5)
        assert found["il1s"] == pytest.approx((z - masked)[name].abs().mean() / np.sqrt(2), rel=1e-5)
        assert found["mean"] == pytest.approx(after[name].mean(), rel=1e-5)
        assert found["variance"] == pytest.approx(after[name].var(ddof=0), rel=1e-5)
    change = abs(np.corrcoef(after[names].T)[0, 1] - np.corrcoef(before[names].T)[0, 1])
    assert losses["correlation_change"]["mean"] == pytest.approx(change, rel=1e-4)  # type: ignore[index]


def test_correlations_are_over_the_records_that_have_both(tmp_path: Path) -> None:
    """Who is far up in x has no y: over these records alone, x varies less than in the file."""
    frame = with_unique_amount(900)
    frame["y"] = frame["x"] / 500 + frame["y"]
    frame.loc[frame["x"] > 600, "y"] = np.nan
    frame.loc[frame["y"] < -1, "x"] = np.nan
    frame["z"] = frame["x"] % 7
    roles = {
        "identifiers": ["id"],
        "quasi_identifiers": ["x", "y", "z"],
        "blocking": ["region"],
        "confidential": ["amount", "note"],
        "drop": ["town"],
    }
    losses, before, after = run(tmp_path, frame, roles=roles, missing="separate", rounding={"x": "none", "z": "none"})
    names = ["x", "y", "z"]
    change = (after[names].corr() - before[names].corr()).abs().to_numpy()[np.triu_indices(3, 1)]
    assert losses["correlation_change"] == pytest.approx(
        {"pairs": 3, "left_out": 0, "mean": change.mean(), "largest": change.max()}, rel=1e-5
    )


def test_figures_of_dates_are_in_days_and_of_timestamps_in_seconds(tmp_path: Path) -> None:
    frame = with_unique_amount(300)
    rng = np.random.default_rng(8)
    frame["born"] = pd.Series(rng.integers(0, 20_000, 300).astype("datetime64[D]").astype("datetime64[s]")).dt.date
    instants = 10**18 + rng.integers(0, 10**15, 300)
    frame["seen"] = instants.astype("datetime64[ns]")
    frame["there"] = (instants // 1000).astype("datetime64[us]")
    frame["there"] = frame["there"].dt.tz_localize("UTC").dt.tz_convert("Europe/Rome")
    names = ["born", "seen", "there", "x"]
    roles = {"quasi_identifiers": names, "confidential": ["amount"], "drop": ["id", "region", "town", "y", "note"]}
    losses, _, after = run(tmp_path, frame, roles=roles)
    figures = losses["attributes"]
    assert [figures[name]["unit"] for name in names] == ["days", "seconds", "seconds", "the column's"]  # type: ignore[index]
    seconds = {
        "born": pd.to_datetime(after["born"]).astype("datetime64[s]").astype(np.int64),
        "seen": after["seen"].astype("datetime64[ns]").astype(np.int64) / 1e9,
        "there": after["there"].dt.tz_convert("UTC").dt.tz_localize(None).astype("datetime64[ns]").astype(np.int64)
        / 1e9,
    }
    for name, per_unit in (("born", 86_400), ("seen", 1), ("there", 1)):
        found = figures[name]  # type: ignore[index]
        assert found["variance"] == pytest.approx((seconds[name] / per_unit).var(ddof=0), rel=1e-5)
        mean = pd.Timestamp(found["mean"]).tz_localize(None).timestamp()
        assert mean == pytest.approx(seconds[name].mean(), abs=per_unit * 0.51)
    assert len(figures["born"]["mean"]) == 10  # type: ignore[index]
    assert figures["there"]["mean"] == figures["seen"]["mean"] + "Z"  # type: ignore[index]


def test_suppressed_records_leave_no_trace_in_what_is_published(tmp_path: Path) -> None:
    """The same release with one withheld record moved far away: every published figure stays the same."""
    frame = with_unique_amount(800)
    lonely = frame.index[0]
    frame.loc[lonely, ["region", "town"]] = ["nowhere", "alone"]
    changes = {"blocks": {"undersized": "suppress", "max_records": 10_000}, "rounding": {"x": 1, "y": 0.001}}
    near, _, _ = run(tmp_path / "near", frame, **changes)
    figures = []
    for value in (500, 501):
        moved = frame.copy()
        moved.loc[lonely, "x"] = value
        run(tmp_path / str(value), moved, **changes)
        manifest = json.loads(next((tmp_path / str(value) / "output").rglob("manifest.json")).read_text())
        figures.append((manifest["losses"], manifest["checks"], manifest["rows"], manifest["suppressed"]))
    assert figures[0] == figures[1]
    assert near["records"] == figures[0][2]


def test_small_releases_publish_no_figures_that_tell_of_records(tmp_path: Path) -> None:
    roles = {
        "identifiers": ["id"],
        "quasi_identifiers": ["x", "y"],
        "confidential": ["amount", "note"],
        "drop": ["region", "town"],
    }
    acknowledged = {"nearly_unique": ["amount", "note"]}
    tiny, _, _ = run(tmp_path / "tiny", with_unique_amount(6), roles=roles, acknowledge=acknowledged)
    assert not {"sse", "lower_bound", "gap"} & tiny.keys() and "withheld" in tiny
    small, _, _ = run(tmp_path / "small", with_unique_amount(40), roles=roles)
    assert "l_sse" in small and "attributes" not in small


def test_blocks_are_cut_by_what_the_survey_drew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more passes over the input, no leaf below k, and what is planned is near what comes."""
    monkeypatch.setattr("microagg_core.release.steps.cuts._ENOUGH", 200)
    monkeypatch.setattr("microagg_core.release.steps.sampling._LEAST_ROWS", 1000)
    monkeypatch.setattr("microagg_core.release.steps.sampling._MOST_ROWS", 1000)
    table = people(6000)
    roles = {
        "identifiers": ["id"],
        "quasi_identifiers": ["x", "y"],
        "confidential": ["note"],
        "drop": ["region", "town", "amount"],
    }
    tables = [table.slice(0, 2500), table.slice(2500)]
    release = run_stages(start(write_release(tmp_path, tables, roles=roles, blocks={"max_records": 800})))
    assert "sample" not in release.steps and "count" not in release.steps
    rows = np.asarray(release.measured.blocks["records"])
    assert rows.sum() == release.planned.outline.rows.sum() == 6000
    assert len(rows) > 6 and rows.min() >= 3 and rows.max() <= 800
    assert release.published is not None
