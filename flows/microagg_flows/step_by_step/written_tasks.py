"""Tasks as objects of the work area: written where the release stands, read where the work is done."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from microagg_core.errors import ClusterError, SpecError, StorageError
from microagg_core.release.pieces import read_sealed, sealed
from microagg_core.release.step import Run, Task
from microagg_core.runner import steps
from microagg_core.software import deviations, software
from microagg_core.store.layout import is_name


def write_task(task: Task, name: str) -> None:
    """Write a task down, with the software that it was made by."""
    task.run.work.put(name, sealed(json.dumps(software()).encode() + b"\n" + task.to_bytes()))


def is_written(task: Task, name: str) -> bool:
    data = read_sealed(task.run.work, name)
    return data is not None and _parsed(data, task.run)[1].digest() == task.digest()


def _parsed(data: bytes, run: Run) -> tuple[dict[str, Any], Task]:
    line, _, task = data.partition(b"\n")
    return json.loads(line), Task.from_bytes(task, run)


def read_task(run: Run, step: str, number: int) -> Task:
    """The task of a step of a run.

    Raises:
        SpecError: there is no such step, run or number, or what comes before the step is not done.
        StorageError: what was written down is damaged.
        ClusterError: this machine has other software than the run was begun with.
    """
    if step not in steps():
        raise SpecError(f"there is no step {step!r} with tasks; there are: {', '.join(steps())}")
    if not is_name(run.key) or not run.work.list(run.layout.folder):
        raise SpecError(f"--run: there is no run {run.key!r} in {run.work}; it is finished, or was never begun")
    data = read_sealed(run.work, run.layout.task(step, number))
    if data is None:
        raise _missing(run, step, number)
    written_by, task = _parsed(data, run)
    if differing := deviations(software(), written_by):
        raise ClusterError(
            f"this machine has {', '.join(differing)}, and would make another release; install the same versions "
            "everywhere"
        )
    return task


def _missing(run: Run, step: str, number: int) -> SpecError | StorageError:
    """Explain why a task is not there."""
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
