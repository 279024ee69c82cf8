"""Runs that are interrupted, repeated, replaced, or whose input changes meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command_line import AGAIN, NOISE, Ended, Project, after_stage, start_command

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


# --- interrupted ---------------------------------------------------------------------------------------------


def interrupt(project: Project, at: Held, number: signal.Signals) -> Ended:
    """Start the command, and send the signal to its process group, as a terminal does, while a worker does a task."""
    process = start_command("run", "release.yaml", "--direct", cwd=project.folder, env=at.environment)
    try:
        at.begins()
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=120)
    finally:
        at.let_go()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Ended(process.returncode, out, err)


LARGE: dict[str, Any] = {"blocks": {"max_records": 2_000}}


@pytest.fixture(scope="module")
def large() -> pa.Table:
    """Records of several blocks in several partitions."""
    return people(6_000)


@pytest.fixture(scope="module")
def undisturbed(large: pa.Table, dask_cluster: DaskCluster, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The checksums that an uninterrupted run ends with."""
    project = Project(tmp_path_factory.mktemp("whole"), {"address": dask_cluster.address})
    project.write(large)
    project.write_spec(ROLES, **LARGE)
    ended = project.command("run", "release.yaml", "--direct", "--quiet")
    assert ended.code == 0, ended.err
    return project.data_checksums()


@pytest.mark.parametrize(
    ("at", "number", "own_cluster"),
    [
        (ANONYMIZE, signal.SIGINT, True),
        *(
            pytest.param(*case, marks=pytest.mark.soak("other signals, other steps"))
            for case in (
                (SURVEY, signal.SIGINT, False),
                (SCATTER, signal.SIGTERM, False),
                (ANONYMIZE, signal.SIGINT, False),
                (ANONYMIZE, signal.SIGTERM, True),
            )
        ),
    ],
)
def test_an_interrupted_run_publishes_nothing_and_goes_on_later(
    at: str, number: signal.Signals, own_cluster: bool, project: Project, large: pa.Table, undisturbed: list[str]
) -> None:
    project.write(large)
    held = Held(project.folder / "held", at)
    with ExitStack() as stack:
        project.cluster = {"local": {"workers": 2, "threads": 1, "memory": "2GiB"}}
        if not own_cluster:
            folder = project.folder / "dask"
            folder.mkdir()
            project.cluster = {"address": stack.enter_context(running_cluster(folder, held.environment)).address}
        project.write_spec(ROLES, **LARGE)
        interrupted = interrupt(project, held, number)
        assert_interrupted(project, interrupted)
        again = project.command("run", "release.yaml", "--direct", "--quiet")
    assert (again.code, again.err) == (0, "")
    assert project.data_checksums() == undisturbed
    assert not list((project.work / "runs").glob("*"))


def assert_interrupted(project: Project, interrupted: Ended) -> None:
    """One sentence, no noise, and nothing is out."""
    assert interrupted.code == 130, interrupted.err
    assert interrupted.err.splitlines()[-1].startswith("microagg: interrupted; ")
    for word in NOISE:
        assert word not in interrupted.err
    assert interrupted.out == ""
    project.assert_nothing_published()


# --- repeated and replaced -----------------------------------------------------------------------------------


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_release_again_is_already_released(project: Project) -> None:
    project.write(people(300))
    project.write_spec(ROLES)
    first = project.command("run", "release.yaml", "--direct", "--json", "--quiet").document()
    before = snapshot(project.output)
    again = project.command("run", "release.yaml", "--direct", "--json", "--quiet")
    assert again.code == 0
    document = again.document()
    assert (first["status"], document["status"]) == ("released", "already released")
    assert [stage["name"] for stage in document["stages"]] == ["survey", "report"]
    assert snapshot(project.output) == before
    assert project.command("run", "release.yaml", "--direct", "--replace").code == 0
    assert snapshot(project.output) == before
    # The cluster and the id do not make another release of the same data.
    project.write_spec(ROLES, cluster={"local": {"workers": 1, "memory": "2GiB"}})
    assert project.release()["status"] == "already released"


@pytest.mark.parametrize("change", ["data", "spec"])
def test_another_release_of_the_same_id_is_refused_without_replace(change: str, project: Project) -> None:
    project.write(people(300))
    project.write_spec(ROLES, **AGAIN)
    project.release()
    before = snapshot(project.output)
    if change == "data":
        project.write(people(300, seed=1))
    else:
        project.write_spec(ROLES, k=4, **AGAIN)
    refused = project.command("run", "release.yaml", "--direct")
    refused.assert_refused(5, "release one is already published", "--replace")
    assert snapshot(project.output) == before
    assert project.call("plan", "release.yaml", "--quiet").code == 0
    replaced = project.release("--replace")
    assert replaced["revision"] == "r0002" and "r0001 stays readable" in replaced["warnings"][0]
    after = snapshot(project.output)
    assert {name: after[name] for name in before if name != "latest.json"} == {
        name: before[name] for name in before if name != "latest.json"
    }
    assert json.loads(after["latest.json"])["revision"] == "r0002"
    assert project.call("verify", "release").code == 0
    assert project.call("verify", "release/one/r0001").code == 0
    assert project.release("--id", "two")["id"] == "two"


@pytest.mark.parametrize("unit", ["row", ["who"]])
def test_a_second_release_of_the_same_people_is_refused(unit: Any, project: Project) -> None:
    """As another id or revision, of other data or another spec: in a sentence that says what to write."""
    project.write(people(300))
    project.write_spec(ROLES, unit=unit)
    project.release()
    before = snapshot(project.output)
    how_many = "was made before" if unit == "row" else "300 of 300 units were released before"
    for others, arguments in (({}, ["--id", "two"]), ({"k": 4}, ["--replace"]), ({"k": 4}, ["--id", "two"])):
        project.write_spec(ROLES, unit=unit, **others)
        refused = project.call("run", "release.yaml", "--direct", *arguments)
        refused.assert_refused(4, how_many, "series: {mode: independent, acknowledge: overlapping_releases}")
    assert snapshot(project.output) == before
    project.write_spec(ROLES, unit=unit, k=4, **AGAIN)
    assert project.release("--replace")["revision"] == "r0002"
    smallest = project.manifest()["series"]["smallest_trace"]
    assert smallest is None if unit == "row" else smallest >= 1


def test_a_release_whose_audit_is_gone_is_recognised_by_its_bytes(project: Project) -> None:
    project.write(people(300))
    project.write_spec(ROLES)
    project.release()
    before = snapshot(project.output)
    for path in (project.work / "audit").rglob("*.json"):
        path.unlink()
    assert project.release()["status"] == "already released"
    assert snapshot(project.output) == before


@pytest.mark.soak("two that race for one id do the same and more")
def test_the_same_release_three_times_at_once(project: Project) -> None:
    """They share the work, publish one release, and each of them ends well."""
    project.write(people(3000))
    project.write_spec(ROLES)
    running = [start_command("run", "release.yaml", "--direct", "--json", "--quiet", cwd=project.folder) for _ in "abc"]
    ended = [(process.communicate(timeout=120), process.returncode) for process in running]
    assert [(err, code) for (_, err), code in ended] == [("", 0)] * 3
    assert {json.loads(out)["revision"] for (out, _), _ in ended} == {"r0001"}
    assert project.call("verify", "release").code == 0
    assert len(list(project.output.rglob("*.parquet"))) == 1
    assert not list((project.work / "runs").glob("*"))


def test_two_releases_that_race_for_one_id(project: Project) -> None:
    """One wins; the other says so, and leaves nothing of its own behind."""
    project.write(people(3000), "a.parquet")
    project.write(people(3000, seed=1), "b.parquet")
    for name in ("a", "b"):
        spec = project.write_spec(ROLES, input={"url": f"{name}.parquet"})
        spec.rename(project.folder / f"{name}.yaml")
    running = [start_command("run", f"{name}.yaml", "--direct", "--quiet", cwd=project.folder) for name in "ab"]
    ended = [Ended(process.wait(120), *process.communicate()) for process in running]
    assert sorted(one.code for one in ended) == [0, 5]
    next(one for one in ended if one.code == 5).assert_refused(5, "use --replace")
    assert project.call("verify", "release").code == 0
    assert len(list(project.output.rglob("*.parquet"))) == 1


# --- input that changes, work that is damaged ----------------------------------------------------------------


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


@pytest.mark.parametrize("stage", ["survey", "plan"])
def test_input_that_goes_away_meanwhile_stops_the_run(
    stage: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project.write(people(300))
    project.write_spec(ROLES)
    after_stage(monkeypatch, stage, lambda _: path.unlink())
    project.call("run", "release.yaml", "--direct").assert_refused(5, "people.parquet")
    project.assert_nothing_published()


def flip(path: Path) -> None:
    """Change a byte in the middle, leaving size and time as they are."""
    times = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


READ_BEFORE = {
    "anonymize/anonymized-00000.slices",
    "context/context-*.json",
    "routes/routes-*.slices",
    "survey-result/survey-result-*.json",
}


@pytest.mark.parametrize(
    ("stage", "damaged"),
    [
        ("scatter", "scatter/*.slices"),
        ("anonymize", "anonymize/anonymized-00000.slices"),
        ("anonymize", "assemble/candidate-*.bytes"),
        ("anonymize", "assemble/origins-*.arrows"),
        ("validate", "assemble/candidate-*.bytes"),
        ("plan", "routes/routes-*.slices"),
        ("plan", "context/context-*.json"),
        ("survey", "survey-result/survey-result-*.json"),
    ],
)
def test_damage_in_the_work_area_is_made_good(
    stage: str, damaged: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(people(900))
    project.write_spec(ROLES)
    project.release()
    expected = project.data_checksums()
    shutil.rmtree(project.output)
    hit: list[Path] = []

    def damage(_: Any) -> None:
        if not hit:
            hit.extend((project.work / "runs").glob(f"*/{damaged}"))
            for path in hit:
                flip(path)

    after_stage(monkeypatch, stage, damage)
    ended = project.call("run", "release.yaml", "--direct")
    assert hit
    assert ended.code == 0, ended.err
    # What this process read whole before is not read again.
    assert "made again" in ended.err or damaged in READ_BEFORE, ended.err
    assert project.data_checksums() == expected
    assert not list((project.work / "runs").glob("*"))


# --- storage that is not there -------------------------------------------------------------------------------


@pytest.mark.server
def test_buckets_and_credentials(project: Project, s3_bucket: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(people(300))
    options = s3_bucket.storage_options
    nowhere = {"url": "s3://no-such-bucket-here/people.parquet", "storage_options": options}
    project.write_spec(ROLES, input=nowhere)
    project.command("run", "release.yaml", "--direct").assert_refused(5, "s3://no-such-bucket-here")
    project.write_spec(ROLES, output={"url": "s3://no-such-bucket-here/release", "storage_options": options})
    project.command("run", "release.yaml", "--direct").assert_refused(5, "s3://no-such-bucket-here")
    project.write_spec(ROLES, input={"url": f"{s3_bucket.url}/nothing.parquet", "storage_options": options})
    project.command("run", "release.yaml", "--direct").assert_refused(5, "nothing.parquet")
    bucket = {"url": f"{s3_bucket.url}/release", "storage_options": options}
    project.write_spec(ROLES, output=bucket)
    project.command("run", "release.yaml", "--direct").assert_refused(5, "worker 1 ", "give them to every worker")
    project.write_spec(ROLES, output=bucket, cluster="none")
    wrong = {"AWS_SECRET_ACCESS_KEY": "wrong", "AWS_ACCESS_KEY_ID": "nobody"}
    project.command("run", "release.yaml", "--direct", env=wrong).assert_refused(5, "the store refused the credentials")
