"""A real Prefect server and a real worker for tests: processes of their own, stopped by their own ids."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from servers.process import free_port, process, wait_until

START_SECONDS = 120
RUN_SECONDS = 120
#: Prefect, and where a command would look for it; without what the person who runs the tests has set.
PREFECT = [sys.executable, "-m", "prefect", "--no-prompt"]

#: A run that waits for another of its series looks again so soon, and not after half a minute.
_SHORT_WAITS = {"PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "1"}


@dataclass(frozen=True)
class PrefectServer:
    """A running server: its API, and the environment in which commands find it."""

    url: str
    folder: Path

    def environment(self, **others: str) -> dict[str, str]:
        """The environment of a process that uses this server, and no setting of this machine's user."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MICROAGG_"))}
        return {**kept, **quiet(self.folder / "client"), "PREFECT_API_URL": self.url, **others}

    def prefect(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PREFECT, *arguments],
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
        )

    def get(self, path: str) -> Any:
        return self._asked("GET", path, None)

    def post(self, path: str, **body: Any) -> Any:
        return self._asked("POST", path, body)

    def _asked(self, method: str, path: str, body: Any) -> Any:
        """Ask again while the database, an SQLite file, is busy: the server says 503 then, as to every client."""
        deadline = time.monotonic() + 30
        while True:
            answer = httpx.request(method, f"{self.url}/{path}", json=body, timeout=30)
            if answer.status_code != 503 or time.monotonic() > deadline:
                return answer.raise_for_status().json()
            time.sleep(0.5)

    def run_of(self, spec: Path) -> dict[str, Any]:
        runs = self.post("flow_runs/filter", sort="ID_DESC", limit=200)
        (found,) = [run for run in runs if run["parameters"].get("spec") == str(spec)]
        assert isinstance(found, dict)
        return found

    def ended(self, flow_run: str) -> dict[str, Any]:
        run: dict[str, Any] = {}

        def is_over() -> bool:
            run.update(self.get(f"flow_runs/{flow_run}"))
            states = [run["state_type"], *(task["state_type"] for task in self.tasks(flow_run))]
            return all(state in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") for state in states)

        wait_until(is_over, f"the flow run's end (it is {run.get('state_name')})")
        return run

    def tasks(self, flow_run: str) -> list[dict[str, Any]]:
        found = self.post("task_runs/filter", flow_runs={"id": {"any_": [flow_run]}}, sort="EXPECTED_START_TIME_ASC")
        return list(found)

    def log(self, flow_run: str) -> list[str]:
        """The messages of a flow run's log and of its tasks', once the last has arrived."""
        messages: list[str] = []

        def is_whole() -> bool:
            lines = self.post("logs/filter", logs={"flow_run_id": {"any_": [flow_run]}}, sort="TIMESTAMP_ASC")
            messages[:] = [line["message"] for line in lines]
            ends = [line for line in lines if line["name"] == "prefect.flow_runs" and "Finished in" in line["message"]]
            return bool(ends)

        wait_until(is_whole, "the log's last line")
        return messages

    def levels(self, flow_run: str, beginning: str) -> list[int]:
        lines = self.post("logs/filter", logs={"flow_run_id": {"any_": [flow_run]}})
        return [line["level"] for line in lines if line["message"].startswith(beginning)]

    def artifacts(self, flow_run: str) -> list[dict[str, Any]]:
        return list(self.post("artifacts/filter", flow_runs={"id": {"any_": [flow_run]}}, sort="UPDATED_DESC"))[::-1]

    def database(self) -> bytes:
        """All that the server has written to its disk."""
        return b"".join(path.read_bytes() for path in sorted((self.folder / "server").glob("prefect.db*")))


def quiet(home: Path) -> dict[str, str]:
    """Settings for a Prefect that lives in a folder of its own and calls nobody."""
    return {
        "PREFECT_HOME": str(home),
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "NO_COLOR": "1",
    }


@contextmanager
def prefect_server(folder: Path, pages: bool = False) -> Iterator[PrefectServer]:
    """A server on a free port, with a database of its own; with its pages for a browser, or without."""
    home = folder / "server"
    home.mkdir()
    port = free_port()
    server = PrefectServer(f"http://127.0.0.1:{port}/api", folder)
    command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    command += [] if pages else ["--no-ui"]
    log = folder / "server.log"
    with process(command, {**server.environment(**_SHORT_WAITS), **quiet(home)}, log) as started:

        def is_up() -> bool:
            assert started.poll() is None, log.read_text()
            try:
                return httpx.get(f"{server.url}/health", timeout=5).status_code == 200
            except httpx.HTTPError:
                return False

        wait_until(is_up, "Prefect's server", START_SECONDS)
        yield server


@contextmanager
def prefect_worker(server: PrefectServer, pool: str, environment: Mapping[str, str]) -> Iterator[Path]:
    log = server.folder / "worker.log"
    command = [*PREFECT, "worker", "start", "--pool", pool, "--name", "tests"]
    with process(command, server.environment(PREFECT_WORKER_QUERY_SECONDS="1", **environment), log) as started:

        def is_online() -> bool:
            assert started.poll() is None, log.read_text()
            return any(w["status"] == "ONLINE" for w in server.post(f"work_pools/{pool}/workers/filter"))

        wait_until(is_online, "the worker")
        yield log
