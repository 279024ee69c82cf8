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
from dataclasses import dataclass, field

from microagg_core.release.sizing.tasks import StepTasks


@dataclass(frozen=True)
class Workplace:
    """Where tasks are done.

    Attributes:
        workers, threads, speed: workers, tasks of each at a time, and its cores' speed; 1 is the measured machine's.
        latency, bandwidth: seconds that a request takes at least, and bytes a second of one worker.
        store_bandwidth, gets, puts: bytes and requests a second that the store has for all.
        ahead: tasks out for each lane.
        submit, take, scheduler: seconds of the flow for a task that it hands out, and for a receipt; of the scheduler.
        start: seconds that a worker needs before its first task.
        failures, detection, restart: of a worker, an hour; seconds until it is noticed, and until another is there.
    """

    workers: int
    threads: int = 1
    speed: float = 1.0
    latency: float = 0.0
    bandwidth: float = 1e12
    store_bandwidth: float = 1e15
    gets: float = 1e12
    puts: float = 1e12
    ahead: int = 3
    submit: float = 0.0
    take: float = 0.0
    scheduler: float = 200e-6
    start: float = 0.0
    failures: float = 0.0
    detection: float = 30.0
    restart: float = 60.0
    seed: int = 0

    @property
    def lanes(self) -> int:
        return self.workers * self.threads


@dataclass(frozen=True)
class StepTimes:
    """How a step went; all but ``seconds`` are seconds of lanes.

    Attributes:
        seconds: from the first task's being handed out to the last one's receipt.
        cpu: computing; what is left is loss.
        store: waiting for the store.
        handing_out: idle while tasks wait: for the flow, for the scheduler, or for their worker to start.
        tail: idle while others finish the last tasks.
        lost: work of workers that died, and their absence.
    """

    step: str
    tasks: int
    seconds: float
    cpu: float
    store: float
    handing_out: float
    tail: float
    lost: float


@dataclass
class _Queue:
    """One that serves one after the other."""

    free: float = 0.0

    def served(self, now: float, seconds: float) -> float:
        """Queue what comes now; returns when it is served."""
        self.free = max(self.free, now) + seconds
        return self.free


@dataclass
class _Store:
    """The store: requests and bytes of all workers."""

    place: Workplace
    reading: _Queue = field(default_factory=_Queue)
    writing: _Queue = field(default_factory=_Queue)
    moving: _Queue = field(default_factory=_Queue)

    def done(
        self, now: float, queue: _Queue, rate: float, requests: float, rounds: float, n_bytes: float, ahead: float = 0.0
    ) -> float:
        """Find when requests that are made now are answered, but for the bytes that nobody waits for."""
        place = self.place
        alone = now + rounds * place.latency + (n_bytes - ahead) * place.threads / place.bandwidth
        return max(alone, queue.served(now, requests / rate), self.moving.served(now, n_bytes / place.store_bandwidth))


_READY, _COMPUTED, _DONE, _DIES, _BACK = range(5)


class Timeline:
    """The workers from the first step of a release to its last; time goes on from step to step."""

    def __init__(self, place: Workplace) -> None:
        self.place, self.now = place, 0.0
        self._store, self._flow, self._scheduler = _Store(place), _Queue(), _Queue()
        self._random = random.Random(place.seed)
        self._absent: dict[int, float] = dict.fromkeys(range(place.workers), place.start)
        self._dies = {worker: self._lives_until(0.0) for worker in range(place.workers)} if place.failures else {}

    def _lives_until(self, now: float) -> float:
        return now + self._random.expovariate(self.place.failures / 3600.0)

    def wait(self, seconds: float) -> None:
        """Let the flow work, while no task is out."""
        self.now += seconds

    def play(self, tasks: StepTasks) -> StepTimes:
        """Have the workers do the tasks of a step."""
        return _Step(self, tasks).play()


class _Step:
    """One step: events in the order of their time."""

    def __init__(self, timeline: Timeline, tasks: StepTasks) -> None:
        self._line, self._tasks, self._place = timeline, tasks, timeline.place
        self._columns = [
            column.tolist()
            for column in (
                tasks.reads, tasks.read_rounds, tasks.bytes_read, tasks.cpu / self._place.speed,
                tasks.writes, tasks.writes, tasks.bytes_written, tasks.bytes_ahead,
            )
        ]  # fmt: skip
        self._waiting = deque(tasks.order.tolist())
        self._queue: deque[int] = deque()
        self._events: list[tuple[float, int, int, int]] = []
        self._count = 0
        self._n_ready = 0
        self._out = 0
        self._left = len(tasks)
        #: Tasks of workers that died, until that is noticed.
        self._missed: set[int] = set()
        self._start = timeline.now
        #: Lanes without a task, of each worker; the task of each lane, with its start and its reading's end.
        self._idle: deque[int] = deque()
        self._at: dict[int, tuple[int, float, float]] = {}
        #: For each lane, how often its worker died: what it had begun before is nothing any more.
        self._life: dict[int, int] = {}
        self._seen = timeline.now
        self._sums = {"cpu": 0.0, "store": 0.0, "handing_out": 0.0, "tail": 0.0, "lost": 0.0}

    def play(self) -> StepTimes:
        """To the last receipt."""
        place, line = self._place, self._line
        self._n_absent = 0
        for worker in range(place.workers):
            if line._absent.get(worker, 0.0) > self._start:
                self._n_absent += place.threads
                self._push(line._absent[worker], _BACK, worker)
            else:
                self._idle.extend(self._lanes_of(worker))
        for worker, when in line._dies.items():
            self._push(max(when, self._start), _DIES, worker)
        self._hand_out(self._start)
        last = self._start
        while self._left:
            now, _, kind, which = heapq.heappop(self._events)
            self._account(now)
            last = max(last, (self._ready, self._computed, self._done, self._died, self._back)[kind](now, which) or now)
        line.now = max(last, line._flow.free)
        self._account(line.now)
        return StepTimes(self._tasks.step, len(self._tasks), line.now - self._start, **self._sums)

    def _lanes_of(self, worker: int) -> range:
        return range(worker * self._place.threads, (worker + 1) * self._place.threads)

    def _push(self, when: float, kind: int, which: int) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, kind, which))

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
            sent = self._line._flow.served(now, self._place.submit)
            self._out += 1
            self._n_ready += 1
            self._push(self._line._scheduler.served(sent, self._place.scheduler), _READY, self._waiting.popleft())

    def _ready(self, now: float, task: int) -> None:
        self._n_ready -= 1
        self._missed.discard(task)
        self._queue.append(task)
        self._begin(now)

    def _begin(self, now: float) -> None:
        place, store = self._place, self._line._store
        while self._queue and self._idle:
            lane, task = self._idle.popleft(), self._queue.popleft()
            requests, rounds, n_bytes = (self._columns[i][task] for i in range(3))
            ahead = self._columns[7][task]
            read = store.done(now, store.reading, place.gets, requests, rounds, n_bytes, ahead)
            self._at[lane] = task, now, read
            worked = max(self._columns[3][task], ahead * place.threads / place.bandwidth)
            self._push(read + worked, _COMPUTED, self._numbered(lane))

    def _numbered(self, lane: int) -> int:
        """Combine a lane and the life of its worker in one number."""
        return self._life.get(lane, 0) * self._place.lanes + lane

    def _alive(self, number: int) -> int | None:
        life, lane = divmod(number, self._place.lanes)
        return lane if life == self._life.get(lane, 0) else None

    def _computed(self, now: float, number: int) -> None:
        lane = self._alive(number)
        if lane is not None:
            place, store = self._place, self._line._store
            task = self._at[lane][0]
            requests, rounds, n_bytes = (self._columns[i][task] for i in range(4, 7))
            self._push(store.done(now, store.writing, place.puts, requests, rounds, n_bytes), _DONE, number)

    def _done(self, now: float, number: int) -> float | None:
        lane = self._alive(number)
        if lane is None:
            return None
        task, begun, _ = self._at.pop(lane)
        computing = self._columns[3][task]
        self._sums["cpu"] += computing
        self._sums["store"] += now - begun - computing
        self._idle.append(lane)
        self._out, self._left = self._out - 1, self._left - 1
        self._begin(now)
        taken = self._line._flow.served(now, self._place.take)
        self._hand_out(taken)
        return taken

    def _died(self, now: float, worker: int) -> None:
        place, line = self._place, self._line
        line._absent[worker] = now + place.restart
        line._dies[worker] = line._lives_until(now + place.restart)
        for lane in self._lanes_of(worker):
            self._life[lane] = self._life.get(lane, 0) + 1
            if lane in self._at:
                task, begun, _ = self._at.pop(lane)
                self._sums["lost"] += now - begun
                self._n_ready += 1
                self._missed.add(task)
                self._push(now + place.detection, _READY, task)
            elif lane in self._idle:
                self._idle.remove(lane)
        self._n_absent += place.threads
        self._push(now + place.restart, _BACK, worker)
        self._push(line._dies[worker], _DIES, worker)

    def _back(self, now: float, worker: int) -> None:
        self._n_absent -= self._place.threads
        self._idle.extend(self._lanes_of(worker))
        self._begin(now)
