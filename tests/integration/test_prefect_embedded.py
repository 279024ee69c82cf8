"""The Prefect server that a command starts for itself, and a server that stops answering."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from covering import share
from microagg_core.release.verify import verify
from servers.prefect_server import quiet
from trouble.holding import SURVEY, Held

pytestmark = pytest.mark.server

COMMAND = str(Path(sys.executable).with_name("microagg"))


class Running:
    """A command under way, with what it says; its worker is held in the first stage until it is let go."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.surveying = Held(folder.parent / "surveying", SURVEY)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        held = self.surveying.environment
        self.temporary = folder.parent / "temporary"
        self.temporary.mkdir()
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [COMMAND, "run", "release.yaml"],
            cwd=folder,
            env={**kept, **quiet(folder.parent / "prefect"), "TMPDIR": str(self.temporary), **held, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))

    def ends(self, seconds: float) -> int:
        """The exit code, once all that was said is heard."""
        code = self.process.wait(seconds)
        self._listener.join(10)
        return code

    def says(self, words: str) -> bool:
        assert self.process.poll() is None or any(words in line for line in self.said), self.said
        return any(words in line for line in self.said)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def server(self) -> psutil.Process:
        (found,) = [p for p in self.children() if "microagg_flows.prefect_side.server_process" in p.cmdline()]
        return found


@pytest.mark.soak("starts Prefect's server and workers, as the interruption does")
def test_no_server_outlives_a_command_that_is_killed(companies: Path) -> None:
    running = Running(companies)
    running.surveying.begins()
    children = running.children()
    assert running.server() in children
    running.process.kill()
    running.process.wait()
    assert psutil.wait_procs(children, timeout=60)[1] == []


@pytest.mark.slow(reason="starts Prefect's server and workers")
@pytest.mark.parametrize(("number", "times"), share([(signal.SIGINT, 3), (signal.SIGHUP, 1)], 1))
def test_an_interruption_ends_server_and_workers(companies: Path, number: signal.Signals, times: int) -> None:
    running = Running(companies)
    running.surveying.begins()
    children = running.children()
    for _ in range(times):
        os.killpg(running.process.pid, number)
    assert running.ends(200) == 130
    assert running.said[-1].startswith("microagg: interrupted; ")
    assert not any("Traceback" in line or "Exception" in line for line in running.said), "\n".join(running.said)
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert list(running.temporary.iterdir()) == []


@pytest.mark.soak("waits for a server until it is given up")
def test_a_release_is_made_though_the_server_freezes(companies: Path) -> None:
    """The rest is work without Prefect: the release is out, and what is missing is said."""
    patience: dict[str, Any] = {"PREFECT_API_REQUEST_TIMEOUT": "2", "PREFECT_CLIENT_MAX_RETRIES": "1"}
    running = Running(companies, **patience)
    running.surveying.begins()
    server = running.server()
    server.suspend()
    running.surveying.let_go()
    assert running.ends(200) == 0, running.said
    assert running.says("Prefect's server does not answer any more: the work goes on without it")
    assert running.said[-1].startswith("microagg: release example is published in ")
    assert "; afterwards: Prefect's server stopped answering" in running.said[-1]
    assert verify(str(companies / "release")).passed
    assert psutil.wait_procs([server], timeout=60)[1] == []
    assert list(running.temporary.iterdir()) == []


def test_a_damaged_database_is_named(companies: Path) -> None:
    home = companies.parent / "prefect"
    home.mkdir()
    (home / "prefect.db").write_bytes(b"this is no database, and was never one" * 100)
    running = Running(companies)
    running.surveying.let_go()
    assert running.ends(150) == 6, running.said
    assert "embedded server does not start: its database is damaged" in running.said[-1]
    assert not (companies / "release").exists()
    assert list(running.temporary.iterdir()) == []
