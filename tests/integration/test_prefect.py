"""Releases through a real Prefect server: deployed from a folder of specs, by a real worker, and by the command.

What both say, also when a run is stopped or loses its workers.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from covering import share
from microagg_core.release.verify import verify
from microagg_core.spec.loading import load_spec
from releasing.runs import AGAIN
from releasing.under_prefect import (
    COMMAND,
    NOISE,
    PROGRESS_LINE,
    STAGE_NAMES,
    assert_nothing_published,
    command,
    outcomes,
    some_people,
    spec_of,
    with_an_infinity,
)
from servers.prefect_server import PrefectServer, prefect_server, prefect_worker
from servers.process import free_port, process, wait_until
from trouble.holding import ANONYMIZE, SURVEY, Held

pytestmark = pytest.mark.server

#: Identifiers and blocking labels of the people: what must not be found anywhere but in their files.
PRIVATE = (b"P0000001", b"P0001234", b"Port Amalie", b"Brackenshire", b"Far Skerries", b"Riverside")
EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "examples"
#: What no person reads: a float as it was measured, or bytes. Digits within a digest are no number.
LONG_NUMBER = re.compile(r"(?<![0-9a-f])\d{9,}(?![0-9a-f])")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as running:
        yield running


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of specs: one to try runs with, and one of which nights are missed."""
    folder = tmp_path_factory.mktemp("specs")
    spec_of(folder / "nightly", some_people(), name="nightly", schedule={"cron": "30 2 * * *"})
    everyday = {"cron": "0 0 * * *", "timezone": "UTC", "catch_up": "all"}
    changes = {"input": {"url": "input-{date}/*.parquet"}, "schedule": everyday, "cluster": "none", **AGAIN}
    spec_of(folder / "missed", some_people(1200), name="missed", **changes)
    return folder


def test_examples_are_specs_and_a_nightly_release_is_named_after_its_day() -> None:
    examples = {path.parent.name: load_spec(str(path)) for path in EXAMPLES.glob("*/release.yaml")}
    assert examples["nightly"].id == "date" and len(examples) > 1


def deployed(server: PrefectServer, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = [COMMAND, "deploy", str(folder), *options]
    return subprocess.run(arguments, env=server.environment(), capture_output=True, text=True, timeout=120)


def deployment_of(server: PrefectServer, series: str) -> dict[str, Any]:
    found = server.get(f"deployments/name/microagg-release/{series}")
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def nightly(server: PrefectServer, specs: Path) -> dict[str, Any]:
    """The deployment, made as deploy/README.md says."""
    without = deployed(server, specs)
    assert (without.returncode, without.stdout) == (2, "")
    assert without.stderr.startswith("microagg: --pool: the server has no work pool 'microagg'; create it with")
    pool = server.prefect("work-pool", "create", "microagg", "--type", "process")
    assert pool.returncode == 0, pool.stdout + pool.stderr
    made = deployed(server, specs)
    assert (made.returncode, made.stderr) == (0, ""), made.stderr
    assert made.stdout.splitlines() == [
        f"missed: 0 0 * * * UTC, catch_up all, {specs / 'missed' / 'release.yaml'}",
        f"nightly: 30 2 * * * UTC, catch_up none, {specs / 'nightly' / 'release.yaml'}",
    ]
    return deployment_of(server, "nightly")


@pytest.fixture(scope="module")
def surveying(tmp_path_factory: pytest.TempPathFactory) -> Held:
    """What the worker's first run is in the middle of until it is let go."""
    return Held(tmp_path_factory.mktemp("held") / "surveying", SURVEY)


@pytest.fixture(scope="module")
def worker_log(server: PrefectServer, nightly: dict[str, Any], surveying: Held) -> Iterator[Path]:
    with prefect_worker(server, nightly["work_pool_name"], surveying.environment) as log:
        yield log


def trigger(
    server: PrefectServer, deployment: dict[str, Any], spec: Path, at: datetime.datetime | None = None, **others: Any
) -> str:
    """Ask for a run of the deployment; one whose time is past is late, and starts at once."""
    state = {"type": "SCHEDULED", "state_details": {"scheduled_time": at.isoformat()}} if at else None
    path = f"deployments/{deployment['id']}/create_flow_run"
    return str(server.post(path, parameters={"spec": str(spec), **others}, state=state)["id"])


def test_a_release_is_due_every_night(server: PrefectServer, nightly: dict[str, Any], specs: Path) -> None:
    """The server's scheduler has made runs for the coming nights; one at a time, the others queue up."""
    (schedule,) = nightly["schedules"]
    assert schedule["active"] and schedule["schedule"]["timezone"] == "UTC"
    assert nightly["global_concurrency_limit"]["limit"] == 1
    assert nightly["concurrency_options"]["collision_strategy"] == "ENQUEUE"
    assert nightly["parameters"] == {"spec": str(specs / "nightly" / "release.yaml")}
    assert nightly["tags"] == ["microagg", "nightly"]
    due: list[datetime.datetime] = []

    def is_scheduled() -> bool:
        runs = server.post(
            "flow_runs/filter",
            deployments={"id": {"any_": [nightly["id"]]}},
            flow_runs={"state": {"type": {"any_": ["SCHEDULED"]}}},
            sort="EXPECTED_START_TIME_ASC",
        )
        due[:] = [datetime.datetime.fromisoformat(run["expected_start_time"]) for run in runs]
        return len(due) >= 3

    wait_until(is_scheduled, "scheduled runs")
    assert {(time.hour, time.minute) for time in due} == {(2, 30)}
    assert {later - earlier for earlier, later in pairwise(due)} == {datetime.timedelta(days=1)}


@pytest.mark.soak("deploys three times")
def test_deploying_again_brings_a_deployment_up_to_date(
    server: PrefectServer, nightly: dict[str, Any], tmp_path: Path
) -> None:
    def schedules() -> list[tuple[str, str]]:
        found = deployment_of(server, "changing")["schedules"]
        return [(one["schedule"]["cron"], one["schedule"]["timezone"]) for one in found]

    place = {"name": "changing", "id": "one"}
    path = spec_of(tmp_path / "specs", some_people(), **place, schedule={"cron": "0 3 * * *"})
    assert deployed(server, path.parent, "--as", "s3://specs", "--set", "k=7").returncode == 0
    assert schedules() == [("0 3 * * *", "UTC")]
    first = deployment_of(server, "changing")
    assert first["parameters"] == {"spec": "s3://specs/release.yaml", "settings": ["k=7"]}
    assert deployed(server, path.parent, "--set", "schedule.timezone=Europe/Zurich").returncode == 0
    assert schedules() == [("0 3 * * *", "Europe/Zurich")]
    assert deployed(server, path.parent, "--set", "schedule=null").returncode == 0
    last = deployment_of(server, "changing")
    assert (schedules(), last["id"]) == ([], first["id"])
    assert last["parameters"] == {"spec": str(path), "settings": ["schedule=null"]}


def test_a_late_run_is_released_under_its_own_day_and_bad_data_fail_once(
    server: PrefectServer, nightly: dict[str, Any], worker_log: Path, surveying: Held, tmp_path: Path
) -> None:
    """One run after the other: the second waits for the first."""
    spec = spec_of(tmp_path / "late", some_people())
    bad = spec_of(tmp_path / "bad", with_an_infinity(some_people()))
    night = datetime.datetime.now(datetime.UTC).replace(hour=2, minute=30) - datetime.timedelta(days=3)
    first = trigger(server, nightly, spec, at=night)
    surveying.begins()
    second = trigger(server, nightly, bad)
    wait_until(lambda: server.get(f"flow_runs/{second}")["state_name"] == "AwaitingConcurrencySlot", "the queue")
    surveying.let_go()
    _assert_released(server, server.ended(first), spec, str(night.date()))
    _assert_failed(server, server.ended(second), bad)
    said = worker_log.read_bytes()
    assert b"Traceback" not in said
    assert [text for text in PRIVATE if text in server.database() + said] == []


def _assert_released(server: PrefectServer, run: dict[str, Any], spec: Path, day: str) -> None:
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert run["name"] == f"test {day}" and {"microagg", "test"} <= set(run["tags"])
    output = spec.parent / "output"
    assert verify(str(output)).passed
    assert [path.name for path in output.iterdir() if path.is_dir()] == [day]
    tasks = server.tasks(run["id"])
    assert [(task["name"], task["state_type"], task["run_count"]) for task in tasks] == [
        (name, "COMPLETED", 1) for name in STAGE_NAMES
    ]
    artifacts = server.artifacts(run["id"])
    assert {a["type"] for a in artifacts} == {"markdown", "table", "progress"}
    assert {a["key"] for a in artifacts} == {None, "microagg-test", "microagg-test--stages"}
    (summary,) = [a["data"] for a in artifacts if a["type"] == "markdown"]
    assert f"# Release {day}, revision r0001" in summary
    assert "| | estimate | actual |" in summary
    (stages,) = [json.loads(a["data"]) for a in artifacts if a["type"] == "table"]
    assert [row["stage"] for row in stages] == STAGE_NAMES
    assert not LONG_NUMBER.search(summary + json.dumps(stages))
    assert all(a["data"] == 100.0 for a in artifacts if a["type"] == "progress")
    (results,) = outcomes(spec)
    assert (results["outcome"], results["id"]) == ("released", day)
    log = server.log(run["id"])
    assert [name for name in STAGE_NAMES if not any(line.startswith(name) for line in log)] == []


def _assert_failed(server: PrefectServer, run: dict[str, Any], spec: Path) -> None:
    """It is not tried again, and says why."""
    assert (run["state_type"], run["run_count"]) == ("FAILED", 1)
    assert re.match(r"exit 3 \(data\): .*commute_km", run["state"]["message"])
    (results,) = outcomes(spec)
    assert (results["outcome"], results["stage"]) == ("refused", "survey")
    (summary,) = [a for a in server.artifacts(run["id"]) if a["type"] == "markdown"]
    assert summary["key"] == "microagg-test"
    for text in ("refused (exit 3)", "| stage | survey |", results["sentence"], results["what_to_do"]):
        assert text in summary["data"]
    assert run["name"] == f"test {results['id']}"
    assert [(t["name"], t["state_type"], t["run_count"]) for t in server.tasks(run["id"])] == [("survey", "FAILED", 1)]
    assert [line for line in server.log(run["id"]) if NOISE.search(line)] == []
    assert set(server.levels(run["id"], "Finished in state Failed")) == {logging.ERROR}
    assert_nothing_published(spec)


@pytest.mark.soak("makes five releases; test_catching_up.py has the days")
def test_missed_nights_are_made_first(
    server: PrefectServer, nightly: dict[str, Any], specs: Path, worker_log: Path, surveying: Held
) -> None:
    """The newest release is three days old; the input of yesterday comes late, and holds up no other night."""
    surveying.let_go()
    today = datetime.datetime.now(datetime.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [str((today - datetime.timedelta(days=n)).date()) for n in (3, 2, 1, 0)]
    folder = specs / "missed"
    for day in days:
        shutil.copytree(folder / "input", folder / f"input-{day}")
    done = command(server, folder / "release.yaml", "--direct", "-q", "--id", days[0])
    assert done.returncode == 0, done.stderr
    late = (folder / f"input-{days[2]}").rename(folder / "late")

    deployment = deployment_of(server, "missed")
    first = server.ended(trigger(server, deployment, folder / "release.yaml", at=today))
    assert first["state_type"] == "COMPLETED", first["state"]["message"]
    assert released_days(folder) == [days[0], days[1], days[3]]
    (told,) = [
        line for line in server.log(first["id"]) if line.startswith(f"{days[2]}: ") and "no file matches" in line
    ]
    assert server.levels(first["id"], told) == [logging.ERROR]
    (summary,) = [a["data"] for a in server.artifacts(first["id"]) if a["type"] == "markdown"]
    assert f"**note**\n{days[2]}: " in summary

    late.rename(folder / f"input-{days[2]}")
    tomorrow = trigger(server, deployment, folder / "release.yaml", at=today)
    run = server.ended(tomorrow)
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert released_days(folder) == days
    assert run["name"] == f"missed {days[3]}" and set(run["tags"]) == {"microagg", "missed"}
    runs = server.post("flow_runs/filter", flow_runs={"tags": {"all_": ["missed"]}}, sort="START_TIME_ASC")
    within = [one for one in runs if one["state_type"] != "SCHEDULED" and one["id"] not in (first["id"], run["id"])]
    ended = [(one["name"], one["state_type"]) for one in within]
    assert ended == [
        (f"missed {days[1]}", "COMPLETED"),
        (f"missed {days[2]}", "FAILED"),
        (f"missed {days[2]}", "COMPLETED"),
    ]
    begun = next((folder / "work" / "audit" / "lineage").glob(f"missed-{days[1]}-*-start.json"))
    parent = json.loads(begun.read_text())["run"]["facets"]["parent"]
    assert (parent["run"]["runId"], parent["job"]["name"]) == (within[0]["id"], "microagg-release")


def released_days(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "output").iterdir() if path.is_dir())


@pytest.mark.soak("a flow run takes 11 s of CPU")
def test_what_no_run_comes_to_is_cleaned_by_day(
    server: PrefectServer, nightly: dict[str, Any], worker_log: Path, surveying: Held, tmp_path: Path
) -> None:
    surveying.let_go()
    spec = spec_of(tmp_path / "rare", some_people(), name="rare")
    assert deployed(server, spec.parent).returncode == 0
    deployment = server.get("deployments/name/microagg-clean/rare")
    assert deployment["parameters"] == {"spec": str(spec)} and deployment["tags"] == ["microagg", "rare"]
    assert [one["schedule"]["cron"] for one in deployment["schedules"]] == ["0 12 * * *"]
    left = spec.parent / "work" / "runs" / "failed" / "rows"
    left.parent.mkdir(parents=True)
    left.write_text("rows")
    os.utime(left, (0, 0))
    run = server.ended(str(server.post(f"deployments/{deployment['id']}/create_flow_run")["id"]))
    said = "removed 1 failed runs, kept 0 that are not due yet"
    assert (run["state_type"], run["state"]["message"]) == ("COMPLETED", said)
    assert not left.exists()


def test_a_look_before_the_night_sees_who_will_make_it(
    server: PrefectServer, nightly: dict[str, Any], specs: Path, worker_log: Path
) -> None:
    arguments = [COMMAND, "doctor", str(specs / "nightly" / "release.yaml"), "--set", "cluster=none"]
    done = subprocess.run(arguments, env=server.environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ok       Prefect: a server of this version answers at {server.url}" in done.stdout
    assert "ok       deployment: microagg-release/nightly is scheduled, and 1 workers of microagg are" in done.stdout
    done = subprocess.run(
        [*arguments, "--set", "name=nobody"], env=server.environment(), capture_output=True, text=True
    )
    assert "warning  deployment: microagg-release/nobody is not there; make it with microagg deploy" in done.stdout


def test_a_run_that_was_overtaken_is_left_out(
    server: PrefectServer, nightly: dict[str, Any], specs: Path, worker_log: Path, surveying: Held
) -> None:
    surveying.let_go()
    night = datetime.datetime.now(datetime.UTC).replace(hour=2, minute=30) - datetime.timedelta(days=3)
    path = specs / "nightly" / "release.yaml"
    run = server.ended(trigger(server, nightly, path, at=night))
    assert (run["state_type"], run["state_name"]) == ("COMPLETED", "Skipped")
    assert run["state"]["message"].startswith(f"the night of {night.date()} was missed")
    assert_nothing_published(path)


@pytest.mark.soak("a flow run takes 11 s of CPU")
def test_a_run_that_was_lost_with_its_worker_ends_as_crashed(server: PrefectServer, tmp_path: Path) -> None:
    """Nobody is left to tell Prefect; the next run of the deployment does."""
    spec = spec_of(tmp_path / "lost", some_people(), name="lost", cluster="none", schedule={"cron": "30 2 * * *"})
    assert server.prefect("work-pool", "create", "lost", "--type", "process").returncode == 0
    made = deployed(server, tmp_path / "lost", "--pool", "lost")
    assert made.returncode == 0, made.stderr
    deployment = deployment_of(server, "lost")
    surveying = Held(tmp_path / "held", SURVEY)
    with prefect_worker(server, "lost", surveying.environment):
        first = trigger(server, deployment, spec, id="first")
        surveying.begins()
        (worker,) = [one for one in psutil.Process().children() if {"worker", "lost"} <= set(one.cmdline())]
        gone = [worker, *worker.children(recursive=True)]
        for one in gone:
            one.kill()
        psutil.wait_procs(gone, timeout=20)
    surveying.let_go()
    assert server.get(f"flow_runs/{first}")["state_type"] == "RUNNING"
    # Five minutes later the server gives its place to another.
    limit = deployment["global_concurrency_limit"]["name"]
    httpx.post(
        f"{server.url}/v2/concurrency_limits/decrement", json={"names": [limit], "slots": 1}, timeout=30
    ).raise_for_status()
    with prefect_worker(server, "lost", {}):
        second = server.ended(trigger(server, deployment, spec, id="second"))
    assert second["state_type"] == "COMPLETED", second["state"]["message"]
    lost = server.get(f"flow_runs/{first}")
    assert lost["state_type"] == "CRASHED" and "ended without a word" in lost["state"]["message"]
    assert verify(str(tmp_path / "lost" / "output")).passed


def test_the_command_records_its_run_at_a_named_server(server: PrefectServer, tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "named", some_people(), id="one", cluster="none")
    done = command(server, spec)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("released")
    assert not NOISE.search(done.stdout)
    assert [line for line in done.stderr.splitlines() if not PROGRESS_LINE.fullmatch(line)] == []
    assert verify(str(tmp_path / "named" / "output")).passed
    run = server.ended(server.run_of(spec)["id"])
    assert run["state_type"] == "COMPLETED"
    log = server.log(run["id"])
    assert [name for name in STAGE_NAMES if not any(line.startswith(name) for line in log)] == []


@pytest.mark.parametrize("sent", share([signal.SIGINT, signal.SIGTERM], 1), ids=str)
def test_an_interrupted_command_says_so_everywhere(server: PrefectServer, tmp_path: Path, sent: signal.Signals) -> None:
    """As a terminal sends it: to the command and to everything that it started."""
    spec = spec_of(tmp_path / "stopped", some_people())
    said, surveying = tmp_path / "said", Held(tmp_path / "surveying", SURVEY)
    with process([COMMAND, "run", str(spec)], server.environment(**surveying.environment), said) as started:
        surveying.begins()
        children = psutil.Process(started.pid).children(recursive=True)
        os.killpg(started.pid, sent)
        assert started.wait(200) == 130
    said_last = said.read_text().splitlines()[-1]
    assert said_last.startswith("microagg: interrupted")
    assert [line for line in said.read_text().splitlines()[:-1] if not PROGRESS_LINE.fullmatch(line)] == []
    assert_nothing_published(spec)
    run = server.ended(server.run_of(spec)["id"])
    assert (run["state_type"], run["run_count"]) == ("CRASHED", 1)
    (results,) = outcomes(spec)
    assert (results["outcome"], results["exit_code"]) == ("interrupted", 130)
    (summary,) = [a["data"] for a in server.artifacts(run["id"]) if a["type"] == "markdown"]
    assert "interrupted (exit 130)" in summary
    assert psutil.wait_procs(children, timeout=60)[1] == []


@pytest.mark.soak("a flow run takes 11 s of CPU, and a cluster goes and comes back")
def test_a_stage_is_tried_again_when_its_cluster_has_come_back(server: PrefectServer, tmp_path: Path) -> None:
    """The scheduler and its worker are killed while the worker does a task, and others take their place."""
    port = str(free_port())
    spec = spec_of(tmp_path / "moved", some_people(), id="one", cluster={"address": f"tcp://127.0.0.1:{port}"})
    dask = [sys.executable, "-m", "dask"]
    schedule = [*dask, "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"]
    work = [*dask, "worker", f"tcp://127.0.0.1:{port}", "--no-nanny", "--no-dashboard", "--memory-limit", "1GiB"]
    work += ["--nthreads", "1", "--local-directory", str(tmp_path)]
    anonymizing = Held(tmp_path / "anonymizing", ANONYMIZE)
    with ExitStack() as stack:

        def start(arguments: list[str], log: str, **others: str) -> subprocess.Popen[bytes]:
            return stack.enter_context(process(arguments, server.environment(**others), tmp_path / log))

        lost = [start(schedule, "scheduler"), start(work, "worker", **anonymizing.environment)]
        wait_until(lambda: "Registered to" in (tmp_path / "worker").read_text(), "the first worker")
        said = tmp_path / "said"
        running = start([COMMAND, "run", str(spec)], "said")
        anonymizing.begins()
        for gone in lost:
            gone.kill()
            gone.wait()
        start(schedule, "scheduler")
        start(work, "worker")
        assert running.wait(120) == 0, said.read_text()
    assert "will be tried again" in said.read_text()
    assert verify(str(tmp_path / "moved" / "output")).passed
    run = server.ended(server.run_of(spec)["id"])
    counts = {task["name"]: task["run_count"] for task in server.tasks(run["id"])}
    assert (run["state_type"], run["run_count"]) == ("COMPLETED", 1)
    assert counts == {**dict.fromkeys(STAGE_NAMES, 1), "anonymize": 2}
    assert not NOISE.search("\n".join(server.log(run["id"])))
