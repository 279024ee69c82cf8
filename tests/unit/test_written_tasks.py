"""Tasks that are written down for others: what is read is what was written, and fits who reads it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from microagg_core.data.tables.slices import Slice, Slices
from microagg_core.errors import ClusterError, SpecError, StorageError
from microagg_core.release.pieces import Piece, sealed, unsealed
from microagg_core.release.step import Run, Sent, Task
from microagg_core.store.objects import Store
from microagg_flows.stepping import as_ranges, is_written, read_task, write_task


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """A task with everything that one can have."""
    reads = (Piece("runs/3f9a/plan/plan-00000.json", 7, "ab" * 32, "plan", 0, "plan"),)
    run = Run(Store(str(tmp_path / "work")), "3f9a")
    slices = Slices.of([Slice(0, 0, 4, 10, 30, 2, 99), Slice(1, 0, 4, 0, 5, 1, 7)])
    sent = (Sent("anonymize", "anonymized", slices), Sent("match", "absent", Slices.of([Slice(3, 1, 4, 0, 8, 1, 5)])))
    return Task("assemble", 4, run, reads, sent)


@pytest.fixture
def name(task: Task) -> str:
    """Where it is written."""
    write_task(task, task.run.layout.task("assemble", 4))
    return task.run.layout.task("assemble", 4)


def test_a_task_is_read_as_it_was_written(task: Task, name: str) -> None:
    assert read_task(task.run, "assemble", 4) == task
    assert is_written(task, name)
    assert not is_written(replace(task, reads=()), name)


def test_other_software_refuses_the_task(task: Task, name: str) -> None:
    line, _, rest = (unsealed(task.run.work.read(name)) or b"").partition(b"\n")
    software = {**json.loads(line), "numpy": "0.1"}
    task.run.work.put(name, sealed(json.dumps(software).encode() + b"\n" + rest))
    with pytest.raises(ClusterError, match=r"this machine has numpy \S+ instead of 0\.1, and would make another"):
        read_task(task.run, "assemble", 4)


def test_what_is_damaged_is_no_task(task: Task, name: str) -> None:
    task.run.work.put(name, task.run.work.read(name)[:-1])
    assert not is_written(task, name)
    with pytest.raises(StorageError, match="task 4 of assemble is damaged"):
        read_task(task.run, "assemble", 4)


@pytest.mark.usefixtures("name")
@pytest.mark.parametrize(
    ("run", "step", "number", "says"),
    [
        ("3f9a", "assemble", 5, "--number: assemble has the tasks 4 "),
        ("3f9a", "survey", 0, "survey has no tasks yet"),
        ("3f9a", "measure", 0, "there is no step 'measure' with tasks"),
        ("3f9b", "assemble", 4, "there is no run '3f9b'"),
        ("..", "assemble", 4, "there is no run '..'"),
    ],
)
def test_what_is_not_there_is_said(run: str, step: str, number: int, says: str, task: Task) -> None:
    with pytest.raises(SpecError) as refused:
        read_task(Run(task.run.work, run), step, number)
    assert says in refused.value.message


def test_numbers_are_written_as_job_arrays_want_them() -> None:
    assert as_ranges([]) == ""
    assert as_ranges([5]) == "5"
    assert as_ranges(range(1000)) == "0-999"
