"""Objects on a disk: whole or absent, created once, replaced in one step, and never through a link."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from microagg_core.errors import SpecError, StorageError
from microagg_core.store.layout import AUDIT, PROBES, RUNS, SERIES


def this_process() -> str:
    """Mark this process: its surroundings as twelve digits, and its number there."""
    return f"{_surroundings()}-{os.getpid()}"


def is_gone(mark: str) -> bool:
    """Say whether a process is certainly gone; False where it is there, or where this process could not see it."""
    surroundings, _, number = mark.partition("-")
    if surroundings != _surroundings() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's, so it is there
        return False
    return False


@cache
def _surroundings() -> str:
    """Digest what processes share that see each other's numbers: the machine since its start, and the container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        space = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:  # not Linux: no other process can tell
        return secrets.token_hex(6)
    return hashlib.sha256(f"{socket.gethostname()} {boot} {space}".encode()).hexdigest()[:12]


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PRIVATE_FOLDER = 0o700
_OTHERS = 0o077


#: Unfinished files carry this ending and start with a dot, and with the mark of their process; no listing shows them.
_UNFINISHED = ".unfinished"
_UNFINISHED_NAME = re.compile(rf"\.(?:([0-9a-f]{{12}}-\d+)-)?[0-9a-f]{{32}}\{_UNFINISHED}")
#: A file that grows is minutes old at most. Should a process that was stopped for longer go on elsewhere, it cannot
#: move its file into its place: its write fails, and nothing else.
_ABANDONED_SECONDS = 3600.0
_CHUNK = 4 * 2**20
_PRIVATE_FILE, _FILE = 0o600, 0o666


def _is_unfinished(name: str) -> bool:
    return name.startswith(".") and name.endswith(_UNFINISHED)


def _is_finished(name: str) -> bool:
    return not _is_unfinished(name)


@dataclass(frozen=True)
class LocalDisk:
    """Objects below one folder; methods do what those of `Store` say, and raise what the operating system raises.

    The root itself may be a link, which is its owner's affair. Below it every step is taken from the folder that is
    open already and refuses links; what is done in the last folder is done through its handle, so that nobody who swaps
    a folder for a link meanwhile can lead a write or a removal astray.
    """

    root: Path
    #: They are for this user alone, whatever the umask; wider rights are taken back.
    private: bool = False
    #: Links are as good as what they point at: for reading what others keep.
    follow_links: bool = False

    @contextmanager
    def _opened(self, name: str, make: bool = False) -> Iterator[int]:
        """Open a folder below the root and yield its handle; ``make`` makes what is missing on the way."""
        handle = self._opened_root(make)
        try:
            names = [step for step in name.split("/") if step]
            for i, step in enumerate(names):
                below = self._entered(handle, step, "/".join(names[: i + 1]), make)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)

    def _opened_root(self, make: bool) -> int:
        try:
            handle = os.open(self.root, _FOLDER)
        except FileNotFoundError:
            if not make:
                raise
            self._make_root()
            handle = os.open(self.root, _FOLDER)
        if self.private:
            _tighten_root(handle)
        return handle

    def _make_root(self) -> None:
        """Make the root and what is missing on the way to it: of a private root, for this user alone too."""
        if not self.private:
            self.root.mkdir(parents=True, exist_ok=True)
            return
        for folder in (*reversed(self.root.parents), self.root):
            if not folder.is_dir():
                with contextlib.suppress(FileExistsError):
                    folder.mkdir()
                    folder.chmod(_PRIVATE_FOLDER)

    def _entered(self, above: int, step: str, name: str, make: bool) -> int:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(step, dir_fd=above)
                if self.private:
                    os.chmod(step, _PRIVATE_FOLDER, dir_fd=above)
        try:
            handle = os.open(step, _FOLDER | self._no_follow, dir_fd=above)
        except OSError:
            self._refuse_link(above, step, name)
            raise
        if self.private:
            try:
                _tighten(handle, f"{self.root}/{name}")
            except BaseException:
                os.close(handle)
                raise
        return handle

    @property
    def _no_follow(self) -> int:
        return 0 if self.follow_links else os.O_NOFOLLOW

    def _refuse_link(self, folder: int, last: str, name: str) -> None:
        """Stop where something in an open folder is a link, unless links are followed; what is missing is none."""
        if not self.follow_links and _is_link(folder, last):
            raise _link_refused(f"{self.root}/{name} is a link")

    def _refuse_links_below(self, folder: int, name: str) -> None:
        """Stop where anything below an open folder is a link; its name, which may be data, is not repeated."""
        for _, folders, files, here in os.fwalk(".", dir_fd=folder, onerror=_raise_unless_missing):
            if any(_is_link(here, entry) for entry in (*folders, *files)):
                raise _link_refused(f"below {self.root}/{name} there is a link")

    def path(self, name: str) -> Path:
        return self.root / name if name else self.root

    @contextmanager
    def _place(self, name: str, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder of an object, and yield its handle and the object's name in it."""
        folder, _, last = name.rpartition("/")
        with self._opened(folder, make) as handle:
            yield handle, last

    def _open_in(self, folder: int, last: str, mode: str, name: str) -> BinaryIO:
        """Open a file in an open folder; one that is new has the rights of the umask, or is private."""

        def opener(_path: str, flags: int) -> int:
            rights = _PRIVATE_FILE if self.private else _FILE
            handle = os.open(last, flags | self._no_follow, rights, dir_fd=folder)
            if self.private and flags & os.O_CREAT:
                os.fchmod(handle, rights)
            return handle

        try:
            return open(self.path(name), mode, opener=opener)  # type: ignore[return-value]
        except OSError:
            self._refuse_link(folder, last, name)
            raise

    def open(self, name: str, sequential: bool = False) -> BinaryIO:
        with self._place(name) as (folder, last):
            return self._open_in(folder, last, "rb", name)

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        with self.open(name) as file:
            file.seek(start)
            return file.read() if end is None else file.read(end - start)

    def read_ranges(self, ranges: list[tuple[str, int, int]]) -> list[bytes]:
        return [self.read(name, start, end) for name, start, end in ranges]

    def chunks(self, name: str) -> Iterator[bytes]:
        with self.open(name) as file:
            while chunk := file.read(_CHUNK):
                yield chunk

    def _new_file(self, name: str, unfinished: str, opened: ExitStack) -> tuple[int, str, BinaryIO]:
        """Make a file of our own beside the object; the folder stays open with the stack."""
        for _ in range(100):
            with contextlib.suppress(FileNotFoundError):  # somebody's clean-up took the empty folder
                folder, last = opened.enter_context(self._place(name, make=True))
                self._refuse_link(folder, last, name)
                return folder, last, self._open_in(folder, unfinished, "xb", name)
            opened.close()
        raise FileNotFoundError(str(self.path(name).parent))

    @contextmanager
    def _finished(self, name: str, fill: Callable[[BinaryIO], object], durable: bool) -> Iterator[tuple[int, str, str]]:
        """Write a complete file beside the object and yield folder and both names; remove it unless it was moved."""
        unfinished = f".{this_process()}-{uuid.uuid4().hex}{_UNFINISHED}"
        with ExitStack() as opened:
            folder, last, file = self._new_file(name, unfinished, opened)
            try:
                with file:
                    fill(file)
                    file.flush()
                    if durable:
                        os.fsync(file.fileno())
                yield folder, unfinished, last
                if durable:
                    os.fsync(folder)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(unfinished, dir_fd=folder)
                if not os.access(last, os.F_OK, dir_fd=folder):
                    self._prune(name.rpartition("/")[0])

    def _replace(self, name: str, fill: Callable[[BinaryIO], object], durable: bool) -> None:
        with self._finished(name, fill, durable) as (folder, unfinished, last):
            try:
                os.replace(unfinished, last, src_dir_fd=folder, dst_dir_fd=folder)
            except IsADirectoryError:
                if not self.private:
                    raise
                # In an area of our own a folder in the place of a file is damage, and the next run writes over that.
                self.delete_all(name)
                os.replace(unfinished, last, src_dir_fd=folder, dst_dir_fd=folder)

    def put(self, name: str, data: bytes, durable: bool = False) -> None:
        self._replace(name, lambda file: _write(file, [data]), durable)

    def put_file(self, name: str, local_path: Path, durable: bool = False) -> None:
        def fill(file: BinaryIO) -> None:
            with local_path.open("rb") as source:
                shutil.copyfileobj(source, file, _CHUNK)

        self._replace(name, fill, durable)

    def put_checked(self, name: str, chunks: Iterable[bytes], sha256: str, n_bytes: int) -> bool:
        sums: list[tuple[str, int]] = []
        with self._finished(name, lambda file: sums.append(_write(file, chunks)), True) as (folder, unfinished, last):
            if sums == [(sha256, n_bytes)]:
                os.replace(unfinished, last, src_dir_fd=folder, dst_dir_fd=folder)
        return sums == [(sha256, n_bytes)]

    def create(self, name: str, data: bytes) -> bool:
        with self._finished(name, lambda file: _write(file, [data]), True) as (folder, unfinished, last):
            try:
                os.link(unfinished, last, src_dir_fd=folder, dst_dir_fd=folder)
            except FileExistsError:
                # A network disk may have linked, lost the answer and tried again: two names mean it was us.
                return os.stat(unfinished, dir_fd=folder).st_nlink > 1
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                    raise
                raise StorageError(
                    f"writing {self.path(name)}: this file system has no hard links, without which two runs could both "
                    "publish; use another disk or an object store"
                ) from None
        return True

    def size(self, name: str) -> int | None:
        try:
            with self._place(name) as (folder, last):
                self._refuse_link(folder, last, name)
                status = os.stat(last, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def delete(self, name: str) -> None:
        """Remove an object and the folders below the root that it leaves empty."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._place(name) as (folder, last):
            self._refuse_link(folder, last, name)
            os.unlink(last, dir_fd=folder)
        self._prune(name.rpartition("/")[0])

    def delete_many(self, names: Sequence[str]) -> None:
        for name in names:
            self.delete(name)

    def _prune(self, folder: str) -> None:
        """Remove a folder and those above it, up to the root, as long as they are empty or gone."""
        while folder:
            try:
                with self._place(folder) as (above, last):
                    os.rmdir(last, dir_fd=above)
            except FileNotFoundError:
                pass
            except OSError:
                return
            folder = folder.rpartition("/")[0]

    def delete_all(self, prefix: str) -> None:
        """Remove everything below a folder, unfinished files too; nothing at all where there is a link below it."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._opened(prefix) as top:
            self._refuse_links_below(top, prefix)
            for _, folders, files, here in os.fwalk(".", topdown=False, dir_fd=top, onerror=_raise_unless_missing):
                for name in files:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=here)
                for name in folders:
                    with contextlib.suppress(OSError):  # not empty: somebody writes there
                        os.rmdir(name, dir_fd=here)
        self._prune(prefix)

    def remove_abandoned(self, prefix: str, everything: bool) -> int:
        names = []
        for name, state in self._files(prefix, _is_unfinished):
            match = _UNFINISHED_NAME.fullmatch(name.rpartition("/")[2])
            is_old = time.time() - state.st_mtime > _ABANDONED_SECONDS
            if match and (everything or is_old or is_gone(match[1] or "")):
                names.append(name)
        self.delete_many(names)
        return len(names)

    def _files(
        self, prefix: str, is_wanted: Callable[[str], bool] = lambda _: True
    ) -> Iterator[tuple[str, os.stat_result]]:
        """Yield name and state of every file below a folder; links to files are among them, and are not followed."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._opened(prefix) as top:
            for folder, _, names, here in os.fwalk(".", dir_fd=top, onerror=_raise_unless_missing):
                below = "/".join(step for step in (prefix, folder.removeprefix(".").lstrip("/")) if step)
                for name in filter(is_wanted, names):
                    with contextlib.suppress(FileNotFoundError):
                        yield f"{below}/{name}" if below else name, os.stat(name, dir_fd=here, follow_symlinks=False)

    def names(self, prefix: str, unfinished: bool = False) -> list[str]:
        return [name for name, _ in (self._files(prefix) if unfinished else self._files(prefix, _is_finished))]

    def sizes(self, prefix: str) -> dict[str, int]:
        return {name: state.st_size for name, state in self._files(prefix, _is_finished)}

    def last_change(self, prefix: str) -> float | None:
        return max((state.st_mtime for _, state in self._files(prefix)), default=None)

    def folders(self, prefix: str) -> list[str]:
        """List the folders one level below.

        A link to a folder is none, so that it is never mistaken for a release; in a private place it is listed, and
        refused where it is used.
        """
        try:
            with self._opened(prefix) as folder, os.scandir(folder) as entries:
                return [
                    entry.name
                    for entry in entries
                    if entry.is_dir(follow_symlinks=self.follow_links) or (self.private and entry.is_symlink())
                ]
        except FileNotFoundError:
            return []

    def versioned(self, name: str) -> tuple[bytes | None, str]:
        try:
            data = self.read(name)
        except FileNotFoundError:
            return None, ""
        return data, hashlib.sha256(data).hexdigest()

    def put_if(self, name: str, data: bytes, version: str) -> bool:
        with self._place(name, make=True) as (folder, _):
            # Held against other processes until it is closed, be it by a crash. Some network disks cannot lock; the
            # caller looks again afterwards, so going on beats stopping.
            with contextlib.suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_EX)
            if self.versioned(name)[1] != version:
                return False
            self.put(name, data, durable=True)
        return True

    @contextmanager
    def local_copy(self, name: str) -> Iterator[Path]:
        with self.open(name):
            pass
        yield self.path(name)


def _link_refused(place: str) -> StorageError:
    return StorageError(
        f"{place}, and none is followed inside an output or a work area; remove the link (not what it points at), "
        "then run again"
    )


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


def _is_link(folder: int, last: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _tighten(handle: int, path: str) -> None:
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    if not mode & _OTHERS:
        return
    with contextlib.suppress(PermissionError):
        os.fchmod(handle, mode & ~_OTHERS)
    if os.fstat(handle).st_mode & _OTHERS:
        raise StorageError(
            f"{path} holds private rows but is open to others, and this user may not change that; give the work area "
            "a folder of this user's own, on a disk that keeps rights"
        )


def _tighten_root(handle: int) -> None:
    """Take back rights to the root, too, where nothing lies in it but ours; else it is somebody's folder, and stays."""
    if os.fstat(handle).st_mode & _OTHERS and set(os.listdir(handle)) <= {RUNS, AUDIT, PROBES, SERIES}:
        with contextlib.suppress(PermissionError):  # what lies in it is closed to others all the same
            os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) & ~_OTHERS)


def _write(file: BinaryIO, chunks: Iterable[bytes]) -> tuple[str, int]:
    digest, length = hashlib.sha256(), 0
    for chunk in chunks:
        file.write(chunk)
        digest.update(chunk)
        length += len(chunk)
    return digest.hexdigest(), length


#: Bytes: keys are short; what is longer is another file, named by mistake.
_LONGEST_KEY = 4096


def read_private(path: str, field: str, cure: str) -> bytes:
    """Read a key file on this machine; ``field`` is where it was named, ``cure`` says how one is made."""
    try:
        # A pipe would be waited for without end.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - a descriptor
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise SpecError(f"{field}: {path} is not a file; name the file that holds the key")
            if mode & _OTHERS:
                raise SpecError(f"{field}: others can read {path}; chmod 600 {path}")
            data = file.read(_LONGEST_KEY + 1)
    except IsADirectoryError:
        raise SpecError(f"{field}: {path} is not a file; name the file that holds the key") from None
    except FileNotFoundError:
        raise SpecError(f"{field}: there is no file {path}; {cure}") from None
    except OSError as error:
        raise SpecError(f"{field}: {path} cannot be read ({error.strerror}); check its permissions") from None
    if len(data) > _LONGEST_KEY:
        raise SpecError(f"{field}: {path} is too large for a key; name the file that holds the key alone")
    if not data.strip():
        raise SpecError(f"{field}: {path} is empty; {cure}")
    return data
