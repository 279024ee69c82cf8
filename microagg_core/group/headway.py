"""Progress of long work: loops report now and then what they have reached, to whoever listens.

Reporting only reads, so results do not depend on it, and where nobody listens a call costs nothing. Kernels do not
report; the loops around them do, between two calls.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import numpy as np

from microagg_core.group.metrics.losses import sse_of_labels
from microagg_core.group.points import AnyPoints

#: A person who waits wants to see that something moves; more often nobody reads.
TELL_EVERY_SECONDS = 5.0


@dataclass(frozen=True)
class Headway:
    """Progress of the work on some records."""

    doing: str
    #: Since the work on these records was begun.
    seconds: float
    records: int
    #: The part of what is being done that is over, from 0 to 1; None where nobody knows.
    share: float | None = None
    #: Of the best groups so far, in percent of the squared deviations of these records; None where there are none yet.
    #: It is the operator's alone: nobody else's log or database may have it.
    loss: float | None = None
    #: None where the records are no block of a plan.
    block: int | None = None


#: Receives progress; what it raises ends the work.
Listener = Callable[[Headway], None]


@dataclass
class _Listening:
    listener: Listener
    every: float
    began: float
    reported: float
    records: int = 0
    block: int | None = None
    loss: float = math.inf
    #: Reported instead of what loops do; losses on the way are then of groups that are only a means.
    purpose: str = ""

    def is_due(self) -> bool:
        return time.monotonic() - self.reported >= self.every

    def send(self, doing: str, share: float | None) -> None:
        self.reported = time.monotonic()
        loss = self.loss if math.isfinite(self.loss) else None
        part = None if self.purpose or share is None else min(max(share, 0.0), 1.0)
        seconds = self.reported - self.began
        self.listener(Headway(self.purpose or doing, seconds, self.records, part, loss, self.block))


_current: ContextVar[_Listening | None] = ContextVar("listening", default=None)


@contextmanager
def listening(listener: Listener | None, every: float = TELL_EVERY_SECONDS) -> Iterator[None]:
    """Send progress of work in this block to the listener every so many seconds; None: to the outer listener.

    >>> heard = []
    >>> with listening(heard.append, every=0.0), working_on(2):
    ...     Progress("searching", np.array([[-1.0], [1.0]])).report(0.5, share=0.25)
    >>> heard[0].doing, heard[0].records, heard[0].share, heard[0].loss
    ('searching', 2, 0.25, 25.0)
    """
    if listener is None:
        yield
        return
    now = time.monotonic()
    with _set_current(_Listening(listener, every, now, now)):
        yield


@contextmanager
def working_on(records: int, block: int | None = None) -> Iterator[None]:
    """Say of progress in this block that it is about so many records."""
    outer = _current.get()
    if outer is None:
        yield
        return
    now = time.monotonic()
    with _set_current(replace(outer, began=now, reported=now, records=records, block=block, loss=math.inf)):
        yield


@contextmanager
def only_for(purpose: str) -> Iterator[None]:
    """Report the purpose, and no loss, of groups made in this block, as they are a means to something else."""
    outer = _current.get()
    if outer is None:
        yield
        return
    inner = replace(outer, purpose=purpose)
    try:
        with _set_current(inner):
            yield
    finally:
        outer.reported = inner.reported


@contextmanager
def _set_current(state: _Listening) -> Iterator[None]:
    token = _current.set(state)
    try:
        yield
    finally:
        _current.reset(token)


class Progress:
    """Progress of one loop; ``points`` are the records whose groups it makes, as its losses measure them."""

    def __init__(self, doing: str, points: AnyPoints | None = None) -> None:
        self._doing, self._points, self._total = doing, points, 0.0
        self._listening = _current.get()

    def report(self, sse: float | Callable[[], float] | None = None, share: float | None = None) -> None:
        """Report what was reached, if somebody listens and has received nothing for a while.

        ``sse`` is what the best groups lose so far, or computes it if it is sent; ``share`` of the loop is over.
        """
        state = self._listening
        if state is None:
            return
        is_due = state.is_due()
        if sse is not None and not state.purpose and (is_due or not callable(sse)):
            self._note(state, sse() if callable(sse) else sse)
        if is_due:
            state.send(self._doing, share)

    def _note(self, state: _Listening, sse: float) -> None:
        if self._total == 0.0 and self._points is not None:
            self._total = sse_of_labels(self._points, np.zeros(len(self._points), dtype=np.int64))
        if self._total > 0.0:
            state.loss = min(state.loss, 100.0 * sse / self._total)
