"""Requests that are over before whoever made them is interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

#: What asks a process to end: by a key, by another process, by a terminal that is closed.
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def settled(call: Callable[[], T]) -> T:
    """Make a request and stay until it is over, even when the user presses Ctrl-C.

    A file system with an event loop of its own goes on with a request whose caller was interrupted: an object
    could appear after the clean-up that was meant to remove it. So an interrupt is noted while the request lasts
    and delivered when it is over. A second one is delivered at once, unless the handler is ``patient``: then whoever
    has put it in place bounds the wait. Only the main thread is ever interrupted.

    >>> settled(lambda: 7)
    7
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    before = {number: signal.getsignal(number) for number in _INTERRUPTS}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}
    noted: list[tuple[int, FrameType | None]] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append((number, frame))
        handler = handlers[signal.Signals(number)]
        if len(noted) == 2 and not getattr(handler, "patient", False):
            handler(number, frame)

    _exchange(dict.fromkeys(handlers, note))
    try:
        return call()
    finally:
        _exchange(handlers)
        if noted:
            handlers[signal.Signals(noted[0][0])](*noted[0])


def _exchange(handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], Any]]) -> None:
    """Put handlers in place, all of them: one that raises in between would leave the others out."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handlers)
    try:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
