"""``microagg plan --describe``: what a release would take, without any data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command_line import run_command

from microagg_core.release.sizing.description import read_description
from microagg_core.release.sizing.forecast import forecast

SPEC = {
    "name": "people",
    "k": 7,
    "algorithm": "v_mdav",
    "refine": "off",
    "input": {"url": "nothing-is-here.parquet"},
    "output": {"url": "output", "format": "csv"},
    "work": {"url": "work"},
    "roles": {
        "identifiers": ["id"],
        "quasi_identifiers": ["age", "income", "area"],
        "blocking": ["region"],
        "confidential": ["wage", "hours"],
    },
}


def test_a_billion_rows_on_one_screen() -> None:
    ended = run_command("plan", "--describe", "rows=1e9,keys=3e6,workers=100,memory=2GiB")
    assert ended.code == 0, ended.err
    assert "1,000,000,000 in" in ended.out
    for word in ("wall time", "CPU", "memory of a worker", "requests", "cost", "survey", "anonymize", "computing"):
        assert word in ended.out
    assert len(ended.out.splitlines()) <= 45
    assert max(map(len, ended.out.splitlines())) <= 120


def test_as_json_and_without_a_file_being_made(tmp_path: Path) -> None:
    ended = run_command("plan", "--describe", "rows=1e6,keys=1000", "--json", cwd=tmp_path)
    document = ended.document()
    assert json.dumps(document, sort_keys=True) == json.dumps(
        forecast(read_description("rows=1e6,keys=1000")).document(), sort_keys=True
    )
    assert document["description"]["rows"] == 1_000_000
    assert document["seconds"] == pytest.approx(sum(stage["seconds"] for stage in document["stages"]))
    assert {"costs", "traffic", "losses", "worker_bytes", "flow_bytes"} <= document.keys()
    assert list(tmp_path.iterdir()) == []


def test_a_spec_says_what_is_not_described(tmp_path: Path) -> None:
    path = tmp_path / "release.yaml"
    path.write_text(yaml.safe_dump(SPEC))
    call = ["plan", "release.yaml", "--describe", "rows=1e6,keys=1000,k=9", "--set", "algorithm=mdav", "--json"]
    described = run_command(*call, cwd=tmp_path).document()["description"]
    assert (described["k"], described["algorithm"], described["refine"]) == (9, "mdav", "off")
    assert (described["columns"], described["quasi_identifiers"], described["blocking"]) == (5, 3, 1)
    assert (described["format"], described["store"]) == ("csv", "disk")


def test_what_cannot_be_meant_ends_in_a_sentence() -> None:
    run_command("plan", "--describe", "rows=many").assert_refused(2, "rows is a number such as 1e9")


def test_neither_spec_nor_description_is_refused() -> None:
    run_command("plan").assert_refused(2, "plan needs a spec")


def test_settings_without_a_spec_are_refused() -> None:
    run_command("plan", "--describe", "rows=10", "--set", "k=3").assert_refused(2, "name the spec")


@pytest.mark.soak("measures a process")
def test_a_census_is_described_in_seconds_and_little_memory() -> None:
    """Of the process itself: it reads no data, and holds arrays of 3 million keys."""
    code = (
        "import resource\n"
        "from microagg_core.release.sizing.description import read_description\n"
        "from microagg_core.release.sizing.forecast import forecast\n"
        "forecast(read_description('rows=1e9,keys=3e6,workers=100'))\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    seconds, kilobytes = map(float, said.stdout.split())
    assert seconds < 20
    assert kilobytes < 1.2e6
