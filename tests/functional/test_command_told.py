"""What a run leaves about itself, however it ends: its outcome, lines of a log, and events of its lineage."""

from __future__ import annotations

import json
import os
import signal
import threading
import uuid
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import AGAIN, Project, after_stage, start_command

from microagg_core.errors import ClusterError
from microagg_core.store.layout import newest_results
from trouble.holding import SURVEY, Held

ROLES = {"quasi_identifiers": ["x", "y"], "confidential": ["note"]}
RUN = ("run", "release.yaml", "--direct")


@pytest.fixture
def place(tmp_path: Path) -> Project:
    project = Project(tmp_path, "none")
    project.write(table())
    project.write_spec(ROLES)
    return project


def table(first: float = 0.0) -> pa.Table:
    n = 60
    return pa.table(
        {"x": [first, *map(float, range(1, n))], "y": [i * 7 % 13 for i in range(n)], "note": ["a", "b", "c"] * 20}
    )


def all_results(project: Project) -> list[dict[str, Any]]:
    """The outcomes in the work area, the oldest first."""
    names = newest_results((path.name for path in (project.work / "audit" / "runs").glob("*.json")), 1000)
    return [json.loads((project.work / "audit" / "runs" / name).read_text()) for name in reversed(names)]


def only_results(project: Project) -> dict[str, Any]:
    (results,) = all_results(project)
    return results


def events(project: Project) -> list[dict[str, Any]]:
    read = [json.loads(path.read_text()) for path in (project.work / "audit" / "lineage").glob("*.json")]
    return sorted(read, key=lambda event: event["eventTime"])


# --- outcomes ---


def test_a_release_leaves_what_it_took_beside_what_was_planned_a_log_and_its_lineage(place: Project) -> None:
    told = ("--results", "told.json", "--log-format", "json", "--log-file", "told.log")
    ended = place.call(*RUN, "--json", *told)
    document = ended.document()
    results = json.loads((place.folder / "told.json").read_text())
    (path,) = (place.work / "audit" / "runs").iterdir()
    assert json.loads(path.read_text()) == results
    assert {path.stat().st_mode & 0o777, (place.folder / "told.json").stat().st_mode & 0o777} == {0o600}
    assert path.name.startswith("people-one-2")
    assert (results["outcome"], results["exit_code"], results["sentence"]) == ("released", 0, "")
    named = [results[name] for name in ("series", "id", "revision", "manifest")]
    assert named == ["people", "one", "r0001", document["manifest"]]
    assert results["run"] and results["software"]["sources"] and results["what_to_do"] is None
    assert [stage["name"] for stage in results["stages"]] == [stage["name"] for stage in document["stages"]]
    for stage in results["stages"]:
        assert 0 <= stage["cpu_seconds"] <= stage["flow_cpu_seconds"] + 0.01
        assert len(str(stage["seconds"])) < 10
    assert any(stage["cpu_seconds"] > 0 for stage in results["stages"])
    assert results["release_bytes"]["actual"] == document["bytes"]
    for name in ("kernel_seconds", "memory_bytes", "release_bytes"):
        assert results[name]["estimate"] is not None and results[name]["actual"] is not None
    assert results["memory_bytes"]["actual"] == max(stage["peak_bytes"] for stage in results["stages"])
    assert_log(ended.err, (place.folder / "told.log").read_text())
    assert (place.folder / "told.log").stat().st_mode & 0o777 == 0o600
    assert_lineage(place, document["bytes"])
    assert {event["run"]["runId"] for event in events(place)} == {results["lineage_run"]}
    # What is there already says so, in a run of its own.
    place.release("--results", "told.json")
    results = json.loads((place.folder / "told.json").read_text())
    assert (results["outcome"], results["exit_code"], results["revision"]) == ("already released", 0, "r0001")
    assert len(all_results(place)) == len({event["run"]["runId"] for event in events(place)}) == 2


def assert_log(terminal: str, file: str) -> None:
    """A file's log is one object a line; the terminal keeps its lines."""
    lines = [json.loads(line) for line in file.splitlines()]
    assert [line["event"] for line in lines] == [" ".join(line.split()) for line in terminal.splitlines()]
    assert {tuple(line) for line in lines} == {("time", "level", "stage", "event", "series", "id")}
    assert {(line["level"], line["series"], line["id"]) for line in lines[1:]} == {("info", "people", "one")}
    assert any(line["stage"] == "publish" and "published as one/r0001" in line["event"] for line in lines)
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times)


def assert_lineage(place: Project, size: int) -> None:
    start, complete = events(place)
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    for event in (start, complete):
        assert_event(event)
        assert event["job"] == {"namespace": "microagg", "name": "people"}
        assert event["inputs"] == [{"namespace": "file", "name": str(place.folder / "people.parquet")}]
    (output,) = complete["outputs"]
    assert output["name"] == str(place.output)
    fields = output["facets"]["schema"]["fields"]
    types = {"x": "double", "y": "int64", "note": "string"}
    assert {field["name"]: field["type"] for field in fields} == types
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (60, size)


def test_time_and_cpu_stand_beside_those_of_the_release_before(place: Project) -> None:
    place.write_spec(ROLES, **AGAIN)
    place.release()
    place.call("plan", "release.yaml", "--id", "two")
    place.release("--id", "two")
    first, second = (one for one in all_results(place) if one["command"] == "run")
    assert first["wall_seconds"] == {"estimate": None, "actual": first["seconds"]}
    assert second["wall_seconds"]["estimate"] == first["seconds"]
    assert second["cpu_seconds"]["estimate"] == pytest.approx(first["cpu_seconds"]["actual"], abs=0.01)
    place.write(table(float("inf")))
    place.call(*RUN, "--id", "three")
    last = all_results(place)[-1]
    assert (last["outcome"], last["wall_seconds"]["estimate"]) == ("refused", second["seconds"])


def test_a_refusal_says_where_and_what_to_do(place: Project) -> None:
    place.write(table(float("inf")))
    ended = place.call(*RUN, "--log-format", "json", "--log-level", "error")
    results = only_results(place)
    assert (ended.code, results["exit_code"]) == (3, 3)
    assert (results["outcome"], results["kind"], results["stage"]) == ("refused", "data", "survey")
    assert results["sentence"].endswith(f"; {results['what_to_do']}")
    assert results["revision"] is None and results["release_bytes"] == {"estimate": None, "actual": None}
    (line,) = map(json.loads, ended.err.splitlines())
    assert (line["level"], line["stage"], line["event"]) == ("error", "survey", results["sentence"])
    _, fail = events(place)
    assert_event(fail)
    assert fail["eventType"] == "FAIL"
    assert fail["run"]["facets"]["errorMessage"]["message"] == results["sentence"]
    # The terminal has its sentence alone, and a file the end of a log.
    again = place.call(*RUN, "--log-file", "told.log", "--log-level", "warning")
    assert again.err.splitlines() == [f"microagg: {results['sentence']}"]
    last = (place.folder / "told.log").read_text().splitlines()[-1]
    assert last.split(maxsplit=2)[1:] == ["ERROR", *again.sentences()]


def test_a_failure_keeps_what_was_done(place: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> None:
        raise ClusterError("the cluster went away; start it again")

    after_stage(monkeypatch, "scatter", stop)
    assert place.call(*RUN).code == 6
    results = only_results(place)
    assert (results["outcome"], results["kind"], results["stage"]) == ("failed", "cluster", "scatter")
    assert results["what_to_do"] == "start it again"
    assert [stage["name"] for stage in results["stages"]] == ["survey", "plan", "scatter"]
    assert results["memory_bytes"]["estimate"] > 0


def test_an_interruption_says_so(place: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    after_stage(monkeypatch, "plan", stop)
    ended = place.call(*RUN, "--log-format", "json", "--log-level", "warning")
    results = only_results(place)
    assert (ended.code, results["exit_code"], results["outcome"]) == (130, 130, "interrupted")
    (line,) = map(json.loads, ended.err.splitlines())
    assert (line["level"], line["event"]) == ("error", results["sentence"])
    assert line["event"].startswith("interrupted")
    assert [event["eventType"] for event in events(place)] == ["START", "ABORT"]


def test_a_spec_that_cannot_be_read_leaves_its_outcome_where_one_wants_it(place: Project) -> None:
    place.write_spec(ROLES, k=1)
    ended = place.call(*RUN, "--results", "told.json")
    results = json.loads((place.folder / "told.json").read_text())
    assert (ended.code, results["exit_code"], results["outcome"]) == (2, 2, "refused")
    assert results["sentence"] == "\n".join(ended.sentences())
    assert not place.work.exists()


def test_a_run_that_is_killed_is_told_by_the_next(place: Project, tmp_path: Path) -> None:
    surveying = Held(tmp_path / "surveying", SURVEY)
    process = start_command(*RUN, cwd=place.folder, env=surveying.environment)
    surveying.begins()
    assert only_results(place)["outcome"] == "running"
    # Another run beside it sees that it is there.
    place.write_spec(ROLES, **AGAIN)
    place.release("--id", "two")
    assert [r["outcome"] for r in all_results(place) if r["id"] == "one"] == ["running"]
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    place.release("--id", "three")
    by_id = {results["id"]: results for results in all_results(place)}
    assert by_id["one"]["outcome"] == "ended without a word"
    assert by_id["one"]["what_to_do"].startswith("run it again")
    assert (by_id["two"]["outcome"], by_id["three"]["outcome"]) == ("released", "released")


@pytest.mark.parametrize(("option", "path"), [("--results", "nowhere/told"), ("--log-file", ".")])
def test_a_file_that_there_cannot_be_is_refused_first(place: Project, option: str, path: str) -> None:
    ended = place.call(*RUN, option, path)
    ended.assert_refused(2, "name a file in a folder that is there")
    assert len(ended.err.splitlines()) == 1
    assert not place.work.exists()


# --- lineage ---


def assert_event(event: dict[str, Any]) -> None:
    assert {"eventTime", "eventType", "run", "job", "producer", "schemaURL"} <= set(event)
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    uuid.UUID(event["run"]["runId"])
    assert event["schemaURL"].startswith("https://openlineage.io/spec/")
    facets = [event["run"]["facets"]]
    for dataset in (*event["inputs"], *event["outputs"]):
        assert dataset["namespace"] and dataset["name"]
        facets += [dataset.get("facets", {}), dataset.get("outputFacets", {})]
    for facet in (facet for some in facets for facet in some.values()):
        assert {"_producer", "_schemaURL"} <= set(facet)


class _Catalogue(BaseHTTPRequestHandler):
    """Takes events, or refuses them."""

    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(self.server.answer)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def catalogue() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), _Catalogue)
    server.taken, server.answer = [], 201
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_events_are_sent_where_somebody_is_named(
    place: Project, catalogue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{catalogue.server_port}/")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "a-key")
    place.release()
    assert [(path, key) for path, key, _ in catalogue.taken] == [("/api/v1/lineage", "Bearer a-key")] * 2
    assert [event for _, _, event in catalogue.taken] == events(place)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "no address", "refusing"])
def test_a_catalogue_that_does_not_take_events_stops_no_release(
    place: Project, catalogue: Any, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    catalogue.answer = 403
    refusing = f"http://127.0.0.1:{catalogue.server_port}"
    monkeypatch.setenv("OPENLINEAGE_URL", refusing if url == "refusing" else url)
    ended = place.call(*RUN, "--quiet")
    assert ended.code == 0
    assert len(ended.sentences()) == len(ended.err.splitlines()) == 1
    assert "did not take the lineage event" in ended.sentences()[0]
    assert len(events(place)) == 2


# --- other commands ---


def test_a_plan_says_how_it_ended_as_a_run_does(place: Project) -> None:
    ended = place.call("plan", "release.yaml", "--log-format", "json", "--results", "told.json", "--json")
    results = json.loads((place.folder / "told.json").read_text())
    assert only_results(place) == results
    assert (ended.code, results["command"], results["outcome"], results["id"]) == (0, "plan", "done", "one")
    assert [stage["name"] for stage in results["stages"]] == ["survey", "plan"]
    assert results["kernel_seconds"]["estimate"] is not None
    assert {json.loads(line)["series"] for line in ended.err.splitlines()} <= {None, "people"}
    assert not (place.work / "audit" / "lineage").exists(), "no data are made"


def test_steps_leave_outcomes_and_a_log(place: Project) -> None:
    place.call("step", "report", "release.yaml", "--log-file", "log", "--results", "told.json")
    results = json.loads((place.folder / "told.json").read_text())
    assert (results["command"], results["outcome"], results["stage"]) == ("step", "done", "survey")
    ended = place.call("step", "survey", "release.yaml", "--number", "99", "--run", results["run"], "--log-file", "log")
    last = (place.folder / "log").read_text().splitlines()[-1]
    assert ended.code == 2 and last.endswith(ended.sentences()[-1]) and " ERROR " in last


def test_a_look_at_a_ledger_says_how_it_ended(place: Project) -> None:
    place.write_spec(ROLES, **AGAIN)
    place.release()
    before = all_results(place)
    place.call("series", "status", "release.yaml", "--results", "told.json")
    results = json.loads((place.folder / "told.json").read_text())
    assert (results["command"], results["series"], results["outcome"]) == ("series status", "people", "done")
    for path in (place.work / "series" / "people" / "generations").iterdir():
        path.write_text("damaged")
    ended = place.call("series", "verify", "release.yaml", "--results", "told.json", "--log-file", "log")
    results = json.loads((place.folder / "told.json").read_text())
    assert ended.code == results["exit_code"] != 0
    assert " ERROR " in (place.folder / "log").read_text()
    assert all_results(place) == before, "looking leaves nothing in the work area"


def test_an_erasure_leaves_its_outcome(place: Project) -> None:
    (place.folder / "units.csv").write_text("note\na\n")
    ended = place.call("forget", "release.yaml", "--units", "units.csv", "--yes", "--log-format", "json")
    results = only_results(place)
    assert (ended.code, results["command"], results["id"]) == (2, "forget", None)
    assert json.loads(ended.err.splitlines()[-1])["event"] == results["sentence"]


def test_a_backfill_is_one_document(place: Project) -> None:
    place.write_spec(ROLES, id="date", input={"url": "in-{date}/*.parquet"}, **AGAIN)
    place.folder.joinpath("in-2026-01-01").mkdir()
    pa.parquet.write_table(table(), place.folder / "in-2026-01-01" / "part.parquet")
    days = ("--from", "2026-01-01", "--to", "2026-01-03")
    missing = place.call("backfill", "release.yaml", *days, "--dry-run", "--json").document()["days"]
    assert {day["standing"] for day in missing} == {"missing"} and len(missing) == 3
    ended = place.call("backfill", "release.yaml", *days, "--json", "-q", "--direct", "--results", "told.json")
    first, second = ended.document()["days"]
    results = json.loads((place.folder / "told.json").read_text())
    assert (first["id"], first["standing"]) == ("2026-01-01", "published")
    assert (second["standing"], second["exit_code"], ended.code) == ("failed", 7, 7)
    assert (results["command"], results["outcome"]) == ("backfill", "failed")
    assert results["sentence"] == f"2026-01-02: {second['sentence']}" == ended.sentences()[-1]
    assert [one["id"] for one in all_results(place)] == ["2026-01-01", "2026-01-02"], "each day has its own"


def test_what_is_due_goes_however_early_a_run_fails(place: Project) -> None:
    place.write_spec(ROLES, work={"url": "work", "keep": {"failed_days": 0}}, input={"url": "gone/*.parquet"})
    failed = place.work / "runs" / "failed"
    failed.mkdir(parents=True)
    (failed / "rows").write_text("rows")
    os.utime(failed / "rows", (0, 0))
    assert place.call(*RUN).code == 7
    assert not failed.exists()
