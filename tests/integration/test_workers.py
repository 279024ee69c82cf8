"""Real schedulers and worker processes: workers that are killed, too little memory, nobody there."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.cluster import Workers, connect
from flows.progress import Silence
from flows.stages import new_release, run_until
from microagg_core.errors import ClusterError, DataError
from microagg_core.loading import load_spec
from microagg_core.spec import LocalCluster, RunningCluster
from people import people
from releases import NOW, data_digests, run_stages, start, write_release

pytestmark = pytest.mark.server

CHANGES: dict[str, Any] = {"blocks": {"max_records": 400}}


def worker_processes() -> list[int]:
    """Worker processes that this test's cluster started (not the ones that watch over them)."""
    children = psutil.Process().children(recursive=True)
    return [p.pid for p in children if any("spawn_main" in part for part in p.cmdline())]


def test_killed_workers_cost_time_and_nothing_else(tmp_path: Path) -> None:
    """A worker is killed in every stage that has tasks; the bytes are those of an undisturbed run."""
    tables = [people(20_000, first=i * 20_000) for i in range(4)]
    run_stages(start(write_release(tmp_path / "calm", tables, **CHANGES)))
    path = write_release(tmp_path / "storm", tables, **CHANGES)
    killed: list[str] = []

    class Killing(Silence):
        """Kills a worker as soon as a stage's first task is done."""

        def start(self, what: str, total: int) -> None:
            self.what = what

        def advance(self) -> None:
            if self.what not in killed and self.what in ("survey", "scatter", "gather", "anonymize", "check-input"):
                killed.append(self.what)
                os.kill(worker_processes()[-1], signal.SIGKILL)

    with connect(LocalCluster(workers=2, memory="1GiB"), Killing()) as workers:
        run_until("report", new_release(load_spec(str(path)), workers, None, False, NOW))
    assert killed == ["survey", "scatter", "gather", "anonymize", "check-input"]
    assert data_digests(tmp_path / "storm" / "output") == data_digests(tmp_path / "calm" / "output")


def test_too_little_memory_refuses_at_planning(tmp_path: Path) -> None:
    path = write_release(tmp_path, [people(2000)], cluster={"local": {"workers": 1, "memory": "300MiB"}})
    spec = load_spec(str(path))
    with connect(spec.cluster, Silence()) as workers:
        release = new_release(spec, workers, None, False, NOW)
        with pytest.raises(ClusterError, match=r"a task needs about .* MiB and each worker thread has 300 MiB"):
            run_until("report", release)
    assert not (tmp_path / "output").exists()
    assert not list((tmp_path / "work").rglob("staged"))


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.cluster._CONNECT_SECONDS", 3)
    with (
        pytest.raises(ClusterError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"),
        connect(RunningCluster(address="tcp://127.0.0.1:9"), Silence()),
    ):
        pass


def _fail_on_three(item: int) -> int:
    if item == 3:
        raise DataError("three is refused")
    time.sleep(0.05)
    return item * 2


def _die_on_three(item: int) -> int:
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_map_keeps_order_and_stops_at_an_error() -> None:
    with connect(LocalCluster(workers=2, memory="1GiB"), Silence()) as workers:
        assert workers.map(_fail_on_three, [0, 1, 2, 4], "double") == [0, 2, 4, 8]
        with pytest.raises(DataError, match="three is refused"):
            workers.map(_fail_on_three, list(range(10)), "double")
        assert workers.map(_fail_on_three, [7], "double") == [14]
        with pytest.raises(ClusterError, match="every worker that tried it died"):
            workers.map(_die_on_three, [1, 2, 3], "die")


def test_a_cluster_that_goes_away_is_transient() -> None:
    with connect(LocalCluster(workers=1, memory="1GiB"), Silence()) as own:
        address = own._client.scheduler.address

        def slowly(workers: Workers) -> None:
            workers.map(time.sleep, [60.0], "sleep")

        with connect(RunningCluster(address=address), Silence()) as visitor:
            threading.Timer(2.0, lambda: own._client.cluster.close()).start()
            with pytest.raises(ClusterError) as stopped:
                slowly(visitor)
    assert stopped.value.transient
