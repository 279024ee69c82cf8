"""Tasks on workers in virtual time: who has one when, what waits for the store, and where workers stand idle.

Tasks are handed out as the executors do it: in a given order, a bounded number out for each lane (a worker's thread),
the next one when a receipt is in. The flow and the scheduler do one thing at a time. A task reads, computes, writes;
requests take their time one after the other or several at once, and never come faster than the store takes them. A
worker may die: its tasks are done again elsewhere, once that is noticed, and another worker comes in its place.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from microagg_core.release.sizing.tasks import StepTasks


@dataclass(frozen=True)
class Workplace:
    """Workers and store of a forecast; a speed of 1 is that of the measured machine's cores."""

    workers: int
    threads: int = 1
    speed: float = 1.0
    #: Seconds that a request takes at least, and bytes a second of one worker.
    latency: float = 0.0
    bandwidth: float = 1e12
    #: Bytes and requests a second that the store has for all.
    store_bandwidth: float = 1e15
    gets: float = 1e12
    puts: float = 1e12
    #: Tasks out for each lane.
    ahead: int = 3
    #: Seconds of the flow for a task that it hands out, and for a receipt; and of the scheduler.
    submit: float = 0.0
    take: float = 0.0
    scheduler: float = 200e-6
    #: Seconds that a worker needs before its first task.
    start: float = 0.0
    #: Of a worker, an hour; seconds until a failure is noticed, and until another worker is there.
    failures: float = 0.0
    detection: float = 30.0
    restart: float = 60.0
    seed: int = 0

    @property
    def lanes(self) -> int:
        return self.workers * self.threads


@dataclass(frozen=True)
class StepTimes:
    """How a step went, from its first task's being handed out to the last receipt; the others are seconds of lanes."""

    step: str
    tasks: int
    seconds: float
    #: Computing; the others are losses.
    cpu: float
    #: Waiting for the store.
    store: float
    #: Idle while tasks wait: for the flow, for the scheduler, or for their worker to start.
    handing_out: float
    #: Idle while others finish the last tasks.
    tail: float
    #: Work of workers that died, and their absence.
    lost: float


class Timeline:
    """The workers from the first step of a release to its last; time goes on from step to step."""

    def __init__(self, place: Workplace) -> None:
        self.place, self.now = place, 0.0
        #: When each of those who serve one after the other is free again.
        self.free = dict.fromkeys(("flow", "scheduler", "gets", "puts", "bytes"), 0.0)
        self._random = random.Random(place.seed)
        #: Until when each worker is away, and when it dies.
        self.absent = dict.fromkeys(range(place.workers), place.start)
        self.dies = {worker: self.lives_until(0.0) for worker in range(place.workers)} if place.failures else {}

    def lives_until(self, now: float) -> float:
        return now + self._random.expovariate(self.place.failures / 3600.0)

    def wait(self, seconds: float) -> None:
        """Let the flow work, while no task is out."""
        self.now += seconds

    def served(self, name: str, now: float, seconds: float) -> float:
        """Queue what comes now; returns when it is served."""
        self.free[name] = max(self.free[name], now) + seconds
        return self.free[name]

    def answered(
        self, name: str, now: float, requests: float, rounds: float, n_bytes: float, ahead: float = 0.0
    ) -> float:
        """Find when gets or puts that are made now are answered, but for the bytes that nobody waits for."""
        place = self.place
        alone = now + rounds * place.latency + (n_bytes - ahead) * place.threads / place.bandwidth
        taken = self.served(name, now, requests / (place.gets if name == "gets" else place.puts))
        return max(alone, taken, self.served("bytes", now, n_bytes / place.store_bandwidth))

    def play(self, tasks: StepTasks) -> StepTimes:
        """Have the workers do the tasks of a step."""
        return _Step(self, tasks).play()


class _Task(NamedTuple):
    reads: float
    read_rounds: float
    bytes_read: float
    bytes_ahead: float
    cpu: float
    writes: float
    bytes_written: float


class _Job(NamedTuple):
    """A task at a lane, and since when; no two are the same object."""

    lane: int
    task: int
    begun: float


class _Step:
    """One step: events in the order of their time."""

    def __init__(self, line: Timeline, tasks: StepTasks) -> None:
        self._line, self._place, self._name = line, line.place, tasks.step
        columns = (
            tasks.reads, tasks.read_rounds, tasks.bytes_read, tasks.bytes_ahead, tasks.cpu / line.place.speed,
            tasks.writes, tasks.bytes_written,
        )  # fmt: skip
        self._tasks = [_Task(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]
        self._waiting = deque(tasks.order.tolist())
        self._queue: deque[int] = deque()
        #: When, the count of events, which makes the order of those of one time, and what happens to whom.
        self._events: list[tuple[float, int, Callable[[float, Any], float | None], Any]] = []
        self._n_events = self._n_ready = self._out = self._n_absent = 0
        self._left = len(self._tasks)
        #: Tasks of workers that died, until that is noticed.
        self._missed: set[int] = set()
        #: Lanes without a task, and the jobs of the others.
        self._idle: deque[int] = deque()
        self._jobs: dict[int, _Job] = {}
        self._seen = line.now
        self._sums = {"cpu": 0.0, "store": 0.0, "handing_out": 0.0, "tail": 0.0, "lost": 0.0}

    def play(self) -> StepTimes:
        """To the last receipt."""
        line, start = self._line, self._line.now
        for worker in range(self._place.workers):
            if line.absent.get(worker, 0.0) > start:
                self._n_absent += self._place.threads
                self._push(line.absent[worker], self._back, worker)
            else:
                self._idle.extend(self._lanes_of(worker))
        for worker, when in line.dies.items():
            self._push(max(when, start), self._died, worker)
        self._hand_out(start)
        last = start
        while self._left:
            now, _, happens, subject = heapq.heappop(self._events)
            self._account(now)
            last = max(last, happens(now, subject) or now)
        line.now = max(last, line.free["flow"])
        self._account(line.now)
        return StepTimes(self._name, len(self._tasks), line.now - start, **self._sums)

    def _lanes_of(self, worker: int) -> range:
        return range(worker * self._place.threads, (worker + 1) * self._place.threads)

    def _push(self, when: float, happens: Callable[[float, Any], float | None], subject: Any) -> None:
        self._n_events += 1
        heapq.heappush(self._events, (when, self._n_events, happens, subject))

    def _account(self, now: float) -> None:
        """Idle lanes since the last event: do tasks not reach them, are they missed, or is none left to begin?"""
        idle, passed = len(self._idle), now - self._seen
        if passed > 0:
            coming = self._waiting or self._queue or self._n_ready > len(self._missed)
            self._sums["handing_out" if coming else "lost" if self._missed else "tail"] += idle * passed
            # Who has not started yet cannot be handed anything; who died is lost.
            self._sums["handing_out" if self._seen < self._place.start else "lost"] += self._n_absent * passed
            self._seen = now

    def _hand_out(self, now: float) -> None:
        while self._waiting and self._out < self._place.ahead * self._place.lanes:
            sent = self._line.served("flow", now, self._place.submit)
            self._out += 1
            self._n_ready += 1
            ready = self._line.served("scheduler", sent, self._place.scheduler)
            self._push(ready, self._ready, self._waiting.popleft())

    def _ready(self, now: float, task: int) -> None:
        self._n_ready -= 1
        self._missed.discard(task)
        self._queue.append(task)
        self._begin(now)

    def _begin(self, now: float) -> None:
        while self._queue and self._idle:
            job = _Job(self._idle.popleft(), self._queue.popleft(), now)
            task = self._tasks[job.task]
            read = self._line.answered("gets", now, *task[:4])
            self._jobs[job.lane] = job
            worked = max(task.cpu, task.bytes_ahead * self._place.threads / self._place.bandwidth)
            self._push(read + worked, self._computed, job)

    def _computed(self, now: float, job: _Job) -> None:
        if self._jobs.get(job.lane) is job:  # else its worker died meanwhile
            task = self._tasks[job.task]
            self._push(
                self._line.answered("puts", now, task.writes, task.writes, task.bytes_written), self._finish, job
            )

    def _finish(self, now: float, job: _Job) -> float | None:
        """End a job: its lane takes the next task, and the flow hands out another."""
        if self._jobs.get(job.lane) is not job:
            return None
        del self._jobs[job.lane]
        computing = self._tasks[job.task].cpu
        self._sums["cpu"] += computing
        self._sums["store"] += now - job.begun - computing
        self._idle.append(job.lane)
        self._out, self._left = self._out - 1, self._left - 1
        self._begin(now)
        taken = self._line.served("flow", now, self._place.take)
        self._hand_out(taken)
        return taken

    def _died(self, now: float, worker: int) -> None:
        place, line = self._place, self._line
        line.absent[worker] = now + place.restart
        line.dies[worker] = line.lives_until(now + place.restart)
        for lane in self._lanes_of(worker):
            job = self._jobs.pop(lane, None)
            if job is not None:
                self._sums["lost"] += now - job.begun
                self._n_ready += 1
                self._missed.add(job.task)
                self._push(now + place.detection, self._ready, job.task)
            elif lane in self._idle:
                self._idle.remove(lane)
        self._n_absent += place.threads
        self._push(now + place.restart, self._back, worker)
        self._push(line.dies[worker], self._died, worker)

    def _back(self, now: float, worker: int) -> None:
        self._n_absent -= self._place.threads
        self._idle.extend(self._lanes_of(worker))
        self._begin(now)
