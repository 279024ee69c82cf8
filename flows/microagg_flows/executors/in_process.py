"""The plainest executor: this process does everything.

It serves small inputs (``cluster: none``), the tests, and whoever wants to see what a step does: a breakpoint anywhere
in :mod:`microagg_core.release.steps` stops there, with the stage that asked for the task further up the same stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from microagg_core.group.headway import listening
from microagg_core.kernels.tools.threads import PROCESS
from microagg_flows.executors.contract import Item, Result
from microagg_flows.process.cores import usable_cores
from microagg_flows.progress import Progress, shown


class InProcess:
    """This process does the tasks, one after the other, each with all cores that it has use for."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        PROCESS.allow(usable_cores())

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """Apply a function to every item, in order."""
        results = []
        with shown(self.progress, what, len(items)) as progress, listening(progress.tell):
            for item in items:
                results.append(function(item))
                progress.advance()
        return results

    def memory_per_task(self) -> int | None:
        """Nobody limits this process."""
        return None
