"""A worker's half of a release that is driven from outside: one task, by this process."""

from __future__ import annotations

from collections.abc import Sequence

from microagg_core.errors import StorageError
from microagg_core.release.cleaning import Running
from microagg_core.release.context import work_store
from microagg_core.release.step import Receipt, Run
from microagg_core.runner import Damage, run_task
from microagg_core.spec.clusters import NoCluster
from microagg_core.spec.loading import load_spec
from microagg_flows.clusters import executor_for
from microagg_flows.progress import Progress
from microagg_flows.step_by_step.written_tasks import read_task


def do_task(
    step: str, number: int, run: str, spec_path: str, progress: Progress, settings: Sequence[str] = ()
) -> Receipt:
    """Do a task that was written down, or find that it is done; whatever cluster the spec names, this process does it.

    Raises:
        SpecError: there is no such task.
        StorageError: what it reads is damaged; whoever made that has to make it again.
        MicroaggError: what the task raises.
    """
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
