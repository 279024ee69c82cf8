"""Compile what is missing: one process a machine does, the others wait for it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from microagg_core.compiling.child import run_child
from microagg_core.compiling.parts import TABLES, is_stamped, needed_parts
from microagg_core.errors import ClusterError
from microagg_core.kernels.machine_code.code_folders import code_folders

Say = Callable[[str], None]

_LOCK = "compiling.lock"
#: Whether this process has said that nothing can be kept.
_said = Event()
#: Parts that a child of this process compiled and could not keep: another would fare no better.
_in_vain: set[str] = set()
_LOOK_SECONDS, _SAY_AFTER_SECONDS, _MOST_SECONDS = 0.2, 2.0, 1200.0
#: Seconds that a part takes, on one core of a 2-core virtual machine; of the others about as many as the last.
_SECONDS = {TABLES: 2, "mdav": 15, "bound": 1, "annealing": 12, "factor": 15, "optimum": 3, "protection": 20}


def is_compiled(algorithm: str, effort: str | float, k: int | None = None) -> bool:
    """Whether a release by this algorithm and effort would compile nothing; a look at a few files."""
    return not missing_parts(needed_parts(algorithm, effort, k))


def ensure_compiled(
    algorithm: str, effort: str | float, k: int | None = None, *, say: Say | None = None, cancelled: Event | None = None
) -> bool:
    """Return once everything is compiled that a release by this algorithm and effort needs.

    At once where it is; else one child process compiles what is missing while this one waits, and while all others
    that ask wait too. ``say`` is given a line when that begins, and where nothing can be kept.

    Returns whether the code is kept; where it is not, as no folder can be written, each process compiles for itself.

    Raises:
        ClusterError: the child died or did not end, or another process's did not.
    """
    return compile_parts(needed_parts(algorithm, effort, k), say=say, cancelled=cancelled)


def compile_parts(
    parts: tuple[str, ...],
    *,
    say: Say | None = None,
    done: Callable[[str], None] | None = None,
    cancelled: Event | None = None,
) -> bool:
    """As :func:`ensure_compiled`, for parts by name; ``done`` is told of each that was compiled."""
    tell, stop = say or _silent, cancelled or Event()
    missing, folder = missing_parts(parts), code_folders().write
    if not missing:
        return True
    if folder is None or _in_vain.issuperset(missing):
        _say_once(tell)
        return False
    with _locked(folder, parts, tell, stop):
        missing = missing_parts(parts)
        if missing and not stop.is_set():
            seconds = sum(_SECONDS.get(part, 10) for part in missing)
            tell(f"compiling the kernels, once for this machine: about {seconds} s")
            run_child(missing, done or _silent, stop)
    if stop.is_set() or not missing_parts(parts):
        return True
    _in_vain.update(missing_parts(parts))
    _say_once(tell)
    return False


def _silent(_text: str) -> None:
    """Nobody asked."""


def missing_parts(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the parts that are not compiled yet, each once."""
    return tuple(part for part in dict.fromkeys(parts) if not is_stamped(part))


def _say_once(tell: Say) -> None:
    """Where code could not be kept, and what that means."""
    if _said.is_set():
        return
    _said.set()
    places = ", ".join(map(str, code_folders().tried)) or "any folder"
    tell(
        f"compiled kernels cannot be kept in {places}: each process compiles for itself, in half a minute and "
        "600 MiB; name a folder that can be written in MICROAGG_CACHE_DIR"
    )


@contextmanager
def _locked(folder: Path, parts: tuple[str, ...], tell: Say, stop: Event) -> Iterator[None]:
    """Alone on this machine; or soon after somebody else has compiled the parts.

    The lock goes with the process that holds it, however it ends. Where the file system has none, nobody waits.
    """
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        _wait_for(lock, parts, tell, stop)
        yield
    finally:
        os.close(lock)


def _wait_for(lock: int, parts: tuple[str, ...], tell: Say, stop: Event) -> None:
    start, said = time.monotonic(), False
    while not stop.is_set() and missing_parts(parts):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        except OSError:  # this file system has no locks
            return
        waited = time.monotonic() - start
        if waited > _MOST_SECONDS:
            raise ClusterError(
                f"another process has been compiling the kernels for {_MOST_SECONDS / 60:.0f} minutes; end it, or name "
                "another folder in MICROAGG_CACHE_DIR, and start again"
            )
        if waited > _SAY_AFTER_SECONDS and not said:
            said = True
            tell("another process is compiling the kernels; waiting for it")
        stop.wait(_LOOK_SECONDS)
