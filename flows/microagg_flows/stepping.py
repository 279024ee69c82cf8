"""A release driven from outside, task by task: by a shell script, or a job array of a batch system.

There are two kinds of calls. :func:`go_on` does the flow's half of the stages as far as they get, and writes down the
tasks that come next; :func:`do_task` does one of them, wherever the work area is in reach. Stages, tasks and receipts
are those of every other release, so the same files come out, and a call that is made again finds what is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from microagg_core.compiling import start_compiling
from microagg_core.errors import ClusterError, MicroaggError, SpecError, StorageError
from microagg_core.release.cleaning import Running
from microagg_core.release.context import work_store
from microagg_core.release.pieces import read_sealed, sealed
from microagg_core.release.step import Receipt, Run, Task, load_receipt
from microagg_core.runner import Damage, run_task, steps
from microagg_core.software import software, version_differences
from microagg_core.spec.clusters import NoCluster
from microagg_core.spec.loading import load_spec
from microagg_core.store.layout import is_name
from microagg_flows.clusters import executor_for
from microagg_flows.executors import InProcess, Item, OnceCompiled, Result
from microagg_flows.progress import Progress, awaited
from microagg_flows.record import RunRecord
from microagg_flows.releasing import Order, Settled, now
from microagg_flows.stages import STAGES, run_stage, run_until


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
    """Read the task of a step of a run, unless this machine would make another release of it."""
    if step not in steps():
        raise SpecError(f"there is no step {step!r} with tasks; there are: {', '.join(steps())}")
    if not is_name(run.key) or not run.work.list(run.layout.folder):
        raise SpecError(f"--run: there is no run {run.key!r} in {run.work}; it is finished, or was never begun")
    data = read_sealed(run.work, run.layout.task(step, number))
    if data is None:
        raise _missing(run, step, number)
    written_by, task = _parsed(data, run)
    if differing := version_differences(software(), written_by):
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
    """Write numbers as job arrays of batch systems want them.

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


#: Receipts that are looked for at a time: each takes a few requests, of which a store answers many at once.
_AT_ONCE = 16


class TasksLeftError(MicroaggError):
    """An end without trouble: a stage cannot go on before somebody has done these tasks."""

    kind = "tasks left"

    def __init__(self, step: str, numbers: Sequence[int], n_tasks: int) -> None:
        super().__init__(f"{step}: {len(numbers)} of {n_tasks} tasks are to be done")
        self.step, self.numbers, self.n_tasks = step, numbers, n_tasks


class HandingOut(InProcess):
    """Write tasks down for others; what is no task, such as copying a file to the output, is done here."""

    def __init__(self, progress: Progress, run: str | None) -> None:
        """Hand out the tasks of the run with this key; None: of any."""
        super().__init__(progress)
        self._run = run

    def expect(self, cpu_seconds: float) -> str:
        return "task by task"

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """Find the receipts of tasks; of other items, what the function returns.

        Raises:
            TasksLeftError: some of the tasks are not done.
        """
        tasks = [item for item in items if isinstance(item, Task)]
        if len(tasks) < len(items):
            return super().map(function, items, what)
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


def _withdraw(run: Run) -> None:
    """After a failure the gate has to look again: have its tasks handed out anew."""
    for step in steps().values():
        if step.is_gate:
            run.work.delete_all(run.layout.tasks(step.name))


@dataclass(frozen=True)
class Standing:
    """Progress of a release made task by task: the tasks that come next, or none where the named stage is done."""

    run: str
    step: str = ""
    numbers: str = ""
    tasks: int = 0
    left: int = 0

    def line(self) -> str:
        """For a shell to read: step, numbers and run; or ``done``.

        >>> Standing("3f9a", "anonymize", "0-3,7", 8, 5).line(), Standing("3f9a").line()
        ('anonymize 0-3,7 3f9a', 'done')
        """
        return f"{self.step} {self.numbers} {self.run}" if self.step else "done"


def go_on(stage: str, order: Order, run: str | None, record: RunRecord) -> Standing:
    """Do the flow's half of all stages up to one, as far as the tasks are done that they stand on."""
    stages = [known.name for known in STAGES]
    if stage not in stages:
        among = f"name one of the stages: {', '.join(stages)}"
        if stage in steps():
            raise SpecError(f"{stage} is done task by task and takes --number; without it, {among}")
        raise SpecError(f"there is no stage {stage!r}; {among}")
    tonight = Settled.of(order, now())
    record.begin(tonight.spec, tonight.id)
    spec, progress = tonight.spec, record.progress
    with (
        record.publishing(),
        start_compiling(spec.algorithm.name, spec.effort, spec.k, say=progress.say) as compiling,
    ):
        workers = OnceCompiled(HandingOut(progress, run), compiling)
        release = record.release = tonight.release(workers)
        release.running.goes_on = True
        try:
            run_until(stage, release, record.following(run_stage))
        except TasksLeftError as left:
            progress.say(left.message)
            return Standing(release.key, left.step, as_ranges(left.numbers), left.n_tasks, len(left.numbers))
        except MicroaggError:
            if release.key:
                _withdraw(release.run)
            raise
    # Whatever failed once the release was finished is in the record's note, and nothing is left to do.
    return Standing(release.key)


def do_task(
    step: str, number: int, run: str, spec_path: str, progress: Progress, settings: Sequence[str] = ()
) -> Receipt:
    """Do a task that was written down, or find that it is done, in this process whatever cluster the spec names."""
    spec = load_spec(spec_path, settings)
    task = read_task(Run(work_store(spec), run), step, number)
    here = spec.model_copy(update={"cluster": NoCluster()})
    with Running(goes_on=True) as running, executor_for(here, progress) as workers:
        running.begin(task.run)
        (answer,) = workers.map(run_task, [task], step)
    if isinstance(answer, Damage):
        raise StorageError(
            f"{step}, number {number}: {len(answer.places)} pieces of work that it reads were damaged or gone; "
            "microagg step report, without --number, says which tasks make them again"
        )
    return answer
