"""Processes of one case: found by a mark in their environment, whoever started them and whoever is their parent now."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

#: Every process of a case carries it, whatever forks, spawns and daemons lie between.
MARK = "MICROAGG_SOAK_CASE"
#: The module that a command runs as its embedded server.
PREFECT_SERVER = "microagg_flows.prefect_side.server_process"
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess, FileNotFoundError, ProcessLookupError)


def marked(mark: str, helpers: bool = False) -> list[psutil.Process]:
    """Find the living processes that carry the mark; with what the campaign itself runs for the case, if asked for."""
    marks = {mark, helpers_mark(mark)} if helpers else {mark}
    return [process for process in psutil.process_iter() if _carries(process, marks)]


def helpers_mark(mark: str) -> str:
    return f"{mark}-helpers"


def _carries(process: psutil.Process, marks: set[str]) -> bool:
    try:
        return process.environ().get(MARK) in marks and process.status() != psutil.STATUS_ZOMBIE
    except (*_GONE, OSError):  # a process that is about to end has no environment any more
        return False


def command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except _GONE:
        return ""


def workers(mark: str) -> list[psutil.Process]:
    """Find Dask's workers of the release's own cluster: processes that Python spawned."""
    return [p for p in marked(mark) if "spawn_main" in command_line(p) and "resource_tracker" not in command_line(p)]


def prefect_servers(mark: str) -> list[psutil.Process]:
    return [p for p in marked(mark) if PREFECT_SERVER in command_line(p)]


def as_from_a_terminal() -> None:
    """Give signals their usual meaning: started in the background or by nohup, a campaign ignores some of them."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def send(process: psutil.Process, number: int) -> bool:
    """Send a signal; False where the process is gone."""
    try:
        process.send_signal(number)
    except _GONE:
        return False
    return True


def wait_until(is_true: Callable[[], object], seconds: float) -> bool:
    """Look again until it is so; False where the time is up."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def describe(found: list[psutil.Process]) -> str:
    return "; ".join(f"{p.pid} {command_line(p)[:160]}" for p in found)


def end(mark: str, helpers: bool = False) -> None:
    """Kill all that carry the mark, and see that they are gone."""

    def all_gone() -> bool:
        left = marked(mark, helpers)
        for process in left:
            send(process, signal.SIGKILL)
        return not left

    wait_until(all_gone, 20)


def load_factor() -> float:
    """Compute how much longer things may take than on an idle machine."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def is_busy(mark: str) -> bool:
    """Tell whether any thread of the case, its helpers included, computes, waits for a processor, or for a disk.

    On a machine that others use too, CPU seconds say little: a process that gets no processor is not idle.
    """
    return any(state in "RD" for process in marked(mark, helpers=True) for state in _thread_states(process.pid))


def _thread_states(pid: int) -> Iterator[str]:
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError, IndexError):
            yield task.read_text().rpartition(")")[2].split()[0]
