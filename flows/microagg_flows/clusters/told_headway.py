"""Where long blocks stand, from the workers that have them to the process that waits: as events of Dask.

An event holds numbers and a few words of ours, nothing of a record. It goes through the scheduler, which keeps the last
ones: whoever reaches that can run code in the workers anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from distributed import Client, get_worker

from microagg_core.group.headway import Headway, listening

Item = TypeVar("Item")
Result = TypeVar("Result")

#: One for all runs, so that a scheduler which runs for months does not gather topics.
_TOPIC = "microagg-headway"


def done_telling(run: str, function: Callable[[Item], Result], item: Item) -> Result:
    """What a function makes of an item on a worker, which tells the run meanwhile where long blocks stand."""
    with listening(partial(_log, run)):
        return function(item)


def _log(run: str, headway: Headway) -> None:
    with suppress(Exception):  # whether somebody hears of it decides nothing
        get_worker().log_event(_TOPIC, {"run": run, **vars(headway)})


class ToldHeadway:
    """What the workers have told of one run after the other, until it is read."""

    def __init__(self) -> None:
        self._run: str | None = None
        self._heard: SimpleQueue[Headway] = SimpleQueue()

    def listen_to(self, client: Client, run: str) -> None:
        """From now on, what is told of this run."""
        if self._run is None:
            client.subscribe_topic(_TOPIC, self.hear)  # type: ignore[no-untyped-call]
        self._run = run

    def hear(self, event: tuple[float, Any]) -> None:
        """Take an event, if it is this run's and what it should be: others may write to the scheduler, too."""
        told = event[1]
        if isinstance(told, dict) and told.get("run") == self._run:
            with suppress(TypeError, ValueError, KeyError):
                self._heard.put(_headway(told))

    def read(self) -> Iterator[Headway]:
        """What was told since the last time."""
        while True:
            try:
                yield self._heard.get_nowait()
            except Empty:
                return


def _headway(told: dict[str, Any]) -> Headway:
    """A headway of plain numbers, whatever came.

    >>> _headway({"run": "a", "doing": "annealing", "seconds": 7, "records": 9, "share": None, "loss": 1, "block": 2})
    Headway(doing='annealing', seconds=7.0, records=9, share=None, loss=1.0, block=2)
    """
    share, loss, block = (told[name] for name in ("share", "loss", "block"))
    return Headway(
        doing=str(told["doing"])[:80],
        seconds=float(told["seconds"]),
        records=int(told["records"]),
        share=None if share is None else float(share),
        loss=None if loss is None else float(loss),
        block=None if block is None else int(block),
    )
