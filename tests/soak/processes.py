"""Processes of one case: found by a mark in their environment, whoever started them and whoever is their parent now."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psutil

#: Every process of a case carries it, whatever forks, spawns and daemons lie between.
MARK = "MICROAGG_SOAK_CASE"
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess, FileNotFoundError, ProcessLookupError)


def marked(mark: str) -> list[psutil.Process]:
    """The living processes that carry the mark."""
    return [process for process in psutil.process_iter() if _carries(process, mark)]


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE
    except _GONE:
        return False
    except OSError:  # a process that is about to end has no environment any more
        return False


def command_line(process: psutil.Process) -> str:
    """Its arguments; nothing where it is gone."""
    try:
        return " ".join(process.cmdline())
    except _GONE:
        return ""


def workers(mark: str) -> list[psutil.Process]:
    """Dask's workers of the release's own cluster: processes that Python spawned."""
    return [p for p in marked(mark) if "spawn_main" in command_line(p) and "resource_tracker" not in command_line(p)]


def prefect_servers(mark: str) -> list[psutil.Process]:
    """Prefect's embedded server, its outermost process first."""
    return [p for p in marked(mark) if "prefect" in command_line(p) and "uvicorn" in command_line(p)]


def send(process: psutil.Process, number: int) -> bool:
    """Send a signal; False where the process is gone."""
    try:
        process.send_signal(number)
    except _GONE:
        return False
    return True


def wait_until(is_true: Callable[[], bool], seconds: float, every: float = 0.1) -> bool:
    """Look again until it is so; False where the time is up."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def describe(found: list[psutil.Process]) -> str:
    """What they are, in a few words each."""
    return "; ".join(f"{p.pid} {command_line(p)[:160]}" for p in found)


def end(mark: str) -> None:
    """Kill all that carry the mark, and see that they are gone."""

    def all_gone() -> bool:
        left = marked(mark)
        for process in left:
            send(process, signal.SIGKILL)
        return not left

    wait_until(all_gone, 20)


def load_factor() -> float:
    """How much longer things may take than on an idle machine."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@dataclass
class Effort:
    """The CPU time that the marked processes use, those included that end in between."""

    mark: str
    _seen: dict[tuple[int, float], float] = field(default_factory=dict)
    total: float = 0.0

    def measure(self) -> float:
        """CPU seconds so far, of all processes that were seen."""
        for key, seconds in self._now():
            self.total += max(0.0, seconds - self._seen.get(key, 0.0))
            self._seen[key] = seconds
        return self.total

    def _now(self) -> Iterator[tuple[tuple[int, float], float]]:
        for process in marked(self.mark):
            with contextlib.suppress(*_GONE), process.oneshot():
                times = process.cpu_times()
                yield (process.pid, process.create_time()), times.user + times.system
