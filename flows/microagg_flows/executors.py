"""Executors: map a function over small items, tasks and receipts, never rows; a stage does not know which one it has.

>>> from microagg_flows.progress import Silence
>>> InProcess(Silence()).map(abs, [-1, 2, -3], "abs")
[1, 2, 3]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from typing import Protocol, TypeVar

from microagg_core.group.headway import listening
from microagg_core.kernels.tools.threads import PROCESS
from microagg_flows.process import usable_cores
from microagg_flows.progress import Progress, awaited, shown

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    progress: Progress

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """Apply a function to every item; results in the items' order.

        Raises:
            MicroaggError: the first that a task raised, or why the work cannot go on.
        """

    def memory_per_task(self) -> int | None:
        """Bytes that a task can count on for its rows; None where nobody sets a limit."""

    def expect(self, cpu_seconds: float) -> str:
        """Note what the release is planned to take; return who does it, in words."""


class InProcess:
    """Do the tasks in this process, one after the other, each with all cores that it has use for.

    It serves small inputs (``cluster: none``), the tests, and whoever wants to see what a step does: a breakpoint
    anywhere in :mod:`microagg_core.release.steps` stops there, with the stage that asked for the task further up the
    same stack.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        PROCESS.allow(usable_cores())

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        results = []
        with shown(self.progress, what, len(items)) as progress, listening(progress.tell):
            for item in items:
                results.append(function(item))
                progress.advance()
        return results

    def memory_per_task(self) -> int | None:
        return None

    def expect(self, cpu_seconds: float) -> str:
        return "in this process"


class InThreads(InProcess):
    """Do as many tasks at a time as there are cores: what takes long in a task leaves Python to other threads."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        threads = ThreadPoolExecutor(min(usable_cores(), len(items)) or 1, "tasks")
        with shown(self.progress, what, len(items)) as progress, listening(progress.tell):
            try:
                # Who listens is known to the context of this thread.
                futures = [threads.submit(copy_context().run, function, item) for item in items]
                for future in as_completed(futures):
                    future.result()
                    progress.advance()
            finally:
                threads.shutdown(cancel_futures=True)
        return [future.result() for future in futures]


class AloneAtFirst:
    """Do tasks in this process until many CPU seconds are planned; then have workers do them, which start then."""

    def __init__(self, progress: Progress, most_seconds: float, start: Callable[[], Executor] | None) -> None:
        """``start`` starts the workers; None: what is planned is not done."""
        self.progress = progress
        self._most_seconds, self._start = most_seconds, start
        self._inner: Executor = InThreads(progress)

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        return self._inner.map(function, items, what)

    def memory_per_task(self) -> int | None:
        return self._inner.memory_per_task()

    def expect(self, cpu_seconds: float) -> str:
        if cpu_seconds > self._most_seconds and isinstance(self._inner, InThreads):
            if self._start is None:
                return "by workers that a run starts"
            self._inner = self._start()
        return self._inner.expect(cpu_seconds)


class OnceCompiled:
    """Wait, before the first task, until the kernels that workers on this machine need are compiled.

    A worker's memory is for rows, so none of them compiles. What is wrong with a spec or an input's columns is found
    before the first task, and waits for nothing.
    """

    def __init__(self, inner: Executor, compiling: Future[bool]) -> None:
        self.progress = inner.progress
        self._inner, self._compiling = inner, compiling

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        with awaited(self.progress, "kernels to be compiled, once for this machine"):
            self._compiling.result()
        return self._inner.map(function, items, what)

    def memory_per_task(self) -> int | None:
        return self._inner.memory_per_task()

    def expect(self, cpu_seconds: float) -> str:
        return self._inner.expect(cpu_seconds)
