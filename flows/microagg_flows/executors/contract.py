"""What a release asks of those who work for it: a function mapped over small items, tasks and receipts, never rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from microagg_flows.progress import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """What a release asks of those who work for it."""

    progress: Progress

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """Apply a function to every item; results in the items' order.

        Raises:
            MicroaggError: the first that a task raised, or why the work cannot go on.
        """

    def memory_per_task(self) -> int | None:
        """Bytes that a task can count on for its rows; None where nobody sets a limit."""
