"""Objects in a remote store, through fsspec: stores of any kind but buckets, and inputs wherever they are.

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
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any, BinaryIO, NamedTuple, TypeVar

from microagg_core.errors import SpecError
from microagg_core.store.disk import LocalDisk
from microagg_core.store.failures import S3_SCHEMES, ask, explaining, if_there, patient
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
#: A worker asks for many small ranges at once.
REQUESTS_AT_ONCE = 64

_CHUNK = 8 * 2**20
_DELETES_AT_ONCE = 8


class _Awaited(Future[T]):
    """Result for which a thread waits that looks up each second: an interrupt just before it sleeps wakes nobody."""

    def result(self, timeout: float | None = None) -> T:
        while timeout is None and not self.done():
            with contextlib.suppress(TimeoutError):
                super().result(1)
        return super().result(timeout)


class Daemons(Executor):
    """Threads for requests, which keep no process from ending, as those of a ThreadPoolExecutor do."""

    def __init__(self, most: int) -> None:
        self._left, self._idle = most, threading.Semaphore(0)
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    def submit(self, call: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        future = _Awaited[T]()
        self._calls.put((future, partial(call, *args, **named)))
        if not self._idle.acquire(blocking=False) and self._left > 0:
            self._left -= 1
            threading.Thread(target=self._serve, name="microagg-request", daemon=True).start()
        return future

    def _serve(self) -> None:
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            self._idle.release()


REQUESTS = Daemons(REQUESTS_AT_ONCE)


def file_system_of(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Find the fsspec file system of a URL, and the path in it; its listings are never cached."""
    from fsspec.core import url_to_fs

    plain: dict[str, Any] = {} if "::" in url else {"use_listings_cache": False}
    if url.startswith(S3_SCHEMES):
        plain["config_kwargs"] = {**_S3_PATIENCE, **options.get("config_kwargs", {})}
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


class Found(NamedTuple):
    """An object of a listing: its bytes, and when it was last written, where the store tells."""

    size: int
    changed: datetime.datetime | None


def _found_by(info: dict[str, Any]) -> Found:
    moment = info.get("created") or info.get("mtime")
    return Found(int(info["size"]), moment if isinstance(moment, datetime.datetime) else None)


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
        # In one request: s3fs would ask for the size first, and fetch ranges that may be of different versions.
        once = {"max_concurrency": 1} if self.url.startswith(S3_SCHEMES) and end is None else {}
        return bytes(fs.cat_file(path, start=start or None, end=end, **once))

    def read_ranges(self, ranges: list[tuple[str, int, int]]) -> list[bytes]:
        def content(context: Context, name: str, start: int, end: int) -> bytes:
            return context.run(self.read, name, start, end) if end > start else b""

        contexts = [copy_context() for _ in ranges]
        return list(REQUESTS.map(content, contexts, *zip(*ranges, strict=True)) if ranges else ())

    def chunks(self, name: str) -> Iterator[bytes]:
        if (length := self.size(name)) is None:
            raise FileNotFoundError(name)
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
        settled(lambda: fs.pipe_file(path, data))

    @patient
    def put_file(self, name: str, local_path: Path, durable: bool = False) -> None:
        fs, path = self._at(name)
        settled(lambda: fs.put_file(str(local_path), path))

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
        try:
            settled(lambda: fs.pipe_file(path, data, mode="create"))
        except FileExistsError:
            return False
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
        def remove(name: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                settled(lambda: self._remove(name))

        with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
            list(pool.map(remove, names))

    def _remove(self, name: str) -> None:
        fs, path = self._at(name)
        fs.rm_file(path)

    def delete_all(self, prefix: str) -> None:
        self.delete_many(self.names(prefix))

    @patient
    def _found(self, prefix: str) -> dict[str, Found]:
        """List every object below a folder, asked afresh."""
        fs, path = self._at(prefix)
        fs.invalidate_cache(path)
        entries = if_there(lambda: fs.find(path, detail=True)) or {}
        files = {str(name): info for name, info in entries.items() if info["type"] == "file"}
        below = len(path) - len(prefix) if prefix else len(path) + 1
        return {name[below:]: _found_by(info) for name, info in files.items() if name.startswith(f"{path}/")}

    def names(self, prefix: str, unfinished: bool = False) -> list[str]:
        return list(self._found(prefix))

    def sizes(self, prefix: str) -> dict[str, int]:
        return {name: found.size for name, found in self._found(prefix).items()}

    def last_change(self, prefix: str) -> float | None:
        moments = [found.changed for found in self._found(prefix).values()]
        return max((moment.timestamp() for moment in moments if moment is not None), default=None)

    @patient
    def folders(self, prefix: str) -> list[str]:
        fs, path = self._at(prefix)
        fs.invalidate_cache(path)
        entries = if_there(lambda: fs.ls(path, detail=True)) or ()
        return [str(i["name"]).rstrip("/").rpartition("/")[2] for i in entries if i["type"] == "directory"]

    @patient
    def versioned(self, name: str) -> tuple[bytes | None, str]:
        """Read content (None: no such object) and what :meth:`put_if` needs to see that nobody changed it since."""
        data = if_there(lambda: self.read(name))
        return data, "" if data is None else hashlib.sha256(data).hexdigest()

    def put_if(self, name: str, data: bytes, version: str) -> bool:
        if not version:
            return self.create(name, data)
        # No conditional replacement in a file system's interface: look once more, then write. A rival in
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
