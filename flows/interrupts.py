"""Ctrl-C: it reaches every process of a terminal's group, and only the one that was called should answer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def sparing_children() -> Iterator[None]:
    """Processes started in this block, and by threads started in it, never see Ctrl-C; their parent ends them.

    A server or worker that ends first would leave the parent nobody to tell, and a traceback on the terminal. The
    signal is held back, not ignored: what arrives meanwhile is delivered to this process at the end of the block.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # It lifts the mask when it starts its own process, so it has to be there before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
