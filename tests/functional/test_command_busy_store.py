"""A store that is busy for longer than libraries wait, beneath the real command."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from functional.command_line import start_command
from inputs.people import people
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
