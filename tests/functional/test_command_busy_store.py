"""A store that is busy for longer than libraries wait, beneath the real command."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from functional.command_line import run_command, start_command
from inputs.people import people
from microagg_core.release.verify import verify
from releasing.runs import write_release
from servers.s3_server import Answer, Environ, FaultyServer, s3_error

pytestmark = pytest.mark.server


def _spec(folder: Path, server: FaultyServer) -> tuple[Path, str]:
    place = server.new_bucket()
    output, work = ({"url": f"{place.url}/{name}", "storage_options": place.storage_options} for name in ("o", "w"))
    return write_release(folder, [people(120)], output={**output, "format": "csv"}, work=work), output["url"]


@pytest.mark.soak("waits longer than any library does")
def test_a_release_waits_for_a_store_that_is_busy_in_its_midst(moto_server: FaultyServer, tmp_path: Path) -> None:
    """Busy for 20 s from the first part on: libraries gave up after 2 to 12."""
    spec, output = _spec(tmp_path, moto_server)
    begun = list[float]()

    def busy(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        if "/scatter/" in environ["PATH_INFO"] and not begun:
            begun.append(time.monotonic())
        is_busy = begun and time.monotonic() - begun[0] < 20
        return s3_error("503 Slow Down", "SlowDown") if is_busy else forward()

    moto_server.fault = busy
    ended = run_command("run", str(spec), "--direct", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert begun and verify(f"{output}", moto_server.server.storage_options).passed


def test_an_interruption_ends_the_wait(moto_server: FaultyServer, tmp_path: Path) -> None:
    spec, _ = _spec(tmp_path, moto_server)
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
