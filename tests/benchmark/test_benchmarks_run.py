"""The benchmarks have commands of their own; here they only have to run, on next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.server
def test_release_at_scale_runs() -> None:
    script = Path(__file__).parent / "release_at_scale.py"
    arguments = ["--rows", "20000", "--blocks", "30", "--workers", "1", "--largest", "0.5", "--max-records", "2000"]
    done = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=250, check=True
    )
    found = json.loads(done.stdout)
    assert found["rows"] == 20_000
    assert found["blocks"] > 30
    assert set(found["stages"]) >= {"survey", "plan", "stage", "anonymize", "validate", "publish"}
    assert len(found["peak_mib"]) >= 2
