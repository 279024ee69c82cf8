"""Values that nobody can mistake, planted in every column, must not be found where no value of a record belongs.

Searched are terminal output, logs of Dask's scheduler and workers at their most talkative, Prefect's database and
storage, the names of all files, and what stays in the work area; after successes, and after failures inside libraries.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from command_line import Ended, Project, after_stage

from microagg_core.tables.slices import read_slice, to_bytes
from releasing.runs import Release, forge
from servers.dask_processes import DaskCluster

TEXTS = {
    "who": "canary-who-Xanthippe",
    "left out": "canary-dropped-Yggdrasil",
    "town": "canary-town-Zwolle",
    "small town": "canary-hamlet-Quuxby",
    "note": "canary-note-Wolverine",
}
NUMBERS = {"x": 918_273_645_546, "number": 728_394_051_627, "code": 837_465_920_183}
FRACTION = 8_675_309.015_625
N = 200


def needles() -> list[bytes]:
    """The canaries as text and as the bytes of numbers."""
    found = [text.encode() for text in TEXTS.values()]
    found += [text.encode("utf-16-le") for text in TEXTS.values()]
    for number in NUMBERS.values():
        found += [str(number).encode(), f"{number:_}".encode(), f"{number:,}".encode(), struct.pack("<q", number)]
        found.append(struct.pack("<d", float(number)))
    return [*found, repr(FRACTION).encode(), struct.pack("<d", FRACTION)]


def canaries() -> pa.Table:
    """Records whose every column holds at least one canary, and names of towns of which some have too few people."""
    town = [TEXTS["town"], "other-" + TEXTS["town"]] * (N // 2)
    town[:2] = [TEXTS["small town"]] * 2
    return pa.table(
        {
            "who": [f"{TEXTS['who']}-{i}" for i in range(N)],
            "number": [NUMBERS["number"] + i * 1000 for i in range(N)],
            "left out": [TEXTS["left out"]] * N,
            "town": town,
            "code": [NUMBERS["code"], 5] * (N // 2),
            "x": [NUMBERS["x"] + i if i % 50 == 0 else i for i in range(N)],
            "y": [FRACTION + i if i % 40 == 0 else i / 7 for i in range(N)],
            "note": [TEXTS["note"], f"{TEXTS['note']}-2", None, "z"] * (N // 4),
        }
    )


ROLES = {
    "identifiers": ["who", "number"],
    "drop": ["left out"],
    "blocking": ["town", "code"],
    "quasi_identifiers": ["x", "y"],
    "confidential": ["note"],
}
CSV = {"url": "people.csv", "csv": {"types": {"number": "int64", "x": "int64", "y": "float64", "code": "int64"}}}


def holders(content: bytes) -> list[bytes]:
    return [needle for needle in needles() if needle in content]


def assert_clean(where: str, content: bytes | str) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    found = holders(data)
    place = data.find(found[0]) if found else 0
    assert not found, f"{where}: {data[max(0, place - 200) : place + 100]!r}"


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@dataclass(frozen=True)
class Watched:
    """A project whose surroundings are searched."""

    project: Project
    prefect: Path
    temporary: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PREFECT_HOME": str(self.prefect),
            "TMPDIR": str(self.temporary),
            "DASK_LOGGING__DISTRIBUTED": "debug",
            "PREFECT_LOGGING_LEVEL": "DEBUG",
            "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "DEBUG",
            "PREFECT_LOGGING_TO_API_ENABLED": "true",
            "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
        }

    def run(self, *arguments: str) -> Ended:
        return self.project.command("run", "release.yaml", *arguments, env=self.environment)

    def search(self, ended: Ended) -> None:
        """Look everywhere but into the input, the released files, and the staged rows of a run that failed."""
        assert_clean("stdout", ended.out)
        assert_clean("stderr", ended.err)
        for folder in (self.project.folder, self.prefect, self.temporary):
            for path in folder.rglob("*"):
                assert_clean("a file's name", str(path.relative_to(folder)))
        for path in files_below(self.prefect) + files_below(self.temporary):
            assert_clean(path.name, path.read_bytes())
        for path in files_below(self.project.work):
            if not path.is_relative_to(self.project.work / "runs"):
                assert_clean(path.name, path.read_bytes())
        for path in files_below(self.project.output):
            if "data" not in path.parts:
                assert_clean(path.name, path.read_bytes())


def watched(folder: Path, cluster: Any) -> Watched:
    for name in ("project", "prefect", "temporary"):
        (folder / name).mkdir()
    return Watched(Project(folder / "project", cluster), folder / "prefect", folder / "temporary")


@pytest.fixture
def place(tmp_path: Path, dask_cluster: DaskCluster) -> Iterator[Watched]:
    """A watched folder on the session's cluster, whose logs are searched in the end."""
    yield watched(tmp_path, {"address": dask_cluster.address})
    for name, text in dask_cluster.logs().items():
        assert_clean(name, text)


def assert_released_without_identifiers(project: Project) -> None:
    written = b"".join(path.read_bytes() for path in project.parts())
    for name in ("who", "left out"):
        assert TEXTS[name].encode() not in written
    table = project.released()
    assert table.column_names == ["town", "code", "x", "y", "note"]
    assert NUMBERS["x"] not in table["x"].to_pylist()
    assert FRACTION not in table["y"].to_pylist()
    assert any(TEXTS["town"] in town for town in table["town"].to_pylist())


def test_the_search_finds_what_it_is_for(tmp_path: Path) -> None:
    pq.write_table(canaries(), tmp_path / "plain.parquet", compression="none", use_dictionary=False)
    pa.csv.write_csv(canaries(), tmp_path / "plain.csv")
    assert len(holders((tmp_path / "plain.csv").read_bytes())) >= len(TEXTS) + len(NUMBERS) + 1
    assert len(holders((tmp_path / "plain.parquet").read_bytes())) >= len(TEXTS) + len(NUMBERS) + 1
    with pytest.raises(AssertionError, match="a place"):
        assert_clean("a place", f"could not convert '{TEXTS['note']}'")


# --- through Prefect, on a cluster of its own ----------------------------------------------------------------

LOCAL = {"local": {"workers": 1, "threads": 1, "memory": "2GiB"}}


def _succeeds(project: Project) -> None:
    """With a ledger that knows everybody."""
    project.write(canaries())
    project.write_spec(ROLES, unit=["who"])


def _does_not_convert(project: Project) -> None:
    """A number that is none, where all values around it are canaries."""
    pa.csv.write_csv(canaries(), project.folder / "people.csv")
    with (project.folder / "people.csv").open("a") as file:
        line = [
            TEXTS["who"],
            NUMBERS["number"],
            TEXTS["left out"],
            TEXTS["town"],
            NUMBERS["code"],
            TEXTS["note"],
            1,
            "z",
        ]
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
        yield {prepare.__name__: pool.submit(run, prepare) for prepare in (_succeeds, _does_not_convert)}


@pytest.mark.slow(reason="starts Prefect's server and workers")
@pytest.mark.server
def test_a_success_through_prefect(through_prefect: dict[str, Any], tmp_path: Path, dask_cluster: DaskCluster) -> None:
    place, ended = through_prefect["_succeeds"].result()
    assert ended.code == 0, ended.err
    place.search(ended)
    assert files_below(place.prefect), "Prefect's database is somewhere else"
    assert_released_without_identifiers(place.project)
    assert {path.name for path in place.project.work.iterdir()} == {"audit", "series"}
    assert not files_below(place.prefect / "storage")
    direct = Project(tmp_path, {"address": dask_cluster.address})
    _succeeds(direct)
    direct.release()
    assert direct.data_checksums() == place.project.data_checksums()


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


# --- without Prefect -----------------------------------------------------------------------------------------


def test_a_success_and_everything_that_is_said_about_it(place: Watched) -> None:
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
    audit = {path.name: json.loads(path.read_text()) for path in files_below(project.work / "audit")}
    assert set(audit) == {"blocks.json", "checks.json", "digests.json", "plan.json", "risk.json"}
    place.search(project.command("verify", "release", env=place.environment))
    place.search(project.command("init", "people.parquet", "-o", "starter.yaml", env=place.environment))
    assert_clean("starter.yaml", (project.folder / "starter.yaml").read_text())


def _truncated(project: Project) -> None:
    path = project.write(canaries(), compression="none")
    path.write_bytes(path.read_bytes()[:-30])


def _damaged(project: Project) -> None:
    path = project.write(canaries(), compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)


def _csv_of(project: Project, change: Callable[[bytes], bytes]) -> None:
    pa.csv.write_csv(canaries(), project.folder / "people.csv")
    path = project.folder / "people.csv"
    path.write_bytes(change(path.read_bytes()))


def _not_utf8(project: Project) -> None:
    _csv_of(project, lambda text: text.replace(b"Wolverine", b"Wolverine\xe9"))


def _ragged(project: Project) -> None:
    _csv_of(project, lambda text: text + text.splitlines()[-1] + b"," + TEXTS["note"].encode() + b"\n")


def _unclosed(project: Project) -> None:
    _csv_of(project, lambda text: text + b'"' + TEXTS["who"].encode() + b",1,1\n")


def _infinite(project: Project) -> None:
    table = canaries()
    project.write(table.set_column(6, "y", pa.array([float("inf"), *table["y"].to_pylist()[1:]])))


def _repeated(project: Project) -> None:
    table = canaries()
    project.write(table.set_column(0, "who", pa.array([TEXTS["who"]] * N)))


def _key_below_k(project: Project) -> None:
    project.write(canaries())


def _fixes(project: Project) -> None:
    table = canaries()
    notes = [f"{TEXTS['note']}{v}" for v in table["x"].to_pylist()]
    project.write(table.set_column(7, "note", pa.array(notes)))


FAILURES: dict[str, tuple[Callable[[Project], None], int, dict[str, Any]]] = {
    "truncated Parquet": (_truncated, 3, {}),
    "damaged Parquet": (_damaged, 3, {}),
    "value that does not convert": (_does_not_convert, 3, {"input": CSV}),
    "text that is not UTF-8": (_not_utf8, 3, {"input": CSV}),
    "ragged line": (_ragged, 3, {"input": CSV}),
    "unclosed quote": (_unclosed, 3, {"input": CSV}),
    "infinite value": (_infinite, 3, {}),
    "repeated identifier": (_repeated, 3, {}),
    "key below k": (_key_below_k, 3, {"blocks": {"undersized": "error"}}),
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


# --- failures of workers over objects that are not what they should be ---------------------------------------


def _labels_of_another_type(_: Project, release: Release) -> None:
    """The labels are numbers, and the workers find text that does not convert."""
    name = release.layout.plan_file("labels.arrows")
    labels = read_slice(release.work.read(name))
    texts = pa.array([f"{TEXTS['town']}-{i}" for i in range(labels.num_rows)])
    forge(release, name, to_bytes(labels.set_column(2, "b1", texts)))


def _forge_candidates(release: Release, changed: Callable[[pa.Table], pa.Table]) -> None:
    for pieces in release.made["assemble"].values():
        sink = io.BytesIO()
        pq.write_table(changed(pq.read_table(io.BytesIO(release.work.read(pieces[0].name)))), sink)
        forge(release, pieces[0].name, sink.getvalue())


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
    assert [path.name for path in files_below(project.work)] == ["key"]
