"""Virtual time: whatever the tasks and the place, no work is lost or made, and nobody is in two places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.release.sizing.tasks import StepTasks
from microagg_core.release.sizing.timeline import StepTimes, Timeline, Workplace

SECONDS = st.floats(0.001, 20.0)


def tasks_of(cpu: list[float], reads: float = 0.0, n_bytes: float = 0.0, ahead: float = 0.0) -> StepTasks:
    n = len(cpu)
    asked, moved, coming = np.full(n, reads), np.full(n, n_bytes), np.full(n, ahead)
    seconds = np.array(cpu)
    sizes = {"kernel": seconds, "refined_kernel": np.zeros(n)}
    return StepTasks("anonymize", sizes, seconds, asked, asked, asked, moved, moved, coming)


places = st.builds(
    Workplace,
    workers=st.integers(1, 12),
    threads=st.integers(1, 3),
    speed=st.sampled_from([0.5, 1.0, 2.0]),
    latency=st.sampled_from([0.0, 0.02]),
    bandwidth=st.sampled_from([1e6, 1e12]),
    gets=st.sampled_from([50.0, 1e12]),
    puts=st.sampled_from([50.0, 1e12]),
    submit=st.sampled_from([0.0, 1e-3]),
    take=st.sampled_from([0.0, 1e-3]),
    start=st.sampled_from([0.0, 1.5]),
)


def played(place: Workplace, tasks: StepTasks) -> StepTimes:
    return Timeline(place).play(tasks)


@examples(150)
@given(st.lists(SECONDS, min_size=1, max_size=60), places, st.integers(0, 40), st.sampled_from([0.0, 1e5]))
def test_work_is_conserved_and_time_is_accounted_for(
    cpu: list[float], place: Workplace, reads: int, moved: float
) -> None:
    tasks = tasks_of(cpu, reads, moved)
    times = played(place, tasks)
    assert times.cpu == pytest.approx(sum(cpu) / place.speed)
    assert times.tasks == len(cpu)
    whole = times.cpu + times.store + times.handing_out + times.tail + times.lost
    assert whole == pytest.approx(place.lanes * times.seconds, rel=1e-6)
    assert times.seconds >= max(cpu) / place.speed - 1e-9
    assert times.seconds >= sum(cpu) / place.speed / place.lanes - 1e-9
    assert min(times.store, times.handing_out, times.tail, times.lost) >= -1e-9


@examples(60)
@given(st.lists(SECONDS, min_size=1, max_size=40))
def test_one_worker_does_one_after_the_other(cpu: list[float]) -> None:
    times = played(Workplace(1, scheduler=0.0), tasks_of(cpu))
    assert times.seconds == pytest.approx(sum(cpu))


@examples(60)
@given(st.lists(SECONDS, min_size=1, max_size=60), st.integers(1, 10))
def test_the_largest_first_is_never_worse_than_four_thirds_of_the_least(cpu: list[float], workers: int) -> None:
    times = played(Workplace(workers, scheduler=0.0), tasks_of(cpu))
    least = max(max(cpu), sum(cpu) / workers)
    # Graham's bound is about the optimum, which lies between this and twice this.
    assert times.seconds <= least + max(cpu) * (1 - 1 / workers) + 1e-9


@examples(60)
@given(st.lists(SECONDS, min_size=3, max_size=40), st.integers(1, 6), st.floats(20.0, 400.0), st.integers(0, 99))
def test_workers_that_die_lose_time_and_no_task(cpu: list[float], workers: int, rate: float, seed: int) -> None:
    place = Workplace(workers, failures=rate, detection=1.0, restart=2.0, seed=seed)
    times, calm = played(place, tasks_of(cpu)), played(replace(place, failures=0.0), tasks_of(cpu))
    assert times.cpu == pytest.approx(sum(cpu))
    whole = times.cpu + times.store + times.handing_out + times.tail + times.lost
    assert whole == pytest.approx(place.lanes * times.seconds, rel=1e-6)
    assert times.seconds >= calm.seconds - max(cpu)


def test_failures_happen_about_as_often_as_they_should() -> None:
    """100 workers for about an hour, each dying once an hour, with 20-second tasks that begin again."""
    place = Workplace(100, failures=1.0, detection=5.0, restart=10.0)
    times = played(place, tasks_of([20.0] * 18_000))
    deaths = times.lost / (10.0 + 10.0)  # half a task, and the restart
    assert 60 < deaths < 200


def test_requests_come_no_faster_than_the_store_takes_them() -> None:
    times = played(Workplace(100, gets=100.0, scheduler=0.0), tasks_of([0.001] * 100, reads=50))
    assert times.seconds >= 50.0


def test_bytes_come_no_faster_than_a_worker_takes_them() -> None:
    times = played(Workplace(2, bandwidth=1e6, scheduler=0.0), tasks_of([0.001] * 4, n_bytes=1e6))
    assert times.seconds == pytest.approx(4.002)


def test_the_scheduler_bounds_tiny_tasks() -> None:
    times = played(Workplace(1000, scheduler=200e-6), tasks_of([1e-6] * 10_000))
    assert times.seconds >= 2.0
    assert times.handing_out > 0.9 * 1000 * times.seconds


def test_time_goes_on_from_step_to_step() -> None:
    line = Timeline(Workplace(2, start=1.0, scheduler=0.0))
    first = line.play(tasks_of([1.0, 1.0]))
    line.wait(3.0)
    second = line.play(tasks_of([1.0, 1.0]))
    assert (first.seconds, second.seconds, line.now) == pytest.approx((2.0, 1.0, 6.0))


def test_bytes_that_come_while_a_task_computes_are_waited_for_only_where_they_take_longer() -> None:
    place = Workplace(workers=1, bandwidth=1e6)
    seconds = {
        (cpu, ahead): Timeline(place).play(tasks_of([cpu], n_bytes=2e6, ahead=ahead)).seconds
        for cpu in (1.0, 9.0)
        for ahead in (0.0, 2e6)
    }
    written = 2.0
    assert seconds[9.0, 0.0] == pytest.approx(2.0 + 9.0 + written, abs=0.01)
    assert seconds[9.0, 2e6] == pytest.approx(9.0 + written, abs=0.01)
    assert seconds[1.0, 2e6] == pytest.approx(2.0 + written, abs=0.01)
