"""Processes that do not outlive the tests that started them, ports for them, and waits for what they do."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

WAIT_SECONDS = 120.0
_END_SECONDS = 20.0
_PR_SET_PDEATHSIG = 1
#: Loaded here, as a forked child of a process with threads cannot safely load anything.
_SYSTEM = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_the_tests() -> None:
    """For ``preexec_fn``: have the system end the child when the thread that starts it ends, however it ends.

    pytest-xdist ends its processes at once when somebody interrupts, and no fixture is torn down.
    """
    # Where the tests run in the background of a shell, SIGINT would be ignored and SIGTERM with it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if _SYSTEM is not None:
        _SYSTEM.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def modules() -> dict[str, str]:
    """Make the variables of a process that finds the modules that this one finds."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@contextmanager
def process(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    cwd: Path | None = None,
    ending: int = signal.SIGTERM,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a group of its own; at the end it gets a signal, and what is left of its group is killed."""
    with log.open("ab") as file:
        started = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=cwd,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_the_tests,
        )
    try:
        yield started
    finally:
        started.send_signal(ending)
        if ending != signal.SIGKILL:
            with suppress(subprocess.TimeoutExpired):
                started.wait(_END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def wait_until(
    is_true: Callable[[], object], what: str, seconds: float = WAIT_SECONDS, log: Path | None = None
) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-1500:] if log is not None and log.exists() else ""
            raise AssertionError(f"waited {seconds:.0f} s for {what}{said and f'; last words: {said}'}")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True
