"""A real Dask scheduler and real workers, as processes of their own that keep logs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from servers.process import end_with_the_tests


@dataclass(frozen=True)
class DaskCluster:
    """A scheduler and two workers, each a process of its own, with their logs."""

    address: str
    folder: Path

    def logs(self) -> dict[str, str]:
        return {path.name: path.read_text(errors="replace") for path in self.folder.glob("*.log")}


def _start(
    arguments: list[str], log: Path, environment: Mapping[str, str], before: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    # Everything that Dask has to say is wanted here: a test searches these logs for values of records.
    said = {"DASK_LOGGING__DISTRIBUTED": "debug", "DASK_DISTRIBUTED__WORKER__DAEMON": "True"}
    with log.open("wb") as file:
        return subprocess.Popen(
            [*before, sys.executable, "-m", "dask", *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **said, **environment},
            start_new_session=True,
            preexec_fn=end_with_the_tests,
        )


def _address(scheduler_file: Path, scheduler: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if scheduler_file.exists() and (text := scheduler_file.read_text()).endswith("}"):
            return str(json.loads(text)["address"])
        if scheduler.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"the scheduler did not start: {scheduler_file.with_name('scheduler.log').read_text()}")


@dataclass
class GrowingCluster:
    """A scheduler, and a way to give it workers of one thread each."""

    address: str
    folder: Path
    processes: list[subprocess.Popen[bytes]]

    def start_worker(self, *options: str, before: Sequence[str] = ()) -> None:
        """Start one more, by the command that stands before it; it joins within seconds."""
        number = len(self.processes)
        fixed = ["--nthreads", "1", "--memory-limit", "2GiB", "--no-dashboard", "--no-nanny"]
        places = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = ["worker", self.address, *fixed, "--local-directory", str(self.folder), *options]
        self.processes.append(_start(command, self.folder / f"worker-{number}.log", places, before))


@contextmanager
def growing_cluster(folder: Path) -> Iterator[GrowingCluster]:
    """A scheduler without workers, while the block lasts."""
    scheduler_file = folder / "scheduler.json"
    scheduler = _start(
        ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(scheduler_file)],
        folder / "scheduler.log",
        {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    cluster = GrowingCluster("", folder, [scheduler])
    try:
        cluster.address = _address(scheduler_file, scheduler)
        yield cluster
    finally:
        for process in cluster.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # one that is about to start hears nothing else
            process.wait()


@contextmanager
def running_cluster(folder: Path, environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[DaskCluster]:
    """A scheduler and two workers, while the block lasts; the workers may have an environment of their own."""
    scheduler_file = folder / "scheduler.json"
    scheduler = _start(
        ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(scheduler_file)],
        folder / "scheduler.log",
        {},
    )
    processes = [scheduler]
    try:
        address = _address(scheduler_file, scheduler)
        for number in range(2):
            options = ["--nthreads", "1", "--memory-limit", "2GiB", "--no-dashboard", "--local-directory", str(folder)]
            processes.append(_start(["worker", address, *options], folder / f"worker-{number}.log", environment))
        yield DaskCluster(address, folder)
    finally:
        for process in reversed(processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            process.wait(30)
