"""Threads of this process, lent to tasks that have use for more than their own; what is made does not depend on them.

A process that may use so many threads in all, and runs fewer tasks, has some to spare. A task with independent pieces
of work borrows them for as long as these last, and works itself; where another task begins meanwhile, they are given
back after the piece at hand. Whatever the pieces are, they are the same for any number of threads, and write to places
of their own.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")


class Threads:
    """Number of threads for all that runs under one of these at a time.

    >>> threads = Threads(3)
    >>> with threads.running(), threads.running():
    ...     threads.borrow(5)
    1
    """

    def __init__(self, total: int = 1) -> None:
        self._lock = threading.Lock()
        self._total, self._busy = total, 0

    def allow(self, total: int) -> None:
        with self._lock:
            self._total = max(1, total)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the calling thread as one of them in this block, and let what it calls borrow others."""
        with self._lock:
            self._busy += 1
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)
            self.give_back()

    def borrow(self, most: int) -> int:
        """Take what is free, at most so many; returns how many."""
        with self._lock:
            n = max(0, min(most, self._total - self._busy))
            self._busy += n
        return n

    def give_back(self) -> None:
        with self._lock:
            self._busy -= 1

    def reclaim(self) -> bool:
        """Give a thread back if more are busy than there are; then whoever asked has to end."""
        with self._lock:
            is_one_too_many = self._busy > self._total
            self._busy -= is_one_too_many
        return is_one_too_many


#: Those of this process. Whoever starts it says how many; a library's caller has but its own.
PROCESS = Threads()

_current: ContextVar[Threads | None] = ContextVar("threads", default=None)
_borrowed = threading.local()


class _Helper(threading.Thread):
    """Borrowed thread: it works until there is no work, or somebody else needs it."""

    def __init__(self, threads: Threads, work: Callable[[Callable[[], bool]], None]) -> None:
        super().__init__(daemon=True)
        self._threads, self._work = threads, work
        self.seconds = 0.0
        self.error: BaseException | None = None

    def run(self) -> None:
        is_given_back = False

        def leaves() -> bool:
            nonlocal is_given_back
            is_given_back = self._threads.reclaim()
            return is_given_back

        try:
            self._work(leaves)
        except BaseException as error:  # raised by whoever borrowed it
            self.error = error
        finally:
            self.seconds = time.thread_time()
            if not is_given_back:
                self._threads.give_back()


def each(function: Callable[[Item], None], items: Sequence[Item]) -> None:
    """Call a function for every item, in this thread and those that are free; in which order is not said.

    Raises:
        BaseException: what one of the calls raised; others may not have been made then.

    >>> squares = [0] * 4
    >>> def square(i: int) -> None:
    ...     squares[i] = i * i
    >>> with Threads(2).running():
    ...     each(square, range(4))
    >>> squares
    [0, 1, 4, 9]
    """
    waiting = deque(items)

    def work(leaves: Callable[[], bool]) -> None:
        while waiting and not leaves():
            try:
                item = waiting.popleft()
            except IndexError:  # another was quicker
                return
            try:
                function(item)
            except BaseException:
                waiting.clear()
                raise

    helpers = _started(work, len(items) - 1)
    try:
        work(lambda: False)
    finally:
        for helper in helpers:
            helper.join()
        _borrowed.seconds = _borrowed_seconds() + sum(helper.seconds for helper in helpers)
    for helper in helpers:
        if helper.error is not None:
            raise helper.error


def _started(work: Callable[[Callable[[], bool]], None], most: int) -> list[_Helper]:
    """Start borrowed threads, at most so many."""
    threads = _current.get()
    n = threads.borrow(most) if threads is not None else 0
    helpers: list[_Helper] = []
    for _ in range(n):
        assert threads is not None
        helper = _Helper(threads, work)
        try:
            helper.start()
        except RuntimeError:  # the system has no more: it goes on with fewer
            threads.give_back()
            continue
        helpers.append(helper)
    return helpers


def _borrowed_seconds() -> float:
    seconds: float = getattr(_borrowed, "seconds", 0.0)
    return seconds


def cpu_seconds() -> float:
    """Measure CPU seconds of the calling thread so far, with those of the threads that it borrowed."""
    return time.thread_time() + _borrowed_seconds()
