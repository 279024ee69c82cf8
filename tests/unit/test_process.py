"""Parts of the command's process: lines of progress, the temporary folder, requests that are interrupted."""

from __future__ import annotations

import io
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from microagg_core.errors import ClusterError
from microagg_core.store.remote import settled
from microagg_flows import process, progress
from microagg_flows.prefect_side.embedded_server import settle_home
from microagg_flows.process import claim_limits
from microagg_flows.process import scratch as scratch_folder
from microagg_flows.progress import Lines, awaited, shown
from servers.process import wait_until

# --- progress ---


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait is long after a fraction of a second."""
    monkeypatch.setattr(progress, "_STILL_EVERY_SECONDS", 0.1)
    monkeypatch.setattr(progress, "_LOOK_EVERY_SECONDS", 0.01)


def until_said(stream: io.StringIO, words: str) -> bool:
    wait_until(lambda: words in stream.getvalue(), words)
    return True


def test_no_wait_is_silent(impatient: None) -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    with awaited(lines, "the stage plan"):
        assert until_said(stream, "waiting for the stage plan, nothing new for ")
        with shown(lines, "anonymize", 38):
            for _ in range(3):
                lines.advance()
            assert until_said(stream, "anonymize: 3 of 38, nothing new for ")
            with awaited(lines, "2 workers"):
                assert until_said(stream, "anonymize: 3 of 38, waiting for 2 workers, nothing new for ")
        stream.truncate(0)
        assert until_said(stream, "waiting for the stage plan")
    wait_until(lambda: not lines._watched, "nothing is waited for any more, and the thread that would say so ends")


# --- what is temporary ---


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that is empty."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(process, "_UNLOCKED_SECONDS", 60.0)
    return tmp_path


def test_what_is_temporary_is_private_and_goes(place: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == place
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert os.environ["TMPDIR"] == tempfile.gettempdir() == str(folder)
        with scratch_folder() as same:
            assert same == folder
        assert folder.exists()
        Path(tempfile.mkdtemp(), "file").write_text("x")
    assert list(place.iterdir()) == []
    assert tempfile.gettempdir() == str(place)


def test_only_own_abandoned_folders_are_removed(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "file").write_text("x")
    (place / "microagg-run-1-link").symlink_to(elsewhere)
    (place / "microagg-run-1-file").write_text("x")
    (place / "another").mkdir()
    young, old, dead = (place / f"microagg-run-1-{name}" for name in ("young", "old", "dead"))
    for folder in (young, old, dead):
        (folder / "below").mkdir(parents=True)
    (dead / "owner.lock").touch()
    os.utime(old, (time.time() - 3600,) * 2)
    with scratch_folder() as folder:
        names = {path.name for path in place.iterdir()} - {folder.name}
    assert names == {"microagg-run-1-link", "microagg-run-1-file", "another", "microagg-run-1-young"}
    assert (elsewhere / "file").exists()


def test_records_of_prefect_go_where_something_can_be_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "records"))
    assert settle_home() == ""
    assert os.environ["PREFECT_HOME"] == str(tmp_path / "records")
    monkeypatch.setenv("PREFECT_HOME", "/proc/nowhere")
    with scratch_folder() as folder:
        assert "/proc/nowhere cannot be written to" in settle_home()
        assert os.environ["PREFECT_HOME"] == str(folder / "prefect")


# --- requests ---


class Patient:
    patient = True

    def __call__(self, *_: Any) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("number", "handler", "done"),
    [(signal.SIGINT, Patient(), 3), (signal.SIGHUP, Patient(), 3), (signal.SIGINT, signal.default_int_handler, 1)],
)
def test_a_patient_handler_never_cuts_a_request_short(number: signal.Signals, handler: Any, done: int) -> None:
    """One that is not patient gets the second interrupt at once."""
    parts: list[str] = []

    def request() -> None:
        for _ in range(3):
            signal.raise_signal(number)
            parts.append("a part")

    before = signal.signal(number, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            settled(request)
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
    assert len(parts) == done


# --- limits ---


@pytest.mark.parametrize(("mebibytes", "is_enough"), [(3071, False), (3072, True), (None, True)])
def test_too_few_addresses_are_refused_at_once(
    mebibytes: int | None, is_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = resource.RLIM_INFINITY if mebibytes is None else mebibytes * 2**20
    monkeypatch.setattr(resource, "getrlimit", lambda what: (most, resource.RLIM_INFINITY))
    refused = nullcontext() if is_enough else pytest.raises(ClusterError, match=f"may have {mebibytes} MiB of")
    with refused:
        claim_limits()


def test_what_was_printed_arrives_though_somebody_keeps_the_stream() -> None:
    program = (
        "import os, sys\n"
        "from microagg_flows.process import forgiving\n"
        "kept = []\n"
        "try:\n"
        "    with forgiving():\n"
        "        kept.append(sys.stdout)\n"
        "        print('a failed check')\n"
        "        raise SystemExit(4)\n"
        "finally:\n"
        "    os._exit(4)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (4, "a failed check\n")
