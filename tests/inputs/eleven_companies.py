"""The eleven companies of the examples, as a folder for a test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

COMPANIES = Path(__file__).resolve().parents[2] / "deploy" / "examples" / "sme"


@pytest.fixture
def companies(tmp_path: Path) -> Path:
    """The eleven companies and their spec, in a folder of their own, with a worker that they would not need."""
    folder = tmp_path / "sme"
    shutil.copytree(COMPANIES, folder, ignore=shutil.ignore_patterns("release", "work"))
    with (folder / "release.yaml").open("a") as spec:
        spec.write("\ncluster:\n  local: {workers: 1, threads: 1, memory: 1GiB}\n")
    return folder
