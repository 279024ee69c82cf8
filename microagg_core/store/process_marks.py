"""Which process makes something, in a mark by which others on the same machine see whether it is gone."""

from __future__ import annotations

import os
import secrets
import socket
from functools import cache
from hashlib import sha256
from pathlib import Path


def this_process() -> str:
    """Mark this process: its surroundings as twelve digits, and its number there.

    >>> is_gone(this_process())
    False
    """
    return f"{_surroundings()}-{os.getpid()}"


def is_gone(mark: str) -> bool:
    """Say whether a process is certainly gone; False where it is there, or where this process could not see it.

    >>> is_gone("000000000000-1"), is_gone("")
    (False, False)
    """
    surroundings, _, number = mark.partition("-")
    if surroundings != _surroundings() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's, so it is there
        return False
    return False


@cache
def _surroundings() -> str:
    """Digest what processes share that see each other's numbers: the machine since its start, and the container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        space = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:  # not Linux: no other process can tell
        return secrets.token_hex(6)
    return sha256(f"{socket.gethostname()} {boot} {space}".encode()).hexdigest()[:12]
