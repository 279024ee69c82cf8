"""What is read back from the work area: never a byte that was not checked.

There are two kinds of objects. A *piece* is named, with its length and SHA-256, by whoever made it: by the receipt of
a task, or in the hands of the flow; who reads it is handed that name and checksum. What nobody can name, because a run
begins there (a receipt, the salt, a sign of life), is *sealed*: it carries its own checksum in its first line.

Damage is nothing that a person has to deal with. A receipt that is none, or whose pieces are gone, means that the task
is not done; a piece that does not match ends in a :class:`~microagg_core.errors.DamagedWorkError`, which names the
task that has to make it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from microagg_core.errors import DamagedWorkError, StorageError, TransientStorageError
from microagg_core.store.objects import Store, sha256_hex

#: A task: its step, and its number within it.
Place = tuple[str, int]

_SEAL_BYTES = 65


@dataclass(frozen=True)
class Piece:
    """An object of the work area: its name, what it must hold, the task that made it, and which output it is."""

    name: str
    bytes: int
    sha256: str
    step: str
    number: int
    output: str
    index: int = 0


def read_pieces(work: Store, pieces: Sequence[Piece]) -> list[bytes]:
    """Read several objects, in their order; looks at all of them before it tells which are damaged.

    Raises:
        DamagedWorkError: naming the makers of all that are gone or not what was written.
    """
    contents = _contents(work, pieces)
    pairs = zip(pieces, contents, strict=True)
    damaged = [piece for piece, data in pairs if data is None or sha256_hex(data) != piece.sha256]
    if damaged:
        raise DamagedWorkError(places=((piece.step, piece.number) for piece in damaged))
    return [data for data in contents if data is not None]


def _contents(work: Store, pieces: Sequence[Piece]) -> list[bytes] | list[bytes | None]:
    """Ask for all objects at once; for one by one where some are not there."""
    try:
        return work.read_ranges([(piece.name, 0, piece.bytes) for piece in pieces])
    except TransientStorageError:  # a store that does not answer is not asked again
        raise
    except StorageError:
        return [work.read_if_there(piece.name) for piece in pieces]


@dataclass(frozen=True)
class Range:
    """A range of bytes of an object, with a checksum of its own, and the task that made the object."""

    name: str
    start: int
    end: int
    checksum: int
    step: str
    number: int


def read_ranges(work: Store, ranges: Sequence[Range], checksum_of: Callable[[bytes], int]) -> list[bytes]:
    """The contents of ranges of larger objects, in their order.

    Raises:
        DamagedWorkError: naming the makers of all that are gone or not what was written.
    """
    try:
        contents = _read_together(work, ranges)
    except TransientStorageError:  # a store that does not answer is not asked again
        raise
    except StorageError:
        short = [r for r in ranges if (work.size(r.name) or 0) < r.end]
        if not short:
            raise
        raise DamagedWorkError(places=((r.step, r.number) for r in short)) from None
    pairs = zip(ranges, contents, strict=True)
    damaged = [r for r, data in pairs if len(data) != r.end - r.start or checksum_of(data) != r.checksum]
    if damaged:
        raise DamagedWorkError(places=((r.step, r.number) for r in damaged))
    return contents


def _read_together(work: Store, ranges: Sequence[Range]) -> list[bytes]:
    """Read ranges; those that follow each other in one object are one request."""
    requests: list[list[Range]] = []
    for one in ranges:
        before = requests[-1][-1] if requests else None
        if before and (before.name, before.end) == (one.name, one.start):
            requests[-1].append(one)
        else:
            requests.append([one])
    contents = work.read_ranges([(some[0].name, some[0].start, some[-1].end) for some in requests])
    pairs = zip(requests, contents, strict=True)
    return [data[one.start - some[0].start : one.end - some[0].start] for some, data in pairs for one in some]


def all_there(work: Store, pieces: Sequence[Piece]) -> bool:
    """Check that all pieces are there and as long as they were; who reads one checks its content."""
    return all(work.size(piece.name) == piece.bytes for piece in pieces)


def sealed(data: bytes) -> bytes:
    """Data behind a line that holds its checksum.

    >>> unsealed(sealed(b"text")), unsealed(sealed(b"text")[:-1]), unsealed(b"")
    (b'text', None, None)
    """
    return f"{sha256_hex(data)}\n".encode() + data


def unsealed(data: bytes) -> bytes | None:
    """Inverse of :func:`sealed`; None where the data are not what was sealed."""
    content = data[_SEAL_BYTES:]
    return content if data[:_SEAL_BYTES] == f"{sha256_hex(content)}\n".encode() else None


def read_sealed(work: Store, name: str) -> bytes | None:
    """Read a sealed object; None where it is gone or damaged."""
    data = work.read_if_there(name)
    return None if data is None else unsealed(data)


@dataclass
class Digest:
    """A running SHA-256 over plain values, for keys and fingerprints."""

    _hash: Any = field(default_factory=hashlib.sha256)

    def add(self, *values: Any) -> Digest:
        """Fold values in; they must be JSON-serializable."""
        self._hash.update(json.dumps(values, sort_keys=True, default=str).encode())
        self._hash.update(b"\n")
        return self

    def hex(self) -> str:
        return str(self._hash.hexdigest())
