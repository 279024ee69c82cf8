"""An executor that waits for compiled kernels before its first task, in front of another that does the tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from microagg_core.compiling import Compiling
from microagg_flows.executors.contract import Executor, Item, Result
from microagg_flows.progress import awaited


class OnceCompiled:
    """Those who work on this machine, from the moment when the kernels they need are compiled.

    A worker's memory is for rows, so none of them compiles. What is wrong with a spec or an input's columns is found
    before the first task, and waits for nothing.
    """

    def __init__(self, inner: Executor, compiling: Compiling) -> None:
        self.progress = inner.progress
        self._inner, self._compiling = inner, compiling

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """Apply a function to every item; results in the items' order."""
        with awaited(self.progress, "kernels to be compiled, once for this machine"):
            self._compiling.wait()
        return self._inner.map(function, items, what)

    def memory_per_task(self) -> int | None:
        """As those who work say."""
        return self._inner.memory_per_task()
