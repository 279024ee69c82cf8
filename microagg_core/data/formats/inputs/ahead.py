"""Answers in order, of which the next few are asked for at once: a store takes many requests, each of which waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Requests at a time.
AHEAD = 16


def ahead(function: Callable[[Item], Result], items: Iterable[Item], n_ahead: int = AHEAD) -> Iterator[Result]:
    """The function's results in the items' order; the next are worked on in threads, of which there are so many.

    >>> list(ahead(str.upper, "abc", 2))
    ['A', 'B', 'C']
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_ahead) as threads:
        try:
            for item in items:
                waiting.append(threads.submit(function, item))
                if len(waiting) == n_ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
