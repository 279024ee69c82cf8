"""Real schedulers and worker processes: workers that are killed, too little memory, nobody there."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client, get_worker
from distributed.core import Status

from inputs.people import people
from microagg_core.blocks.memory import bytes_per_task
from microagg_core.errors import ClusterError, DataError, StorageError, TransientClusterError
from microagg_core.spec.clusters import Adapt, LocalCluster, NoCluster, RunningCluster, Tls
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters import connect, pool, scheduler, watch, worker_records
from microagg_flows.executors import InProcess
from microagg_flows.progress import Silence
from microagg_flows.release import new_release
from microagg_flows.stages import run_until
from releasing.runs import NOW, data_digests, run_stages, start, write_release
from servers.certificates import write_certificates
from servers.dask_processes import DaskCluster, growing_cluster, without_package
from servers.process import wait_until

pytestmark = pytest.mark.server

CHANGES: dict[str, Any] = {"blocks": {"max_records": 400}}


def worker_processes() -> list[int]:
    """Worker processes that this test's cluster started (not the ones that watch over them)."""
    children = psutil.Process().children(recursive=True)
    return [p.pid for p in children if any("spawn_main" in part for part in p.cmdline())]


def some_spec(folder: Path) -> ReleaseSpec:
    return load_spec(str(write_release(folder, [people(2000)])))


@pytest.mark.slow(reason="waits for workers that come back")
def test_killed_workers_cost_time_and_nothing_else(tmp_path: Path) -> None:
    """A worker is killed in every stage that has tasks; the bytes are those of an undisturbed run."""
    tables = [people(4_000, first=i * 4_000) for i in range(4)]
    run_stages(start(write_release(tmp_path / "calm", tables, **CHANGES)))
    path = write_release(tmp_path / "storm", tables, **CHANGES)
    killed: list[str] = []

    class Killing(Silence):
        """Kills a worker as soon as a stage's first task is done."""

        def start(self, what: str, total: int) -> None:
            self.what = what

        def advance(self) -> None:
            if self.what not in killed and self.what in ("survey", "scatter", "anonymize", "assemble"):
                killed.append(self.what)
                os.kill(worker_processes()[-1], signal.SIGKILL)

    spec = load_spec(str(path))
    with connect(LocalCluster(workers=2, memory="1GiB"), spec, Killing()) as workers:
        run_until("report", new_release(spec, workers, None, False, NOW))
    assert killed == ["survey", "scatter", "anonymize", "assemble"]
    assert data_digests(tmp_path / "storm" / "output") == data_digests(tmp_path / "calm" / "output")


class Cramped(InProcess):
    """Workers that have next to nothing left for rows."""

    def memory_per_task(self) -> int | None:
        return 2**18


def test_too_little_memory_refuses_at_planning(tmp_path: Path) -> None:
    release = new_release(some_spec(tmp_path), Cramped(Silence()), None, False, NOW)
    with pytest.raises(ClusterError, match=r"a task needs about .* MiB for its rows, and each worker thread has 0 MiB"):
        run_until("report", release)
    assert not (tmp_path / "output").exists()
    assert not list((tmp_path / "work").rglob("scatter"))


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scheduler, "_CONNECT_SECONDS", 1)
    with (
        pytest.raises(ClusterError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"),
        connect(RunningCluster(address="tcp://127.0.0.1:9"), some_spec(tmp_path), Silence()),
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


@pytest.mark.soak("workers die, and come back, three times")
def test_map_keeps_order_and_stops_at_an_error(tmp_path: Path) -> None:
    with connect(LocalCluster(workers=2, memory="1GiB"), some_spec(tmp_path), Silence()) as workers:
        assert workers.map(_fail_on_three, [0, 1, 2, 4], "double") == [0, 2, 4, 8]
        with pytest.raises(DataError, match="three is refused"):
            workers.map(_fail_on_three, list(range(10)), "double")
        assert workers.map(_fail_on_three, [7], "double") == [14]
        with pytest.raises(ClusterError, match="every worker that tried it died"):
            workers.map(_die_on_three, [1, 2, 3], "die")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[DaskCluster]:
    """A scheduler that is given workers as a test goes on."""
    (tmp_path / "dask").mkdir()
    with growing_cluster(tmp_path / "dask") as cluster:
        yield cluster


def test_a_cluster_that_goes_away_is_transient(
    running: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # For so long a client tries to reach its scheduler again.
    monkeypatch.setattr(scheduler, "_CONNECT_SECONDS", 2)
    running.start_worker()
    with connect(RunningCluster(address=running.address), some_spec(tmp_path), Silence()) as visitor:
        begun = tmp_path / "begun"
        killing = threading.Thread(target=kill_scheduler_when, args=(begun, scheduler_pid(running.address)))
        killing.start()
        with pytest.raises(ClusterError) as stopped:
            visitor.map(sleep_after_touching, [str(begun)], "sleep")
        killing.join()
    assert isinstance(stopped.value, TransientClusterError)


def sleep_after_touching(path: str) -> None:
    Path(path).touch()
    time.sleep(60)


def kill_scheduler_when(begun: Path, scheduler: int) -> None:
    wait_until(begun.exists, "the task that the scheduler is lost from", 60)
    os.kill(scheduler, signal.SIGKILL)


def scheduler_pid(address: str) -> int:
    port = int(address.rpartition(":")[2])
    return next(c.pid for c in psutil.net_connections("tcp") if c.laddr.port == port and c.status == "LISTEN" and c.pid)


@pytest.mark.soak("workers come late")
def test_work_is_handed_out_before_the_first_worker_is_there_and_follows_the_pool(
    running: DaskCluster, tmp_path: Path
) -> None:
    class Late(Silence):
        def start(self, what: str, total: int) -> None:
            if not running.n_workers:
                running.start_worker()

    with connect(RunningCluster(address=running.address), some_spec(tmp_path), Late()) as executor:
        assert executor.memory_per_task() is None
        assert executor.map(abs, [-1, -2, -3], "abs") == [1, 2, 3]
        running.start_worker()
        wait_until(lambda: len(executor.look_around() or ()) == 2, "the second worker", 60)
        assert len(set(executor.map(whoever, list(range(40)), "who"))) == 2


def test_a_local_cluster_adapts_from_zero_has_the_spec_s_variables_and_lets_in_nobody_without_certificates(
    tmp_path: Path,
) -> None:
    cluster = LocalCluster(adapt=Adapt(minimum=0, maximum=2), memory="1GiB", environment={"PLACE": "here"})
    with connect(cluster, some_spec(tmp_path), Silence()) as executor:
        assert executor.look_around() == []
        assert executor.memory_per_task() == bytes_per_task(2**30, 0.8, 1), "of those that are to come"
        assert set(executor.map(place_of, list(range(5)), "place")) == {"here"}
        address = executor._client.scheduler.address
        assert address.startswith("tls://127.0.0.1")
        for stranger in (address, address.replace("tls://", "tcp://")):
            with pytest.raises((OSError, TypeError, RuntimeError)):
                Client(stranger, timeout=3, set_as_default=False)


def place_of(_item: int) -> str | None:
    return os.environ.get("PLACE")


def whoever(_item: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def test_without_a_worker_the_wait_ends_as_the_spec_says(
    running: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_LOOK_SECONDS", 0.2)
    with (
        connect(RunningCluster(address=running.address, wait=1), some_spec(tmp_path), Silence()) as executor,
        pytest.raises(ClusterError, match="because there is no worker; finished work is kept, so start workers"),
    ):
        executor.map(abs, [-1], "abs")


def await_worker(address: str, n_workers: int = 1) -> None:
    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(n_workers, timeout=60)


def test_a_scheduler_without_the_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dask").mkdir()
    with (
        growing_cluster(tmp_path / "dask", **without_package(tmp_path / "hidden")) as cluster,
        pytest.raises(ClusterError, match="the scheduler lacks the package microagg_core; install microagg there"),
        connect(RunningCluster(address=cluster.address), some_spec(tmp_path), Silence()),
    ):
        pass


@pytest.mark.soak("starts a cluster for one sentence")
def test_a_worker_that_cannot_reach_the_input_says_so(tmp_path: Path) -> None:
    spec = some_spec(tmp_path)
    for part in (tmp_path / "input").iterdir():
        part.unlink()
    with (
        pytest.raises(StorageError, match=r"worker \d \(.*\) cannot do the work: .*no file matches"),
        connect(LocalCluster(workers=2, memory="1GiB"), spec, Silence()),
    ):
        pass


def test_each_worker_has_a_record_before_it_is_given_work(running: DaskCluster, tmp_path: Path) -> None:
    """Those that are fit and those that are not, however their cluster is had; the first that is not is refused."""
    spec = some_spec(tmp_path)
    (here,) = worker_records(NoCluster(), spec, Silence())
    first, second = worker_records(LocalCluster(workers=2, memory="1GiB"), spec, Silence())
    assert (here.unfit, first.unfit, second.unfit) == (None, None, None)
    assert here.software == first.software == second.software
    assert (first.number, second.number, first.threads, first.memory_limit) == (1, 2, 1, 2**30)
    assert set(first.versions) == {"python", "dask", "distributed", "cloudpickle"}
    running.start_worker(**without_package(tmp_path / "hidden"))
    running.start_worker("--memory-limit", "300MiB")
    await_worker(running.address, 2)
    for part in (tmp_path / "input").iterdir():
        part.unlink()
    cluster = RunningCluster(address=running.address)
    records = worker_records(cluster, spec, Silence())
    said = " ".join(str(record.unfit) for record in records)
    assert "has 300 MiB, and Dask pauses it at 80% of that" in said
    assert "lacks the package microagg_core; install" in said
    (small,) = (record for record in records if record.memory_limit == 300 * 2**20)
    assert "no file matches" in small.access and small.kernels == ""
    with (
        pytest.raises(ClusterError, match=r"worker 1 \(tcp://.*\) (lacks the package|has 300 MiB)"),
        connect(cluster, spec, Silence()),
    ):
        pass


def hold_memory(mebibytes: int) -> None:
    """Fill a worker's memory up to here and keep it, as a heap that does not shrink does, until Dask pauses it.

    Dask looks every 100 ms: a task that came before it looked would still be done.
    """
    missing = mebibytes * 2**20 - psutil.Process().memory_info().rss
    _held.append(b"x" * missing)
    wait_until(lambda: get_worker().status is Status.paused, "Dask to pause this worker", 60)


_held: list[bytes] = []


@pytest.mark.soak("waits until workers are given up")
def test_workers_that_are_paused_for_good_are_started_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(watch, "IDLE_SECONDS", 10.0)
    lines: list[str] = []

    class Listening(Silence):
        def say(self, text: str) -> None:
            lines.append(text)
            if "started anew" in text:  # which takes a worker as long as the machine is busy
                monkeypatch.setattr(watch, "IDLE_SECONDS", 120.0)

    with connect(LocalCluster(workers=1, memory="700MiB"), some_spec(tmp_path), Listening()) as executor:
        executor.map(hold_memory, [610], "hold")
        assert executor.map(abs, [-1, -2], "abs") == [1, 2]
    assert any("every worker is paused by Dask for its memory" in line for line in lines), lines
    assert any("started anew" in line for line in lines)


def test_workers_of_others_that_stay_paused_end_the_release_with_the_cause(
    running: DaskCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    running.start_worker("--memory-limit", "600MiB")
    await_worker(running.address)
    with connect(RunningCluster(address=running.address), some_spec(tmp_path), Silence()) as executor:
        executor.map(hold_memory, [530], "hold")
        monkeypatch.setattr(watch, "IDLE_SECONDS", 2.0)
        monkeypatch.setattr(pool, "_LOOK_SECONDS", 0.2)
        with pytest.raises(ClusterError, match=r"paused by Dask for its memory \(\d+ MiB in use, .*80% of 600 MiB"):
            executor.map(abs, [-1], "abs")


def test_a_scheduler_behind_tls_takes_who_has_its_certificates_and_nobody_else(tmp_path: Path) -> None:
    right, wrong = write_certificates(tmp_path / "right"), write_certificates(tmp_path / "wrong")
    files = ["--tls-ca-file", right["ca"], "--tls-cert", right["cert"], "--tls-key", right["key"]]
    (tmp_path / "dask").mkdir()
    with growing_cluster(tmp_path / "dask", "--protocol", "tls", *files) as cluster:
        address = cluster.address
        assert address.startswith("tls://")
        cluster.start_worker("--protocol", "tls", *files)
        named = RunningCluster(address=address, tls=Tls(**right))
        with connect(named, some_spec(tmp_path), Silence()) as executor:
            assert executor.map(abs, [-1, -2], "abs") == [1, 2]
        with (
            pytest.raises(ClusterError, match=r"no Dask scheduler answers at tls://.* are of one authority"),
            connect(RunningCluster(address=address, tls=Tls(**wrong)), some_spec(tmp_path), Silence()),
        ):
            pass
        with (
            pytest.raises(ClusterError, match=r"asks for certificates and none are named; set cluster.tls"),
            connect(RunningCluster(address=address), some_spec(tmp_path), Silence()),
        ):
            pass
        missing = Tls(**{**right, "key": str(tmp_path / "nowhere.pem")})
        with (
            pytest.raises(ClusterError, match=r"the certificates that cluster.tls names cannot be read"),
            connect(RunningCluster(address=address, tls=missing), some_spec(tmp_path), Silence()),
        ):
            pass
