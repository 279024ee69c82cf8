"""Metrics for Prometheus, where Prefect and Dask have them already: while a release is made, and beside a worker."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from inputs.people import people
from releasing.runs import AGAIN, write_release
from servers.prefect_server import PrefectServer, prefect_server, prefect_worker
from servers.process import free_port, process, wait_until
from trouble.holding import SURVEY, Held

pytestmark = pytest.mark.server

COMMAND = str(Path(sys.executable).with_name("microagg"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as running:
        yield running


def metrics_at(port: str) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).raise_for_status().text


@pytest.mark.soak("starts a server, a scheduler, a worker and a flow run")
def test_a_run_can_be_scraped_and_so_can_its_scheduler(server: PrefectServer, tmp_path: Path) -> None:
    ports, address = [str(free_port()) for _ in range(3)], str(free_port())
    surveying = Held(tmp_path / "surveying", SURVEY)
    metrics = {"PREFECT_CLIENT_METRICS_ENABLED": "true", "PREFECT_CLIENT_METRICS_PORT": ports[0]}
    environment = server.environment(**metrics, **surveying.environment)
    cluster = {"address": f"tcp://127.0.0.1:{address}"}
    path = write_release(tmp_path, [people(60)], id="one", cluster=cluster, **AGAIN)
    dask = [sys.executable, "-m", "dask"]
    schedule = [*dask, "scheduler", "--host", "127.0.0.1", "--port", address]
    work = [*dask, "worker", cluster["address"], "--no-nanny", "--nthreads", "1", "--memory-limit", "2GiB"]
    with (
        process([*schedule, "--dashboard-address", f"127.0.0.1:{ports[1]}"], environment, tmp_path / "scheduler"),
        process([*work, "--dashboard-address", f"127.0.0.1:{ports[2]}"], environment, tmp_path / "worker"),
        process([COMMAND, "run", str(path)], environment, tmp_path / "said") as running,
    ):
        surveying.begins()
        assert "prefect_events_emitted_total" in metrics_at(ports[0])
        assert "process_cpu_seconds_total" in metrics_at(ports[0])
        assert 'dask_scheduler_tasks{state="processing"} 1.0' in metrics_at(ports[1])
        assert "dask_worker_memory_bytes" in metrics_at(ports[2])
        surveying.let_go()
        assert running.wait(120) == 0, (tmp_path / "said").read_text()


@pytest.mark.soak("starts a server, a worker and a flow run")
def test_a_worker_is_scraped_while_its_runs_are_made(server: PrefectServer, tmp_path: Path) -> None:
    """Its runs would open the same port, and crash, had the deployment not switched that off for them."""
    write_release(tmp_path, [people(60)], name="scraped", id="one", cluster="none", **AGAIN)
    assert server.prefect("work-pool", "create", "microagg", "--type", "process").returncode == 0
    subprocess.run([COMMAND, "deploy", str(tmp_path)], env=server.environment(), check=True, timeout=120)
    port = str(free_port())
    with prefect_worker(
        server, "microagg", {"PREFECT_CLIENT_METRICS_ENABLED": "true", "PREFECT_CLIENT_METRICS_PORT": port}
    ):
        deployment = server.get("deployments/name/microagg-release/scraped")
        run = server.post(f"deployments/{deployment['id']}/create_flow_run")["id"]
        wait_until(lambda: "prefect_" in metrics_at(port), "the worker's metrics")
        assert server.ended(run)["state_type"] == "COMPLETED"
        assert "prefect_events_emitted_total" in metrics_at(port)


@pytest.mark.soak("starts a server")
def test_a_port_that_is_taken_is_named(server: PrefectServer, tmp_path: Path) -> None:
    path = write_release(tmp_path, [people(60)], id="one", cluster="none", **AGAIN)
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        metrics = {"PREFECT_CLIENT_METRICS_ENABLED": "true", "PREFECT_CLIENT_METRICS_PORT": port}
        environment = server.environment(**metrics)
        done = subprocess.run([COMMAND, "run", str(path)], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 6
    assert done.stderr.splitlines()[-1].startswith(f"microagg: PREFECT_CLIENT_METRICS_PORT: port {port} is taken")
