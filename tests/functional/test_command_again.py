"""Runs that are interrupted, repeated, replaced, or whose input changes meanwhile."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from command_line import AGAIN, NOISE, Ended, Project, after_stage, leave, start_command

from servers.dask_processes import DaskCluster, running_cluster
from servers.s3_server import Place
from trouble.holding import ANONYMIZE, SCATTER, SURVEY, Held

ROLES = {"identifiers": ["who"], "quasi_identifiers": ["x", "y"], "blocking": ["place"], "confidential": ["code"]}


def people(n: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "who": [f"P{i}" for i in range(n)],
            "x": rng.integers(0, 1000, n),
            "y": rng.normal(size=n),
            "place": [f"p{v}" for v in rng.integers(0, 3, n)],
            "code": [f"{v:02d}" for v in rng.integers(0, 20, n)],
        }
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, "none")


# --- interrupted ---

LARGE: dict[str, Any] = {"blocks": {"max_records": 500}}


@pytest.mark.parametrize(
    ("at", "number", "own_cluster"),
    [
        (ANONYMIZE, signal.SIGTERM, True),
        *(
            pytest.param(*case, marks=pytest.mark.soak("other signals, other steps"))
            for case in (
                (SURVEY, signal.SIGINT, False),
                (SCATTER, signal.SIGTERM, False),
                (ANONYMIZE, signal.SIGINT, False),
                (ANONYMIZE, signal.SIGINT, True),
            )
        ),
    ],
)
def test_an_interrupted_run_publishes_nothing_and_goes_on_later(
    at: str, number: signal.Signals, own_cluster: bool, project: Project
) -> None:
    """The signal comes three times, to the process group as a terminal sends it; later ones change nothing."""
    held, temporary, whole = Held(project.folder / "held", at), project.folder / "temporary", project.folder / "whole"
    temporary.mkdir()
    whole.mkdir()
    undisturbed = Project(whole, "none")
    for of in (project, undisturbed):
        of.write(people(1500))
    undisturbed.write_spec(ROLES, **LARGE)
    undisturbed.release()
    with ExitStack() as stack:
        project.cluster = {"local": {"workers": 1, "threads": 1, "memory": "1GiB"}}
        if not own_cluster:
            (folder := project.folder / "dask").mkdir()
            project.cluster = {"address": stack.enter_context(running_cluster(folder, held.environment)).address}
        project.write_spec(ROLES, **LARGE)
        environment = {"TMPDIR": str(temporary), **held.environment}
        process = start_command("run", "release.yaml", "--direct", cwd=project.folder, env=environment)
        held.begins()
        children = psutil.Process(process.pid).children(recursive=True)
        for _ in range(3):
            os.killpg(process.pid, number)
            time.sleep(0.1)
        interrupted = leave(process)
        held.let_go()
    assert (interrupted.code, interrupted.out) == (130, ""), interrupted.err
    assert interrupted.err.splitlines()[-1] == (
        "microagg: interrupted; what is finished is kept, and the same command goes on from there"
    )
    assert [word for word in NOISE if word in interrupted.err] == []
    project.assert_nothing_published()
    assert (children or not own_cluster) and psutil.wait_procs(children, timeout=60)[1] == []
    assert list(temporary.iterdir()) == []
    project.cluster = "none"
    project.write_spec(ROLES, **LARGE)
    project.release()
    assert project.data_checksums() == undisturbed.data_checksums()
    assert not list((project.work / "runs").glob("*"))


# --- repeated and replaced ---


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_release_again_and_another_of_the_same_id(project: Project) -> None:
    """The same is there already; another is refused without --replace, and its id does not change its bytes."""
    project.write(people(300))
    project.write_spec(ROLES, **AGAIN)
    assert project.release()["status"] == "released"
    before = snapshot(project.output)
    for arguments in ((), ("--replace",)):
        again = project.release(*arguments)
        assert again["status"] == "already released"
        assert [stage["name"] for stage in again["stages"]] == ["survey", "report"]
    project.write_spec(ROLES, k=4, **AGAIN)
    refused = project.call("run", "release.yaml", "--direct")
    refused.assert_refused(5, "release one is already published", "--replace")
    assert snapshot(project.output) == before
    assert project.call("plan", "release.yaml", "--quiet").code == 0
    replaced = project.release("--replace")
    assert replaced["revision"] == "r0002" and "r0001 stays readable" in replaced["warnings"][0]
    after = snapshot(project.output)
    assert json.loads(after["latest.json"])["revision"] == "r0002"
    assert {name for name in before if before[name] != after[name]} == {"latest.json"}
    assert project.call("verify", "release").code == project.call("verify", "release/one/r0001").code == 0
    checksums = project.data_checksums()
    assert project.release("--id", "two")["id"] == "two" and project.data_checksums() == checksums


def test_two_releases_that_race_for_one_id(project: Project) -> None:
    """One wins; the other says so, and leaves nothing of its own behind."""
    project.write(people(3000), "a.parquet")
    project.write(people(3000, seed=1), "b.parquet")
    for name in ("a", "b"):
        spec = project.write_spec(ROLES, input={"url": f"{name}.parquet"})
        spec.rename(project.folder / f"{name}.yaml")
    running = [start_command("run", f"{name}.yaml", "--direct", "--quiet", cwd=project.folder) for name in "ab"]
    ended = [Ended(process.wait(120), *process.communicate()) for process in running]
    assert sorted(end.code for end in ended) == [0, 5]
    (refused,) = (end for end in ended if end.code == 5)
    refused.assert_refused(5)
    # Whether the other's night or its release is met first is a matter of moments.
    assert "committed meanwhile" in refused.err or "use --replace" in refused.err
    assert project.call("verify", "release").code == 0
    assert len(list(project.output.rglob("*.parquet"))) == 1


# --- input that changes, work that is damaged ---


@pytest.mark.parametrize("stage", ["survey", "plan"])
def test_input_that_changes_meanwhile_stops_the_run(
    stage: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same people, one of them a year older; in a file of the same size."""
    table = people(300)
    path = project.write(table, compression="none", use_dictionary=False)
    changed = table.set_column(1, "x", pa.array([table["x"][0].as_py() ^ 1, *table["x"].to_pylist()[1:]]))
    size = path.stat().st_size
    project.write_spec(ROLES)
    after_stage(monkeypatch, stage, lambda _: project.write(changed, compression="none", use_dictionary=False))
    refused = project.call("run", "release.yaml", "--direct")
    assert path.stat().st_size == size
    refused.assert_refused(3, "people.parquet changed while the release was made")
    project.assert_nothing_published()
    monkeypatch.undo()
    assert project.release()["status"] == "released"


def test_input_that_changes_once_it_is_scattered_changes_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was surveyed is released; of the file as it is by then, the next run finds that it is another."""
    table = people(300)
    project.write(table)
    project.write_spec(ROLES)
    codes = table["code"].to_pylist()
    other = pa.array([next(code for code in codes if code != codes[0]), *codes[1:]], table["code"].type)
    changed = table.set_column(table.column_names.index("code"), "code", other)
    after_stage(monkeypatch, "scatter", lambda _: project.write(changed))
    assert project.release()["status"] == "released"
    assert sorted(project.released()["code"].to_pylist()) == sorted(codes)
    monkeypatch.undo()
    project.call("run", "release.yaml", "--direct").assert_refused(5, "use --replace")


def test_input_that_goes_away_meanwhile_stops_the_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project.write(people(300))
    project.write_spec(ROLES)
    after_stage(monkeypatch, "plan", lambda _: path.unlink())
    project.call("run", "release.yaml", "--direct").assert_refused(5, "people.parquet")
    project.assert_nothing_published()


def test_damage_in_the_work_area_is_made_good(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all files, at all times: tests/integration/test_damaged_work.py."""
    project.write(people(300))
    project.write_spec(ROLES)

    hit: list[Path] = []

    def damage(_: Any) -> None:
        if not hit:
            hit.extend((project.work / "runs").glob("*/*/assemble/candidate-*.bytes"))
            hit[0].write_bytes(hit[0].read_bytes()[:-1] + b"?")

    after_stage(monkeypatch, "anonymize", damage)
    ended = project.call("run", "release.yaml", "--direct")
    assert ended.code == 0, ended.err
    assert "1 pieces of work were damaged or gone; they are made again" in ended.err
    assert project.call("verify", "release").code == 0


# --- storage that is not there ---


@pytest.mark.server
def test_buckets_and_credentials(dask_cluster: DaskCluster, project: Project, s3_bucket: Place) -> None:
    """The cluster's workers have no credentials, whatever ran before."""
    project.write(people(300))
    options = s3_bucket.storage_options

    def refused(*words: str, env: dict[str, str] | None = None, **places: Any) -> None:
        project.write_spec(ROLES, **places)
        project.command("run", "release.yaml", "--direct", env=env).assert_refused(5, *words)

    def at(url: str) -> dict[str, Any]:
        return {"url": url, "storage_options": options}

    refused("s3://no-such-bucket-here", input=at("s3://no-such-bucket-here/people.parquet"))
    refused("s3://no-such-bucket-here", output=at("s3://no-such-bucket-here/release"))
    bucket = at(f"{s3_bucket.url}/release")
    others = {"address": dask_cluster.address}
    refused("worker 1 ", "give them to every worker", output=bucket, cluster=others)
    wrong = {"AWS_SECRET_ACCESS_KEY": "wrong", "AWS_ACCESS_KEY_ID": "nobody"}
    refused("the store refused the credentials", output=bucket, env=wrong)
