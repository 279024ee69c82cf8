"""Where long work stands, told while it lasts: loops say now and then what they have reached, to whoever listens.

What is made does not depend on it: who tells only reads, and where nobody listens a call costs nothing. Kernels know
nothing of it; the loops around them tell between two calls.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import numpy as np

from microagg_core.arrays import Floats

#: A person who waits wants to see that something moves; more often nobody reads.
TELL_EVERY_SECONDS = 5.0


@dataclass(frozen=True)
class Headway:
    """Where the work on some records stands.

    Attributes:
        doing: what is being done, in words.
        seconds: since the work on these records was begun.
        records: how many there are.
        share: which part of what is being done is over, from 0 to 1; None where nobody knows.
        loss: of the best groups so far, in percent of the squared deviations of these records; None where there are
            none yet. It is the operator's alone: nobody else's log or database may have it.
        block: the block's number; None where the records are no block of a plan.
    """

    doing: str
    seconds: float
    records: int
    share: float | None = None
    loss: float | None = None
    block: int | None = None


#: Who wants to know; what it raises ends the work.
Listener = Callable[[Headway], None]


@dataclass
class _Listening:
    """A listener, when it was told something last, and the records that the work is about."""

    listener: Listener
    every: float
    began: float
    told: float
    records: int = 0
    block: int | None = None
    loss: float = math.inf
    #: Said instead of what loops do; losses on the way are then of groups that are only a means.
    purpose: str = ""

    def is_due(self) -> bool:
        """Whether the listener has not been told anything for long enough."""
        return time.monotonic() - self.told >= self.every

    def tell(self, doing: str, share: float | None) -> None:
        """Tell the listener."""
        self.told = time.monotonic()
        loss = self.loss if math.isfinite(self.loss) else None
        part = None if self.purpose or share is None else min(max(share, 0.0), 1.0)
        seconds = self.told - self.began
        self.listener(Headway(self.purpose or doing, seconds, self.records, part, loss, self.block))


_current: ContextVar[_Listening | None] = ContextVar("listening", default=None)


@contextmanager
def listening(listener: Listener | None, every: float = TELL_EVERY_SECONDS) -> Iterator[None]:
    """Work in this block tells the listener every so many seconds where it stands; without one, who listened before.

    >>> heard = []
    >>> with listening(heard.append, every=0.0), working_on(2):
    ...     Way("searching", np.array([[-1.0], [1.0]])).at(0.5, share=0.25)
    >>> heard[0].doing, heard[0].records, heard[0].share, heard[0].loss
    ('searching', 2, 0.25, 25.0)
    """
    if listener is None:
        yield
        return
    now = time.monotonic()
    token = _current.set(_Listening(listener, every, now, now))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def working_on(records: int, block: int | None = None) -> Iterator[None]:
    """What is told in this block is about so many records."""
    outer = _current.get()
    if outer is None:
        yield
        return
    now = time.monotonic()
    token = _current.set(replace(outer, began=now, told=now, records=records, block=block, loss=math.inf))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def only_for(purpose: str) -> Iterator[None]:
    """Groups that are made in this block are a means to something else: what they lose is not told."""
    outer = _current.get()
    if outer is None:
        yield
        return
    inner = replace(outer, purpose=purpose)
    token = _current.set(inner)
    try:
        yield
    finally:
        _current.reset(token)
        outer.told = inner.told


class Way:
    """What a loop does, and how it tells where it stands.

    Args:
        doing: in words, such as ``annealing``.
        X: the records whose groups it makes, an (n, p) array, in the units of the losses that it will tell.
    """

    def __init__(self, doing: str, X: Floats | None = None) -> None:
        self._doing, self._X, self._total = doing, X, 0.0
        self._listening = _current.get()

    def at(self, sse: float | Callable[[], float] | None = None, share: float | None = None) -> None:
        """Tell what was reached, if somebody listens and has not heard anything for a while.

        Args:
            sse: what the best groups lose so far: the sum of squared errors, or how to compute it, where it is to be
                computed only if it is told.
            share: which part of the way is over.
        """
        here = self._listening
        if here is None:
            return
        is_due = here.is_due()
        if sse is not None and not here.purpose and (is_due or not callable(sse)):
            self._note(here, sse() if callable(sse) else sse)
        if is_due:
            here.tell(self._doing, share)

    def _note(self, here: _Listening, sse: float) -> None:
        if self._total == 0.0 and self._X is not None:
            self._total = float(np.sum((self._X - self._X.mean(axis=0)) ** 2))
        if self._total > 0.0:
            here.loss = min(here.loss, 100.0 * sse / self._total)
