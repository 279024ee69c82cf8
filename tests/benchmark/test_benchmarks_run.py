"""The benchmarks have commands of their own; here they only have to run, on next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from yardstick import brute_force_mdav

from microagg_core import partition

FOLDER = Path(__file__).parent


def output_of(script: str, *arguments: str) -> str:
    command = [sys.executable, str(FOLDER / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=True).stdout


@pytest.mark.soak("runs every size")
def test_algorithm_cost_runs() -> None:
    header, *lines = output_of("algorithm_cost.py", "--algorithms", "univariate", "--largest", "2000").splitlines()
    assert header.split()[:5] == ["algorithm", "n", "p", "k", "seconds"]
    assert [line.split()[:4] for line in lines] == [["univariate", "2000", "1", k] for k in ("3", "10", "50")]


@pytest.mark.soak("refines several files")
def test_refine_cost_runs(tmp_path: Path) -> None:
    shown = output_of("refine_cost.py", "--cases", "uniform:2000:2:5", "--to", str(tmp_path))
    assert shown.startswith("uniform, 2,000 x 2, k=5 | ")
    assert len((tmp_path / "refine.md").read_text().splitlines()) == 3
    shown = output_of("refine_cost.py", "--cases", "uniform:2500:2:5", "--threads", "1,2")
    assert [line.split(" | ")[:2] for line in shown.splitlines()] == [["uniform, 2,500 x 2, k=5", n] for n in "12"]


@pytest.mark.soak("plans a census")
def test_bookkeeping_runs() -> None:
    found = json.loads(output_of("bookkeeping.py", "--rows", "1e6", "--blocks", "5e4", "--parts", "3"))
    assert (found["blocks"], found["rows"]) == (50_000, 1_000_000)
    assert found["partitions"] > 1 < found["files"]
    assert set(found["stages"]) >= {"survey", "plan", "scatter", "anonymize", "validate", "publish"}
    assert 50 < found["flow_peak_mib"] < 2000


@pytest.mark.soak("makes five releases")
def test_night_bytes_runs() -> None:
    measured = json.loads(output_of("night_bytes.py", "--people", "3000", "--districts", "3", "--churn", "0.01"))
    assert set(measured["runs"]) == {"a few people", "without a series", "without ids", "night 0", "night 1"}
    assert 15 < measured["bytes_a_unit"] < 80


@pytest.mark.soak("makes four releases")
def test_cohorts_runs() -> None:
    """A disjoint series loses what each cohort loses by itself, and less where arrivals wait for others."""
    lines = output_of("cohorts.py", "--people", "600", "--nights", "4", "--until", "5,300").splitlines()
    at_once, waiting = map(json.loads, lines)
    assert at_once["releases"] == 4 and at_once["over_alone"] == pytest.approx(1, abs=0.05)
    assert waiting["releases"] < 4 and waiting["loss"] < 0.9 * at_once["loss"]


@pytest.mark.soak("runs every algorithm")
def test_algorithm_speed_runs(tmp_path: Path) -> None:
    output_of("algorithm_speed.py", "--to", str(tmp_path), "--scale", "0.002", "--growth", "mdav_plus")
    found = json.loads((tmp_path / "speed.json").read_text())
    assert set(found["growth"]) == {"mdav_plus", "brute force"}
    assert len(found["growth"]["mdav_plus"]["seconds"]) == len(found["growth_records"]) == 5
    assert {line["goal"] for line in found["table"]} >= {20, 4, 10}
    assert (tmp_path / "speed.md").read_text().count("| mdav, ") == 3
    assert "<svg" in (tmp_path / "growth.svg").read_text()


@pytest.mark.soak("compiles the yardstick")
def test_the_yardstick_makes_the_groups_of_mdav() -> None:
    X = np.random.default_rng(3).random((402, 3))
    ours, theirs = partition(X, 4, "mdav"), brute_force_mdav(X, 4)
    in_groups_of_four = np.bincount(ours)[ours] == 4
    pairs = np.unique(np.stack([ours, theirs])[:, in_groups_of_four], axis=1)
    assert pairs.shape[1] == 402 // 4 - 1, "the two records that are left are placed in ways of their own"


@pytest.mark.server
@pytest.mark.soak("workers start, and tasks sleep")
def test_growing_pool_runs_and_workers_that_come_late_get_work() -> None:
    arguments = ["--tasks", "60", "--seconds", "0.4", "--most", "3", "--least", "2"]
    found = json.loads(output_of("growing_pool.py", *arguments))
    assert (found["workers_used"], found["lost"]) == (3, 0)
    assert 0.2 < found["share_of_ideal"] <= 1.05


def test_calibrate_finds_the_figures_that_tasks_were_made_of() -> None:
    from fitting import fitted

    parts = [{"task": 1.0, "row": rows, "block": blocks} for rows in (1e4, 1e5, 1e6) for blocks in (1.0, 50.0, 900.0)]
    took = [0.01 + 2e-6 * of["row"] + 3e-4 * of["block"] for of in parts]
    figures = fitted(took, parts, ("task", "row", "block"))
    assert figures == pytest.approx({"task": 0.01, "row": 2e-6, "block": 3e-4}, rel=1e-3)


@pytest.mark.soak("makes a small release")
def test_a_release_is_recorded_as_calibrate_reads_it(tmp_path: Path) -> None:
    from fitting import MADE_OF, rows_of
    from recorded_release import Case, record

    recording = record(Case(20_000, 20), tmp_path)
    tasks = list(rows_of([recording.document()]))
    assert {task["step"] for task, _ in tasks} == MADE_OF.keys()
    assert sum(parts["row"] for task, parts in tasks if task["step"] == "scatter") == 20_000
    assert all(task["reads"] and task["bytes_written"] for task, _ in tasks if task["step"] == "anonymize")


@pytest.mark.soak("makes a release on a cluster of its own")
@pytest.mark.server
def test_release_at_scale_runs() -> None:
    arguments = ["--rows", "20000", "--blocks", "30", "--workers", "1", "--largest", "0.5", "--max-records", "2000"]
    found = json.loads(output_of("release_at_scale.py", *arguments))
    assert found["rows"] == 20_000
    assert found["blocks"] > 30
    assert set(found["stages"]) >= {"survey", "plan", "scatter", "anonymize", "validate", "publish"}
    assert len(found["peak_mib"]) >= 2


@pytest.mark.soak("makes a release")
def test_work_bytes_runs() -> None:
    header, *kinds, whole, objects, seconds = output_of("work_bytes.py", "--people", "2000").splitlines()
    assert header.split()[-4:] == ["writes", "kB", "reads", "kB"]
    columns = [[float(line.split()[i]) for line in kinds] for i in (1, 2, 3, 4)]
    assert [sum(column) for column in columns] == pytest.approx([float(x) for x in whole.split()[1:]], abs=len(kinds))
    assert any(line.startswith("scatter/scattered-N.slices") for line in kinds)
    assert "objects," in objects and "scatter" in seconds


@pytest.mark.soak("searches")
def test_loss_reached_runs() -> None:
    shown = output_of("loss_reached.py", "--cells", "60:3", "--steps", "50", "--sizes", "500,1000")
    tables = [table.splitlines() for table in shown.strip().split("\n\n")]
    assert [table[0].split()[0] for table in tables] == ["search", "refine", "uniform", "bounds"]
    assert [len(table) for table in tables] == [2, 3, 3, 3]
    searched, proved = float(tables[0][1].split()[2]), float(tables[3][2].split()[3])
    assert 0 < proved <= searched


def test_simulate_runs() -> None:
    arguments = ["--describe", "rows=1e6,keys=1000", "--workers", "2,20", "--failures", "1"]
    found = json.loads(output_of("simulate.py", *arguments, "--json", "--what-if", "parts=8MiB", "flow=0.5"))
    assert [one["description"]["workers"] for one in found] == [2, 20]
    assert found[0]["efficiency"] > found[1]["efficiency"] > 0
