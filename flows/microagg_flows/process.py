"""Limits of the system, cores, temporary folder and standard streams of a process."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import resource
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import TextIO

from microagg_core.errors import ClusterError, StorageError
from microagg_core.kernels import LASTING_TMPDIR

#: Open files that a scheduler, a worker and the libraries' own files need, with some to spare.
_LEAST_FILES = 64
#: Addresses that a release takes, most of which it never uses: its libraries reserve them for every thread.
_LEAST_ADDRESSES = 3 * 2**30


def claim_limits() -> None:
    """Have this process and its children be allowed what a release takes.

    Where addresses run out on the way (``ulimit -v``), libraries ask again for ever, or wait for threads that could
    not be started.

    Raises:
        ClusterError: the system does not allow it.
    """
    _claim_open_files()
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY and most < _LEAST_ADDRESSES:
        least = _LEAST_ADDRESSES // 2**20
        raise ClusterError(
            f"a process may have {most // 2**20} MiB of addresses here, and at least {least} MiB are needed, most of "
            "them never used; raise the limit (ulimit -v), and limit memory otherwise"
        )


def _claim_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _LEAST_FILES:
        return
    if hard != resource.RLIM_INFINITY and hard < _LEAST_FILES:
        raise ClusterError(
            f"a process may open {hard} files here, and at least {_LEAST_FILES} are needed; raise the limit (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (_LEAST_FILES if hard < 0 else hard, hard))


_GROUPS, _OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def usable_cores() -> int:
    """Count the cores on which the system lets this process run, and no more than its share of their time fills."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *(int(share) for share in shares_of_time(_GROUPS, _OWN_GROUP))]))


def shares_of_time(groups: Path, own_group: Path) -> Iterator[float]:
    """Read the limits in cores that control groups, of the second version or the first, set to this process."""
    with suppress(OSError, ValueError):
        lines = own_group.read_text().splitlines()
        own = [PurePath(line.removeprefix("0::").strip("/")) for line in lines if line.startswith("0::")]
        # A group has no more than those that it is in; in a container, its own is often the first there is.
        for folder in {groups, *(groups / folder for path in own for folder in (path, *path.parents))}:
            yield from _share(folder / "cpu.max")
    with suppress(OSError, ValueError):
        quota = int((groups / "cpu" / "cpu.cfs_quota_us").read_text())
        if quota > 0:
            yield quota / int((groups / "cpu" / "cpu.cfs_period_us").read_text())


def _share(limit: Path) -> Iterator[float]:
    with suppress(OSError, ValueError):
        quota, period = limit.read_text().split()
        if quota != "max":
            yield int(quota) / int(period)


_PREFIX = "microagg-run-"
_LOCK = "owner.lock"
#: As long as this a folder may have no lock, because its owner is about to make one, or about to end.
_UNLOCKED_SECONDS = 60.0
_current: Path | None = None


@contextmanager
def scratch() -> Iterator[Path]:
    """Make the folder for temporary files of this process and those that it starts in the block; nested: the same."""
    global _current
    if _current is not None:
        yield _current
        return
    _current, lock = _made()
    variables = {"TMPDIR": str(_current), LASTING_TMPDIR: tempfile.gettempdir()}
    before, environment = tempfile.tempdir, {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    tempfile.tempdir = str(_current)
    try:
        yield _current
    finally:
        tempfile.tempdir = before
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        remove_current()
        _current = None
        os.close(lock)


def remove_current() -> None:
    """Remove the folder and what is in it; what is written there meanwhile is left to the next run."""
    if _current is not None:
        shutil.rmtree(_current, ignore_errors=True)


def _made() -> tuple[Path, int]:
    """Make a folder and hold its lock, once the folders of dead processes are gone."""
    try:
        place = Path(tempfile.gettempdir())
        _remove_abandoned(place)
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        raise StorageError("no temporary folder can be written to; free some space, or set TMPDIR to one") from None
    return folder, lock


def _remove_abandoned(place: Path) -> None:
    """Remove the folders of this user's processes that are not there any more."""
    for folder in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # a rival removes it too, or it is none of ours
            status = folder.lstat()
            is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
            if is_own and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    """Tell whether nobody holds the lock; where locks do not work, nothing is taken for abandoned."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - folder.lstat().st_mtime > _UNLOCKED_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(lock)


#: The reader has gone (`| head`), the terminal has gone, or there never was anybody.
_NOBODY = {errno.EPIPE, errno.EIO, errno.EBADF, errno.ESHUTDOWN}


class _Outlet(io.FileIO):
    """A descriptor that is written to for as long as somebody reads there."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _NOBODY:
                raise
            return memoryview(data).nbytes


def _occupy_closed() -> set[int]:
    """Open something where standard streams are closed; return which they were.

    A file or a socket that is opened later would get the number, and whatever is printed with it.
    """
    closed = set()
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed.add(number)
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
    return closed


@contextmanager
def forgiving() -> Iterator[TextIO]:
    """Write to standard output and error, in the block, for as long as somebody reads them.

    Gives the stream for a sentence that says what is wrong. It has to arrive somewhere: on standard output, where
    standard error was closed from the start.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    closed = _occupy_closed()
    sys.stdin = before[0] or io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout = _forgiving(before[1], sys.__stdout__, 1)
    sys.stderr = _forgiving(before[2], sys.__stderr__, 2)
    try:
        yield sys.stdout if 2 in closed else sys.stderr
    finally:
        # A command that ends with an exit code leaves by an exception, which may keep the stream from being collected.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = before


def _forgiving(stream: TextIO | None, real: TextIO | None, number: int) -> TextIO:
    if stream is not None and stream is not real:
        return stream  # somebody in this process listens
    outlet = _Outlet(number, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(outlet),  # type: ignore[type-var]
        encoding=stream.encoding if stream is not None else "utf-8",
        errors="backslashreplace",
        line_buffering=number == 2 or outlet.isatty(),
    )
