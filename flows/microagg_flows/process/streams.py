"""Standard streams that may be closed: what nobody reads is not worth a failure, and never a traceback."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

#: The reader has gone (`| head`), the terminal has gone, or there never was anybody.
_NOBODY = {errno.EPIPE, errno.EIO, errno.EBADF, errno.ESHUTDOWN}


class _Outlet(io.FileIO):
    """A descriptor to write to for as long as somebody reads there."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Write, or let it go where nobody reads any more."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _NOBODY:
                raise
            return memoryview(data).nbytes


def _occupy_closed() -> set[int]:
    """Have something stand where standard streams are closed; which they were.

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
    """In the block, standard output and error are written to as long as somebody reads them.

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
        sys.stdin, sys.stdout, sys.stderr = before


def _forgiving(stream: TextIO | None, real: TextIO | None, number: int) -> TextIO:
    if stream is not None and stream is not real:
        return stream  # somebody in this process listens
    outlet = _Outlet(number, "w", closefd=False)
    encoding = stream.encoding if stream is not None else "utf-8"
    at_once = number == 2 or outlet.isatty()
    return io.TextIOWrapper(
        io.BufferedWriter(outlet),  # type: ignore[type-var]
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=at_once,
    )
