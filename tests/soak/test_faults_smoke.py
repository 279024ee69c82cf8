"""A few quick faults on a small input: that the campaign strikes, judges, and notices what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covering import share
from microagg_core.kernels.machine_code.code_cache import code_folders
from servers.proxies import Action
from servers.s3_server import ACCESS_KEY, REGION, SECRET_KEY
from soak import command, judge, processes
from soak.command import Ended
from soak.kinds import CODES, all_kinds
from soak.places import Folder
from soak.reader import Reader
from soak.reference import of_content

SCRIPT = str(Path(__file__).with_name("faults.py"))
KINDS = ("flow-killed", "flow-interrupted", "input-removed", "temporary-folder-missing", "few-descriptors", "no-home")
#: A small file, released by the command itself without a cluster.
CONFIGURATION = ["--configuration", "csv", "--rows", "2000"]


@pytest.mark.slow(reason="makes several releases")
@pytest.mark.server
def test_a_short_campaign_finds_nothing_wrong(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    kinds = share(KINDS, 2)
    asked = [*CONFIGURATION, *(argument for kind in kinds for argument in ("--kind", kind))]
    if (kernels := code_folders().write) is not None:
        asked += ["--kernels", str(kernels.parent)]
    done = subprocess.run(
        [sys.executable, SCRIPT, "--cases", str(len(kinds)), "--json", str(record), *asked],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    cases: list[dict[str, Any]] = json.loads(record.read_text())["cases"]
    struck = {case["kind"] for case in cases if case["outcome"] in ("survived", "failed and resumed")}
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(struck & set(kinds)) >= len(kinds) / 2, done.stdout


def test_there_are_kinds_in_every_family_and_at_least_forty() -> None:
    kinds = all_kinds()
    assert len(kinds) >= 40
    assert {kind.family for kind in kinds.values()} == set(CODES)
    assert all(kind.says.endswith(".") for kind in kinds.values())


def ended(code: int, err: str = "", out: str = "", **others: Any) -> Ended:
    return Ended(("run",), code, out, err, 1.0, **others)


@pytest.mark.parametrize(
    ("end", "wrong"),
    [
        (ended(1, "microagg: a bug: staging ended with KeyError\n"), "exit code 1"),
        (ended(5, "Traceback (most recent call last):\nmicroagg: no space\n"), "library's words"),
        (ended(6, "microagg: one\nmicroagg: two\n"), "2 sentences"),
        (ended(130), "0 sentences"),
        (ended(-11, "microagg: one\n"), "exit code -11"),
        (ended(0, "survey: canary-P0000001\n"), "standard error holds a value"),
        (ended(0, hung="hangs: 80 s without a line"), "hangs"),
        (ended(3, "microagg: the data\n"), "exit code 3 is not what is documented for this"),
        (ended(5, "x.py:3: UserWarning: loadtxt\nmicroagg: full\n"), "library's words"),
        (ended(5, "microagg: part 2: record 4711 has no age\n"), "a record's number: 'record 4711'"),
    ],
)
def test_a_bad_end_is_wrong(end: Ended, wrong: str) -> None:
    assert any(wrong in found for found in judge.of_command(end, CODES["storage"] | {6}))


@pytest.mark.parametrize(
    ("says", "is_out", "wrong"),
    [
        ("release one is published in /out/one/r0001; the page is not; run again", True, False),
        ("nothing was published", True, True),
        ("the disk is full", True, True),
        ("release one is published in /out/one/r0001", False, True),
        ("the disk is full; nothing was published", False, False),
    ],
)
def test_only_one_sentence_says_that_a_release_is_out(says: str, is_out: bool, wrong: bool, tmp_path: Path) -> None:
    if is_out:
        released(tmp_path, 1)
    case: Any = SimpleNamespace(has_rivals=False, site=SimpleNamespace(output=Folder(tmp_path)))
    assert bool(list(judge.of_false_words(case, ended(5, f"microagg: {says}\n")))) is wrong


def test_a_release_is_held_against_its_input(tmp_path: Path) -> None:
    """Another confidential value, a combination of too few, a mean that moved: each is seen."""
    spec = {"k": 2, "roles": {"blocking": ["b"], "quasi_identifiers": ["x"], "confidential": ["c"]}}
    site: Any = SimpleNamespace(folder=tmp_path, spec=spec)
    (tmp_path / "input").mkdir()
    pq.write_table(
        pa.table({"b": list("aaaa"), "x": [1.0, 3.0, 5.0, 7.0], "c": list("pqrs")}), tmp_path / "input" / "0"
    )
    sound = {"b": list("aaaa"), "x": [2.0, 2.0, 6.0, 6.0], "c": list("pqrs")}
    found = []
    for n, change in enumerate(({}, {"c": list("pqrr")}, {"x": [2.0, 2.0, 2.0, 6.0]}, {"x": [2.0, 2.0, 5.0, 5.0]})):
        (place := tmp_path / str(n)).mkdir()
        pq.write_table(pa.table({**sound, **change}), place / "part")
        (place / "manifest.json").write_text(json.dumps({"parts": [{"name": "part"}]}))
        found.append(len(list(of_content(site, Folder(tmp_path), str(n)))))
    assert found[0] == 0 and all(found[1:])


@pytest.mark.parametrize(
    "end",
    [
        ended(0, "survey: 4 tasks\n"),
        ended(5, "survey: 4 tasks\nmicroagg: full\n"),
        ended(6, "microagg: set distributed.comm.tls in Dask's configuration\n"),
    ],
)
def test_a_good_end_is_not_wrong(end: Ended) -> None:
    assert list(judge.of_command(end, CODES["storage"] | {6})) == []


def released(folder: Path, *values: int) -> tuple[str, ...]:
    """A release as a reader finds one."""
    (data := folder / "one" / "r0001" / "data").mkdir(parents=True)
    parts = []
    for value in values:
        pq.write_table(pa.table({"x": [value]}), data / "new.parquet")
        content = (data / "new.parquet").read_bytes()
        name = f"part-{value:05d}-{sha256(content).hexdigest()[:16]}.parquet"
        (data / "new.parquet").rename(data / name)
        parts.append({"name": f"data/{name}", "rows": 1, "bytes": len(content), "sha256": sha256(content).hexdigest()})
    (folder / "one" / "r0001" / "manifest.json").write_text(json.dumps({"parts": parts}))
    (folder / "latest.json").write_text(json.dumps({"manifest": "one/r0001/manifest.json"}))
    return tuple(part["sha256"] for part in parts)


def test_the_reader_is_content_with_a_whole_release(tmp_path: Path) -> None:
    reader = Reader(Folder(tmp_path), 1, allowed={released(tmp_path, 1, 2)})
    reader.look()
    assert reader.wrongs == []


def missing(folder: Path) -> None:
    next(folder.glob("one/r0001/data/*")).unlink()


def changed(folder: Path) -> None:
    path = next(folder.glob("one/r0001/data/*"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def manifest_gone(folder: Path) -> None:
    (folder / "one" / "r0001" / "manifest.json").unlink()


@pytest.mark.parametrize("damage", [missing, changed, manifest_gone])
def test_the_reader_sees_what_is_missing_or_changed(tmp_path: Path, damage: Any) -> None:
    reader = Reader(Folder(tmp_path), 1, allowed={released(tmp_path, 1, 2)})
    reader.look()
    damage(tmp_path)
    reader.look()
    assert reader.wrongs != []


def test_the_reader_knows_what_nobody_may_release(tmp_path: Path) -> None:
    released(tmp_path, 1)
    reader = Reader(Folder(tmp_path), 1, allowed={("0" * 64,)})
    reader.look()
    assert "no undisturbed release" in reader.wrongs[0]


def test_the_embedded_server_is_known_by_the_name_that_it_has() -> None:
    assert find_spec(processes.PREFECT_SERVER) is not None


def test_processes_are_found_and_ended_by_their_mark_alone() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    ours = subprocess.Popen(command, env={processes.MARK: "ours"})
    theirs = subprocess.Popen(command, env={processes.MARK: "theirs"})
    try:
        assert processes.wait_until(lambda: [p.pid for p in processes.marked("ours")] == [ours.pid], 10)
        processes.end("ours")
        assert ours.wait(10) == -9
        assert theirs.poll() is None
    finally:
        theirs.kill()
        theirs.wait()


@pytest.mark.soak("a machine that is busy gives a process no time for seconds on end")
@pytest.mark.parametrize(
    ("does", "hangs"),
    [
        ("import time; time.sleep(60)", True),
        ("import time; end = time.monotonic() + 4\nwhile time.monotonic() < end: pass", False),
        ("import sys, time\nfor _ in range(20): sys.stderr.write('survey: 1 tasks\\n'), time.sleep(0.2)", False),
    ],
    ids=["sleeps", "computes", "speaks"],
)
def test_what_neither_says_nor_does_anything_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, hangs: bool
) -> None:
    monkeypatch.setattr(command, "COMMAND", sys.executable)
    monkeypatch.setattr(command, "IDLE_SECONDS", 2.5)
    monkeypatch.setattr(command, "MORE_SECONDS", 0.5)
    mark = f"hangs-{tmp_path.name}"
    end = command.start(["-c", does], tmp_path, {processes.MARK: mark}, mark, 1).wait()
    assert (bool(end.hung), end.killed, end.code) == ((True, True, -9) if hangs else (False, False, 0))


@pytest.mark.slow(reason="starts an S3 server twice")
@pytest.mark.server
def test_the_proxy_forwards_signed_requests_and_provokes_faults(tmp_path: Path) -> None:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    from soak.bucket import start_bucket

    with ExitStack() as undo:
        bucket = start_bucket(tmp_path / "s3", undo)
        patient = Config(retries={"max_attempts": 1})
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{bucket.proxy.port}",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name=REGION,
            config=patient,
        )
        client.create_bucket(Bucket="through-the-proxy")
        client.put_object(Bucket="through-the-proxy", Key="a", Body=b"text" * 1000)
        assert client.get_object(Bucket="through-the-proxy", Key="a")["Body"].read() == b"text" * 1000
        for action in (Action(answer=(503, "SlowDown")), Action(resets=True), Action(truncated_to=0.5)):
            bucket.proxy.fault = lambda _, action=action: action
            with pytest.raises((ClientError, BotoCoreError)):
                client.get_object(Bucket="through-the-proxy", Key="a")["Body"].read()
        bucket.proxy.fault = None
        assert client.get_object(Bucket="through-the-proxy", Key="a")["Body"].read() == b"text" * 1000
        bucket.kill()
        bucket.restart()
        assert client.get_object(Bucket="through-the-proxy", Key="a")["Body"].read() == b"text" * 1000
