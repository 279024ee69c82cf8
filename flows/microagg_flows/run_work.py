"""The tasks of one run: who does them, what they wrote, and going back where work is damaged.

What is damaged the run makes again by itself, and what is not damaged is found done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from microagg_core.errors import DamagedWorkError, StorageError
from microagg_core.release.cleaning import Running
from microagg_core.release.pieces import Place
from microagg_core.release.step import CompanionStep, Receipt, Step
from microagg_core.release.wiring import StepsDone
from microagg_core.runner import Damage, companions, run_task
from microagg_flows.executors import Executor
from microagg_flows.progress import Progress


@dataclass(kw_only=True)
class RunWork(StepsDone):
    """Do the steps of a run with its workers, and account for what is done."""

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


#: The same work may be found damaged so often in one run.
_MOST_DAMAGES = 3


def run_healing(release: RunWork, stages: Callable[[], object]) -> None:
    """Run the stages, with a sign of life while they last; from the first again where work is damaged.

    Raises:
        StorageError: the same work is damaged each time it is made.
    """
    times: Counter[Place] = Counter()
    with release.running:
        while True:
            try:
                stages()
                return
            except DamagedWorkError as damage:
                _go_back(release, damage, times)


def _go_back(release: RunWork, damage: DamagedWorkError, times: Counter[Place]) -> None:
    """Let those who made what is damaged make it again, unless they have often enough."""
    places = damage.places or (("publish", 0),)
    times.update(places)
    if max(times[place] for place in places) > _MOST_DAMAGES:
        raise StorageError(
            f"{release.work}: what is written to the work area does not stay as it was written; check its disk, or "
            "choose another work area, then run again"
        ) from None
    release.forget(damage.places)
    release.progress.say(f"{len(places)} pieces of work were damaged or gone; they are made again")
