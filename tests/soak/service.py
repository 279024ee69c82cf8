"""Processes that a case needs beside the command, such as a cluster's or a server: started, known by name, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from soak import processes
from soak.site import Site


def free_port() -> int:
    """A port of the loopback interface that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Services:
    """The helpers of one case; their logs are searched like everything else."""

    site: Site
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self,
        name: str,
        command: Sequence[str],
        settings: Mapping[str, str] | None = None,
        wrapped_in: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a helper in a session of its own."""
        logs = self.site.folder / "logs"
        logs.mkdir(exist_ok=True)
        environment = {**self.site.environment(), processes.MARK: processes.helpers_mark(self.site.mark)}
        scratch = self.site.folder / "scratch"  # what these leave in a temporary folder is not the command's doing
        scratch.mkdir(exist_ok=True)
        with (logs / f"{name}.log").open("ab") as log:
            self.started[name] = subprocess.Popen(
                [*wrapped_in, *command],
                cwd=scratch,
                env={**environment, "TMPDIR": str(scratch), **(settings or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=processes.as_from_a_terminal,
            )
        return self.started[name]

    def log(self, name: str) -> Path:
        """What a helper says."""
        return self.site.folder / "logs" / f"{name}.log"

    def process(self, name: str) -> psutil.Process:
        """The helper itself."""
        return psutil.Process(self.started[name].pid)

    def signal_group(self, name: str, number: int) -> None:
        """A signal to a helper and all it started."""
        process = self.started[name]
        if process.poll() is None:
            os.killpg(process.pid, number)

    def kill(self, name: str) -> None:
        """End a helper and all it started, and wait for it."""
        self.signal_group(name, signal.SIGKILL)
        self.started[name].wait(20)
