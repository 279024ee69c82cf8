"""Objects in a remote store, through fsspec.

The file system is asked for at every use: fsspec keeps one instance for each process and set of options, so a
store can be pickled and sent anywhere. Processes are to be spawned, not forked: a forked child gets an instance of
its own, but on its way to it takes the parent's connections apart, and the parent waits for a timeout. Listings
are never taken from a cache, because another process may have written since.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, TypeVar

from microagg_core.errors import SpecError
from microagg_core.store.disk import LocalDisk
from microagg_core.store.failures import S3_SCHEMES, ask, explaining, if_there, patient, service_code
from microagg_core.store.s3 import Removal, plain_ranges
from microagg_core.store.urls import shown

T = TypeVar("T")

#: What asks a process to end: by a key, by another process, by a terminal that is closed.
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def settled(call: Callable[[], T]) -> T:
    """Make a request and stay until it is over, even when the user presses Ctrl-C.

    A file system with an event loop of its own goes on with a request whose caller was interrupted: an object
    could appear after the clean-up that was meant to remove it. So an interrupt is noted while the request lasts
    and delivered when it is over. A second one is delivered at once, unless the handler is ``patient``: then whoever
    has put it in place bounds the wait. Only the main thread is ever interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    before = {number: signal.getsignal(number) for number in _INTERRUPTS}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}
    noted: list[tuple[int, FrameType | None]] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append((number, frame))
        handler = handlers[signal.Signals(number)]
        if len(noted) == 2 and not getattr(handler, "patient", False):
            handler(number, frame)

    _exchange(dict.fromkeys(handlers, note))
    try:
        return call()
    finally:
        _exchange(handlers)
        if noted:
            handlers[signal.Signals(noted[0][0])](*noted[0])


def _exchange(handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], Any]]) -> None:
    """Block signals while all handlers are put in place: one that raises in between would leave the others out."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handlers)
    try:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


#: A request that is not answered is over after 40 s, and asked again by `patience`: botocore's own patience, times its
#: tries, times those of s3fs, would be half an hour.
_S3_PATIENCE = {"connect_timeout": 10, "read_timeout": 20, "retries": {"mode": "standard", "max_attempts": 1}}
_S3_TRIES = 1
#: A worker asks for many small ranges at once; botocore's ten connections would have most of them wait.
REQUESTS_AT_ONCE = 64
_S3_CONNECTIONS = {"max_pool_connections": REQUESTS_AT_ONCE}
#: Requests cost less. botocore puts its User-Agent together twice for each, unless it is given one. What is read is
#: checked by checksums of ours, so none of the server's is asked for: of a range it has none, and a server that does
#: not know that header may refuse the signature. What is written keeps its checksum: buckets with locked objects want
#: one, and without one botocore hashes all of it for the signature, over TLS too.
_S3_CHEAPER = {"user_agent": "microagg", "response_checksum_validation": "when_required"}

_CHUNK = 8 * 2**20
#: A transfer in parts holds this much of each in memory, and this many of them.
_TRANSFER = {"chunksize": 16 * 2**20, "max_concurrency": 4}
_PRECONDITION = {"PreconditionFailed", "412"}
_DELETES_AT_ONCE = 8


def file_system_of(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Find the fsspec file system of a URL, and the path in it; its listings are never cached."""
    from fsspec.core import url_to_fs

    plain: dict[str, Any] = {} if "::" in url else {"use_listings_cache": False}
    if url.startswith(S3_SCHEMES):
        plain["config_kwargs"] = {**_S3_PATIENCE, **_S3_CONNECTIONS, **_S3_CHEAPER, **options.get("config_kwargs", {})}
    try:
        fs, path = url_to_fs(url, **{**options, **plain})
    except ValueError:
        raise SpecError(
            f"{shown(url)}: no file system is known for this kind of URL, or it is not written "
            "as that one wants it; correct the URL"
        ) from None
    except TypeError:
        raise SpecError(
            f"{shown(url)}: the file system does not know one of its storage options; correct them"
        ) from None
    if url.startswith(S3_SCHEMES):
        fs.retries = _S3_TRIES
    return fs, str(path)


def _is_s3(fs: Any) -> bool:
    return "s3" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


def _transfer(fs: Any) -> dict[str, int]:
    return _TRANSFER if _is_s3(fs) else {}


def _read_whole(fs: Any, path: str) -> bytes:
    # One request: s3fs would ask for the size first, and fetch ranges that may be of different versions.
    return bytes(fs.cat_file(path, **({"max_concurrency": 1} if _is_s3(fs) else {})))


@dataclass(frozen=True)
class RemoteStore:
    """Objects below one URL; methods do what those of `Store` say, and raise what fsspec and its file systems raise."""

    url: str
    options: dict[str, Any]

    def _connect(self) -> tuple[Any, str]:
        fs, root = file_system_of(self.url, self.options)
        return fs, root.rstrip("/")

    def _at(self, name: str) -> tuple[Any, str]:
        fs, root = self._connect()
        return fs, f"{root}/{name}" if name else root

    @patient
    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        fs, path = self._at(name)
        if start == 0 and end is None:
            return _read_whole(fs, path)
        return bytes(fs.cat_file(path, start=start, end=end))

    @patient
    def read_ranges(self, ranges: list[tuple[str, int, int]]) -> list[bytes]:
        fs, root = self._connect()
        every = [(f"{root}/{name}", start, end) for name, start, end in ranges if end > start]
        contents = plain_ranges(fs, every) if _is_s3(fs) else [None] * len(every)
        full = [asked for asked, content in zip(every, contents, strict=True) if content is None]
        answers = iter(fs.cat_ranges(*map(list, zip(*full, strict=True)), on_error="raise") if full else ())
        read = iter([bytes(next(answers)) if content is None else content for content in contents])
        return [next(read) if end > start else b"" for _, start, end in ranges]

    def chunks(self, name: str) -> Iterator[bytes]:
        fs, path = self._at(name)
        length = int(ask(lambda: fs.info(path), self.url)["size"])
        for start in range(0, length, _CHUNK):
            yield self.read(name, start, min(start + _CHUNK, length))

    @patient
    def open(self, name: str, sequential: bool = False) -> BinaryIO:
        fs, path = self._at(name)
        cache: dict[str, Any] = (
            {"cache_type": "readahead", "block_size": _CHUNK} if sequential else {"cache_type": "none"}
        )
        return _Explained(fs.open(path, "rb", **cache), self.url)  # type: ignore[return-value]

    @patient
    def put(self, name: str, data: bytes, durable: bool = False) -> None:
        fs, path = self._at(name)
        settled(lambda: fs.pipe_file(path, data, **_transfer(fs)))

    @patient
    def put_file(self, name: str, local_path: Path, durable: bool = False) -> None:
        fs, path = self._at(name)
        settled(lambda: fs.put_file(str(local_path), path, **_transfer(fs)))

    def put_checked(self, name: str, chunks: Iterable[bytes], sha256: str, n_bytes: int) -> bool:
        with tempfile.TemporaryDirectory(prefix="microagg-") as folder:
            disk = LocalDisk(Path(folder))
            if not disk.put_checked("object", chunks, sha256, n_bytes):
                return False
            self.put_file(name, disk.path("object"))
        return True

    @patient
    def create(self, name: str, data: bytes) -> bool:
        fs, path = self._at(name)
        return self._conditional(lambda: fs.pipe_file(path, data, mode="create"))

    def _conditional(self, request: Callable[[], object]) -> bool:
        """Make a conditional request; False where it is refused (409, of a busy store, decides nothing)."""
        try:
            settled(request)
        except FileExistsError:
            return False
        except OSError as error:
            if service_code(error) in _PRECONDITION:
                return False
            raise
        return True

    @patient
    def size(self, name: str) -> int | None:
        fs, path = self._at(name)
        info = if_there(lambda: fs.info(path))
        return int(info["size"]) if info is not None and info["type"] == "file" else None

    def delete(self, name: str) -> None:
        self.delete_many([name])

    @patient
    def delete_many(self, names: Sequence[str]) -> None:
        if not names:
            return
        fs, root = self._connect()
        if _is_s3(fs):
            settled(lambda: Removal(fs, root, shown(self.url)).remove(names))
            return

        def remove(name: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                settled(lambda: fs.rm_file(f"{root}/{name}"))

        with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
            list(pool.map(remove, names))

    @patient
    def delete_all(self, prefix: str) -> None:
        fs, root = self._connect()
        names = self.names(prefix)
        if _is_s3(fs):
            settled(lambda: Removal(fs, root, shown(self.url)).remove_below(prefix, names))
        else:
            self.delete_many(names)

    @patient
    def _found(self, prefix: str) -> dict[str, Any]:
        """List every object below a folder with what the store says of it, asked afresh."""
        fs, path = self._at(prefix)
        fs.invalidate_cache(path)
        entries = if_there(lambda: fs.find(path, detail=True)) or {}
        files = {str(name): info for name, info in entries.items() if info["type"] == "file"}
        below = len(path) - len(prefix) if prefix else len(path) + 1
        return {name[below:]: info for name, info in files.items() if name.startswith(f"{path}/")}

    def names(self, prefix: str, unfinished: bool = False) -> list[str]:
        return list(self._found(prefix))

    def sizes(self, prefix: str) -> dict[str, int]:
        return {name: int(info["size"]) for name, info in self._found(prefix).items()}

    def last_change(self, prefix: str) -> float | None:
        moments = [
            info.get("LastModified") or info.get("created") or info.get("mtime")
            for info in self._found(prefix).values()
        ]
        return max((moment.timestamp() for moment in moments if isinstance(moment, datetime.datetime)), default=None)

    @patient
    def folders(self, prefix: str) -> list[str]:
        fs, path = self._at(prefix)
        fs.invalidate_cache(path)
        entries = if_there(lambda: fs.ls(path, detail=True)) or ()
        return [str(i["name"]).rstrip("/").rpartition("/")[2] for i in entries if i["type"] == "directory"]

    @patient
    def versioned(self, name: str) -> tuple[bytes | None, str]:
        """Read content (None: no such object) and what :meth:`put_if` needs to see that nobody changed it since.

        The version is asked for first: should a rival write between the two requests, :meth:`put_if` refuses.
        """
        fs, path = self._at(name)
        info = if_there(lambda: fs.info(path)) if _is_s3(fs) else {}
        data = if_there(lambda: _read_whole(fs, path)) if info is not None else None
        if info is None or data is None:
            return None, ""
        return data, str(info.get("ETag") or "") or hashlib.sha256(data).hexdigest()

    @patient
    def put_if(self, name: str, data: bytes, version: str) -> bool:
        if not version:
            return self.create(name, data)
        fs, path = self._at(name)
        if _is_s3(fs):
            return bool(if_there(lambda: self._conditional(lambda: fs.pipe_file(path, data, IfMatch=version))))
        # No conditional replacement in this file system's interface: look once more, then write. A rival in
        # between is noticed by the caller, who looks again afterwards.
        if self.versioned(name)[1] != version:
            return False
        self.put(name, data)
        return True

    @contextmanager
    def local_copy(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="microagg-") as folder:
            path = Path(folder) / "object"
            with path.open("wb") as file:
                file.writelines(self.chunks(name))
            yield path


class _Explained(io.RawIOBase):
    """Remote file whose failures in the middle of reading come out as one sentence, too."""

    def __init__(self, file: Any, url: str) -> None:
        self._file = file
        self._url = url

    def read(self, n: int = -1) -> bytes:
        with explaining(self._url, "reading"):  # a read that failed has not moved on
            return bytes(ask(lambda: self._file.read(n), self._url))

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()

    def readable(self) -> bool:
        return True

    seekable = readable
