"""The process that compiles: started, followed, and never left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from microagg_core.errors import ClusterError, InternalError

#: Far above what the slowest part takes on a busy machine.
_MOST_SECONDS = 900.0
_LOOK_SECONDS = 0.5
#: The child imports what this process would; the folder it is started in says nothing.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from microagg_core.compiling.problems import main; main(sys.argv[2:])"
)


@contextmanager
def _started(parts: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
    """The process, out of reach of the terminal's signals; it ends when this one does, and with this block."""
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), *parts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ClusterError(
            f"the process that compiles the kernels cannot be started ({error.strerror}); see to it that this user may "
            "run Python and start processes, or give MICROAGG_CACHE_DIR a folder with compiled kernels"
        ) from None
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _lines(process: subprocess.Popen[bytes], cancelled: Event) -> Iterator[str]:
    """What the process says, line by line, until it has ended."""
    assert process.stdout is not None
    ends, pending = time.monotonic() + _MOST_SECONDS, b""
    while not cancelled.is_set():
        if time.monotonic() > ends:
            raise ClusterError(
                f"compiling the kernels was given up after {_MOST_SECONDS / 60:.0f} minutes; run 'microagg warm' while "
                "the machine is less busy, then start again"
            )
        if not select.select([process.stdout], [], [], _LOOK_SECONDS)[0]:
            continue
        said = os.read(process.stdout.fileno(), 4096)
        *lines, pending = (pending + said).split(b"\n")
        yield from (line.decode() for line in lines)
        if not said:
            return


def run_child(parts: tuple[str, ...], done: Callable[[str], None], cancelled: Event) -> None:
    """Have a process compile the parts, and be told of each that is done; whether it was kept, its stamp says.

    Raises:
        ClusterError: the process did not start, died, ran out of memory, or did not end.
    """
    with _started(parts) as process:
        for line in _lines(process, cancelled):
            kind, _, text = line.partition(" ")
            if kind == "done":
                done(text)
            else:
                raise (ClusterError if kind == ClusterError.kind else InternalError)(text)
        if not cancelled.is_set() and (code := process.wait()) != 0:
            raise ClusterError(_death(code))


def _death(code: int) -> str:
    if code == -signal.SIGKILL:
        how = "was killed, most likely for memory; it needs about 700 MiB beside what else runs"
    elif code < 0:
        how = f"was ended by {signal.Signals(-code).name}"
    else:
        how = f"ended with code {code}"
    return f"the process that compiles the kernels {how}; what it finished is kept: start again, or run 'microagg warm'"
