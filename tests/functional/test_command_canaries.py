"""Values that nobody can mistake, planted in every column, must not be found where no value of a record belongs.

Searched are terminal output, logs of Dask's scheduler and workers at their most talkative, Prefect's database and
storage, the names of all files, what stays in the work area, outcomes and logs; after
successes, and after failures inside libraries.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from command_line import Ended, Project, after_stage
from planted import (
    CSV,
    NUMBERS,
    ROLES,
    TEXTS,
    N,
    Watched,
    assert_clean,
    assert_released_without_identifiers,
    canaries,
    files_below,
    holders,
    watched,
)

from covering import is_whole
from microagg_core.data.tables.slices import read_slice, write_slices
from microagg_core.release.planned import BLOCKS, PLAN
from microagg_core.release.steps.candidate import CANDIDATE
from releasing.runs import Release, forge
from servers.dask_processes import DaskCluster


@pytest.fixture
def place(tmp_path: Path, dask_cluster: DaskCluster) -> Iterator[Watched]:
    """A watched folder on the session's cluster, whose logs are searched in the end."""
    yield watched(tmp_path, {"address": dask_cluster.address})
    for name, text in dask_cluster.logs().items():
        assert_clean(name, text)


def test_the_search_finds_what_it_is_for(tmp_path: Path) -> None:
    pq.write_table(canaries(), tmp_path / "plain.parquet", compression="none", use_dictionary=False)
    pa.csv.write_csv(canaries(), tmp_path / "plain.csv")
    assert len(holders((tmp_path / "plain.csv").read_bytes())) >= len(TEXTS) + len(NUMBERS) + 1
    assert len(holders((tmp_path / "plain.parquet").read_bytes())) >= len(TEXTS) + len(NUMBERS) + 1
    with pytest.raises(AssertionError, match="a place"):
        assert_clean("a place", f"could not convert '{TEXTS['note']}'")


# --- through Prefect, on a cluster of its own ---

#: Logs of workers are searched without Prefect.
LOCAL = {"local": {"workers": 1, "threads": 1, "memory": "2GiB"}} if is_whole() else "none"


def _succeeds(project: Project) -> None:
    """With a ledger that knows everybody."""
    project.write(canaries())
    project.write_spec(ROLES, unit=["who"])


def _does_not_convert(project: Project) -> None:
    pa.csv.write_csv(canaries(), project.folder / "people.csv")
    line = [TEXTS["who"], NUMBERS["number"], TEXTS["left out"], TEXTS["town"], NUMBERS["code"], TEXTS["note"], 1, "z"]
    with (project.folder / "people.csv").open("a") as file:
        file.write(",".join(map(str, line)) + "\n")
    project.write_spec(ROLES, input=CSV)


@pytest.fixture(scope="module")
def through_prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A success and a failure, each with an embedded server of its own; they take long, so they run side by side."""

    def run(prepare: Callable[[Project], None]) -> tuple[Watched, Ended]:
        place = watched(tmp_path_factory.mktemp("prefect"), LOCAL)
        prepare(place.project)
        return place, place.run()

    with ThreadPoolExecutor(2) as pool:
        wanted = (_succeeds, _does_not_convert) if is_whole() else (_succeeds,)
        yield {prepare.__name__: pool.submit(run, prepare) for prepare in wanted}


@pytest.mark.slow(reason="starts Prefect's server and workers")
@pytest.mark.server
def test_a_success_through_prefect(through_prefect: dict[str, Any], tmp_path: Path, dask_cluster: DaskCluster) -> None:
    place, ended = through_prefect["_succeeds"].result()
    assert ended.code == 0, ended.err
    place.search(ended)
    assert files_below(place.prefect), "Prefect's database is somewhere else"
    database = b"".join(path.read_bytes() for path in files_below(place.prefect))
    assert b"checks passed" in database, "the report is not where it was looked for"
    for words in (b"records_certain", b"expected_correct", b"with certainty", b"stood alone"):
        assert words not in database, "risk is for the operator alone"
    assert_released_without_identifiers(place.project)
    assert {path.name for path in place.project.work.iterdir()} == {"audit", "series"}
    assert not files_below(place.prefect / "storage")
    direct = Project(tmp_path, {"address": dask_cluster.address})
    _succeeds(direct)
    direct.release()
    assert direct.data_checksums() == place.project.data_checksums()


@pytest.mark.soak("a failure without Prefect is searched in the same way")
@pytest.mark.slow(reason="starts Prefect's server and workers")
@pytest.mark.server
def test_a_failure_through_prefect(through_prefect: dict[str, Any]) -> None:
    place, ended = through_prefect["_does_not_convert"].result()
    assert ended.code == 3, ended.err
    assert ended.sentences() == [ended.sentences()[0]]
    assert "column 'x' holds a value that is not of its declared type int64" in ended.sentences()[0]
    place.search(ended)
    place.project.assert_nothing_published()
    database = b"".join(path.read_bytes() for path in files_below(place.prefect))
    assert b"exit 3 (data)" in database, "the failed state is not where it was looked for"


# --- without Prefect ---


def test_a_success_and_everything_that_is_said_about_it(place: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    project = place.project
    _succeeds(project)
    for command in (["plan", "release.yaml"], ["plan", "release.yaml", "--json"]):
        ended = project.command(*command, env=place.environment)
        assert ended.code == 0, ended.err
        place.search(ended)
    ended = place.run("--direct")
    assert ended.code == 0, ended.err
    place.search(ended)
    assert_released_without_identifiers(project)
    assert {path.name for path in project.work.iterdir()} == {"audit", "series"}
    assert {path.stat().st_mode & 0o777 for path in files_below(project.work)} == {0o600}
    assert {path.suffix for path in files_below(project.work / "series" / "people" / "data")} == {".arrows"}
    for path in (*(project.work / "audit").rglob("*.json"), project.folder / "told-results.json"):
        json.loads(path.read_text())
    assert len(list((project.work / "audit" / "runs").iterdir())) == 3
    assert len(list((project.work / "audit" / "lineage").iterdir())) == 2
    names = {"checks", "digests", "expected", "plan", "portrait", "risk", "run"}
    kept = {path.name for path in (project.work / "audit" / "one" / "r0001").iterdir()}
    assert kept == {f"{name}.json" for name in names} | {"report.html", "blocks.parquet", "risk-labels.parquet"}
    place.search(project.command("verify", "release", env=place.environment))
    place.search(project.command("init", "people.parquet", "-o", "starter.yaml", env=place.environment))
    assert_clean("starter.yaml", (project.folder / "starter.yaml").read_text())


def _damaged(project: Project) -> None:
    path = project.write(canaries(), compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)


def _not_utf8(project: Project) -> None:
    path = project.folder / "people.csv"
    pa.csv.write_csv(canaries(), path)
    path.write_bytes(path.read_bytes().replace(b"Wolverine", b"Wolverine\xe9"))


def _infinite(project: Project) -> None:
    table = canaries()
    project.write(table.set_column(6, "y", pa.array([float("inf"), *table["y"].to_pylist()[1:]])))


def _repeated(project: Project) -> None:
    table = canaries()
    project.write(table.set_column(0, "who", pa.array([TEXTS["who"]] * N)))


def _fixes(project: Project) -> None:
    table = canaries()
    notes = [f"{TEXTS['note']}{v}" for v in table["x"].to_pylist()]
    project.write(table.set_column(7, "note", pa.array(notes)))


FAILURES: dict[str, tuple[Callable[[Project], None], int, dict[str, Any]]] = {
    "damaged Parquet": (_damaged, 3, {}),
    "value that does not convert": (_does_not_convert, 3, {"input": CSV}),
    "text that is not UTF-8": (_not_utf8, 3, {"input": CSV}),
    "infinite value": (_infinite, 3, {}),
    "repeated identifier": (_repeated, 3, {}),
    "fixes a quasi-identifier": (_fixes, 3, {}),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure(name: str, place: Watched) -> None:
    prepare, code, spec = FAILURES[name]
    prepare(place.project)
    place.project.write_spec(ROLES, **spec)
    ended = place.run("--direct")
    assert ended.code == code, ended.err
    place.search(ended)
    place.project.assert_nothing_published()
    results = json.loads((place.project.folder / "told-results.json").read_text())
    assert (results["exit_code"], results["outcome"]) == (code, "refused")
    assert len(list((place.project.work / "audit" / "lineage").iterdir())) == 2


# --- failures of workers over objects that are not what they should be ---


def _labels_of_another_type(_: Project, release: Release) -> None:
    """The labels are numbers, and the workers find text that does not convert."""
    name, place = (output.path(release.key, output.name) for output in (BLOCKS, PLAN))
    plan = json.loads(release.work.read(place))
    blocks = read_slice(release.work.read(name))
    texts = pa.array([f"{TEXTS['town']}-{i}" for i in range(blocks.num_rows)])
    data, slices = write_slices(blocks.set_column(1, "b1", texts), np.zeros(blocks.num_rows, dtype=np.int64), 0)
    release.work.put(name, data)
    forge(release, place, json.dumps({**plan, "blocks": slices.array.tolist()}).encode())


def _forge_candidates(release: Release, changed: Callable[[pa.Table], pa.Table]) -> None:
    for piece in release.written(CANDIDATE).pieces:
        sink = io.BytesIO()
        pq.write_table(changed(pq.read_table(io.BytesIO(release.work.read(piece.name)))), sink)
        forge(release, piece.name, sink.getvalue())


def _candidate_of_another_type(_: Project, release: Release) -> None:
    _forge_candidates(release, lambda t: t.set_column(2, "x", pa.array([TEXTS["note"]] * t.num_rows)))


def _candidate_with_exchanged_values(_: Project, release: Release) -> None:
    _forge_candidates(release, lambda t: t.set_column(4, "note", pa.array(t["note"].to_pylist()[::-1])))


def _input_of_another_type(project: Project, _: Release) -> None:
    table = canaries()
    project.write(table.set_column(5, "x", pa.array([TEXTS["note"]] * N)))


SABOTAGE: list[tuple[str, Callable[[Project, Release], None]]] = [
    ("plan", _labels_of_another_type),
    ("survey", _input_of_another_type),
    ("plan", _input_of_another_type),
    ("anonymize", _candidate_of_another_type),
    ("anonymize", _candidate_with_exchanged_values),
]


@pytest.mark.parametrize(("stage", "sabotage"), SABOTAGE, ids=lambda value: getattr(value, "__name__", value))
def test_a_worker_that_fails(
    stage: str, sabotage: Callable[[Project, Release], None], place: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = place.project
    project.write(canaries())
    project.write_spec(ROLES, blocks={"undersized": "suppress"})
    after_stage(monkeypatch, stage, lambda release: sabotage(project, release))
    monkeypatch.setenv("TMPDIR", str(place.temporary))
    ended = project.call("run", "release.yaml", "--direct")
    assert ended.code in (1, 3, 4, 5), ended.err
    assert "Traceback" not in ended.err
    place.search(ended)
    project.assert_nothing_published()


def test_nothing_is_left_of_failed_runs_once_they_are_cleaned(place: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    project = place.project
    project.write(canaries())
    project.write_spec(ROLES)
    after_stage(monkeypatch, "anonymize", lambda release: _candidate_with_exchanged_values(project, release))
    assert project.call("run", "release.yaml", "--direct").code == 4
    assert any(holders(path.read_bytes()) for path in files_below(project.work))
    kept = project.call("clean", "release.yaml")
    assert "removed 0 failed runs, kept 1" in kept.out
    assert project.call("clean", "release.yaml", "--all").code == 0
    # The key of a ledger that has no night yet tells nothing.
    left = [path for path in files_below(project.work) if path.parent.parent.name != "audit"]
    assert [path.name for path in left] == ["key"]
    for path in files_below(project.work / "audit"):
        assert_clean(path.name, path.read_bytes())
