"""Compiling kernels once a machine, in a process of its own, before anything needs them.

Compiling takes half a minute of a processor and half a GiB of memory that is never given back. A worker's memory is
for rows, so no worker compiles: whoever finds something missing starts one child process that compiles it to the
cache of :mod:`microagg_core.kernels.machine_code.code_cache`, and waits; others that come meanwhile wait for it too.

``is_compiled``, ``ensure_compiled`` and ``start_compiling`` take an algorithm's name, the effort of refinement, and k;
without k, what any k needs.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial
from pathlib import Path
from threading import Event

from microagg_core.errors import ClusterError, InternalError
from microagg_core.group.algorithms import algorithms
from microagg_core.kernels.machine_code.code_cache import code_folders
from microagg_core.software import digest_of

_PACKAGE = Path(__file__).parents[1]

#: Hashes of rows, which every step needs from the survey on.
TABLES = "tables"
#: Which released combinations are nearest to a record, which the measures of risk ask.
_LINKS = "links"
#: The neighbour bound and, for every block, the sums of its losses; the annealing, the factor that proves a bound for
#: pairs, the optimum that it leads to, and prices, which do for k up to 5.
_BOUND, _ANNEALING, _FACTOR, _OPTIMUM, _PRICES = "bound", "annealing", "factor", "optimum", "prices"
#: What protection beyond k needs.
PROTECTION = "protection"
#: MDAV, bound and annealing of many small blocks at once.
_SMALL_BLOCKS = "small blocks"
_FACTOR_K, _PRICES_K = (2,), (3, 4, 5)


def needed_parts(algorithm: str, effort: str | float, k: int | None = None) -> tuple[str, ...]:
    """List the parts that a release by this algorithm and effort of refinement runs through, for one k or for any.

    >>> needed_parts("mdav", "fast", 5)
    ('tables', 'mdav', 'bound', 'links', 'small blocks', 'annealing')
    >>> needed_parts("mdav", "off", 2)
    ('tables', 'mdav', 'bound', 'links', 'small blocks', 'factor')
    """
    parts = [TABLES, *_algorithms_run(algorithm, k), _BOUND, _LINKS]
    if algorithm == "mdav" and effort in ("off", "fast"):
        parts.append(_SMALL_BLOCKS)
    searches = algorithm == "search" or not isinstance(effort, str)
    if effort != "off" or algorithm in ("search", "best"):
        parts.append(_ANNEALING)
    if k is None or k in _FACTOR_K:
        parts += [_FACTOR, _OPTIMUM] if effort == "thorough" else [_FACTOR]
    if effort == "thorough" and (k is None or k in _PRICES_K):
        parts.append(_PRICES)
    if searches or _PRICES in parts:  # both search, from MDAV's groups on
        parts.append("mdav")
    return tuple(dict.fromkeys(parts))


def grouping_parts(algorithm: str, effort: str | float, k: int) -> tuple[str, ...]:
    """List those of the parts without which groups would be others; proofs are left out.

    >>> grouping_parts("mdav", "fast", 2)
    ('tables', 'mdav', 'bound', 'links', 'small blocks', 'annealing')
    """
    proofs = {_PRICES} if effort == "thorough" or algorithms()[algorithm].certified else {_PRICES, _FACTOR}
    return tuple(part for part in needed_parts(algorithm, effort, k) if part not in proofs)


def _algorithms_run(name: str, k: int | None) -> list[str]:
    if name != "best":
        return [name]
    others = [info for info in algorithms().values() if info.name not in ("best", "search") and not info.each_attribute]
    return [info.name for info in others if k is None or info.min_k <= k <= (info.max_k or k)]


def all_parts() -> tuple[str, ...]:
    each = [needed_parts(name, "thorough") for name in algorithms() if name != "best"]
    return tuple(dict.fromkeys([*(part for parts in each for part in parts), PROTECTION]))


@cache
def _sources_digest() -> str:
    """Digest the whole package: a change anywhere may have a part call its kernels otherwise."""
    return digest_of([_PACKAGE])[:12]


def _stamp(part: str) -> str:
    return f"{part}-{_sources_digest()}.compiled"


def stamp(part: str) -> None:
    """Mark a part as compiled and kept; where no mark can be written, the code was not kept either."""
    folder = code_folders().write
    if folder is None:
        raise FileNotFoundError("no folder for compiled code can be written")
    # With a byte in it: a full disk makes empty files.
    (folder / _stamp(part)).write_bytes(b"\n")


#: Receives a line for whoever waits.
Say = Callable[[str], None]


def _silent(_text: str) -> None: ...


_LOCK = "compiling.lock"
#: Set once this process has said that nothing can be kept.
_said = Event()
#: Parts that a child of this process compiled and could not keep: another would fare no better.
_in_vain: set[str] = set()
#: How often a wait looks around, so that Ctrl-C and cancelling are heard soon.
_LOOK_SECONDS = 0.2
_SAY_AFTER_SECONDS = 2.0
#: Far above what the slowest part takes on a busy machine; another process may have all of them to do.
_MOST_SECONDS_OF_CHILD, _MOST_SECONDS = 900.0, 1200.0
#: Seconds that a part takes, on one core of a 2-core virtual machine; of the others about as many as the last.
_SECONDS = {TABLES: 2, "mdav": 15, "bound": 1, "annealing": 12, "factor": 15, "optimum": 3, "protection": 20}
#: The child imports what this process would; the folder it is started in says nothing.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from microagg_core.compiling.problems import main; main(sys.argv[2:])"
)


def is_compiled(algorithm: str, effort: str | float, k: int | None = None) -> bool:
    """Say whether a release by this algorithm and effort would compile nothing, from a look at a few files."""
    return not missing_parts(needed_parts(algorithm, effort, k))


def missing_parts(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Filter the parts whose compiled code is nowhere where this process finds it."""
    folders = code_folders().read
    return tuple(
        part for part in dict.fromkeys(parts) if not any((folder / _stamp(part)).exists() for folder in folders)
    )


def ensure_compiled(
    algorithm: str, effort: str | float, k: int | None = None, *, say: Say = _silent, cancelled: Event | None = None
) -> bool:
    """Return once everything is compiled that a release by this algorithm and effort needs; see `compile_parts`."""
    return compile_parts(needed_parts(algorithm, effort, k), say=say, cancelled=cancelled)


def compile_parts(
    parts: tuple[str, ...], *, say: Say = _silent, done: Say = _silent, cancelled: Event | None = None
) -> bool:
    """Return once these parts are compiled.

    At once where they are; else one child process compiles what is missing while this one waits, and while all others
    that ask wait too. ``say`` is given a line when that begins, and where nothing can be kept; ``done`` the name of
    each part that was compiled.

    Returns whether the code is kept; where it is not, as no folder can be written, each process compiles for itself.
    """
    missing, folder, stop = missing_parts(parts), code_folders().write, cancelled or Event()
    if not missing:
        return True
    if folder is None or _in_vain.issuperset(missing):
        _say_not_kept(say)
        return False
    with _locked(folder, parts, say, stop):
        missing = missing_parts(parts)
        if missing and not stop.is_set():
            seconds = sum(_SECONDS.get(part, 10) for part in missing)
            say(f"compiling the kernels, once for this machine: about {seconds} s")
            run_child(missing, done, stop)
    if stop.is_set() or not missing_parts(parts):
        return True
    _in_vain.update(missing_parts(parts))
    _say_not_kept(say)
    return False


def _say_not_kept(say: Say) -> None:
    if _said.is_set():
        return
    _said.set()
    places = ", ".join(map(str, code_folders().tried)) or "any folder"
    say(
        f"compiled kernels cannot be kept in {places}: each process compiles for itself, in half a minute and "
        "600 MiB; name a folder that can be written in MICROAGG_CACHE_DIR"
    )


@contextmanager
def _locked(folder: Path, parts: tuple[str, ...], say: Say, stop: Event) -> Iterator[None]:
    """Hold the machine's lock, unless somebody else compiles the parts meanwhile.

    The lock goes with the process that holds it, however it ends. Where the file system has none, nobody waits.
    """
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        _wait_for(lock, parts, say, stop)
        yield
    finally:
        os.close(lock)


def _wait_for(lock: int, parts: tuple[str, ...], say: Say, stop: Event) -> None:
    start, has_said = time.monotonic(), False
    while not stop.is_set() and missing_parts(parts):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        except OSError:  # this file system has no locks
            return
        waited = time.monotonic() - start
        if waited > _MOST_SECONDS:
            raise ClusterError(
                f"another process has been compiling the kernels for {_MOST_SECONDS / 60:.0f} minutes; end it, or name "
                "another folder in MICROAGG_CACHE_DIR, and start again"
            )
        if waited > _SAY_AFTER_SECONDS and not has_said:
            has_said = True
            say("another process is compiling the kernels; waiting for it")
        stop.wait(_LOOK_SECONDS)


def run_child(parts: tuple[str, ...], done: Say, cancelled: Event) -> None:
    """Have a child process compile the parts, and pass on the name of each; its stamp says if it is kept."""
    with _started(parts) as process:
        for line in _lines(process, cancelled):
            kind, _, text = line.partition(" ")
            if kind == "done":
                done(text)
            else:
                raise (ClusterError if kind == ClusterError.kind else InternalError)(text)
        if not cancelled.is_set() and (code := process.wait()) != 0:
            raise ClusterError(_death(code))


@contextmanager
def _started(parts: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
    """Start the child out of reach of the terminal's signals; it ends with this process, and with this block."""
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
    assert process.stdout is not None
    ends, pending = time.monotonic() + _MOST_SECONDS_OF_CHILD, b""
    while not cancelled.is_set():
        if time.monotonic() > ends:
            raise ClusterError(
                f"compiling the kernels was given up after {_MOST_SECONDS_OF_CHILD / 60:.0f} minutes; run 'microagg "
                "warm' while the machine is less busy, then start again"
            )
        if not select.select([process.stdout], [], [], _LOOK_SECONDS)[0]:
            continue
        data = os.read(process.stdout.fileno(), 4096)
        *lines, pending = (pending + data).split(b"\n")
        yield from (line.decode() for line in lines)
        if not data:
            return


def _death(code: int) -> str:
    if code == -signal.SIGKILL:
        how = "was killed, most likely for memory; it needs about 700 MiB beside what else runs"
    elif code < 0:
        how = f"was ended by {signal.Signals(-code).name}"
    else:
        how = f"ended with code {code}"
    return f"the process that compiles the kernels {how}; what it finished is kept: start again, or run 'microagg warm'"


@contextmanager
def start_compiling(
    algorithm: str, effort: str | float, k: int | None = None, *, say: Say = _silent
) -> Iterator[Future[bool]]:
    """Do what :func:`ensure_compiled` does in a thread beside the block; given up where that ends early."""
    cancelled = Event()
    compiling = partial(ensure_compiled, algorithm, effort, k, say=say, cancelled=cancelled)
    with ThreadPoolExecutor(1, "compiling") as thread:
        try:
            # ``say`` may look at where it was called from, as a flow run's log does.
            yield thread.submit(copy_context().run, compiling)
        finally:
            cancelled.set()
