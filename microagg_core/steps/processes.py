"""Which process does a run's work, so that its death is seen on the same machine without waiting."""

from __future__ import annotations

import os
from pathlib import Path


def this_process() -> str:
    """Name this process, for :func:`has_ended`; empty where the system does not tell enough."""
    place = _place()
    start = _start_of(os.getpid())
    return f"{place} {os.getpid()} {start}" if place and start else ""


def has_ended(process: str) -> bool:
    """Tell whether a process is known to be over: it ran here, and is not there any more.

    >>> has_ended(this_process()), has_ended("")
    (False, False)
    """
    place, _, rest = process.partition(" ")
    if not place or place != _place():
        return False
    number, _, start = rest.partition(" ")
    return _start_of(int(number)) != start


def _place() -> str:
    """The boot of a machine and the numbering of processes in it: containers count theirs apart."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _start_of(number: int) -> str:
    """When a process began, as numbers of processes come again; empty where there is none."""
    try:
        status = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    state, *fields = status.rpartition(") ")[2].split()
    return "" if state in "ZX" else fields[18]
