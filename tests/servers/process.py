"""Processes that do not outlive the tests that started them."""

from __future__ import annotations

import ctypes
import signal
import sys

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
