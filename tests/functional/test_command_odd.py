"""Inputs at the ends of their types, and pages that cannot be made: a release or one sentence, never a traceback."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest
from command_line import Project

from servers.dask_processes import growing_cluster

ROLES = {"quasi_identifiers": ["x", "t"], "confidential": ["code"]}
ARROW = {"output": {"url": "release", "format": "arrow"}, "input": {"url": "people.arrow"}}


def people(n: int = 60, **others: Any) -> dict[str, Any]:
    numbers = np.random.default_rng(1)
    return {"x": numbers.integers(0, 20, n), "code": numbers.choice(["c", "d"], n), **others}


@pytest.fixture
def project(tmp_path: Any) -> Project:
    return Project(tmp_path, "none")


@pytest.mark.parametrize(
    ("unit", "first"), [("s", 2**63 - 1), ("s", 11 - 2**63), ("ns", 2**63 - 1), ("ns", 11 - 2**63)]
)
def test_times_at_the_ends_of_64_bits_are_released(unit: str, first: int, project: Project) -> None:
    ticks = pa.array([first - i % 10 for i in range(600)], pa.int64())
    table = pa.table(people(600, t=ticks.view(pa.timestamp(unit))))
    pyarrow.feather.write_feather(table, project.folder / "people.arrow")
    project.write_spec(ROLES, **ARROW)
    ended = project.call("run", "release.yaml", "--direct", "--quiet")
    assert ended.code == 0, ended.err
    (part,) = project.parts()
    released = pyarrow.feather.read_table(part)["t"].cast(pa.int64()).to_pylist()
    assert sum(released) == pytest.approx(sum(ticks.to_pylist())) and min(ticks.to_pylist()) <= min(released)


def test_a_k_of_400_digits_is_checked(project: Project) -> None:
    project.write(pa.table(people(t=np.arange(60))))
    project.write_spec(ROLES)
    project.release()
    path = project.output / "one" / "r0001" / "manifest.json"
    path.write_text(path.read_text().replace('"k": 3', f'"k": {"9" * 400}'))
    assert "9" * 400 in path.read_text()
    ended = project.call("verify", "release")
    assert ended.code == 4 and "a bug" not in ended.err + ended.out
    assert project.call("verify", "release", "--k", "9" * 30).code == 4
    project.call("compare", "people.parquet", "--k", "9" * 5000).assert_refused(2, "--k")


def test_an_endpoint_that_is_no_url_is_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    project.write_spec(ROLES, input={"url": "s3://bucket/people.parquet"})
    project.call("plan", "release.yaml").assert_refused(5, "endpoint is no URL", "AWS_ENDPOINT_URL")


def test_a_worker_whose_work_area_is_another_folder_is_named(project: Project, tmp_path: Any) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "dask").mkdir()
    hidden = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(tmp_path / "work"))
    if subprocess.run([*hidden, "true"], check=False, capture_output=True).returncode:
        pytest.skip("mounts are for root")
    project.write(pa.table(people(t=np.arange(60))))
    with growing_cluster(tmp_path / "dask") as cluster:
        cluster.start_worker(before=hidden)
        project.write_spec(ROLES, cluster={"address": cluster.address})
        ended = project.command("run", "release.yaml", "--direct")
        ended.assert_refused(5, "worker 1 (tcp://", "another folder")
        examined = project.command("doctor", "release.yaml")
    assert len(ended.sentences()) == 1 and "made again" not in ended.err
    assert examined.code == 5 and "another folder" in examined.out
    assert not (tmp_path / "work" / "probes").exists() or not list((tmp_path / "work" / "probes").iterdir())


def test_labels_that_all_merge_are_told(project: Project) -> None:
    project.write(pa.table(people(t=np.arange(60), place=["A", "B", "C"] * 20)))
    roles = {**ROLES, "blocking": ["place"]}
    for k, is_told in ((40, True), (20, False)):
        project.write_spec(roles, k=k, output={"url": f"release{k}"}, work={"url": f"work{k}"})
        ended = project.call("run", "release.yaml", "--direct", "-q")
        assert ended.code == 0, ended.err
        assert ("all 3 blocking keys were merged into one" in " ".join(ended.out.split())) == is_told


def test_a_page_that_cannot_be_made_stops_no_release(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from microagg_core.release.pages import pages
    from microagg_core.release.steps import measuring

    def fail(*_: Any) -> Any:
        raise OverflowError("secret-77771")

    monkeypatch.setenv("MICROAGG_REPORT", "on")
    monkeypatch.setitem(pages._MAKERS, "ddi.xml", fail)
    monkeypatch.setattr(measuring, "combine_portrait", fail)
    project.write(pa.table(people(t=np.arange(60))))
    project.write_spec(ROLES)
    ended = project.call("run", "release.yaml", "--direct")
    assert ended.code == 0, ended.err
    assert "the release has no page ddi.xml: a bug" in ended.out
    assert "the operator's page has no pictures: a bug" in ended.out
    assert "secret" not in ended.out + ended.err
    there = {path.name for path in (project.output / "one" / "r0001").iterdir()}
    assert "README.html" in there and "ddi.xml" not in there
    assert "no pictures" in (project.work / "audit/one/r0001/report.html").read_text()
    assert project.call("verify", "release").code == 0
