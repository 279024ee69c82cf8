"""Asking a store again that did not answer, or answered that it is busy: every request, in one way, from one place.

Only troubles that pass by themselves are waited for. A bucket that is not there, credentials that are refused and
whatever a disk says are told at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

from microagg_core.errors import TransientStorageError
from microagg_core.store.troubles import explained

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

#: A store that restarts, fails over or throttles is back within a minute; half as long again is for the slow.
PATIENCE_SECONDS = 90.0
#: The pause doubles up to the longest; each is shortened by up to half, so that workers do not all ask at once.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
#: Whoever was interrupted puts work away, and for as long as that may take a store is not waited for.
_HURRY_SECONDS = 60.0

_clock, _sleep = time.monotonic, time.sleep
_is_impatient: ContextVar[bool] = ContextVar("is_impatient", default=False)
_hurried_until = 0.0


@contextmanager
def impatient() -> Iterator[None]:
    """Ask a store once in this block: for what is not worth a wait, or is waited for around it."""
    token = _is_impatient.set(True)
    try:
        yield
    finally:
        _is_impatient.reset(token)


def ask(request: Callable[[], T], url: str) -> T:
    """Make a request, again and again while the store does not answer it and patience lasts.

    Raises:
        Exception: what the last request raised.
    """
    global _hurried_until
    begun, pause = _clock(), _FIRST_PAUSE_SECONDS
    waits = not _is_impatient.get()
    try:
        while True:
            try:
                with impatient():  # a request within this one: it is this one that is made again
                    return request()
            except Exception as error:
                left = begun + PATIENCE_SECONDS - _clock()
                if not waits or left <= 0 or _clock() < _hurried_until:
                    raise
                if not isinstance(explained(error, url, "asking"), TransientStorageError):
                    raise
            _sleep(min(pause * random.uniform(0.5, 1.0), left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    except Exception:
        raise
    except BaseException:  # Ctrl-C and the like
        _hurried_until = _clock() + _HURRY_SECONDS
        raise


def patient(method: F) -> F:
    """Have a method of a store be asked again, as :func:`ask` does."""

    @wraps(method)
    def asked(store: Any, *args: Any, **named: Any) -> Any:
        return ask(lambda: method(store, *args, **named), store.url)

    return asked  # type: ignore[return-value]
