"""Going back where work is damaged: the run makes it again by itself, and what is not damaged is found done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from microagg_core.errors import DamagedWorkError, StorageError
from microagg_core.release.cleaning import Running
from microagg_core.release.pieces import Place
from microagg_core.store.objects import Store
from microagg_flows.progress import Progress

#: The same work may be found damaged so often in one run.
_MOST_DAMAGES = 3


class Healing(Protocol):
    """What a run has to be able to do."""

    work: Store
    running: Running

    @property
    def progress(self) -> Progress:
        """Where the user looks."""

    def forget(self, places: Sequence[Place]) -> None:
        """Take what these tasks made for not done, and begin anew."""


def run_healing(release: Healing, stages: Callable[[], object]) -> None:
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


def _go_back(release: Healing, damage: DamagedWorkError, times: Counter[Place]) -> None:
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
