"""The command under a Prefect server that is named to it: what both say, also when it is stopped or loses workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from covering import share
from microagg_core.release.verify import verify
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
from servers.prefect_server import PrefectServer, prefect_server
from servers.process import process, wait_until
from trouble.holding import ANONYMIZE, SURVEY, Held

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as running:
        yield running


def test_the_command_records_its_run_at_a_named_server(server: PrefectServer, tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "named", some_people(), id="one")
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


@pytest.mark.soak("a flow run takes 11 s of CPU; test_prefect.py has one that fails")
def test_the_command_says_what_its_flow_said(server: PrefectServer, tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "endless", with_an_infinity(some_people()))
    done = command(server, spec, "--quiet")

    assert (done.returncode, done.stdout) == (3, "")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("microagg: ") and "commute_km" in sentence
    run = server.ended(server.run_of(spec)["id"])
    assert run["state"]["message"] == f"exit 3 (data): {sentence.removeprefix('microagg: ')}"
    assert_nothing_published(spec)


def test_a_server_that_is_not_there_is_named(server: PrefectServer, tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "alone", some_people())
    environment = server.environment(PREFECT_API_URL="http://127.0.0.1:9/api")
    done = subprocess.run([COMMAND, "run", str(spec)], env=environment, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.startswith("microagg: no Prefect server of this version answers at http://127.0.0.1:9/api; ")
    assert len(done.stderr.splitlines()) == 1


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = {"address": f"tcp://127.0.0.1:{port}"}
    spec = spec_of(tmp_path / "moved", some_people(), id="one", cluster=address)
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
