"""A real Dask scheduler and real workers, as processes of their own that keep logs."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from servers.process import modules, process, wait_until

#: Everything that Dask has to say is wanted here: a test searches these logs for values of records.
_SAYS_ALL = {"DASK_LOGGING__DISTRIBUTED": "debug", "DASK_DISTRIBUTED__WORKER__DAEMON": "True"}


@dataclass
class DaskCluster:
    """A scheduler and workers of one thread each, with their logs."""

    folder: Path
    running: ExitStack
    address: str = ""
    n_workers: int = 0

    def logs(self) -> dict[str, str]:
        return {path.name: path.read_text(errors="replace") for path in self.folder.glob("*.log")}

    def start_worker(self, *options: str, before: Sequence[str] = (), **environment: str) -> None:
        """Start one more, by the command that stands before it; it joins within seconds."""
        fixed = ["--nthreads", "1", "--memory-limit", "2GiB", "--no-dashboard", "--local-directory", str(self.folder)]
        command = ["worker", self.address, "--no-nanny", *fixed, *options]
        self._start(command, f"worker-{self.n_workers}", environment, before)
        self.n_workers += 1

    def start_scheduler(self, *options: str, **environment: str) -> int:
        """Start the scheduler, and wait until it listens; its process id."""
        file = self.folder / "scheduler.json"
        fixed = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
        started = self._start(["scheduler", *fixed, *options], "scheduler", environment)
        log = self.folder / "scheduler.log"
        wait_until(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler", 60, log)
        self.address = str(json.loads(file.read_text())["address"])
        return int(started.pid)

    def _start(self, command: list[str], name: str, others: Mapping[str, str], before: Sequence[str] = ()) -> Any:
        environment = {**os.environ, **_SAYS_ALL, **modules(), **others}
        whole = [*before, sys.executable, "-m", "dask", *command]
        # One that is about to start hears no other signal. Python looks first where a command starts.
        ended = process(whole, environment, self.folder / f"{name}.log", cwd=self.folder, ending=signal.SIGKILL)
        return self.running.enter_context(ended)


@contextmanager
def growing_cluster(folder: Path, *options: str, **environment: str) -> Iterator[DaskCluster]:
    """A scheduler without workers, while the block lasts."""
    with ExitStack() as running:
        cluster = DaskCluster(folder, running)
        cluster.start_scheduler(*options, **environment)
        yield cluster


@contextmanager
def running_cluster(folder: Path, environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[DaskCluster]:
    """A scheduler and two workers with nannies, while the block lasts; the workers may have an environment."""
    with growing_cluster(folder) as cluster:
        for _ in range(2):
            cluster.start_worker("--nanny", **environment)
        yield cluster


def without_package(folder: Path) -> dict[str, str]:
    """Make the environment of a worker whose Python has Dask and not this package."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(
        "import sys\n\n\nclass Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('microagg_core', 'microagg_flows'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n\n\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    return {"PYTHONPATH": str(folder)}
