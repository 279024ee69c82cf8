"""Threads that tasks borrow: never more than there are, given back, and counted."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from microagg_core.kernels.tools import threads as room
from microagg_core.kernels.tools.threads import Threads, cpu_seconds, each
from microagg_flows.process import shares_of_time

_WAIT_SECONDS = 20.0


def busy(threads: Threads) -> int:
    """How many are, seen from outside."""
    total = 1000
    threads.allow(total)
    free = threads.borrow(total)
    for _ in range(free):
        threads.give_back()
    return total - free


def test_who_says_nothing_has_one_thread() -> None:
    used = set()
    each(lambda _: used.add(threading.get_ident()), range(50))
    assert used == {threading.get_ident()}


@pytest.mark.parametrize("total", [1, 2, 4])
def test_as_many_work_at_once_as_there_are(total: int) -> None:
    meeting, threads, used = threading.Barrier(total), Threads(total), set()

    def meet(_: int) -> None:
        used.add(threading.get_ident())
        meeting.wait(_WAIT_SECONDS)

    with threads.running():
        each(meet, range(3 * total))
    assert len(used) == total and busy(threads) == 0


def test_tasks_at_once_share_what_there_is() -> None:
    threads = Threads(3)
    with threads.running(), threads.running():
        assert [threads.borrow(5), threads.borrow(5)] == [1, 0]
        threads.give_back()
    assert busy(threads) == 0


def test_a_borrowed_thread_ends_when_a_task_begins() -> None:
    """The next piece is left to the thread that borrowed it."""
    threads, begun, go_on = Threads(2), threading.Event(), threading.Event()
    mine, others = threading.get_ident(), []

    def piece(i: int) -> None:
        if threading.get_ident() != mine:
            others.append(i)
            begun.set()
            assert go_on.wait(_WAIT_SECONDS)
        elif not others:
            assert begun.wait(_WAIT_SECONDS)
        elif not go_on.is_set():
            with threads.running():
                go_on.set()
                deadline = time.monotonic() + _WAIT_SECONDS
                while threads._busy > 2 and time.monotonic() < deadline:
                    time.sleep(0.001)

    with threads.running():
        each(piece, range(20))
    assert len(others) == 1 and busy(threads) == 0


@pytest.mark.parametrize("in_a_helper", [False, True])
def test_what_a_piece_raises_is_raised_and_all_is_given_back(in_a_helper: bool) -> None:
    threads, mine, meeting = Threads(2), threading.get_ident(), threading.Barrier(2)

    def fail(_: int) -> None:
        meeting.wait(_WAIT_SECONDS)
        if (threading.get_ident() != mine) == in_a_helper:
            raise IndexError("one of its own")

    with threads.running(), pytest.raises(IndexError, match="one of its own"):
        each(fail, range(2))
    assert busy(threads) == 0


def test_a_system_without_threads_is_slow_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(room._Helper, "start", refuse)
    threads, done = Threads(4), []
    with threads.running():
        each(done.append, range(10))
    assert done == list(range(10)) and busy(threads) == 0


def test_cpu_seconds_are_those_of_all_threads() -> None:
    meeting = threading.Barrier(2)

    def work(_: int) -> None:
        meeting.wait(_WAIT_SECONDS)
        begun = time.thread_time()
        while time.thread_time() - begun < 0.05:
            pass

    start, own = cpu_seconds(), time.thread_time()
    with Threads(2).running():
        each(work, range(2))
    total, own = cpu_seconds() - start, time.thread_time() - own
    assert total >= 0.1 and 0.05 <= own < total - 0.04


@pytest.mark.parametrize(
    ("files", "shares"),
    [
        ({}, []),
        ({"cpu.max": "max 100000"}, []),
        ({"cpu.max": "250000 100000"}, [2.5]),
        ({"cpu.max": "no numbers"}, []),
        ({"a/cpu.max": "400000 100000", "a/b/cpu.max": "150000 100000"}, [1.5, 4.0]),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, [3.0]),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, []),
    ],
)
def test_a_container_has_its_share_of_cores(tmp_path: Path, files: dict[str, str], shares: list[float]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    own = tmp_path / "own"
    own.write_text("3:cpu:/\n0::/a/b\n")
    assert sorted(shares_of_time(tmp_path, own)) == shares
    assert list(shares_of_time(tmp_path, tmp_path / "nowhere")) in ([], [2.5], [3.0])
