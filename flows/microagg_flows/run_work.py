"""The tasks of one run: what they are told to read, who does them, and what they wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from microagg_core.errors import DamagedWorkError
from microagg_core.runner import Damage, run_task
from microagg_core.steps.cleaning import Running
from microagg_core.steps.pieces import Piece, Pieces
from microagg_core.steps.work import Receipt, Task, discard_receipts
from microagg_core.storage.layout import RunLayout
from microagg_core.storage.objects import Store
from microagg_flows.executors import Executor
from microagg_flows.progress import Progress


@dataclass(kw_only=True)
class RunWork:
    """What a run has done in its folder of the work area."""

    workers: Executor
    work: Store
    key: str = ""
    #: What workers read besides each other's pieces, by what it is about.
    known: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    #: What finished tasks wrote, by stage and number.
    made: dict[str, dict[int, tuple[Piece, ...]]] = field(default_factory=dict)
    running: Running = field(default_factory=Running)
    _receipts: dict[str, list[Receipt]] = field(default_factory=dict)

    @property
    def layout(self) -> RunLayout:
        """Names of the run's objects."""
        return RunLayout(self.key)

    @property
    def progress(self) -> Progress:
        """Where the user looks."""
        return self.workers.progress

    def run(self, tasks: Sequence[Task]) -> list[Receipt]:
        """Have the workers do tasks of one stage, the receipts in the tasks' order."""
        if not tasks:
            return []
        stage, answers = tasks[0].stage, self.workers.map(run_task, tasks, tasks[0].stage)
        damaged = [place for answer in answers if isinstance(answer, Damage) for place in answer.places]
        if damaged:
            raise DamagedWorkError(places=damaged)
        receipts = [answer for answer in answers if isinstance(answer, Receipt)]
        self._receipts.setdefault(stage, []).extend(receipts)
        self.made.setdefault(stage, {}).update((receipt.number, receipt.pieces) for receipt in receipts)
        return receipts

    def reads(self, *known: str) -> tuple[Piece, ...]:
        """What a task is told to read, by what it is about."""
        return tuple(piece for name in known for piece in self.known[name])

    def tasks(self, stage: str, n: int, known: Sequence[str]) -> list[Task]:
        """Tasks 0 to n-1 of a stage, and what all of them read."""
        return [Task(stage, i, self.work, self.key, reads=self.reads(*known)) for i in range(n)]

    def also_reading(self, stage: str, tasks: Sequence[Task]) -> list[Task]:
        """Tasks that read, besides, what the task of the same number of an earlier stage wrote."""
        return [task.reading(self.made[stage][task.number]) for task in tasks]

    def pieces(self, *stages: str) -> Pieces:
        """What the tasks of these stages wrote."""
        return Pieces(self.work, tuple(p for stage in stages for pieces in self.made[stage].values() for p in pieces))

    def forget(self, places: Sequence[tuple[str, int]]) -> None:
        """Take what these tasks made for not done, and begin anew."""
        discard_receipts(self.work, self.layout, places)
        self.made.clear()
        self.take_receipts()

    def take_receipts(self) -> list[Receipt]:
        """All receipts since the last call, for the stage's account."""
        receipts = [r for rs in self._receipts.values() for r in rs]
        self._receipts = {}
        return receipts
