"""The flow's half of a release that is driven from outside: as far as it gets, and what is to be done then."""

from __future__ import annotations

from dataclasses import dataclass

from microagg_core.compiling import start_compiling
from microagg_core.errors import MicroaggError, SpecError
from microagg_core.runner import steps
from microagg_flows.executors import OnceCompiled
from microagg_flows.record import RunRecord
from microagg_flows.release import Release, new_release
from microagg_flows.releasing import Order, Settled, now
from microagg_flows.stages import STAGES, run_stage, run_until
from microagg_flows.step_by_step.handing_out import HandingOut, TasksLeftError, withdraw
from microagg_flows.step_by_step.written_tasks import as_ranges


@dataclass(frozen=True)
class Standing:
    """How far a release is: the tasks that come next, or none where the stage that was named is done."""

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
    """Do the flow's half of all stages up to one, as far as the tasks are done that they stand on.

    Raises:
        SpecError: there is no such stage, or ``run`` is another run than the one that the spec describes.
        MicroaggError: what a stage raises.
    """
    _refuse_unknown(stage)
    tonight = Settled.of(order, now())
    record.begin(tonight.spec, tonight.id)
    spec, progress = tonight.spec, record.progress
    with (
        record.publishing(),
        start_compiling(spec.algorithm.name, spec.effort, spec.k, say=progress.say) as compiling,
    ):
        workers = OnceCompiled(HandingOut(progress, run), compiling)
        release = record.release = new_release(spec, workers, tonight.id, order.replace, tonight.moment)
        release.running.goes_on = True
        return _standing(stage, release, record)
    # Whatever failed then is in the record's note: the release is published, and nothing is left to do.
    return Standing(release.key)


def _standing(stage: str, release: Release, record: RunRecord) -> Standing:
    try:
        run_until(stage, release, record.following(run_stage))
    except TasksLeftError as left:
        release.progress.say(left.message)
        return Standing(release.key, left.step, as_ranges(left.numbers), left.n_tasks, len(left.numbers))
    except MicroaggError:
        if release.key:
            withdraw(release.run)
        raise
    return Standing(release.key)


def _refuse_unknown(stage: str) -> None:
    names = [one.name for one in STAGES]
    if stage in names:
        return
    among = f"name one of the stages: {', '.join(names)}"
    if stage in steps():
        raise SpecError(f"{stage} is done task by task and takes --number; without it, {among}")
    raise SpecError(f"there is no stage {stage!r}; {among}")
