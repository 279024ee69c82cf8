"""The tasks of one run: who does them, and what they wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from microagg_core.errors import DamagedWorkError
from microagg_core.release.cleaning import Running
from microagg_core.release.pieces import Place
from microagg_core.release.step import CompanionStep, Receipt, Step
from microagg_core.release.wiring import StepsDone
from microagg_core.runner import Damage, companions, run_task
from microagg_flows.executors import Executor
from microagg_flows.progress import Progress


@dataclass(kw_only=True)
class RunWork(StepsDone):
    """What a run has done in its folder of the work area, and the workers that do the rest."""

    workers: Executor
    running: Running = field(default_factory=Running)
    _account: list[Receipt] = field(default_factory=list)

    @property
    def progress(self) -> Progress:
        return self.workers.progress

    def companions(self, step: str) -> Sequence[CompanionStep]:
        return companions(step)

    def do(
        self, step: Step, *, n: int | None = None, round_number: int = 0, seconds: Sequence[float] = ()
    ) -> list[Receipt]:
        """Have the workers do all tasks of a step; see :meth:`tasks`.

        ``seconds`` are those that each task is expected to take: the longest come first.
        """
        tasks = self.tasks(step, n=n, round_number=round_number)
        if len(seconds):
            tasks.sort(key=lambda task: -seconds[task.number])
        if not tasks:
            return []
        answers = self.workers.map(run_task, tasks, step.name)
        damaged = [place for answer in answers if isinstance(answer, Damage) for place in answer.places]
        if damaged:
            raise DamagedWorkError(places=damaged)
        receipts = [answer for answer in answers if isinstance(answer, Receipt)]
        self._account += receipts
        self.note(step, receipts)
        return receipts

    def forget(self, places: Sequence[Place]) -> None:
        """Take what these tasks made for not done, and begin anew."""
        super().forget(places)
        self.take_receipts()

    def take_receipts(self) -> list[Receipt]:
        """Take all receipts since the last call, for the stage's account."""
        receipts, self._account = self._account, []
        return receipts
