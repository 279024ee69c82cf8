"""A release for k = 2 says how far from the least possible its loss is at most, as anyone can compute again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from inputs.people import people
from microagg_core import partition
from microagg_core.group.factor import minimum_factor
from microagg_core.group.metrics.losses import losses, standardize
from releasing.runs import run_stages, start, write_release

NAMES = ["x", "y"]


def certificate_of(folder: Path, frame: pd.DataFrame, **changes: Any) -> dict[str, float]:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    spec = {"k": 2, "algorithm": "two_mu_approx", "rounding": {"x": "none", "y": "none"}, "refine": "off", **changes}
    run_stages(start(write_release(folder, [table], **spec)))
    manifest = json.loads(next((folder / "output").rglob("manifest.json")).read_text())
    certificate: dict[str, float] = manifest["losses"]["certificate"]
    assert certificate["sse"] == manifest["losses"]["sse"]
    return certificate


def by_block(frame: pd.DataFrame) -> list[np.ndarray]:
    Z = standardize(frame[NAMES].to_numpy(np.float64))
    return [Z[rows] for rows in frame.reset_index(drop=True).groupby(["region", "town"]).indices.values()]


def enough(frame: pd.DataFrame, least: int) -> pd.DataFrame:
    return frame[frame.groupby(["region", "town"])["x"].transform("size") >= least]


def test_blocks_add_up_to_what_the_manifest_says(tmp_path: Path) -> None:
    frame = enough(people(900).to_pandas(), 2)
    found = certificate_of(tmp_path, frame)
    factors = [minimum_factor(Z).certificate for Z in by_block(frame)]
    assert len(factors) > 10
    assert found["weight"] == pytest.approx(sum(f.weight for f in factors), rel=1e-5)
    assert found["sse"] == pytest.approx(sum(f.sse for f in factors), rel=1e-5)
    assert found["bound"] <= sum(f.bound for f in factors)
    assert found["optimum_at_least"] == pytest.approx(found["bound"] / 2, rel=1e-5)
    assert found["ratio"] >= found["sse"] / found["optimum_at_least"] * (1 - 1e-5)
    assert 1 <= found["ratio"] <= 2


def test_refined_groups_are_certified_by_the_same_bound(tmp_path: Path) -> None:
    frame = enough(people(900).to_pandas(), 2)
    plain, refined = (certificate_of(tmp_path / effort, frame, refine=effort) for effort in ("off", "fast"))
    assert refined["bound"] == plain["bound"]
    assert refined["sse"] < plain["sse"] and 1 <= refined["ratio"] < plain["ratio"]


def test_the_bound_is_below_the_optimum_of_every_block(tmp_path: Path) -> None:
    frame = people(400).to_pandas()
    frame["region"] = [f"r{i // 10}" for i in range(len(frame))]
    frame["town"] = "t"
    found = certificate_of(tmp_path, frame)
    optimum = sum(losses(Z, partition(Z, 2, "exhaustive")).sse for Z in by_block(frame))
    assert 0.9 * optimum < found["optimum_at_least"] <= optimum
    assert optimum <= found["sse"] * (1 + 1e-5) <= found["ratio"] * found["optimum_at_least"] * (1 + 2e-5)


def test_it_is_about_what_is_released_and_about_no_record_that_is_not(tmp_path: Path) -> None:
    """Withheld records change the standardization; rounding adds to the loss, never to the bound."""
    frame = people(700).to_pandas()
    frame.loc[frame.index[0], ["region", "town", "x"]] = ["nowhere", "alone", 900_000]
    blocks = {"undersized": "suppress", "totals_known": "file"}
    found = certificate_of(tmp_path / "fine", frame, blocks=blocks)
    weights = [minimum_factor(Z).certificate.weight for Z in by_block(enough(frame, 2))]
    assert found["weight"] == pytest.approx(sum(weights), rel=1e-5)
    coarse = certificate_of(tmp_path / "coarse", frame, blocks=blocks, rounding={"x": 50, "y": 0.5})
    assert coarse["bound"] == found["bound"]
    assert coarse["sse"] > found["sse"] and coarse["ratio"] > found["ratio"]


def test_records_that_lose_nothing_are_certified_as_such(tmp_path: Path) -> None:
    frame = people(60).to_pandas()
    frame[["region", "town"]] = ["r", "t"]
    frame["x"], frame["y"] = np.arange(60) // 4, 0.5
    found = certificate_of(tmp_path, frame)
    assert (found["sse"], found["bound"], found["ratio"]) == (0, 0, 1)


def test_methods_without_a_proof_certify_nothing(tmp_path: Path) -> None:
    release = run_stages(start(write_release(tmp_path, [people(200)], k=2)))
    assert release.measured.figures.sse is not None and release.measured.figures.certificate is None
