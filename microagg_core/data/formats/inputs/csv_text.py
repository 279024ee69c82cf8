"""The text of a CSV file as it is read: a range of its bytes, or what is in it where it is compressed."""

from __future__ import annotations

import io
import sys
from typing import Any, BinaryIO

import pyarrow as pa

from microagg_core.data.formats.inputs.contract import Place
from microagg_core.errors import DataError
from microagg_core.spec.formats import compression_of
from microagg_core.store.urls import shown

#: Fetched at a time: more than who reads asks for, as a store takes its time to answer.
_FETCH_BYTES = 8 * 2**20


class CsvText(io.RawIOBase):
    """Some bytes of an open file, or all of it unpacked, for who reads them in turn; the file stays open."""

    def __init__(self, file: BinaryIO, url: str, place: Place = (), n_fetched: int = _FETCH_BYTES) -> None:
        self._at, self._end = place or (0, sys.maxsize)
        self._file, self._url, self._n_fetched = file, url, n_fetched
        # Behind an empty line, which is no record, nothing at the start of a range is taken for the mark of UTF-8.
        self._held = b"\n" if self._at else b""
        file.seek(self._at)
        if compression := compression_of(url):
            self._file = pa.CompressedInputStream(CsvText(file, "", place, n_fetched), compression)

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes; with fewer at the end alone.

        Raises:
            DataError: the file cannot be unpacked.
        """
        n = len(buffer)
        while len(self._held) < n and self._at < self._end:
            got = self._read(min(max(n, self._n_fetched), self._end - self._at))
            self._held += got
            self._at = self._at + len(got) if got else self._end
        n = min(n, len(self._held))
        buffer[:n], self._held = self._held[:n], self._held[n:]
        return n

    def _read(self, n: int) -> bytes:
        try:
            return self._file.read(n)
        except OSError:
            if not compression_of(self._url):
                raise
            raise DataError(f"{shown(self._url)} cannot be unpacked (cut short, or damaged); write it again") from None
