"""A look at a place before the night: each thing it looks at, well and in trouble."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inputs.people import people
from microagg_core.registry import forget
from microagg_core.release.context import work_store
from microagg_core.release.surroundings import Surroundings
from microagg_core.spec.loading import load_spec
from microagg_core.store.objects import Store
from microagg_core.store.probe import keeps_versions, probe_store
from microagg_flows import doctor
from microagg_flows.clusters import WorkerRecord
from microagg_flows.doctor import Finding, Grade, Patient, credentials, examine, exit_code_of, nights, storage, workers
from microagg_flows.progress import Silence
from microagg_flows.releasing import Order
from releasing.runs import AGAIN, run_stages, start, write_release, write_series
from servers.certificates import write_certificates
from servers.dask_processes import running_cluster
from servers.prefect_server import quiet
from servers.s3_server import Answer, Environ, FaultyServer

NOW = datetime.datetime(2026, 11, 18, 3, 0, tzinfo=datetime.UTC)
AROUND = Surroundings(NOW.timestamp(), 2**40, True, 0.01, 0.01, (), None)


@pytest.fixture(autouse=True)
def nobody_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a Prefect server nor credentials of the person who runs the tests."""
    for name in ("PREFECT_API_URL", "AWS_SESSION_TOKEN", "AWS_CREDENTIAL_EXPIRATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))


def a_release(folder: Path, **changes: Any) -> Path:
    return write_release(folder, [people(40)], **{"id": "one", "cluster": "none", **AGAIN, **changes})


def found_by(path: Path, **order: Any) -> dict[str, list[Finding]]:
    found = defaultdict(list)
    for finding in examine(Order(str(path), **order), Silence()):
        found[finding.about].append(finding)
    return found


def patient_of(path: Path, **others: Any) -> Patient:
    return Patient(load_spec(str(path)), "one", NOW, Silence(), **others)


def only(found: Iterator[Finding], about: str) -> Finding:
    (one,) = [finding for finding in found if finding.about == about]
    return one


def test_a_place_where_all_is_well(tmp_path: Path) -> None:
    path = a_release(tmp_path)
    found = [finding for findings in found_by(path).values() for finding in findings]
    assert [finding for finding in found if finding.grade != Grade.ok and finding.about != "kernels"] == []
    assert {"input", "series", "output", "work area", "workers", "memory", "disk", "clock"} <= {f.about for f in found}
    assert exit_code_of(found) == 0
    assert [file for file in (tmp_path / "work").rglob("*") if file.is_file()] == [], "probes are removed"
    assert not (tmp_path / "output").exists(), "nothing is written elsewhere"


def test_an_input_that_is_gone_or_lacks_a_column(tmp_path: Path) -> None:
    path = a_release(tmp_path, roles={"quasi_identifiers": ["x", "elsewhere"]})
    (finding,) = found_by(path)["input"]
    assert (finding.grade, finding.exit_code) == (Grade.wrong, 2)
    assert "elsewhere" in finding.says
    for part in (tmp_path / "input").iterdir():
        part.unlink()
    found = found_by(path)
    assert (found["input"][0].exit_code, found["workers"][0].exit_code) == (7, 7)


def test_an_id_that_is_taken_and_a_key_that_is_another_or_gone(tmp_path: Path) -> None:
    path = write_series(tmp_path, [people(40)])
    run_stages(start(path, identity="one"))
    found = found_by(path, id="one")
    assert found["output"][0].line().startswith("warning  output: one is there already, as r0001")
    assert found["series"][0].line() == "ok       series: its ledger has 1 nights, and its key is theirs"
    assert found_by(path, id="two")["output"][0].grade == Grade.ok
    (tmp_path / "series.key").write_text("the key of another series, which is long enough")
    assert found_by(path)["series"][0].exit_code == 2
    (tmp_path / "series.key").unlink()
    assert found_by(path)["series"][0].grade == Grade.wrong


# --- the store ---


def test_a_work_area_that_cannot_be_written(tmp_path: Path) -> None:
    path = a_release(tmp_path)
    (tmp_path / "work").write_text("a file stands here")
    found = found_by(path)
    assert (found["work area"][0].grade, found["work area"][0].exit_code) == (Grade.wrong, 5)
    assert "a file stands where a folder is needed" in found["work area"][0].says
    assert found["workers"][0].exit_code == 5


@pytest.mark.server
def test_a_store_that_creates_an_object_once_and_one_that_does_not(moto_server: FaultyServer, tmp_path: Path) -> None:
    place = moto_server.new_bucket()
    store = Store(f"{place.url}/work", place.storage_options)
    probe = probe_store(store)
    assert probe.creates_once and probe.ahead is not None and abs(probe.ahead) < 5
    assert 0 < probe.seconds_out < 30 and 0 < probe.seconds_back < 30
    assert store.list("") == []

    def forgetful(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return forward()

    moto_server.fault = forgetful
    work = {"url": f"{place.url}/work", "storage_options": place.storage_options}
    patient = patient_of(a_release(tmp_path, work=work))
    finding = only(storage.look(patient), "work area")
    assert (finding.grade, finding.exit_code) == (Grade.wrong, 5)
    assert "use a store that knows conditional writes" in finding.says


@pytest.mark.server
def test_a_bucket_that_keeps_versions_is_told(moto_server: FaultyServer, tmp_path: Path) -> None:
    place = moto_server.new_bucket()
    work = {"url": f"{place.url}/work", "storage_options": place.storage_options}
    patient = patient_of(a_release(tmp_path, work=work))
    assert only(storage.look(patient), "versions").line() == "ok       versions: none are kept"
    bucket = place.url.removeprefix("s3://")
    moto_server.server.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert keeps_versions(work_store(patient.spec)) is True
    assert only(storage.look(patient), "versions").grade == Grade.warning


def test_a_slow_store_whose_clock_is_wrong_and_whose_disk_is_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(storage, "probe_store", lambda work: replace(probe_store(work), seconds_out=9.0, ahead=-1000.0))
    monkeypatch.setattr(storage, "LEAST_FREE", 2**60)
    found = {finding.about: finding for finding in storage.look(patient_of(a_release(tmp_path)))}
    assert [found[name].grade for name in ("speed", "clock", "disk")] == [Grade.warning] * 3
    assert "the store's clock is 1000 s behind this machine's" in found["clock"].says
    assert "a megabyte takes 9000 ms there" in found["speed"].says


# --- workers ---


@contextmanager
def cluster_of(folder: Path, **environment: str) -> Iterator[dict[str, Any]]:
    (folder / "dask").mkdir()
    with running_cluster(folder / "dask", environment) as cluster:
        yield {"cluster": {"address": cluster.address, "wait": 60}}


@pytest.mark.server
def test_workers_that_are_well_and_too_small_for_the_largest_task(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as changes:
        path = a_release(tmp_path, **changes)
        found = found_by(path)
        assert found["workers"][0].says.startswith(("1 with 1 threads, of this Python", "2 with 2 threads, of this"))
        assert "microagg plan says what this input needs" in found["memory"][0].says
        assert [finding.grade for finding in (*found["clock"], *found["speed"])] == [Grade.ok] * 4
        before = {"series": "test", "command": "run", "id": "zero", "memory_bytes": {"estimate": 3 * 2**30}}
        work_store(load_spec(str(path))).put_json("audit/runs/test-zero-20261101T000000Z-0123456789ab.json", before)
        found = found_by(path)
        assert found["memory"][0].exit_code == 6
        assert "and run zero needed 2732 MiB; give workers more memory" in found["memory"][0].says


@pytest.mark.soak("starts a cluster for one sentence")
@pytest.mark.server
def test_a_worker_of_another_version(tmp_path: Path) -> None:
    """It says so of itself; what it would make is another release."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sitecustomize.py").write_text(
        "import importlib.metadata as m; of = m.version; m.version = lambda n: '0.1' if n == 'numpy' else of(n)\n"
    )
    paths = os.pathsep.join([str(tmp_path / "other"), *filter(None, [os.environ.get("PYTHONPATH")])])
    with cluster_of(tmp_path, PYTHONPATH=paths) as changes:
        found = found_by(a_release(tmp_path, **changes))
    assert {finding.exit_code for finding in found["workers"]} == {6}
    assert "has numpy 0.1 instead of" in found["workers"][0].says


def test_a_scheduler_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microagg_flows.clusters.scheduler._CONNECT_SECONDS", 2)
    cluster = {"address": "tls://127.0.0.1:9", "tls": write_certificates(tmp_path / "tls")}
    (finding,) = found_by(a_release(tmp_path, cluster=cluster))["workers"]
    assert (finding.grade, finding.exit_code) == (Grade.wrong, 6)


def record(number: int) -> WorkerRecord:
    return WorkerRecord(number, f"tcp://w{number}", {}, {}, 1, 2 * 2**30, 0, "", "", None)


def test_what_workers_find_around_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Surroundings(NOW.timestamp() + 500, 2**20, False, 9.0, 0.1, (), None)
    around = {"tcp://w1": AROUND, "tcp://w2": odd}
    patient = patient_of(a_release(tmp_path), records=[record(1), record(2)], around=around)
    lines = [finding.line() for finding in workers._around(patient, NOW.timestamp(), 1.0)]
    assert [line.split()[:2] for line in lines] == [
        ["warning", f"{name}:"] for name in ("kernels", "disk", "speed", "clock")
    ]
    assert "not compiled for workers 2" in lines[0] and "workers 2: temporary files" in lines[1]
    assert "the clock of worker 2 is 499 s ahead" in lines[3]
    patient.around = {"tcp://w1": AROUND}
    assert {finding.grade for finding in workers._around(patient, NOW.timestamp(), 1.0)} == {Grade.ok}


# --- what ends, and the nights to come ---


def test_keys_that_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_release(tmp_path)
    for end, grade, code in (
        ("2026-11-18T02:00:00Z", Grade.wrong, 5),
        ("2026-11-18T12:00:00+01:00", Grade.warning, 0),
        ("2027-11-18T12:00:00Z", Grade.ok, 0),
        ("soon", Grade.warning, 0),
    ):
        patient = patient_of(path, around={"": replace(AROUND, end_of_credentials=end)})
        finding = only(credentials.look(patient), "credentials")
        assert (finding.grade, finding.exit_code) == (grade, code)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-secret-token")
    (finding,) = found_by(path)["credentials"]
    assert finding.grade == Grade.warning and "a-secret-token" not in finding.says


def test_a_certificate_that_ends_or_is_none(tmp_path: Path) -> None:
    names = write_certificates(tmp_path / "tls")
    path = a_release(tmp_path, cluster={"address": "tls://127.0.0.1:9", "tls": names})
    patient = patient_of(path)
    patient.now = datetime.datetime.now(datetime.UTC)
    assert only(credentials.look(patient), "certificate").grade in (Grade.ok, Grade.warning)
    patient.now += datetime.timedelta(days=40_000)
    assert only(credentials.look(patient), "certificate").exit_code == 6
    Path(names["cert"]).write_text("no certificate")
    assert "is no certificate that can be read" in only(credentials.look(patient), "certificate").says


def test_when_the_next_nights_are_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_release(tmp_path, schedule={"cron": "30 2 * * *"})
    due, server = nights.look(patient_of(path))
    assert due.says.startswith("the next nights are due at 2026-11-19 02:30, 2026-11-20 02:30, 2026-11-21 02:30 UTC")
    assert (server.about, server.grade) == ("Prefect", Grade.warning)
    path = a_release(tmp_path, schedule={"cron": "30 2 30 2 *"})
    assert only(nights.look(patient_of(path)), "schedule").exit_code == 2
    assert list(nights.look(patient_of(a_release(tmp_path)))) == []


@pytest.mark.server
def test_a_prefect_server_that_is_not_there(tmp_path: Path) -> None:
    """In a process of its own: Prefect reads its settings once."""
    environment = {**os.environ, **quiet(tmp_path / "home"), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    command = [str(Path(sys.executable).with_name("microagg")), "doctor", str(a_release(tmp_path)), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    document = json.loads(done.stdout)
    (finding,) = [one for one in document["findings"] if one["about"] == "Prefect"]
    assert (done.returncode, document["exit_code"], finding["exit_code"]) == (6, 6, 6)
    assert finding["says"].startswith("no Prefect server of this version answers at http://127.0.0.1:9/api")


def test_the_first_thing_that_is_wrong_gives_the_code() -> None:
    codes = [Finding("a", Grade.ok, ""), Finding("b", Grade.wrong, "", 5), Finding("c", Grade.wrong, "", 6)]
    assert exit_code_of(codes) == 5


def test_a_look_is_a_new_file_and_no_line_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "door.py").write_text(
        "from microagg_flows.doctor import well\n\n"
        "def look(patient):\n    yield well('door', f'{patient.id} is open')\n"
    )
    monkeypatch.setattr(doctor, "__path__", [*doctor.__path__, str(tmp_path)])
    forget()
    try:
        findings = list(examine(Order(str(a_release(tmp_path))), Silence()))
    finally:
        monkeypatch.undo()
        forget()
    assert findings[-1].line() == "ok       door: one is open"
