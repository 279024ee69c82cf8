"""A few quick faults on a small input: that the campaign strikes, judges, and notices what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from covering import share
from microagg_core.kernels.machine_code.code_cache import code_folders
from servers.proxies import Action, FaultyProxy
from servers.s3_server import S3Server
from soak import command, judge, processes
from soak.command import Ended
from soak.kinds import CODES
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
    kinds = share(KINDS, 1)
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


def ended(code: int, err: str = "", out: str = "", **others: Any) -> Ended:
    return Ended(("run",), code, out, err, 1.0, **others)


def test_a_bad_end_is_wrong_and_a_good_end_is_not() -> None:
    bad = [
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
    ]
    codes = CODES["storage"] | {6}
    for end, wrong in bad:
        assert any(wrong in found for found in judge.of_command(end, codes))
    full, tls = "survey: 4 tasks\nmicroagg: full\n", "microagg: set distributed.comm.tls in Dask's configuration\n"
    for end in (ended(0, "survey: 4 tasks\n"), ended(5, full), ended(6, tls)):
        assert list(judge.of_command(end, codes)) == []


def test_only_one_sentence_says_that_a_release_is_out(tmp_path: Path) -> None:
    case: Any = SimpleNamespace(has_rivals=False, site=SimpleNamespace(output=Folder(tmp_path)))
    is_out = "release one is published in /out/one/r0001"

    def is_wrong(says: str) -> bool:
        return bool(list(judge.of_false_words(case, ended(5, f"microagg: {says}\n"))))

    assert is_wrong(is_out) and not is_wrong("the disk is full; nothing was published")
    released(tmp_path, 1)
    assert not is_wrong(f"{is_out}; the page is not; run again")
    assert is_wrong("nothing was published") and is_wrong("the disk is full")


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


def looked(folder: Path, damage: Callable[[Path], object], *allowed: tuple[str, ...]) -> list[str]:
    """Have a reader look before and after a release is damaged."""
    reader = Reader(Folder(folder), 1, allowed={released(folder, 1, 2), *allowed})
    reader.look()
    damage(folder)
    reader.look()
    return reader.wrongs


def test_the_reader_is_content_with_a_whole_release_alone(tmp_path: Path) -> None:
    part, manifest = "one/r0001/data/*", "one/r0001/manifest.json"
    assert looked(tmp_path / "whole", lambda _: None) == []
    assert looked(tmp_path / "missing", lambda folder: next(folder.glob(part)).unlink())
    assert looked(tmp_path / "changed", lambda folder: next(folder.glob(part)).write_bytes(b"?"))
    assert looked(tmp_path / "no manifest", lambda folder: (folder / manifest).unlink())
    released(tmp_path / "another", 1)
    reader = Reader(Folder(tmp_path / "another"), 1, allowed={("0" * 64,)})
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


@pytest.mark.server
def test_the_proxy_forwards_signed_requests_and_provokes_faults(s3_server: S3Server) -> None:
    with ExitStack() as undo:
        proxy = FaultyProxy(int(s3_server.endpoint.rpartition(":")[2]), undo)
        client = S3Server(f"http://127.0.0.1:{proxy.port}").client()
        client.create_bucket(Bucket="through-the-proxy")
        put = {"Bucket": "through-the-proxy", "Key": "a"}
        client.put_object(**put, Body=b"text" * 1000)
        assert client.get_object(**put)["Body"].read() == b"text" * 1000
        for action in (Action(answer=(503, "SlowDown")), Action(resets=True), Action(truncated_to=0.5)):
            proxy.fault = lambda _, action=action: action
            with pytest.raises((ClientError, BotoCoreError)):
                client.get_object(**put)["Body"].read()
        proxy.fault = None
        proxy.break_connections()
        assert client.get_object(**put)["Body"].read() == b"text" * 1000
