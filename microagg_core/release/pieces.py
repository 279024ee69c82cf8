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
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class Range(NamedTuple):
    """A range of bytes of an object, with a checksum of its own, and the task that made the object."""

    name: str
    start: int
    end: int
    checksum: int | str
    step: str
    number: int


def read_pieces(work: Store, pieces: Sequence[Piece]) -> list[bytes]:
    """Read several objects whole, as :func:`read_ranges` does."""
    return read_ranges(work, [Range(p.name, 0, p.bytes, p.sha256, p.step, p.number) for p in pieces], sha256_hex)


def read_ranges(work: Store, ranges: Sequence[Range], checksum_of: Callable[[bytes], int | str]) -> list[bytes]:
    """Read ranges of objects, in their order; looks at all of them before it tells which are damaged."""
    try:
        contents = _read_together(work, ranges)
    except TransientStorageError:  # a store that does not answer is not asked again
        raise
    except StorageError:
        there = [r for r in ranges if (size := work.size(r.name)) is not None and size >= r.end]
        if len(there) == len(ranges):
            raise
        found = dict(zip(there, _read_together(work, there), strict=True))
        contents = [found.get(r) for r in ranges]
    damaged = [
        r
        for r, data in zip(ranges, contents, strict=True)
        if data is None or len(data) != r.end - r.start or checksum_of(data) != r.checksum
    ]
    if damaged:
        raise DamagedWorkError(places=((r.step, r.number) for r in damaged))
    return [data for data in contents if data is not None]


def _read_together(work: Store, ranges: Sequence[Range]) -> list[bytes | None]:
    """Read ranges; those that follow each other in one object are one request."""
    requests: list[list[Range]] = []
    for following in ranges:
        last = requests[-1][-1] if requests else None
        if last and (last.name, last.end) == (following.name, following.start):
            requests[-1].append(following)
        else:
            requests.append([following])
    contents = work.read_ranges([(joined[0].name, joined[0].start, joined[-1].end) for joined in requests])
    pairs = zip(requests, contents, strict=True)
    return [data[r.start - joined[0].start : r.end - joined[0].start] for joined, data in pairs for r in joined]


def all_there(work: Store, pieces: Sequence[Piece]) -> bool:
    """Check that all pieces are there and as long as they were; who reads one checks its content."""
    return all(work.size(piece.name) == piece.bytes for piece in pieces)


def sealed(data: bytes) -> bytes:
    """Put a line that holds their checksum before data.

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


class Digest:
    """A running SHA-256 over plain values, for keys and fingerprints."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, *values: Any) -> Digest:
        """Fold values in; they must be JSON-serializable."""
        self._hash.update(json.dumps(values, sort_keys=True, default=str).encode())
        self._hash.update(b"\n")
        return self

    def hex(self) -> str:
        return self._hash.hexdigest()
