"""The tasks of one run: what they are told to read, who does them, and what they wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from microagg_core.errors import DamagedWorkError
from microagg_core.release.steps.cleaning import Running
from microagg_core.release.steps.pieces import Piece, Pieces, Place
from microagg_core.release.steps.shuffling import tasks_of_slices
from microagg_core.release.steps.work import Receipt, Run, Task
from microagg_core.runner import Damage, run_task
from microagg_core.store.layout import RunLayout
from microagg_core.store.objects import Store
from microagg_flows.executors import Executor
from microagg_flows.progress import Progress

#: What every task knows once there is a plan.
PLANNED = ("context", "survey", "plan")


@dataclass(kw_only=True)
class RunWork:
    """What a run has done in its folder of the work area."""

    workers: Executor
    work: Store
    key: str = ""
    #: What workers read besides each other's pieces, by what it is about.
    known: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    #: What finished tasks wrote, by step and number.
    made: dict[str, dict[int, tuple[Piece, ...]]] = field(default_factory=dict)
    #: For each input part, what its records are in a series; empty where all records take part.
    marks: tuple[Piece, ...] = ()
    #: For each input part, the atoms of its survivors; empty where nobody survives.
    atoms_of_parts: tuple[Piece, ...] = ()
    running: Running = field(default_factory=Running)
    _receipts: dict[str, list[Receipt]] = field(default_factory=dict)

    @property
    def run(self) -> Run:
        """The run's folder in the work area."""
        return Run(self.work, self.key)

    @property
    def layout(self) -> RunLayout:
        """Names of the run's objects."""
        return RunLayout(self.key)

    @property
    def progress(self) -> Progress:
        """Where the user looks."""
        return self.workers.progress

    def do(self, tasks: Sequence[Task]) -> list[Receipt]:
        """Have the workers do tasks of one step, the receipts in the tasks' order."""
        if not tasks:
            return []
        step, answers = tasks[0].step, self.workers.map(run_task, tasks, tasks[0].step)
        damaged = [place for answer in answers if isinstance(answer, Damage) for place in answer.places]
        if damaged:
            raise DamagedWorkError(places=damaged)
        receipts = [answer for answer in answers if isinstance(answer, Receipt)]
        self._receipts.setdefault(step, []).extend(receipts)
        self.made.setdefault(step, {}).update((receipt.number, receipt.pieces) for receipt in receipts)
        return receipts

    def reads(self, *known: str) -> tuple[Piece, ...]:
        """What a task is told to read, by what it is about."""
        return tuple(piece for name in known for piece in self.known[name])

    def tasks(self, step: str, n: int, known: Sequence[str]) -> list[Task]:
        """Tasks 0 to n-1 of a step, and what all of them read."""
        return [Task(step, i, self.run, reads=self.reads(*known)) for i in range(n)]

    def receiving(self, step: str, n: int, sent: Sequence[Receipt], known: Sequence[str]) -> list[Task]:
        """Tasks 0 to n-1 of a step, each with the slices that others sent it, and what all of them read."""
        return tasks_of_slices(step, sent, n, self.run, self.reads(*known))

    def also_reading(self, step: str, tasks: Sequence[Task]) -> list[Task]:
        """Tasks that read, besides, what the task of the same number of an earlier step wrote."""
        return [task.reading(self.made[step][task.number]) for task in tasks]

    def also_receiving(self, tasks: Sequence[Task], step: str, sent: Sequence[Receipt]) -> list[Task]:
        """Tasks that are sent slices, besides, by tasks of another step, each those for its number."""
        others = tasks_of_slices(step, sent, len(tasks), self.run, ())
        return [task.receiving(step, other.slices) for task, other in zip(tasks, others, strict=True)]

    def with_atoms(self, tasks: Sequence[Task]) -> list[Task]:
        """Tasks, one an input part, that read besides what its records are in a series, and survivors' atoms."""
        return [task.reading(self.atoms_of_parts[task.number : task.number + 1]) for task in self.marked(tasks)]

    def marked(self, tasks: Sequence[Task]) -> list[Task]:
        """Tasks, one an input part, that read besides what its records are in a series."""
        return [task.reading(self.marks[task.number : task.number + 1]) for task in tasks]

    def with_keys(self, tasks: Sequence[Task]) -> list[Task]:
        """Tasks, one an input part, that read besides which keys the part has."""
        surveyed = self.pieces("survey")
        names = [self.layout.part_keys(task.number) for task in tasks]
        pieces = [(surveyed.piece(name),) if surveyed.has(name) else () for name in names]
        return [task.reading(read) for task, read in zip(tasks, pieces, strict=True)]

    def pieces(self, *steps: str) -> Pieces:
        """What the tasks of these steps wrote."""
        return self.run.pieces(piece for step in steps for pieces in self._written(step) for piece in pieces)

    def _written(self, step: str) -> Iterable[tuple[Piece, ...]]:
        return self.made.get(step, {}).values()  # a night of a series may have no task of a step

    def forget(self, places: Sequence[Place]) -> None:
        """Take what these tasks made for not done, and begin anew."""
        self.run.forget(places)
        self.made.clear()
        self.take_receipts()

    def take_receipts(self) -> list[Receipt]:
        """All receipts since the last call, for the stage's account."""
        receipts = [r for rs in self._receipts.values() for r in rs]
        self._receipts = {}
        return receipts
