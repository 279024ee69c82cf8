"""Workers that are jobs of Slurm, one of the tests' own on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inputs.people import people
from microagg_core.errors import ClusterError
from microagg_core.spec.clusters import Slurm, SlurmCluster
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters import connect, worker_records
from microagg_flows.progress import Silence
from releasing.runs import data_digests, run_stages, start, write_release
from servers.process import end_with_the_tests, wait_until
from servers.slurm_server import SlurmServer, running_slurm

pytestmark = [pytest.mark.server, pytest.mark.slow(reason="Slurm takes its time to start and to end jobs")]

COMMAND = "import sys; from microagg_flows.command import main; sys.argv[0] = 'microagg'; main()"


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmServer]:
    with running_slurm() as server:
        yield server


def cluster_of(**others: Any) -> SlurmCluster:
    """Jobs that reach this process over the loopback interface, and find Python's modules as it does."""
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **others.pop("environment", {})}
    parts = {"queue": "night", "host": "127.0.0.1", "memory": "1GiB", "wait": 60, **others}
    return SlurmCluster(slurm=Slurm(environment=environment, **parts))


def some_spec(folder: Path) -> ReleaseSpec:
    return load_spec(str(write_release(folder, [people(2000)])))


def job_and_place(_item: int) -> tuple[str, str]:
    time.sleep(0.1)
    return os.environ["SLURM_JOB_ID"], os.environ.get("PLACE", "")


def test_microagg_run_adapts_from_zero_and_makes_the_release_that_any_other_cluster_makes(
    slurm: SlurmServer, tmp_path: Path
) -> None:
    tables = [people(2000, first=i * 2000) for i in range(3)]
    changes: dict[str, Any] = {"blocks": {"max_records": 400}, "id": "2026-11-18"}
    adapting = cluster_of(adapt={"minimum": 0, "maximum": 3}).model_dump(mode="json", exclude_none=True)
    path = write_release(tmp_path / "slurm", tables, cluster=adapting, **changes)
    command = [sys.executable, "-c", COMMAND, "run", str(path), "--direct", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["id"] == "2026-11-18"
    run_stages(start(write_release(tmp_path / "alone", tables, **changes)))
    assert data_digests(tmp_path / "slurm" / "output") == data_digests(tmp_path / "alone" / "output")
    wait_until(lambda: slurm.jobs() == [], "the jobs to end", 30)
    assert slurm.told("squeue", "--noheader", "--states=all", "--format=%j").split().count("microagg") >= 1


def test_each_worker_is_a_job_and_one_that_is_cancelled_is_replaced(slurm: SlurmServer, tmp_path: Path) -> None:
    cluster = cluster_of(workers=2, environment={"PLACE": "a 'node'"})
    with connect(cluster, some_spec(tmp_path), Silence()) as executor:
        wait_until(lambda: len(executor.look_around() or ()) == 2, "both workers", 60)  # type: ignore[attr-defined]
        before = {job for job, _ in executor.map(job_and_place, list(range(20)), "who")}
        assert before == set(slurm.jobs()) and len(before) == 2
        slurm.told("scancel", min(before))
        wait_until(lambda: len(set(slurm.jobs()) - before) >= 1, "another job in its place", 60)
        done = executor.map(job_and_place, list(range(30)), "who")
        assert len(done) == 30 and {place for _, place in done} == {"a 'node'"}
    wait_until(lambda: slurm.jobs() == [], "the jobs to end", 30)


def test_each_job_has_a_record(slurm: SlurmServer, tmp_path: Path) -> None:
    cluster = cluster_of(adapt={"maximum": 2})
    (record,) = worker_records(cluster, some_spec(tmp_path), Silence())
    assert record.unfit is None and (record.threads, record.memory_limit) == (1, 2**30)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_no_job_outlives_a_run_that_is_interrupted_or_killed(
    slurm: SlurmServer, tmp_path: Path, number: int, code: int
) -> None:
    tables = [people(2000)]
    # Long enough to be struck: the refinement of each block is given its time.
    changes: dict[str, Any] = {"refine": {"seconds": 60}, "reproducible": False, "id": "2026-11-18"}
    cluster = cluster_of(workers=1).model_dump(mode="json", exclude_none=True)
    path = write_release(tmp_path, tables, cluster=cluster, **changes)
    command = [sys.executable, "-c", COMMAND, "run", str(path), "--direct"]
    with (tmp_path / "run.log").open("wb") as log:
        run = subprocess.Popen(command, stderr=log, start_new_session=True, preexec_fn=end_with_the_tests)
    wait_until(lambda: "anonymize" in (tmp_path / "run.log").read_text(), "the blocks", 120)
    assert len(slurm.jobs()) == 1
    run.send_signal(number)
    assert run.wait(90) == code, (tmp_path / "run.log").read_text()
    wait_until(lambda: slurm.jobs() == [], "the job to end", 90)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"queue": "nowhere"}, r"no worker comes, because Slurm takes no job \(.*Invalid partition"),
        ({"python": "/nowhere/python"}, "no worker comes, because Slurm's jobs end before their workers come; name a"),
    ],
)
def test_jobs_that_cannot_work_end_the_release_with_the_cause(
    slurm: SlurmServer, tmp_path: Path, parts: dict[str, Any], words: str
) -> None:
    started = time.monotonic()
    with (
        pytest.raises(ClusterError, match=words),
        connect(cluster_of(**{"wait": 600, **parts}), some_spec(tmp_path), Silence()) as executor,
    ):
        executor.map(abs, [-1], "abs")
    assert time.monotonic() - started < 200


def test_jobs_that_wait_for_room_end_the_release_when_the_spec_says(slurm: SlurmServer, tmp_path: Path) -> None:
    with (
        pytest.raises(
            ClusterError, match=r"there is no worker \(\d jobs of Slurm: pending .*\); .* so see to the queue"
        ),
        connect(cluster_of(cores=7, workers=1, wait=600), some_spec(tmp_path), Silence()) as first,
    ):
        first.map(job_and_place, [0], "who")
        with connect(cluster_of(cores=2, workers=2, wait=15), some_spec(tmp_path), Silence()) as executor:
            executor.map(abs, [-1], "abs")
