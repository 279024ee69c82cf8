"""One private folder for all that is temporary in a run: of this process, its workers and the servers it starts.

It goes when the run ends. What a killed run leaves is removed by the next one: the owner of a folder holds a lock
on it, which the system takes from the dead, whatever their number was and whoever has it now.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from microagg_core.errors import StorageError
from microagg_core.kernels import LASTING_TMPDIR

_PREFIX = "microagg-run-"
_LOCK = "owner.lock"
#: As long as this a folder may have no lock, because its owner is about to make one, or about to end.
_UNLOCKED_SECONDS = 60.0
_current: Path | None = None


@contextmanager
def scratch() -> Iterator[Path]:
    """The folder, in which ``tempfile`` and processes started in the block keep their things too; nested: the same one.

    Raises:
        StorageError: there is no place for it.
    """
    global _current
    if _current is not None:
        yield _current
        return
    _current, lock = _made()
    before = tempfile.tempdir
    outside = tempfile.gettempdir()
    try:
        with _environment(TMPDIR=str(_current), **{LASTING_TMPDIR: outside}):
            tempfile.tempdir = str(_current)
            yield _current
    finally:
        tempfile.tempdir = before
        remove_current()
        _current = None
        os.close(lock)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Environment variables of this process and those that it starts, in the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def remove_current() -> None:
    """Remove the folder and what is in it; what is written there meanwhile is left to the next run."""
    if _current is not None:
        shutil.rmtree(_current, ignore_errors=True)


def _made() -> tuple[Path, int]:
    """A new folder of this process and the descriptor that holds its lock, once those of dead processes are gone."""
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
            if _is_own_folder(folder) and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_own_folder(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _is_abandoned(folder: Path) -> bool:
    """Whether nobody holds the lock; where locks do not work, nothing is taken for abandoned."""
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
