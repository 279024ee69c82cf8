"""Watch a cluster that was given work: who can still do it, and when waiting has no sense any more.

Dask waits for ever, whatever became of its workers. Here, work that stands still has a cause that can be named, and
a patience after which the release ends in a sentence: no worker, workers that Dask has paused for their memory, nobody
heard of, a scheduler that does not answer, or workers that could work and do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from microagg_core.errors import ClusterError, TransientClusterError

#: Work stands still for so long before the release gives up, and half as long before a line says so.
IDLE_SECONDS = 60.0
#: Whoever watches looks every few seconds, and waits for an answer as long as a look may take; a longer gap means that
#: this process itself was stopped.
_LONGEST_GAP = 30.0
#: A worker says something every second or so; one that is silent for longer computes nothing that would count.
_SILENT_SECONDS = 20.0
#: Dask gives a worker's tasks to others when it was silent for 300 s, unless told otherwise: until then who lacks some
#: of its workers waits, and for a minute more.
GIVEN_UP_SECONDS = 360.0
_MIB = 2**20


@dataclass(frozen=True)
class WorkerState:
    address: str
    running: bool
    paused: bool
    threads: int
    memory_limit: int
    memory: int
    executing: int
    last_seen: float

    @classmethod
    def of(cls, address: str, identity: Mapping[str, Any]) -> WorkerState:
        metrics: Mapping[str, Any] = identity.get("metrics") or {}
        return cls(
            address=address,
            running=identity["status"] == "running",
            paused=identity["status"] == "paused",
            threads=int(identity["nthreads"]),
            memory_limit=int(identity["memory_limit"] or 0),
            memory=int(metrics.get("memory") or 0),
            executing=int((metrics.get("task_counts") or {}).get("executing", 0)),
            last_seen=float(identity["last_seen"]),
        )


class Standstill(Enum):
    """A cause for which nobody computes, and its cure."""

    SILENT_SCHEDULER = (
        "the scheduler does not answer",
        "see to the scheduler and the network, and start the release again",
    )
    NO_WORKERS = "there is no worker", "start workers, and start the release again"
    SILENT_WORKERS = "no worker is heard of", "see to the workers and their network, and start the release again"
    SILENT_HOLDERS = (
        "workers that may hold it are not heard of",
        "see to those workers and their network, and start the release again",
    )
    PAUSED = "every worker is paused by Dask for its memory", "give each worker more memory or fewer threads"
    IDLE = "the workers do nothing", "start the release again, with fresh workers"


class Watch:
    """Judge, by what the scheduler knows every few seconds and when something was done last, when to give up.

    Args:
        no_workers: seconds for which there may be no worker at all.
        pause: the share of a worker's memory above which Dask pauses it.
    """

    def __init__(self, no_workers: float, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._no_workers, self._pause, self._clock = no_workers, pause, clock
        self._since = self._looked = clock()
        self._heard: dict[str, tuple[float, float]] = {}
        self._workers: list[WorkerState] = []
        self._said: Standstill | None = None

    def done(self) -> None:
        """Note that something was finished: patience begins anew."""
        self._since, self._said = self._clock(), None

    def look(self, workers: list[WorkerState] | None) -> Standstill | None:
        """Find why the work stands still, None where it does not; ``workers`` is None where nobody answered."""
        now = self._clock()
        # Stopped and continued, as a laptop's lid does it: time in which nobody looked counts for nothing.
        self._since += max(0.0, now - self._looked - _LONGEST_GAP)
        self._looked = now
        why = Standstill.SILENT_SCHEDULER if workers is None else self._judge(workers, now)
        if why is None:
            self.done()
        return why

    def _judge(self, workers: list[WorkerState], now: float) -> Standstill | None:
        self._workers = workers
        heard = self._heard_of(workers, now)
        if not workers:
            return Standstill.NO_WORKERS
        if not heard:
            return Standstill.SILENT_WORKERS
        if any(worker.executing for worker in heard):
            return None
        if all(worker.paused for worker in heard):
            return Standstill.PAUSED
        return Standstill.SILENT_HOLDERS if len(heard) < len(workers) else Standstill.IDLE

    def _heard_of(self, workers: list[WorkerState], now: float) -> list[WorkerState]:
        """Filter workers heard of lately, by this process' clock: clocks of other machines may be wrong."""
        before = self._heard
        self._heard = {}
        if workers and not before:
            self.done()  # the first has come
        for worker in workers:
            last_seen, when = before.get(worker.address, (worker.last_seen, now))
            self._heard[worker.address] = (worker.last_seen, when if worker.last_seen == last_seen else now)
        return [worker for worker in workers if now - self._heard[worker.address][1] < _SILENT_SECONDS]

    def worth_a_line(self, why: Standstill) -> str | None:
        """Word a line for the user who waits, once for each cause, when half the patience is over."""
        waited = self._clock() - self._since
        if why is self._said or waited < IDLE_SECONDS / 2:
            return None
        self._said = why
        return f"nothing was finished for {waited:.0f} s: {why.value[0]}"

    def refuse_to_wait(self, why: Standstill, what: str, news: str = "", cure: str = "") -> None:
        """Stop where the work has stood still for too long; ``news`` and ``cure`` are of workers that do not come."""
        waited = self._clock() - self._since
        patience = {Standstill.NO_WORKERS: self._no_workers, Standstill.SILENT_HOLDERS: GIVEN_UP_SECONDS}
        if waited < patience.get(why, IDLE_SECONDS):
            return
        cause, usual_cure = why.value
        start = f"{what}: nothing was finished for {waited:.0f} s, because {cause}"
        if why is Standstill.PAUSED:
            raise ClusterError(f"{start}{self._memory()}; {usual_cure}")
        cure = cure if cure and why is Standstill.NO_WORKERS else usual_cure
        raise TransientClusterError(f"{start}{f' ({news})' if news else ''}; finished work is kept, so {cure}")

    def _memory(self) -> str:
        worker = max(self._workers, key=lambda w: w.memory)
        return (
            f" ({worker.memory // _MIB} MiB in use, and Dask's threshold is {self._pause:.0%} of "
            f"{worker.memory_limit // _MIB} MiB)"
        )
