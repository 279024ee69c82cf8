"""Tasks as objects of the work area: written where the release stands, read where the work is done."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from microagg_core.data.tables.slices import Slice, Slices
from microagg_core.errors import ClusterError, SpecError, StorageError
from microagg_core.release.steps.pieces import Piece, read_sealed, sealed
from microagg_core.release.steps.work import Run, Task
from microagg_core.runner import STEPS
from microagg_core.software import deviations, software
from microagg_core.store.layout import is_name
from microagg_core.store.objects import canonical_json


def write_task(task: Task, name: str) -> None:
    """Write a task down, with the software that it was made by."""
    told = {"step": task.step, "number": task.number, "format_version": task.format_version}
    lists: dict[str, Any] = {"reads": [one.__dict__ for one in task.reads], "slices": task.slices.array.tolist()}
    lists["also"] = [[step, slices.array.tolist()] for step, slices in task.also]
    task.run.work.put(name, sealed(canonical_json({"software": software(), "task": {**told, **lists}})))


def is_written(task: Task, name: str) -> bool:
    """Whether exactly this task is written down."""
    data = read_sealed(task.run.work, name)
    return data is not None and _task_of(json.loads(data)["task"], task.run) == task


def read_task(run: Run, step: str, number: int) -> Task:
    """The task of a step of a run.

    Raises:
        SpecError: there is no such step, run or number, or what comes before the step is not done.
        StorageError: what was written down is damaged.
        ClusterError: this machine has other software than the run was begun with.
    """
    if step not in STEPS:
        raise SpecError(f"there is no step {step!r} with tasks; there are: {', '.join(STEPS)}")
    if not is_name(run.key) or not run.work.list(run.layout.folder):
        raise SpecError(f"--run: there is no run {run.key!r} in {run.work}; it is finished, or was never begun")
    data = read_sealed(run.work, run.layout.task(step, number))
    if data is None:
        raise _missing(run, step, number)
    value = json.loads(data)
    if differing := deviations(software(), value["software"]):
        raise ClusterError(
            f"this machine has {', '.join(differing)}, and would make another release; install the same versions "
            "everywhere"
        )
    return _task_of(value["task"], run)


def _task_of(told: dict[str, Any], run: Run) -> Task:
    slices = Slices.of(Slice(*one) for one in told["slices"])
    also = tuple((step, Slices.of(Slice(*one) for one in sent)) for step, sent in told["also"])
    reads = tuple(Piece(**one) for one in told["reads"])
    return Task(**{**told, "run": run, "slices": slices, "reads": reads, "also": also})


def _missing(run: Run, step: str, number: int) -> SpecError | StorageError:
    """Why there is no such task."""
    names = run.work.list(run.layout.tasks(step))
    if run.layout.task(step, number) in names:
        return StorageError(f"task {number} of {step} is damaged; call microagg step without --number, and again")
    if not names:
        return SpecError(
            f"{step} has no tasks yet, as what comes before it is not done; microagg step report, without --number, "
            "says what comes next"
        )
    numbers = as_ranges(int(name.rpartition("/")[2].partition(".")[0]) for name in names)
    return SpecError(f"--number: {step} has the tasks {numbers} (got {number})")


def as_ranges(numbers: Iterable[int]) -> str:
    """Numbers as job arrays of batch systems want them.

    >>> as_ranges([3, 0, 1, 2, 7])
    '0-3,7'
    """
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
