"""The first minute: the demo on a machine that has never compiled a kernel, in workers of a modest size."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_line import run_command

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]
PEOPLE = 20_000


def nothing_compiled(folder: Path) -> dict[str, str]:
    """The environment of a new machine: whatever was kept lies elsewhere."""
    return {"MICROAGG_CACHE_DIR": str(folder / "kernels"), "PREFECT_HOME": str(folder / "prefect")}


def released_rows(output: Path) -> int:
    latest = json.loads((output / "latest.json").read_text())
    manifest = json.loads((output / latest["manifest"]).read_text())
    folder = (output / latest["manifest"]).parent
    return sum(pq.read_metadata(folder / part["name"]).num_rows for part in manifest["parts"])


def test_the_demo_ends_well_on_a_new_machine_and_in_smaller_workers(tmp_path: Path) -> None:
    """One GiB each, as the demo has it, then 600 MiB each, with nothing compiled; no worker compiles either time."""
    shown = run_command("demo", "--people", str(PEOPLE), cwd=tmp_path, env=nothing_compiled(tmp_path / "large"))
    assert shown.code == 0, shown.err
    assert "compiling the kernels, once for this machine" in shown.err
    demo = tmp_path / "microagg-demo"
    assert released_rows(demo / "release") == PEOPLE
    spec = (demo / "release.yaml").read_text().replace("memory: 1GiB", "memory: 600MiB")
    (demo / "smaller.yaml").write_text(spec.replace("url: release", "url: smaller"))
    arguments = ("run", str(demo / "smaller.yaml"), "--direct", "--json", "--quiet")
    smaller = run_command(*arguments, env=nothing_compiled(tmp_path / "small"))
    assert smaller.code == 0, smaller.err
    assert released_rows(demo / "smaller") == PEOPLE
    peak = max(stage["peak_bytes"] for stage in smaller.document()["stages"])
    assert peak < 480 * 2**20, "a worker stays below Dask's threshold of 80 % of 600 MiB"


def test_workers_too_small_for_anything_are_refused_in_a_sentence(tmp_path: Path) -> None:
    shown = run_command("demo", "--people", "2000", "--direct", cwd=tmp_path)
    assert shown.code == 0, shown.err
    spec = tmp_path / "microagg-demo" / "release.yaml"
    spec.write_text(spec.read_text().replace("memory: 1GiB", "memory: 400MiB"))
    refused = run_command("run", str(spec), "--direct", "--id", "again", "--quiet")
    refused.assert_refused(6, "has 400 MiB, and Dask pauses it at 80% of that", "give it more memory")
