"""Run the command in processes of its own without waiting for its imports: one process imports, and is forked.

    python -m servers.command_server SOCKET    imports the command, then forks for every request that it is sent

A forked process leaves through the interpreter's end, as the command's own does: what libraries print there is seen.
It ends when its standard input is closed, so it never outlives the tests.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dask
from distributed.config import initialize_logging

#: What a release without Prefect loads; Prefect reads its settings where it is imported.
LOADED = (
    "microagg_flows.command.cli",
    "microagg_flows.releasing",
    "microagg_core.runner",
    "distributed",
    "pyarrow.csv",
    "pyarrow.parquet",
)
#: Read by libraries when they are imported, so that the process has to be a new one.
READ_AT_IMPORT = (
    "HOME", "NUMBA", "PYTHON", "MICROAGG_CACHE_DIR", "OMP", "OPENBLAS", "LC_", "LANG",
    "COLUMNS", "TERMINAL_", "GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "NO_COLOR",
)  # fmt: skip
_LONGEST_SECONDS = 300


class CommandServer:
    """A process that has imported the command, and is asked to run it."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "command"
        self._environment = _at_import(os.environ)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "servers.command_server", str(self._socket)],
            cwd=Path(__file__).resolve().parents[1],
            # As the command itself sets before it imports Dask.
            env={"DASK_LOGGING__DISTRIBUTED": "critical", **os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None and self._process.stdout.readline() == b"ready\n"

    def run(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> tuple[int, str, str]:
        """Run the command to its end; its exit code, standard output and standard error."""
        with (
            socket.socket(socket.AF_UNIX) as connection,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            Path(os.devnull).open("rb") as nothing,
        ):
            connection.connect(str(self._socket))
            connection.settimeout(_LONGEST_SECONDS)
            socket.send_fds(connection, [b"."], [nothing.fileno(), out.fileno(), err.fileno()])
            connection.sendall(json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode())
            connection.shutdown(socket.SHUT_WR)
            code = int(connection.makefile().read())
            out.seek(0), err.seek(0)
            return code, out.read().decode(), err.read().decode()

    def can_run(self, env: Mapping[str, str]) -> bool:
        """Tell whether libraries would have been imported in the same way in this environment."""
        return _at_import(env) == self._environment

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@functools.cache
def command_server() -> CommandServer:
    folder = tempfile.TemporaryDirectory(prefix="microagg-tests-")
    server = CommandServer(Path(folder.name))
    atexit.register(folder.cleanup)
    atexit.register(server.stop)
    return server


def _at_import(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_IMPORT)}


def serve(path: str) -> None:
    """Fork for every request until standard input is closed; returns in a process that is to run the command."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    while True:
        ready = select.select([listener, sys.stdin], [], [], 1.0)[0]
        if sys.stdin in ready:
            os._exit(0)
        if listener in ready:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                return attend(connection)
            connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def attend(connection: socket.socket) -> None:
    """Wait in one process for the end of the command in another, and send its exit code."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    request = json.loads(connection.makefile().read())
    process = os.fork()
    if process == 0:
        connection.close()
        return become(request, streams)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())
    os._exit(0)


def become(request: dict[str, Any], streams: Sequence[int]) -> None:
    """Give this process the streams, the folder, the environment and the arguments of the command."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    if os.environ.get("DASK_LOGGING__DISTRIBUTED"):
        dask.config.refresh()
        initialize_logging(dask.config.config)
    sys.argv = [str(Path(sys.executable).with_name("microagg")), *request["arguments"]]
    # The library of the command line names a module that Python was started with.
    sys.modules["__main__"].__package__ = ""


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    # As in the tests' own process.
    os.fsync = lambda handle: None
    # Otherwise every process would copy the pages of all that is loaded, where the collector looks at it.
    gc.freeze()
    serve(sys.argv[1])
    from microagg_flows.command import main

    main()
