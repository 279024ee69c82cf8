"""An executor whose tasks others do, later: it writes them down, and takes the receipts of those that are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from microagg_core.errors import MicroaggError, SpecError
from microagg_core.release.step import Receipt, Run, Task, load_receipt
from microagg_core.runner import steps
from microagg_flows.executors import InProcess, Item, Result
from microagg_flows.progress import Progress, awaited
from microagg_flows.step_by_step.written_tasks import is_written, write_task

#: Receipts that are looked for at a time: each takes a few requests, of which a store answers many at once.
_AT_ONCE = 16


class TasksLeftError(MicroaggError):
    """A stage cannot go on before somebody has done these tasks: no trouble, but the end of what can be done here."""

    kind = "tasks left"

    def __init__(self, step: str, numbers: Sequence[int], n_tasks: int) -> None:
        super().__init__(f"{step}: {len(numbers)} of {n_tasks} tasks are to be done")
        self.step, self.numbers, self.n_tasks = step, numbers, n_tasks


class HandingOut:
    """Tasks are written down for others; what is no task, such as copying a file to the output, is done here.

    Args:
        progress: where the user looks.
        run: the key of the run that is to go on; None where any may begin.
    """

    def __init__(self, progress: Progress, run: str | None) -> None:
        self.progress = progress
        self._run = run
        self._here = InProcess(progress)

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """The receipts of tasks; of other items, what the function returns.

        Raises:
            TasksLeftError: some of the tasks are not done.
            SpecError: they are those of another run.
        """
        tasks = [item for item in items if isinstance(item, Task)]
        if len(tasks) < len(items):
            return self._here.map(function, items, what)
        if self._run is not None and any(task.run.key != self._run for task in tasks):
            raise SpecError(
                f"--run: the spec, its input, the release's id or the software is not that of run {self._run!r} any "
                "more; call without --run to begin another"
            )
        with awaited(self.progress, f"receipts of {what}"), ThreadPoolExecutor(_AT_ONCE) as threads:
            receipts: list[Any] = list(threads.map(_receipt_or_written, tasks))
        left = [task.number for task, receipt in zip(tasks, receipts, strict=True) if receipt is None]
        if left:
            raise TasksLeftError(what, left, len(tasks))
        return receipts

    def memory_per_task(self) -> int | None:
        return None


def _receipt_or_written(task: Task) -> Receipt | None:
    """Return the receipt of a task that is done; write any other down."""
    name = task.run.layout.task(task.step, task.number)
    if is_written(task, name):
        return load_receipt(task)
    if steps()[task.step].is_gate:
        # What an earlier call found is not what somebody finds who looks now.
        task.run.forget([(task.step, task.number)])
    elif receipt := load_receipt(task):
        return receipt
    write_task(task, name)
    return None


def withdraw(run: Run) -> None:
    """After a failure the gate has to look again: have its tasks handed out anew."""
    for step in steps().values():
        if step.is_gate:
            run.work.delete_all(run.layout.tasks(step.name))
