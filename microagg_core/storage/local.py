"""Objects on a disk: whole or absent, created once, replaced in one step."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from microagg_core.errors import StorageError

#: Unfinished files carry this ending and start with a dot; no listing shows them.
_UNFINISHED = ".unfinished"
_CHUNK = 4 * 2**20


def _is_unfinished(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".") and name.endswith(_UNFINISHED)


def _flush(path: Path) -> None:
    """Ask the disk to keep a file or a folder's entries through a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True)
class LocalDisk:
    """The objects below one folder. Raises what the operating system raises."""

    root: Path

    def path(self, name: str) -> Path:
        """Where an object lies."""
        return self.root / name if name else self.root

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes ``start`` to ``end`` (exclusive; None: to the end)."""
        with self.path(name).open("rb") as file:
            file.seek(start)
            return file.read() if end is None else file.read(end - start)

    def read_ranges(self, ranges: list[tuple[str, int, int]]) -> list[bytes]:
        """Several ranges, in the order asked for."""
        return [self.read(name, start, end) for name, start, end in ranges]

    def chunks(self, name: str) -> Iterator[bytes]:
        """The whole object, a few megabytes at a time."""
        with self.path(name).open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk

    def open(self, name: str, sequential: bool = False) -> BinaryIO:
        """A seekable file."""
        return self.path(name).open("rb")

    def _new_file(self, target: Path) -> tuple[Path, BinaryIO]:
        """A file of our own beside the target; the user's umask decides its rights, unlike mkstemp's."""
        unfinished = target.with_name(f".{uuid.uuid4().hex}{_UNFINISHED}")
        for _ in range(100):
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # somebody's clean-up took the empty folder
                return unfinished, unfinished.open("xb")
        raise FileNotFoundError(str(target.parent))

    @contextmanager
    def _finished(self, name: str, fill: Callable[[BinaryIO], object], durable: bool) -> Iterator[tuple[Path, Path]]:
        """A complete file beside its target; what the block does not move away is removed."""
        target = self.path(name)
        unfinished, file = self._new_file(target)
        try:
            with file:
                fill(file)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            yield unfinished, target
            if durable:
                _flush(target.parent)
        finally:
            unfinished.unlink(missing_ok=True)
            if not target.exists():
                self._prune(target.parent)

    def _replace(self, name: str, fill: Callable[[BinaryIO], object], durable: bool) -> None:
        with self._finished(name, fill, durable) as (unfinished, target):
            unfinished.replace(target)

    def put(self, name: str, data: bytes, durable: bool = False) -> None:
        """Write or replace an object in one step."""
        self._replace(name, lambda file: _write(file, [data]), durable)

    def put_file(self, name: str, local_path: Path, durable: bool = False) -> None:
        """The same for the content of a file."""

        def fill(file: BinaryIO) -> None:
            with local_path.open("rb") as source:
                shutil.copyfileobj(source, file, _CHUNK)

        self._replace(name, fill, durable)

    def put_checked(self, name: str, chunks: Iterable[bytes], sha256: str, n_bytes: int) -> bool:
        """Write a stream if it has the checksum and length; False, and nothing written, if it has not."""
        found: list[tuple[str, int]] = []
        with self._finished(name, lambda file: found.append(_write(file, chunks)), True) as (
            unfinished,
            target,
        ):
            if found == [(sha256, n_bytes)]:
                unfinished.replace(target)
        return found == [(sha256, n_bytes)]

    def create(self, name: str, data: bytes) -> bool:
        """Make an object that must not be there yet; it appears whole, and one of many callers gets True."""
        with self._finished(name, lambda file: _write(file, [data]), True) as (unfinished, target):
            try:
                os.link(unfinished, target)
            except FileExistsError:
                # A network disk may have linked, lost the answer and tried again: two names mean it was us.
                return unfinished.stat().st_nlink > 1
            except OSError as error:
                raise _no_links(error, self.path(name)) from None
        return True

    def size(self, name: str) -> int | None:
        """Bytes, or None where there is no such object."""
        try:
            found = self.path(name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def delete(self, name: str) -> None:
        """Remove an object and the folders below the root that it leaves empty."""
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
        self._prune(path.parent)

    def _prune(self, folder: Path) -> None:
        while folder != self.root and folder.is_relative_to(self.root):
            try:
                folder.rmdir()
            except OSError:  # not empty, or gone
                if folder.exists():
                    return
            folder = folder.parent

    def delete_all(self, prefix: str) -> None:
        """Remove everything below a folder, unfinished files too."""
        for folder, _, names in os.walk(self.path(prefix), topdown=False):
            for name in names:
                (Path(folder) / name).unlink(missing_ok=True)
            self._prune(Path(folder))

    def names(self, prefix: str, unfinished: bool = False) -> list[str]:
        """The names of all objects below a folder; with ``unfinished``, also of what was never completed."""
        found = []
        for folder, _, names in os.walk(self.path(prefix), onerror=_raise_unless_missing):
            below = Path(folder).relative_to(self.root).as_posix()
            found += [
                name if below == "." else f"{below}/{name}" for name in names if unfinished or not _is_unfinished(name)
            ]
        return found

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders one level below a folder."""
        try:
            with os.scandir(self.path(prefix)) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except FileNotFoundError:
            return []

    def versioned(self, name: str) -> tuple[bytes | None, str]:
        """Content (None: no such object), and the version by which :meth:`put_if` sees that it changed."""
        try:
            data = self.read(name)
        except FileNotFoundError:
            return None, ""
        return data, hashlib.sha256(data).hexdigest()

    def put_if(self, name: str, data: bytes, version: str) -> bool:
        """Replace an object if it still is what :meth:`versioned` saw; False if somebody was faster."""
        with _locked(self.path(name).parent):
            if self.versioned(name)[1] != version:
                return False
            self.put(name, data, durable=True)
        return True

    @contextmanager
    def local_copy(self, name: str) -> Iterator[Path]:
        """A local file with the object's content: here, the object itself."""
        with self.path(name).open("rb"):
            pass
        yield self.path(name)


def _write(file: BinaryIO, chunks: Iterable[bytes]) -> tuple[str, int]:
    """Write chunks; the checksum and the length of what was written."""
    digest, length = hashlib.sha256(), 0
    for chunk in chunks:
        file.write(chunk)
        digest.update(chunk)
        length += len(chunk)
    return digest.hexdigest(), length


def _no_links(error: OSError, path: Path) -> OSError | StorageError:
    import errno

    if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
        return StorageError(
            f"writing {path}: this file system has no hard links, without which two runs could both publish; "
            "use another disk or an object store"
        )
    return error


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder against other processes of this kind; nothing is left behind, even by a crash."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        # Some network disks cannot lock; the caller looks again afterwards, so going on beats stopping.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
