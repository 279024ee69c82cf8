"""Long algorithms say where they stand, and make the same groups whether or not anybody listens."""

from __future__ import annotations

import io
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inputs.people import people
from microagg_core import Headway, lower_bound, microaggregate, partition
from microagg_core.arrays import Floats
from microagg_core.group import headway
from microagg_core.group.headway import Progress, listening, working_on
from microagg_core.group.metrics.losses import losses, standardize
from microagg_core.group.refine import annealing
from microagg_core.group.refine.annealing import Annealing
from microagg_core.group.refine.neighbours import Records
from microagg_core.spec.clusters import LocalCluster
from microagg_core.spec.loading import load_spec
from microagg_flows.clusters import connect
from microagg_flows.executors import InProcess
from microagg_flows.progress import Lines, Silence
from microagg_flows.release import new_release
from releasing.runs import NOW, data_digests, run_stages, start, write_release


def points(n: int) -> Floats:
    return standardize(np.random.default_rng(n).random((n, 3)))


@contextmanager
def hearing() -> Iterator[list[Headway]]:
    """All that is told, at every opportunity."""
    heard: list[Headway] = []
    with listening(heard.append, every=0.0):
        yield heard


CASES: dict[str, dict[str, Any]] = {
    "annealing": {"k": 3, "refine": "thorough"},
    "searching": {"k": 3, "algorithm": "search", "steps": 300},
    "trying mdav": {"k": 3, "algorithm": "best"},
    "pairing records": {"k": 2, "algorithm": "two_mu_approx"},
    "growing trees": {"k": 3, "algorithm": "mu_approx"},
    "looking for the optimum": {"k": 2, "refine": "thorough"},
}


@pytest.mark.parametrize("doing", CASES)
def test_groups_do_not_depend_on_who_listens(doing: str) -> None:
    X = points(200)
    silent = partition(X, **CASES[doing])
    with hearing() as heard:
        labels = partition(X, **CASES[doing])
    assert np.array_equal(labels, silent)
    assert doing in {headway.doing for headway in heard}
    assert {headway.records for headway in heard} == {200}
    told = [headway.loss for headway in heard if headway.loss is not None]
    assert all(later <= earlier for earlier, later in itertools.pairwise(told))
    assert all(headway.share is None or 0 <= headway.share <= 1 for headway in heard)
    if doing in ("searching", "annealing"):
        reached = losses(X, labels).l_sse
        # What comes after the last word, downhill or from a programme, only makes it better.
        assert reached <= told[-1] * (1 + 1e-9) and told[-1] < 1.1 * reached


def test_a_proof_tells_no_loss_of_groups_that_nobody_gets() -> None:
    with hearing() as heard:
        bound = lower_bound(points(60), 3, "thorough")
    assert bound.kind == "columns"
    assert {one.doing for one in heard} == {"proving how little any groups can lose"}
    assert {one.loss for one in heard} == {None}


def test_an_annealing_in_stretches_is_that_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records.of(points(400), 10)
    start = np.repeat(np.arange(100), 4)
    results = []
    for steps in (1, 400, 10**9):
        monkeypatch.setattr(annealing, "_STEPS_AT_ONCE", steps)
        results.append(Annealing(records.points, records.near(10), 4, 5).run(start, 40, 1.0, 2, 3).tolist())
    assert results[0] == results[1] == results[2]


def test_regions_tell_too(monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records.of(points(2000), 10)
    monkeypatch.setattr(annealing, "region_count", lambda n, k: 3)
    start = np.repeat(np.arange(500), 4)
    silent = Annealing(records.points, records.near(10), 4, 5).run(start, 9, 1.0, 2, 0)
    with hearing() as heard, working_on(2000):
        again = Annealing(records.points, records.near(10), 4, 5).run(start, 9, 1.0, 2, 0)
    assert np.array_equal(again, silent)
    assert [one.share for one in heard] == pytest.approx([1 / 3, 2 / 3, 1])
    told = heard[-1].loss
    assert told is not None and told == pytest.approx(losses(records.points.X, silent).l_sse, rel=1e-6)


def test_a_callback_from_python_is_told_and_may_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(listener: Any, every: float = 0.0) -> Any:
        return listening(listener, 0.0)

    monkeypatch.setattr("microagg_core.api.grouping.listening", at_once)
    monkeypatch.setattr("microagg_core.api.masking.listening", at_once)
    X, heard = points(200), list[Headway]()
    partition(X, 3, "search", steps=300, progress=heard.append)
    assert heard and {one.block for one in heard} == {None}
    heard.clear()
    frame = {"a": X[:, 0], "b": X[:, 1], "town": np.arange(200) % 2}
    plain = microaggregate(frame, ["a", "b"], 3, blocking=["town"], refine="thorough")
    masked = microaggregate(frame, ["a", "b"], 3, blocking=["town"], refine="thorough", progress=heard.append)
    assert {(one.block, one.records) for one in heard} == {(0, 100), (1, 100)}
    assert masked.groups.tolist() == plain.groups.tolist()

    def enough(_: Headway) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        partition(X, 3, "search", steps=300, progress=enough)


def test_a_release_says_which_block_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [people(900)]
    changes: dict[str, Any] = {"refine": "thorough", "blocks": {"max_records": 300}}
    run_stages(start(write_release(tmp_path / "silent", tables, **changes)))
    monkeypatch.setattr("microagg_flows.executors.listening", partial(listening, every=0.0))
    monkeypatch.setattr("microagg_flows.progress._LINE_EVERY_SECONDS", 0.0)
    lines = io.StringIO()
    path = write_release(tmp_path / "told", tables, **changes)
    run_stages(new_release(load_spec(str(path)), InProcess(Lines(lines)), None, False, NOW))
    said = [line for line in lines.getvalue().splitlines() if "the best groups so far lose" in line]
    assert said and all(line.startswith("anonymize: ") and ", block " in line for line in said)
    assert data_digests(tmp_path / "told" / "output") == data_digests(tmp_path / "silent" / "output")


def slow_block(number: int) -> int:
    """A task that takes a little longer than a listener waits."""
    with working_on(9, number):
        way = Progress("annealing", np.arange(9.0)[:, None])
        for i in range(6):
            time.sleep(headway.TELL_EVERY_SECONDS / 4.5)
            way.report(6.0, share=i / 6)
    return number


@pytest.mark.server
def test_workers_tell_where_their_blocks_stand(tmp_path: Path) -> None:
    heard: list[Headway] = []

    class Hearing(Silence):
        def tell(self, headway: Headway) -> None:
            heard.append(headway)

    spec = load_spec(str(write_release(tmp_path, [people(500)])))
    with connect(LocalCluster(workers=1, memory="700MiB"), spec, Hearing()) as executor:
        assert executor.map(slow_block, [7], "anonymize") == [7]
        time.sleep(0.5)
        assert executor.map(abs, [-1], "abs") == [1]
    (one,) = heard
    assert (one.doing, one.records, one.block, one.loss) == ("annealing", 9, 7, pytest.approx(10.0))
