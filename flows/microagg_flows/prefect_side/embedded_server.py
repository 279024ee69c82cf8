"""A Prefect server for one run, where none is named: started, watched while it starts, and stopped by the command.

It is a child that ends with its parent, in a session of its own, so that Ctrl-C reaches the command alone. Its port
is one that the system gave and that nobody can take meanwhile: the server gets the open socket.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from microagg_core.errors import ClusterError
from microagg_flows.prefect_side import prefect_home
from microagg_flows.process import scratch

_START_SECONDS = 120.0
_STOP_SECONDS = 5.0
_ASK_EVERY_SECONDS = 0.1
_SERVER = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
    # Why it does not start is read in its log, whatever this command's own log leaves out.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "ERROR",
    "PREFECT_LOGGING_HANDLERS_DEBUG_LEVEL": "ERROR",
}
#: What a server that does not start says, and what the user does about it.
_CURES = {
    "database is locked": "its database is kept locked; end who does it, or set PREFECT_HOME to another folder",
    "malformed": "its database is damaged; move prefect.db away, or set PREFECT_HOME to another folder",
    "not a database": "its database is damaged; move prefect.db away, or set PREFECT_HOME to another folder",
    "unable to open database": "its database cannot be opened; make PREFECT_HOME writable, or set it to another folder",
    "readonly database": "its database cannot be written to; make PREFECT_HOME writable, or set it to another folder",
    "disk is full": "no space is left for its database; free some, or set PREFECT_HOME to another folder",
    "Can't locate revision": "its database is of another version of Prefect; set PREFECT_HOME to another folder",
}


@contextmanager
def embedded_server(settings: Mapping[str, str]) -> Iterator[str]:
    """Run a server with these settings while the block runs; gives the URL of its API."""
    with scratch() as folder:
        log = folder / "prefect-server.log"
        process, url = _started(settings, log)
        try:
            _wait_for(process, url, log)
            yield url
        finally:
            _stop(process)


def _started(settings: Mapping[str, str], log: Path) -> tuple[subprocess.Popen[bytes], str]:
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listening, log.open("wb") as said:
            process = subprocess.Popen(
                # -P: a folder called "flows" where the command is called is none of ours.
                [sys.executable, "-P", "-m", "microagg_flows.prefect_side.server_process", str(listening.fileno())],
                pass_fds=[listening.fileno()],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                env={**os.environ, **settings, **_SERVER},
                start_new_session=True,
            )
            return process, f"http://127.0.0.1:{listening.getsockname()[1]}/api"
    except OSError as error:
        raise _not_started(f"this machine gave it no port or no process ({error.strerror})") from None


def _not_started(cause: str) -> ClusterError:
    return ClusterError(
        f"Prefect's embedded server does not start: {cause}; or name a running server in PREFECT_API_URL, or run with "
        "--direct"
    )


def _wait_for(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(url):
        if process.poll() is not None or time.monotonic() > deadline:
            raise _not_started(_cause(process, log))
        time.sleep(_ASK_EVERY_SECONDS)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=_STOP_SECONDS, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _cause(process: subprocess.Popen[bytes], log: Path) -> str:
    with suppress(OSError):
        said = log.read_text(errors="replace")
        for words, cure in _CURES.items():
            if words in said:
                return cure
    if process.poll() is None:
        return f"it does not answer within {_START_SECONDS:.0f} s; try again when the machine has less to do"
    return f"it ended by itself with exit code {process.returncode}; make PREFECT_HOME writable and free some space"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server: let it write what it knows; kill one that is stuck."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        if process.stdin is not None:
            process.stdin.close()


def settle_home() -> str:
    """Have Prefect keep its records where it can write; a sentence where that is not the usual place.

    To be called before Prefect is imported, which reads its settings then, and in
    :func:`microagg_flows.process.scratch`.
    """
    usual = prefect_home(os.environ)
    if usual is not None and _is_writable(usual):
        return ""
    if usual is not None and (usual / "profiles.toml").is_file():
        os.environ.setdefault("PREFECT_PROFILES_PATH", str(usual / "profiles.toml"))
    with scratch() as folder:
        os.environ["PREFECT_HOME"] = str(folder / "prefect")
    named = usual or "a home folder"
    return f"{named} cannot be written to: Prefect's record of this run is not kept (set PREFECT_HOME to keep it)"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
