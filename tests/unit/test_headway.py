"""Where long work stands: who is told what, how often, and in which words."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from microagg_core.group.headway import Headway, Progress, listening, only_for, working_on
from microagg_flows.clusters.pool import Headways
from microagg_flows.log import LogFormat, opened_log
from microagg_flows.progress import Bar, LongBlocks

X = np.array([[-1.0], [1.0]])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Seconds that go by when the test says so."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    yield now


def test_nobody_is_told_where_nobody_listens() -> None:
    with working_on(2), only_for("a proof"):
        Progress("annealing", X).report(lambda: 1 / 0)  # not even computed


def test_a_listener_is_told_every_few_seconds_and_of_the_best_so_far(clock: list[float]) -> None:
    heard: list[Headway] = []
    with listening(heard.append), working_on(2, block=7):
        way = Progress("annealing", X)
        for sse in (1.0, 0.5, 0.8):
            way.report(sse, share=0.5)
        assert heard == []
        clock[0] += 5.0
        way.report(0.9, share=0.6)
        way.report(0.9, share=0.7)
        clock[0] += 4.9
        way.report(lambda: 1 / 0)  # not due: not computed
    assert heard == [Headway("annealing", 5.0, 2, 0.6, 25.0, 7)]


def test_groups_that_are_only_a_means_tell_no_loss(clock: list[float]) -> None:
    heard: list[Headway] = []
    with listening(heard.append), working_on(2):
        Progress("annealing", X).report(1.0)
        with only_for("proving a bound"):
            clock[0] += 6.0
            Progress("annealing", X).report(0.1, share=0.3)
        clock[0] += 6.0
        Progress("annealing", X).report(2.0)
    assert [(one.doing, one.share, one.loss) for one in heard] == [
        ("proving a bound", None, 50.0),
        ("annealing", None, 50.0),
    ]


def headway(block: int, seconds: float) -> Headway:
    return Headway("annealing", seconds, 1000, 0.5, 12.3456, block)


def test_of_several_long_blocks_the_longest_is_told(clock: list[float]) -> None:
    blocks = LongBlocks()
    assert blocks.words() == ""
    for block, seconds in ((1, 10.0), (2, 60.0), (3, 20.0)):
        blocks.note(headway(block, seconds))
    words = "block 2 of 1,000 records: annealing, 1 min 0 s, 50 %"
    assert blocks.words() == f"{words}, the best groups so far lose 12.3 %; 2 more take long"
    assert blocks.words(with_loss=False) == f"{words}; 2 more take long"
    clock[0] += 16.0
    assert blocks.words() == ""


def test_a_bar_shows_where_a_block_stands() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    bar = Bar(stream)
    bar.tell(headway(4, 17.0))  # before any task
    bar.start("anonymize", 8)
    bar.tell(headway(4, 17.0))
    bar.finish()
    assert "block 4 of 1,000 records" in stream.getvalue()


@pytest.mark.parametrize("form", list(LogFormat))
def test_a_log_for_programs_has_no_loss_of_a_block(form: LogFormat, tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "log"
    with opened_log(form, path) as log:
        progress = log.progress(quiet=True)
        clock[0] += 11.0
        progress.tell(headway(4, 17.0))
    (line,) = path.read_text().splitlines()
    assert "block 4 of 1,000 records: annealing, 17 s, 50 %" in (json.loads(line)["event"] if form == "json" else line)
    assert "lose" not in line and "12.3" not in line


def test_prefect_is_told_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from microagg_flows.prefect_side import artifacts

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("this would have gone to Prefect")

    for name in ("get_run_logger", "create_progress_artifact", "update_progress_artifact", "create_markdown_artifact"):
        monkeypatch.setattr(artifacts, name, refuse)
    heard: list[Headway] = []

    class Beside(Bar):
        def tell(self, headway: Headway) -> None:
            heard.append(headway)

    artifacts.PrefectProgress(Beside(io.StringIO())).tell(headway(4, 17.0))
    assert heard == [headway(4, 17.0)]


def test_events_that_are_not_what_they_should_be_are_left_out() -> None:
    class Client:
        topics: tuple[str, ...] = ()

        def subscribe_topic(self, topic: str, handler: Any) -> None:
            self.topics += (topic,)

    client: Any = Client()
    told = Headways()
    told.listen_to(client, "a")
    told.listen_to(client, "b")
    fine = {"run": "b", **vars(headway(4, 17.0))}
    for event in (fine, {**fine, "run": "a"}, {**fine, "seconds": "soon"}, {"run": "b"}, "text", None):
        told.hear((0.0, event))
    assert list(told.read()) == [headway(4, 17.0)] and list(told.read()) == []
    assert client.topics == ("microagg-headway",)
