"""Risk of a release: measured on its files, the same however it was made, kept in the audit, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inputs.people import people
from microagg_core.errors import SpecError, StorageError
from microagg_core.inspect import exposure
from microagg_core.inspect.risk.tables import measure_risk
from microagg_core.spec.loading import load_spec
from microagg_flows.aside import risk_of_release
from microagg_flows.progress import Silence
from microagg_flows.release import Release
from releasing.runs import ROLES, released_table, run_stages, start, write_release, write_series

ACKNOWLEDGED = {"acknowledge": {"nearly_unique": ["amount"]}}
NAMES, LABELS = ["x", "y"], ["region", "town"]


def frame(n: int = 900) -> pd.DataFrame:
    """People with an amount of their own, by which a test finds them again, and a note that many share."""
    table = people(n).to_pandas()
    table["amount"] = np.arange(n)
    table["note"] = np.where(np.arange(n) % 3 == 0, "a", "b")
    return table


def run(folder: Path, table: pd.DataFrame, n_parts: int = 1, **changes: Any) -> Release:
    whole = pa.Table.from_pandas(table, preserve_index=False)
    length = len(table) // n_parts
    parts = [whole.slice(i * length, length) for i in range(n_parts)]
    return run_stages(start(write_release(folder, parts, **{**ACKNOWLEDGED, **changes})))


def audit(folder: Path) -> Path:
    (path,) = (folder / "work" / "audit").glob("*/r0001")
    return path


def kept(folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((audit(folder) / "risk.json").read_text())
    return figures


def test_it_is_that_of_the_released_table(tmp_path: Path) -> None:
    table = frame()
    run(tmp_path, table, seed=7)
    figures, released = kept(tmp_path), released_table(tmp_path / "output").to_pandas()
    before = table.set_index("amount").loc[released["amount"]].reset_index()
    by_hand = measure_risk(before, released, NAMES, blocking=LABELS, confidential=["note", "amount"], seed=7)
    assert figures["inference"].pop("amount")["records_certain"] == 0
    by_hand["inference"].pop("amount")
    for name in ("sizes", "inference", "uniqueness", "intervals"):
        assert figures[name] == by_hand[name]
    for ours, theirs in zip(figures["linkage"]["intruders"], by_hand["linkage"]["intruders"], strict=True):
        if not ours["noise"]:  # which is drawn from numbers of records
            assert ours == theirs
    lines = pq.read_table(audit(tmp_path) / "risk-labels.parquet").to_pandas()
    assert len(lines) == len(released[LABELS].drop_duplicates())
    assert lines["own_nearest"].sum() / len(table) == pytest.approx(figures["linkage"]["own_nearest"], rel=1e-5)


def test_it_is_the_same_however_the_input_is_cut(tmp_path: Path) -> None:
    cuts = {n: tmp_path / str(n) for n in (1, 3)}
    for n, folder in cuts.items():
        run(folder, frame(), n_parts=n)
    one, three = (kept(folder) for folder in cuts.values())
    assert one.pop("manifest") != three.pop("manifest")  # it was made at another time
    assert one == three
    assert one["linkage"]["asked"] == one["records"] == 900
    # Another effort is no other release.
    path = cuts[1] / "release.yaml"
    path.write_text(path.read_text() + "risk: full\n")
    again = run_stages(start(path), "survey")
    assert again.published is not None and again.published.already


def test_of_a_large_release_some_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposure, "LEAST_ASKED", 100)
    monkeypatch.setattr(exposure, "ASKED", 300)
    sampled, full = tmp_path / "sampled", tmp_path / "full"
    run(sampled, frame())
    run(full, frame(), risk="full")
    some, all_asked = kept(sampled), kept(full)
    assert 200 < some["linkage"]["asked"] == some["intervals"]["asked"] < 400
    assert (some["measured"], all_asked["measured"]) == ("sampled", "full")
    assert some["linkage"]["own_nearest"] == pytest.approx(all_asked["linkage"]["own_nearest"], abs=0.08)
    for name in ("inference", "sizes", "uniqueness"):
        assert some[name] == all_asked[name]


def test_off_asks_nobody_and_still_counts_groups(tmp_path: Path) -> None:
    run(tmp_path, frame(), risk="off")
    figures = kept(tmp_path)
    assert figures["linkage"] == figures["intervals"] == {"asked": 0}
    assert figures["sizes"]["smallest"] >= 3 and figures["inference"]["note"]["by_chance"] > 0
    assert figures["uniqueness"] == {"before": None, "after": 0.0}
    measured = risk_of_release(load_spec(str(tmp_path / "release.yaml")), None, Silence())[1]
    assert (measured["measured"], measured["linkage"]["asked"]) == ("full", 900)


def test_missing_values_and_merged_labels(tmp_path: Path) -> None:
    table = frame()
    table.loc[table["x"] > 600, "y"] = np.nan
    run(tmp_path, table, missing="separate", blocks={"undersized": "merge"})
    figures = kept(tmp_path)
    assert figures["records"] == figures["linkage"]["asked"]
    assert 0 < figures["linkage"]["expected_correct"] <= 1 / 3


def test_the_audit_is_asked_first_then_the_release_is_made_again(tmp_path: Path) -> None:
    run(tmp_path, frame())
    spec, first = str(tmp_path / "release.yaml"), kept(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "output").rglob("*") if path.is_file()}
    assert risk_of_release(load_spec(spec), None, Silence())[1] == first
    (audit(tmp_path) / "risk.json").write_text(json.dumps({**first, "manifest": "0" * 64}))
    assert risk_of_release(load_spec(spec), None, Silence())[1]["manifest"] == first["manifest"]
    for name in ("risk.json", "risk-labels.parquet"):
        (audit(tmp_path) / name).unlink()
    manifest, again = risk_of_release(load_spec(spec), str(tmp_path / "output"), Silence())
    assert {**again, "measured": "sampled"} == first
    assert manifest.revision == "r0001"
    assert kept(tmp_path) == again and (audit(tmp_path) / "risk-labels.parquet").exists()
    assert before == {path: path.read_bytes() for path in (tmp_path / "output").rglob("*") if path.is_file()}
    assert not list((tmp_path / "work").rglob("risk-*/**/*.slices"))
    assert {path.name for path in (tmp_path / "work").iterdir()} <= {"audit", "series", "runs"}


def test_what_comes_out_otherwise_is_refused(tmp_path: Path) -> None:
    run(tmp_path, frame())
    (audit(tmp_path) / "risk.json").unlink()
    table = frame()
    table.loc[0, "x"] += 1000
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), tmp_path / "input" / "part-0.parquet")
    with pytest.raises(StorageError, match="comes out otherwise than it was published"):
        risk_of_release(load_spec(str(tmp_path / "release.yaml")), None, Silence())
    assert not (audit(tmp_path) / "risk.json").exists()
    assert not list((tmp_path / "work").rglob("*.slices"))
    with pytest.raises(SpecError, match="name another"):
        risk_of_release(load_spec(str(tmp_path / "release.yaml"), ["name=other"]), None, Silence())


def test_nights_of_a_series_have_their_risk_in_the_audit(tmp_path: Path) -> None:
    """Survivors' files are measured too, but for what the input has of them."""
    first, later = people(600), people(900)
    path = write_series(tmp_path, [first])
    run_stages(start(path, identity="one"))
    pq.write_table(later, tmp_path / "input" / "part-0.parquet")
    run_stages(start(path, identity="two"))
    figures = json.loads((tmp_path / "work" / "audit" / "two" / "r0001" / "risk.json").read_text())
    assert 0 < figures["linkage"]["asked"] < figures["records"]
    assert risk_of_release(load_spec(str(path)), str(tmp_path / "output" / "two"), Silence())[1] == figures
    (tmp_path / "work" / "audit" / "two" / "r0001" / "risk.json").unlink()
    with pytest.raises(StorageError, match="restore the audit"):
        risk_of_release(load_spec(str(path)), str(tmp_path / "output" / "two"), Silence())


def test_it_adds_up_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Combinations lie in one file each; of a label that is spread, somebody is taken to know the file."""
    one, several, spread = (tmp_path / name for name in ("one", "several", "spread"))
    run(one, frame())
    run(spread, frame(), roles={**ROLES, "blocking": [], "drop": LABELS})
    whole = kept(spread)
    monkeypatch.setattr("microagg_core.blocks.packing.FILE_BYTES", 8_192)
    run(several, frame())
    figures, single = kept(several), kept(one)
    lines = pq.read_table(audit(several) / "risk-labels.parquet").to_pandas()
    assert lines["file"].nunique() > 2 and lines["records"].sum() == len(frame())
    for name in ("sizes", "inference"):
        assert figures[name] == single[name]
    run(tmp_path / "again", frame(), roles={**ROLES, "blocking": [], "drop": LABELS})
    parts = kept(tmp_path / "again")
    assert parts["inference"] == whole["inference"] and parts["sizes"] == whole["sizes"]
    assert parts["linkage"]["expected_correct"] >= whole["linkage"]["expected_correct"]
    assert parts["linkage"]["by_chance"] > whole["linkage"]["by_chance"]
