"""Where a case takes place: a folder with input, spec, output, work area, home and temporary folder of its own.

And the processes that it needs beside the command, such as a cluster's or a server's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from soak.command import Command, start
from soak.data import Configuration
from soak.places import Folder, Place
from soak.processes import MARK, as_from_a_terminal, helpers_mark

#: What of this machine's user a case may see.
_KEPT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
#: Enough for warm kernels on any stage, and so little that all of it together fits a small machine.
WORKER_MEMORY = "1GiB"


def local_cluster(memory: str = WORKER_MEMORY, workers: int = 2) -> dict[str, Any]:
    return {"local": {"workers": workers, "threads": 1, "memory": memory}}


@dataclass
class Site:
    folder: Path
    configuration: Configuration
    kernels: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    spec: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    output: Place = field(init=False)
    work: Place = field(init=False)
    n_commands: int = 0

    def __post_init__(self) -> None:
        self.output, self.work = Folder(self.folder / "release"), Folder(self.folder / "work")
        for name in ("home", "tmp", "prefect"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        cluster = {} if self.configuration.leaves_cluster_open else {"cluster": local_cluster()}
        self.spec = {**self.configuration.spec(), **cluster, **self.spec}
        self.write_spec()

    def write_spec(self, name: str = "release.yaml", **changes: Any) -> str:
        """Write the spec, or another one with changes; returns its name."""
        text = yaml.safe_dump({**self.spec, **changes}, sort_keys=False)
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def use_cluster(self, cluster: Mapping[str, Any]) -> None:
        self.spec["cluster"] = cluster
        self.write_spec()

    def take_input(self, source: Path) -> None:
        """Copy the input, its times included: what a run finds unchanged must look unchanged."""
        shutil.copytree(source, self.folder / "input", dirs_exist_ok=True)

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {
            **kept,
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.temporary),
            "PREFECT_HOME": str(self.folder / "prefect"),
            "PREFECT_LOGGING_LEVEL": "DEBUG",
            "NUMBA_CACHE_DIR": str(self.kernels),
            "MICROAGG_CACHE_DIR": str(self.kernels),
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_COLOR": "1",
            MARK: self.mark,
            **self.settings,
        }

    def start(
        self,
        *arguments: str,
        settings: Mapping[str, str | None] | None = None,
        wrapped_in: tuple[str, ...] = (),
    ) -> Command:
        """Start the command here; settings of None are taken from its environment."""
        environment: dict[str, str | None] = {**self.environment(), **(settings or {})}
        given = {name: value for name, value in environment.items() if value is not None}
        self.n_commands += 1
        return start(arguments, self.folder, given, self.mark, self.n_commands, wrapped_in)


@dataclass
class Services:
    """Helpers of one case by name: each in a session of its own; their logs are searched like everything else."""

    site: Site
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self,
        name: str,
        command: Sequence[str],
        settings: Mapping[str, str] | None = None,
        wrapped_in: Sequence[str] = (),
    ) -> None:
        scratch = self.site.folder / "scratch"  # what these leave in a temporary folder is not the command's doing
        for folder in (scratch, self.site.folder / "logs"):
            folder.mkdir(exist_ok=True)
        environment = {**self.site.environment(), MARK: helpers_mark(self.site.mark), "TMPDIR": str(scratch)}
        with self._log(name).open("ab") as log:
            self.started[name] = subprocess.Popen(
                [*wrapped_in, *command],
                cwd=scratch,
                env={**environment, **(settings or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=as_from_a_terminal,
            )

    def _log(self, name: str) -> Path:
        return self.site.folder / "logs" / f"{name}.log"

    def said(self, name: str) -> str:
        return self._log(name).read_text(errors="replace") if self._log(name).exists() else ""

    def process(self, name: str) -> psutil.Process:
        return psutil.Process(self.started[name].pid)

    def signal_group(self, name: str, number: int) -> None:
        process = self.started[name]
        if process.poll() is None:
            os.killpg(process.pid, number)

    def kill(self, name: str) -> None:
        """End a helper and all it started, and wait for it."""
        self.signal_group(name, signal.SIGKILL)
        self.started[name].wait(20)
