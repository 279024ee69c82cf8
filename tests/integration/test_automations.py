"""`deploy/automations.yaml` in a real Prefect server: what ends badly, late or not at all reaches a webhook."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from inputs.people import people
from releasing.runs import write_release
from servers.prefect_server import PrefectServer, prefect_server
from servers.process import process, wait_until

pytestmark = [pytest.mark.server, pytest.mark.soak("an automation waits at least ten seconds for what does not come")]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMMAND = str(Path(sys.executable).with_name("microagg"))
NOBODY = "00000000-0000-0000-0000-000000000000"
#: The least that Prefect waits for what does not come; as long as the test does, for what must not be told.
SHORT, LONG = "within: 10", "within: 300"


class Receiver:
    """A webhook: what was posted to it, in order."""

    def __init__(self) -> None:
        self.posted: queue.Queue[dict[str, Any]] = queue.Queue()
        posted = self.posted

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                posted.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/alerts"

    def told(self, alert: str) -> dict[str, Any]:
        """The next of a kind; Prefect may send one twice."""
        while (found := self.posted.get(timeout=90))["alert"] != alert:
            pass
        return found


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[PrefectServer]:
    """A server with the automations, set up as the README says, but for how long they wait."""
    folder = tmp_path_factory.mktemp("prefect")
    with prefect_server(folder) as running:
        readme = (DEPLOY / "README.md").read_text(encoding="utf-8")
        (code,) = re.findall(r'alerts=\$\(python -c "(.+?)"\)', readme)
        code = re.sub(r"https://[^']+", receiver.url, code)
        saved = subprocess.run(
            [sys.executable, "-c", code], env=running.environment(), capture_output=True, text=True, check=True
        )
        text = (DEPLOY / "automations.yaml").read_text(encoding="utf-8").replace(NOBODY, saved.stdout.strip())
        short = (
            text.replace("within: 900", SHORT)
            .replace("within: 21600", SHORT)
            .replace("within: 600", SHORT)
            .replace("within: 93600", LONG)
        )
        assert short.count(SHORT) == 3 and short.count(LONG) == 1
        (folder / "automations.yaml").write_text(short, encoding="utf-8")
        made = running.prefect("automation", "create", "--from-file", str(folder / "automations.yaml"))
        assert made.returncode == 0, made.stderr
        yield running


@pytest.fixture(scope="module")
def deployment(server: PrefectServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("specs")
    write_release(folder / "people", [people(200)], name="people", id="one")
    assert server.prefect("work-pool", "create", "microagg", "--type", "process").returncode == 0
    done = subprocess.run([COMMAND, "deploy", str(folder)], env=server.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(server.get("deployments/name/microagg-release/people")["id"])


def test_all_of_them_are_there(server: PrefectServer) -> None:
    found = server.post("automations/filter")
    assert {one["name"] for one in found if one["enabled"]} == {
        "microagg-failed", "microagg-late", "microagg-hung", "microagg-lost", "microagg-silent",
    }  # fmt: skip


def test_a_release_that_is_refused_is_told_with_its_sentence(
    server: PrefectServer, receiver: Receiver, tmp_path: Path
) -> None:
    spec = write_release(tmp_path, [people(200)], name="people", id="one", k=300)
    done = subprocess.run([COMMAND, "run", str(spec)], env=server.environment(), capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    told = receiver.told("failed")
    assert told["run"] == "people one" and told["state"] == "Failed"
    assert told["said"].startswith("exit 3 (data): ") and told["said"].partition(": ")[2] in done.stderr
    assert told["page"].startswith("http")


def test_a_release_that_nobody_takes_is_told(server: PrefectServer, receiver: Receiver, deployment: str) -> None:
    run = server.post(f"deployments/{deployment}/create_flow_run", name="people late")
    assert run["state_type"] == "SCHEDULED"
    assert {**receiver.told("late"), "page": ""} == {"alert": "late", "run": "people late", "page": ""}


def test_a_release_that_does_not_end_is_told(server: PrefectServer, receiver: Receiver, deployment: str) -> None:
    states = [{"type": "PENDING"}, {"type": "RUNNING"}]
    run = server.post(f"deployments/{deployment}/create_flow_run", name="people hung")
    for state in states:
        server.post(f"flow_runs/{run['id']}/set_state", state=state, force=True)
    assert {**receiver.told("hung"), "page": ""} == {"alert": "hung", "run": "people hung", "page": ""}


def test_a_release_whose_process_is_gone_is_told(server: PrefectServer, receiver: Receiver, tmp_path: Path) -> None:
    spec = write_release(tmp_path, [people(200)], name="people", id="lost")
    with process([COMMAND, "run", str(spec)], server.environment(), tmp_path / "run.log") as started:

        def is_alive() -> bool:
            events = {"event": {"name": ["prefect.flow-run.heartbeat"]}}
            beats = server.post("events/filter", filter=events)["events"]
            runs = {run["id"] for run in server.post("flow_runs/filter") if run["parameters"].get("spec") == str(spec)}
            return any(
                beat["resource"]["prefect.resource.id"].removeprefix("prefect.flow-run.") in runs for beat in beats
            )

        wait_until(is_alive, "the run's first sign of life")
        started.kill()
    while receiver.told("lost")["run"] != "people lost":  # those of other tests are over by now, or told too
        pass


def test_that_there_was_no_release_is_told(server: PrefectServer, receiver: Receiver) -> None:
    path = server.folder / "automations.yaml"
    (silent,) = [one for one in yaml.safe_load(path.read_text())["automations"] if one["name"] == "microagg-silent"]
    silent["trigger"]["within"] = 10
    path.write_text(yaml.safe_dump({"automations": [{**silent, "name": "soon"}]}))
    assert server.prefect("automation", "create", "--from-file", str(path)).returncode == 0
    assert receiver.told("silent") == {"alert": "silent"}
