"""Reading and writing whole objects below one URL, on a disk or in a remote store alike.

Whatever lies beneath: an object appears whole or not at all, :meth:`Store.create` has exactly one winner, a listing is
fresh, and every trouble is a :class:`~microagg_core.errors.StorageError` that names the URL and what to do.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

from microagg_core.errors import StorageError, TransientStorageError
from microagg_core.store.buckets import BucketStore
from microagg_core.store.connections import is_bucket
from microagg_core.store.disk import LocalDisk
from microagg_core.store.failures import explaining
from microagg_core.store.remote import RemoteStore
from microagg_core.store.urls import is_local, join_url, local_path, shown

Names = list[str]
Contents = list[bytes]


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """Write JSON in the one way used here: sorted keys, UTF-8, a newline at the end; never NaN.

    >>> canonical_json({"b": 1, "a": "µ"}).decode()
    '{\\n "a": "µ",\\n "b": 1\\n}\\n'
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1)
    return (text + "\n").encode()


def _checked(name: str) -> str:
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError("an object's name is relative and does not climb")
    return name


@dataclass(frozen=True)
class Store:
    """Objects below one URL; cheap to make, to pickle and to send to a worker.

    Names are relative, with ``/`` between their parts. Nothing is opened before the first use. Where a later try may
    succeed, a trouble is a ``TransientStorageError``; where the URL's kind is unknown or its package missing, a
    ``SpecError``.

    >>> store = Store("memory://example")
    >>> store.put("a/b", b"text"); store.read("a/b"), store.create("a/b", b"other"), store.list("")
    (b'text', False, ['a/b'])
    """

    url: str
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False, hash=False)
    #: On a disk, folders and files are for this user alone, whatever the umask: for work areas.
    private: bool = False
    #: For reading what others keep. On a disk, links below the root are as good as what they point at; else they are
    #: refused, so that nobody can lead a write or a removal out of an output or a work area. A bucket is read through
    #: fsspec, with whatever options it knows.
    follow_links: bool = False

    def __str__(self) -> str:
        return shown(self.url)

    def url_of(self, name: str) -> str:
        return join_url(self.url, name)

    @property
    def folder(self) -> Path | None:
        return Path(local_path(self.url)) if is_local(self.url) and "::" not in self.url else None

    @property
    def _backend(self) -> LocalDisk | RemoteStore:
        if (folder := self.folder) is not None:
            return LocalDisk(folder, self.private, self.follow_links)
        kind = BucketStore if is_bucket(self.url) and not self.follow_links else RemoteStore
        return kind(self.url, dict(self.storage_options))

    @contextmanager
    def _doing(self, doing: str, name: str) -> Iterator[LocalDisk | RemoteStore]:
        with explaining(self.url_of(_checked(name)), doing):
            yield self._backend

    def read(self, name: str) -> bytes:
        with self._doing("reading", name) as backend:
            return backend.read(name)

    def read_if_there(self, name: str) -> bytes | None:
        try:
            return self.read(name)
        except TransientStorageError:  # a store that does not answer is not asked again
            raise
        except StorageError:
            # It may have been made since, by another run; what cannot be read says so again.
            return self.read(name) if self.exists(name) else None

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Read bytes ``start`` to ``end`` (exclusive) of an object, which must be longer than ``start``."""
        with self._doing("reading", name) as backend:
            return backend.read(name, start, end) if end > start else b""

    def read_ranges(self, ranges: Sequence[tuple[str, int, int]]) -> Contents:
        """Read several ranges ``(name, start, end)``, at once where the store can, in the order asked for."""
        with self._doing("reading", "") as backend:
            return backend.read_ranges(list(ranges))

    def chunks(self, name: str) -> Iterator[bytes]:
        with self._doing("reading", name) as backend:
            yield from backend.chunks(name)

    def open(self, name: str, *, sequential: bool = False) -> BinaryIO:
        """Open a seekable binary file to read from.

        ``sequential`` reads ahead, for CSV; without it exactly the bytes asked for are fetched, for Parquet.
        """
        with self._doing("reading", name) as backend:
            return backend.open(name, sequential)

    @contextmanager
    def local_copy(self, name: str) -> Iterator[Path]:
        """Yield a local file with the object's content, not to be written to."""
        with self._doing("reading", name) as backend:
            copy = backend.local_copy(name)
            path = copy.__enter__()
        try:
            yield path
        finally:
            copy.__exit__(None, None, None)

    def put(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Write or replace an object in one step; ``durable`` waits until a disk has it for good."""
        with self._doing("writing", name) as backend:
            backend.put(name, data, durable)

    def put_file(self, name: str, path: str | Path, *, durable: bool = False) -> None:
        """Write or replace an object with the content of a local file, which may be larger than memory."""
        with self._doing("writing", name) as backend:
            backend.put_file(name, Path(path), durable)

    def put_checked(self, name: str, chunks: Iterable[bytes], sha256: str, n_bytes: int) -> bool:
        """Write a stream if it has this checksum and length; False, and nothing written, if it has not."""
        with self._doing("writing", name) as backend:
            return backend.put_checked(name, chunks, sha256, n_bytes)

    def create(self, name: str, data: bytes) -> bool:
        """Make an object that must not be there yet: True if we made it, False if somebody already had.

        False may also mean that a request of ours arrived, its answer was lost, and the retry found the
        object: who needs to know reads it back and compares.
        """
        with self._doing("writing", name) as backend:
            return backend.create(name, data)

    def size(self, name: str) -> int | None:
        with self._doing("looking for", name) as backend:
            return backend.size(name)

    def exists(self, name: str) -> bool:
        """Look for an object; a folder is none."""
        return self.size(name) is not None

    def delete(self, name: str) -> None:
        """Remove an object, and on a disk the folders this leaves empty; a missing one is fine.

        Where a bucket of S3 keeps versions of what is removed, they go too; a ``StorageError`` says that they may not.
        """
        with self._doing("deleting", name) as backend:
            backend.delete(name)

    def delete_many(self, names: Sequence[str]) -> None:
        """Remove many objects, a thousand with one request where the store can."""
        with self._doing("deleting", "") as backend:
            backend.delete_many([_checked(name) for name in names])

    def delete_all(self, prefix: str) -> None:
        """Remove everything below a folder; a missing one is fine."""
        with self._doing("deleting", prefix) as backend:
            backend.delete_all(prefix)

    def remove_abandoned(self, prefix: str = "", *, everything: bool = False) -> int:
        """Remove from a disk what writers left unfinished that are gone, or silent for an hour; return how many.

        ``everything`` removes also what may be written at this moment. Other stores keep nothing unfinished in sight.
        """
        with self._doing("deleting", prefix) as backend:
            return backend.remove_abandoned(prefix, everything) if isinstance(backend, LocalDisk) else 0

    def list(self, prefix: str = "", *, unfinished: bool = False) -> Names:
        """List the names of all objects below a folder, sorted, asked afresh; none where it is missing.

        ``unfinished`` adds the files on a disk that a killed process never completed.
        """
        with self._doing("listing", prefix) as backend:
            return sorted(backend.names(prefix.rstrip("/"), unfinished))

    def sizes(self, prefix: str) -> dict[str, int]:
        """Map names to bytes of all objects below a folder, from one listing; none where it is missing."""
        with self._doing("listing", prefix) as backend:
            return backend.sizes(prefix.rstrip("/"))

    def folders(self, prefix: str = "") -> Names:
        """List the folders one level below; one that was emptied may show for a while in an object store."""
        with self._doing("listing", prefix) as backend:
            return sorted(set(backend.folders(prefix.rstrip("/"))))

    def last_change(self, prefix: str) -> float | None:
        """Find when anything below a folder was last written, in seconds since 1970; None where there is nothing."""
        with self._doing("listing", prefix) as backend:
            return backend.last_change(prefix.rstrip("/"))

    def versioned(self, name: str) -> tuple[bytes | None, str]:
        """Read an object (None where there is none), with a version for :meth:`put_if`."""
        with self._doing("reading", name) as backend:
            return backend.versioned(name)

    def put_if(self, name: str, data: bytes, version: str) -> bool:
        """Replace an object if it is still the version that :meth:`versioned` saw; False if it changed.

        Exact on a local disk and in buckets; elsewhere somebody may slip in between, so look again afterwards.
        """
        with self._doing("writing", name) as backend:
            return backend.put_if(name, data, version)

    def read_json(self, name: str) -> Any:
        try:
            return json.loads(self.read(name))
        except ValueError:
            raise StorageError(
                f"{shown(self.url_of(name))} is damaged: it is not JSON; remove it and run again"
            ) from None

    def put_json(self, name: str, value: Any) -> bytes:
        data = canonical_json(value)
        self.put(name, data)
        return data

    def copy_from(self, other: Store, name: str, new_name: str) -> None:
        with other.local_copy(name) as path:
            self.put_file(new_name, path)


class Standing(Enum):
    """Kind of thing in the place of a file; of a bucket's objects all are files, or missing."""

    MISSING = "missing"
    FILE = "a file"
    #: A file that has another name as well, by which it may be changed.
    SHARED = "a hard link"
    LINK = "a link"
    #: A folder, a pipe, a device.
    SPECIAL = "no file"


def standing_of(store: Store, name: str) -> Standing:
    """Look at what is in the place of an object; no link below the store's root is followed, and nothing is opened."""
    path = store.folder
    if path is None:
        return Standing.MISSING if store.size(name) is None else Standing.FILE
    for step in name.split("/"):
        path /= step
        try:
            state = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return Standing.MISSING
        if stat.S_ISLNK(state.st_mode):
            return Standing.LINK
    if not stat.S_ISREG(state.st_mode):
        return Standing.SPECIAL
    return Standing.SHARED if state.st_nlink > 1 else Standing.FILE


def linked_folders(store: Store) -> int:
    """Count links to folders below a store's root on a disk; a listing, which follows none, shows none."""
    if store.folder is None:
        return 0
    walk = os.walk(store.folder)
    return sum(os.path.islink(os.path.join(above, name)) for above, names, _ in walk for name in names)  # noqa: PTH114, PTH118
