"""Ctrl-C, TERM and a terminal that is closed: one orderly ending, in bounded time, however often one presses.

The first signal raises ``KeyboardInterrupt`` where the command is, so that it puts its work away; what comes after
it raises nothing, because an exception in the middle of putting away would leave half of it. Somebody has to bound
the wait then: a thread of its own, which a blocked or stuck main thread cannot hold up.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from microagg_core.errors import EXIT_INTERRUPTED

#: What a person, a batch system or a closed terminal sends to have a command end.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

#: How long an orderly ending may take: uploads that are under way come to their end first.
_ORDERLY_SECONDS = 60.0
#: The same after a second signal, or where the first is held back by something that does not end.
_HURRIED_SECONDS = 4.0
#: How long an interpreter may take to leave when all is said.
_LEAVING_SECONDS = 20.0
_LOOK_EVERY_SECONDS = 0.2


class Interruptions:
    """Answer signals, and have a thread bound how long the ending takes."""

    #: For :func:`microagg_core.store.remote.settled`: a request may be waited for, somebody bounds the wait.
    patient = True

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._signals = 0
        self._deadline = float("inf")
        self._held_since: float | None = None
        self._over = threading.Event()
        self.requested = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if not self.requested:
            self.requested = True
            self._shorten(_ORDERLY_SECONDS)
            raise KeyboardInterrupt

    def raise_again(self) -> None:
        """Raise an interruption once more that was lost where no exception may leave, as in a destructor."""
        self.requested = False
        threading.Timer(0.01, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()

    def watch(self, arrivals: int) -> None:
        """Count what arrives at a file descriptor, whoever's handler is in place; give up when time is over."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        while not self._over.is_set():
            if select.select([arrivals], [], [], _LOOK_EVERY_SECONDS)[0]:
                self._count(os.read(arrivals, 64))
            self._look_at_held()
            if time.monotonic() > self._deadline:
                self._give_up()

    def end_watch(self) -> None:
        self._over.set()

    def _count(self, numbers: bytes) -> None:
        self._signals += sum(number in SIGNALS for number in numbers)
        if self._signals:
            self._shorten(_ORDERLY_SECONDS if self._signals == 1 else _HURRIED_SECONDS)

    def _look_at_held(self) -> None:
        """Count time for a signal that is blocked, as while children are started: it is delivered to nobody."""
        if not signal.sigpending() & set(SIGNALS):
            self._held_since = None
        elif self._held_since is None:
            self._held_since = time.monotonic()
        elif time.monotonic() - self._held_since > _HURRIED_SECONDS:
            self._shorten(0.0)

    def _shorten(self, seconds: float) -> None:
        self._deadline = min(self._deadline, time.monotonic() + seconds)


_current: Interruptions | None = None


def is_requested() -> bool:
    return _current is not None and _current.requested


@contextmanager
def orderly(give_up: Callable[[], None]) -> Iterator[None]:
    """Answer signals while the block runs; ``give_up`` ends the process at once when time is over.

    Where a signal is ignored it stays so: under ``nohup``, or in the background of a shell.
    """
    global _current
    _current = interruptions = Interruptions(give_up)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    answered = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
    with _arrivals(interruptions), _hooks(interruptions):
        for number in answered:
            signal.signal(number, interruptions)
        try:
            yield
        finally:
            for number in answered:
                # Where nothing was loaded yet, nothing is left to be interrupted now.
                signal.signal(number, signal.SIG_IGN if before[number] is _at_once else before[number])
            _current = None


@contextmanager
def _arrivals(interruptions: Interruptions) -> Iterator[None]:
    """Have the watching thread get every signal, in the block."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    thread = threading.Thread(target=interruptions.watch, args=(reader,), name="interruptions", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        interruptions.end_watch()
        os.write(writer, b"\0")
        thread.join()
        os.close(reader)
        os.close(writer)


@contextmanager
def _hooks(interruptions: Interruptions) -> Iterator[None]:
    """Keep threads and destructors quiet that fail because they were interrupted."""
    unraisable, in_threads = sys.unraisablehook, threading.excepthook

    def of_destructors(failure: Any) -> None:
        if isinstance(failure.exc_value, KeyboardInterrupt):
            interruptions.raise_again()
        elif not interruptions.requested:
            unraisable(failure)

    def of_threads(failure: Any) -> None:
        if not interruptions.requested:
            in_threads(failure)

    sys.unraisablehook, threading.excepthook = of_destructors, of_threads
    try:
        yield
    finally:
        sys.unraisablehook, threading.excepthook = unraisable, in_threads


def reclaim() -> None:
    """Answer signals again where a library has put handlers of its own in place; nothing where nobody asked to."""
    if _current is not None and threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _current)


@contextmanager
def refusing_handlers() -> Iterator[None]:
    """Keep a library that is loaded in this block, in whatever thread, from putting handlers of signals in place."""
    before = signal.signal
    signal.signal = lambda number, _handler: signal.getsignal(number)  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = before


def end_at_once_when_signalled() -> None:
    """End at a signal while the command is loaded: there is nothing to put away yet."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _at_once)


def _at_once(_number: int, _frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, f"microagg: {INTERRUPTED_EARLY}\n".encode())
    os._exit(EXIT_INTERRUPTED)


#: Left by an interruption: nothing where nothing was loaded, else what a release has done so far.
INTERRUPTED_EARLY = "interrupted; nothing was written"
INTERRUPTED = "interrupted; what is finished is kept, and the same command goes on from there"


def end_now(text: str, code: int) -> None:
    """Say a last word and end this process and all that it started, without a look back."""
    with suppress(OSError):
        os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + text.encode())
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.kill()
    os._exit(code)


_SHOW_CURSOR = b"\x1b[?25h\n"


def leave_in_time(code: int) -> None:
    """Have nothing that leaves with the interpreter say more, be interrupted, or take for ever."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    watch = threading.Timer(_LEAVING_SECONDS, end_now, ("", code))
    watch.daemon = True
    watch.start()


@contextmanager
def sparing_children() -> Iterator[None]:
    """Keep Ctrl-C from processes started in this block, and by threads started in it; their parent ends them.

    A server or worker that ends first would leave the parent nobody to tell, and a traceback on the terminal. The
    signals are held back, not ignored: what arrives meanwhile is delivered to this process at the end of the block.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SPARED)
    # It ignores Ctrl-C but not a closed terminal, and lifts the mask of what it ignores when it starts its process.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SPARED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


#: A worker that is asked to end by its parent gets a SIGTERM, so that one stays.
_SPARED = {getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)}
