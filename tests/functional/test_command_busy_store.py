"""A store that is busy for longer than libraries wait, beneath the real command."""

from __future__ import annotations

import io
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from functional.command_line import call_command, start_command
from inputs.people import people
from microagg_core.store import failures
from releasing import small_series
from releasing.runs import write_release
from servers.s3_server import Answer, Environ, FaultyServer, s3_error

pytestmark = pytest.mark.server


def test_an_interruption_ends_the_wait(moto_server: FaultyServer, tmp_path: Path) -> None:
    place = moto_server.new_bucket()
    output, work = ({"url": f"{place.url}/{name}", "storage_options": place.storage_options} for name in ("o", "w"))
    spec = write_release(tmp_path, [people(120)], output=output, work=work)
    refused = list[float]()

    def away(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        refused.append(time.monotonic())
        return s3_error("503 Slow Down", "SlowDown")

    moto_server.fault = away
    running = start_command("run", str(spec), "--direct", cwd=tmp_path)
    while len(refused) < 8:  # two or more tries
        assert running.poll() is None
        time.sleep(0.05)
    pressed = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    assert time.monotonic() - pressed < 50, "a run that does not let go is ended after a minute"
    assert err.splitlines()[-1].startswith("microagg: interrupted")


@pytest.mark.slow("nights of a series in a bucket, each kind of request refused at first")
def test_every_command_waits_for_a_busy_store(
    moto_server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("_FIRST_PAUSE_SECONDS", "_LONGEST_PAUSE_SECONDS"):
        monkeypatch.setattr(failures, pause, 0.01)
    bucket, met = moto_server.new_bucket(), Counter[tuple[str, str]]()
    days = ("2026-11-17", "2026-11-18")
    for n, day in enumerate(days):
        pq.write_table(small_series.people(range(10 * n, 40 + 10 * n)), table := io.BytesIO())
        key = f"in/{day}/part.parquet"
        moto_server.server.client().put_object(Bucket=bucket.url.removeprefix("s3://"), Key=key, Body=table.getvalue())
    places = {"input": "in/{date}/*.parquet", "output": "out", "work": "work"}
    located = {
        name: {"url": f"{bucket.url}/{below}", "storage_options": bucket.storage_options}
        for name, below in places.items()
    }
    series = {**small_series.atoms(leavers="decoys"), "key_file": "key"}
    spec = {"name": "series", "id": "date", "k": 3, "roles": small_series.ROLES, "unit": ["id"], "cluster": "none"}
    spec |= {**located, "series": series, "acknowledge": {"nearly_unique": ["tag"]}}
    (tmp_path / "release.yaml").write_text(yaml.safe_dump(spec))
    (tmp_path / "key").write_text("a key of the series for tests")
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "units.csv").write_text("id\n27\n32\n")

    def busy_at_first(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        kind = environ["REQUEST_METHOD"], re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", environ["PATH_INFO"])
        met[kind] += 1
        return s3_error("503 Slow Down", "SlowDown") if met[kind] <= 2 else forward()

    moto_server.fault = busy_at_first
    endpoint = ("--endpoint", moto_server.server.endpoint)
    for words in (
        ("backfill", "release.yaml", "-q", "--direct", "--from", days[0], "--to", days[1]),
        ("keys", "release"),
        ("sign", f"{bucket.url}/out", "--key", "release.key", *endpoint),
        ("attack", *(f"{bucket.url}/out/{day}" for day in days), *endpoint),
        ("forget", "--units", "units.csv", "--yes", "release.yaml"),
        ("series", "verify", "release.yaml"),
        ("verify", f"{bucket.url}/out", *endpoint),
    ):
        met.clear()
        ended = call_command(*words, cwd=tmp_path)
        assert ended.code == 0, (words, ended.err)
        assert met or words[0] == "keys"
