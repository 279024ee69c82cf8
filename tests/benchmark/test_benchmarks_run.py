"""The benchmarks have commands of their own; here they only have to run, on next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def output_of(script: str, *arguments: str) -> str:
    command = [sys.executable, str(FOLDER / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=True).stdout


def test_algorithm_cost_runs() -> None:
    header, *lines = output_of("algorithm_cost.py", "--algorithms", "univariate", "--largest", "2000").splitlines()
    assert header.split()[:5] == ["algorithm", "n", "p", "k", "seconds"]
    assert [line.split()[:4] for line in lines] == [["univariate", "2000", "1", k] for k in ("3", "10", "50")]


def test_factor_growth_runs(tmp_path: Path) -> None:
    picture = tmp_path / "growth.png"
    shown = output_of("factor_growth.py", "--largest", "2000", "--optimal", "5", "--plot", str(picture))
    assert "growth from 600 to 2000: n^" in shown and "best partition" in shown
    assert picture.stat().st_size > 1000


@pytest.mark.server
def test_release_at_scale_runs() -> None:
    arguments = ["--rows", "20000", "--blocks", "30", "--workers", "1", "--largest", "0.5", "--max-records", "2000"]
    found = json.loads(output_of("release_at_scale.py", *arguments))
    assert found["rows"] == 20_000
    assert found["blocks"] > 30
    assert set(found["stages"]) >= {"survey", "plan", "stage", "anonymize", "validate", "publish"}
    assert len(found["peak_mib"]) >= 2
