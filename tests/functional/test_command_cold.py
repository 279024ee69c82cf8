"""The first minute: the demo on a machine that has never compiled a kernel, in workers of a modest size."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_line import run_command

from microagg_core.demo import write_demo

pytestmark = pytest.mark.server
PEOPLE = 20_000


def nothing_compiled(folder: Path) -> dict[str, str]:
    """The environment of a new machine: whatever was kept lies elsewhere."""
    return {"MICROAGG_CACHE_DIR": str(folder / "kernels"), "PREFECT_HOME": str(folder / "prefect")}


def released_rows(output: Path) -> int:
    latest = json.loads((output / "latest.json").read_text())
    manifest = json.loads((output / latest["manifest"]).read_text())
    folder = (output / latest["manifest"]).parent
    return sum(pq.read_metadata(folder / part["name"]).num_rows for part in manifest["parts"])


@pytest.mark.soak("compiles the default path")
def test_the_demo_ends_well_on_a_new_machine(tmp_path: Path) -> None:
    shown = run_command("demo", "--people", str(PEOPLE), cwd=tmp_path, env=nothing_compiled(tmp_path))
    assert shown.code == 0, shown.err
    assert "compiling the kernels, once for this machine" in shown.err
    assert released_rows(tmp_path / "microagg-demo" / "release") == PEOPLE


@pytest.mark.soak("compiles the default path")
def test_smaller_workers_compile_nothing(tmp_path: Path) -> None:
    """Of 600 MiB each, where the demo has one GiB, and with nothing compiled before."""
    spec = write_demo(tmp_path, PEOPLE)
    spec.write_text(spec.read_text().replace("memory: 1GiB", "memory: 600MiB"))
    shown = run_command("run", str(spec), "--direct", "--json", "--quiet", env=nothing_compiled(tmp_path))
    assert shown.code == 0, shown.err
    assert released_rows(tmp_path / "release") == PEOPLE
    peak = max(stage["peak_bytes"] for stage in shown.document()["stages"])
    assert peak < 480 * 2**20, "a worker stays below Dask's threshold of 80 % of 600 MiB"


def test_workers_too_small_for_anything_are_refused_in_a_sentence(tmp_path: Path) -> None:
    spec = write_demo(tmp_path, 2000)
    spec.write_text(spec.read_text().replace("memory: 1GiB", "memory: 400MiB"))
    refused = run_command("run", str(spec), "--direct", "--quiet")
    refused.assert_refused(6, "has 400 MiB, and Dask pauses it at 80% of that", "give it more memory")
