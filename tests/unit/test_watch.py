"""The watch over a cluster: what it calls a standstill, and when its patience ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from microagg_core.errors import ClusterError
from microagg_flows.clusters.watch import GIVEN_UP_SECONDS, IDLE_SECONDS, Standstill, Watch, WorkerState

MIB = 2**20


class Clock:
    """Seconds as the test says; workers are heard of whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def worker(**others: object) -> WorkerState:
    idle = WorkerState("tcp://w:1", True, False, 1, 600 * MIB, 500 * MIB, 0, 0.0)
    return replace(idle, **others)  # type: ignore[arg-type]


def watched(seconds: float, state: list[WorkerState] | None, step: float = 2.0) -> tuple[Watch, Standstill | None]:
    """A watch that saw a state for so long, its workers being heard of."""
    clock = Clock()
    watch, why = Watch(30.0, 0.8, clock), None
    while clock.now < seconds:
        clock.now += step
        why = watch.look(None if state is None else [replace(w, last_seen=clock.now) for w in state])
        if why is not None and clock.now < seconds:
            watch.refuse_to_wait(why, "anonymize")
    return watch, why


@pytest.mark.parametrize(
    ("state", "why", "words"),
    [
        (None, Standstill.SILENT_SCHEDULER, "the scheduler does not answer; finished work is kept, so see to the"),
        ([], Standstill.NO_WORKERS, "there is no worker; finished work is kept, so start workers"),
        ([worker(running=False, paused=True)], Standstill.PAUSED, r"paused by Dask for its memory \(500 MiB in use"),
        ([worker()], Standstill.IDLE, "the workers do nothing; finished work is kept"),
    ],
)
def test_a_standstill_is_named_and_ends_when_patience_does(
    state: list[WorkerState] | None, why: Standstill, words: str
) -> None:
    patience = 30.0 if why is Standstill.NO_WORKERS else IDLE_SECONDS
    watch, found = watched(patience - 4, state)
    assert found is why
    watch.refuse_to_wait(why, "anonymize")
    # Patience begins when the first worker is seen.
    watch, found = watched(patience + (2.0 if state else 0.0), state)
    with pytest.raises(ClusterError, match=words):
        watch.refuse_to_wait(why, "anonymize")


def test_a_worker_that_computes_is_waited_for_as_long_as_it_takes() -> None:
    _, why = watched(100 * IDLE_SECONDS, [worker(executing=1), worker(address="tcp://w:2", paused=True)])
    assert why is None


def test_a_worker_that_is_not_heard_of_computes_nothing() -> None:
    clock = Clock()
    watch = Watch(30.0, 0.8, clock)
    for _ in range(12):
        clock.now += 2.0
        why = watch.look([worker(executing=1, last_seen=7.0)])
    assert why is Standstill.SILENT_WORKERS


def test_workers_that_are_suspended_while_others_wait_are_waited_for_until_dask_gives_their_work_away() -> None:
    clock = Clock()
    watch = Watch(30.0, 0.8, clock)
    while clock.now < GIVEN_UP_SECONDS:
        clock.now += 2.0
        why = watch.look([worker(last_seen=clock.now), worker(address="tcp://w:2", last_seen=7.0)])
        if why is not None:
            watch.refuse_to_wait(why, "anonymize")
    assert why is Standstill.SILENT_HOLDERS
    clock.now += 4.0
    with pytest.raises(ClusterError, match="workers that may hold it are not heard of; finished work is kept"):
        watch.refuse_to_wait(why, "anonymize")


def test_time_in_which_this_process_was_stopped_does_not_count() -> None:
    clock = Clock()
    watch = Watch(60.0, 0.8, clock)
    for seconds in (2.0, 3600.0, 2.0):
        clock.now += seconds
        why = watch.look([])
    assert why is Standstill.NO_WORKERS
    watch.refuse_to_wait(why, "anonymize")


def test_each_cause_is_told_once_and_again_after_something_was_done() -> None:
    clock = Clock()
    watch = Watch(300.0, 0.8, clock)
    told = []
    for step in range(60):
        clock.now += 2.0
        why = watch.look([])
        assert why is not None
        told.append(watch.worth_a_line(why))
        if step == 40:
            watch.done()
    lines = [line for line in told if line]
    assert lines == ["nothing was finished for 30 s: there is no worker"] * 2


def test_what_is_known_of_workers_that_do_not_come_is_said_with_what_to_do_about_it() -> None:
    watch, _ = watched(30.0, [])
    with pytest.raises(
        ClusterError, match=r"there is no worker \(2 jobs wait\); finished work is kept, so see to the queue"
    ):
        watch.refuse_to_wait(Standstill.NO_WORKERS, "anonymize", "2 jobs wait", "see to the queue")
