"""Cut a large CSV file into ranges of bytes that begin and end with records, whoever finds them.

The file is divided evenly by its size alone, and each division moved behind the next line end. A line end within quotes
ends no record, and whether a byte stands within quotes is a matter of all quotes before it. Arrow's reader, which says
what a file holds, opens quotes at the start of a field alone, takes two of them within quotes for one, and elsewhere
for text. So of a run of quotes only the parity counts, and what stands before it: an odd run at the start of a field
opens or closes, and an odd run anywhere else leaves a place that is not within quotes, whatever was before. What each
range does to being within quotes is found on its own and put together here; as a rule its last lines tell. No library
tells where records of CSV begin in the middle of a file.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import BinaryIO

import numpy as np

from microagg_core.arrays import Bools, Bytes, Ints
from microagg_core.data.formats.options import CsvInput

_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'


@dataclass(frozen=True)
class Quoting:
    """Effect of some lines on being within quotes.

    >>> lines = quoting(b'1,"two\\n', ord(","))
    >>> lines.after(False), lines.after(True), quoting(b'1,"two"\\n', ord(",")).after(True)
    (True, False, False)
    """

    #: Whether it does not matter what was before.
    settles: bool = False
    #: Whether the end is within quotes where the start is not; if it settles, in any case.
    turns: bool = False

    def after(self, within: bool) -> bool:
        """Tell whether the lines' end is within quotes, if their start is."""
        return self.turns != (within and not self.settles)

    def then(self, later: Quoting) -> Quoting:
        return later if later.settles else Quoting(self.settles, self.turns != later.turns)


def quoting(lines: bytes, delimiter: int) -> Quoting:
    """Tell what whole lines do to being within quotes; the first begins behind a line end, be it within quotes."""
    if b'"' not in lines:  # an order of magnitude faster than to look where they are
        return Quoting()
    _, opens = _odd_runs(np.frombuffer(lines, np.uint8), delimiter)
    settled = np.flatnonzero(~opens)
    since = settled[-1] + 1 if len(settled) else 0
    return Quoting(len(settled) > 0, (len(opens) - int(since)) % 2 == 1)


def record_starts(lines: bytes, delimiter: int, within: bool) -> Ints:
    """Find where records begin in whole lines, of which the first begins behind a line end; blank lines are none.

    >>> record_starts(b'1,"two\\r\\nlines"\\r\\n\\n2,x\\n', ord(","), within=False)
    array([ 0, 17])
    """
    data = np.frombuffer(lines, np.uint8)
    if not len(data):
        return np.empty(0, dtype=np.int64)
    is_end = (data == _LINE_FEED) | (data == _RETURN)
    behind = np.concatenate(([0], np.flatnonzero(is_end[:-1]) + 1))
    lines_with_text: Ints = behind[~is_end[behind]]
    runs, opens = _odd_runs(data, delimiter)
    return lines_with_text[~_within_after(opens, within)[np.searchsorted(runs, lines_with_text)]]


def count_line_ends(lines: bytes) -> int:
    """Count line ends, within quotes and outside.

    >>> count_line_ends(b"a\\rb\\r\\nc\\n")
    3
    """
    return lines.count(b"\n") + lines.count(b"\r") - lines.count(b"\r\n")


def _odd_runs(data: Bytes, delimiter: int) -> tuple[Ints, Bools]:
    """Find where runs of an odd number of quotes begin, and which of them begin a field."""
    quotes = np.flatnonzero(data == _QUOTE)
    firsts = np.flatnonzero(np.diff(quotes, prepend=-2) > 1)
    odd = np.diff(firsts, append=len(quotes)) % 2 == 1
    runs = quotes[firsts[odd]]
    return runs, (runs == 0) | np.isin(data[np.maximum(runs - 1, 0)], (_LINE_FEED, _RETURN, delimiter))


def _within_after(opens: Bools, within: bool) -> Bools:
    """Tell whether the text before the first of some odd runs, and behind each, is within quotes."""
    number = np.arange(1, len(opens) + 1)
    settled = np.maximum.accumulate(np.where(opens, 0, number))
    turned = (number - settled + (within & (settled == 0))) % 2 == 1
    return np.concatenate(([within], turned))


#: Bytes that a range aims at.
RANGE_BYTES = 64 * 2**20
#: What is read at first where a few lines are expected to do, and at most at once.
_LOOK_BYTES, _MOST_BYTES = 2**16, 4 * 2**20
_LINE_END = re.compile(rb"\r\n|\r|\n")
#: Besides those that are a table of 256 characters: the encodings in which a byte of ASCII is that character anywhere.
_OF_ASCII = {"utf-8", "utf-8-sig", "ascii", "iso8859-1"}

#: First and end, in bytes from the start of the file.
Range = tuple[int, int]


def even_ranges(size: int) -> list[Range]:
    """Divide a file of so many bytes; one range where more are not worth while.

    >>> even_ranges(150 * 2**20) == [(0, 75 * 2**20), (75 * 2**20, 150 * 2**20)]
    True
    """
    n = max(1, round(size / RANGE_BYTES))
    bounds = [size * i // n for i in range(n + 1)]
    return list(pairwise(bounds))


def has_plain_bytes(dialect: CsvInput) -> bool:
    """Tell whether quotes, line ends and delimiters are found in a file's bytes without decoding it.

    >>> [has_plain_bytes(CsvInput(encoding=name)) for name in ("utf-8", "cp1252", "utf-16", "cp037", "gbk")]
    [True, True, False, False, False]
    """
    codec = codecs.lookup(dialect.encoding)
    if codec.name in _OF_ASCII:
        return True
    decoder = codec.incrementaldecoder
    table = getattr(sys.modules.get(decoder.__module__ if decoder else ""), "decoding_table", "")
    return len(table) == 256 and all(table.find(mark) == ord(mark) for mark in f'"\r\n{dialect.delimiter}')


@dataclass(frozen=True)
class CsvBytes:
    file: BinaryIO
    dialect: CsvInput

    def scan(self, some: Range) -> tuple[int, Quoting]:
        """Move a range's end behind a line end, and tell what its lines do to being within quotes."""
        first = self._line_start(some[0]) if some[0] else self._text_start()
        end = self._line_start(some[1])
        return end, self._quoting(first, end)

    def record_ranges(self, size: int, scanned: Sequence[tuple[int, Quoting]]) -> list[Range]:
        """Divide the file into ranges that begin and end with records, by what the even ranges but the last came to."""
        first_records = list(islice(self._records(self._text_start(), size, within=False), 2))
        least = first_records[1] if len(first_records) == 2 else size  # behind the header
        ends = [end for end, _ in scanned[1:]] + [size]
        bounds, within = {0, size}, False
        for (start, lines), end in zip(scanned, ends, strict=True):
            within = lines.after(within)
            record = next(self._records(start, end, within=True), size) if within else start
            bounds |= {record} if least <= record else set()
        in_order = sorted(bounds)
        return list(pairwise(in_order))

    def line_of(self, start: int, number: int) -> int:
        """Find the line of the file in which a record begins.

        Args:
            start: where some record begins, from which records are counted; 0 is where the header is.
            number: of the record, from 1.
        """
        line, within = 1 + sum(count_line_ends(lines) for _, lines in self._lines(0, start)), False
        for _, lines in self._lines(start or self._text_start(), sys.maxsize):
            starts = record_starts(lines, ord(self.dialect.delimiter), within)
            if number <= len(starts):
                return line + count_line_ends(lines[: starts[number - 1]])
            line, number = line + count_line_ends(lines), number - len(starts)
            within = self._quoting_of(lines).after(within)
        return line

    def _quoting_of(self, lines: bytes) -> Quoting:
        return quoting(lines, ord(self.dialect.delimiter))

    def _read(self, start: int, length: int) -> bytes:
        self.file.seek(start)
        return self.file.read(length)

    def _text_start(self) -> int:
        is_utf8 = codecs.lookup(self.dialect.encoding).name.startswith("utf-8")
        return 3 if is_utf8 and self._read(0, 3) == codecs.BOM_UTF8 else 0

    def _line_start(self, start: int) -> int:
        """Find the first line end from there on, be it within quotes; the end of the file where there is none."""
        length = _LOOK_BYTES
        while True:
            data = self._read(start, length)
            line_end = _LINE_END.search(data)
            if len(data) < length:
                return start + (line_end.end() if line_end else len(data))
            if line_end and line_end.end() < length:  # or a line feed might follow
                return start + line_end.end()
            start, length = start + (line_end.start() if line_end else length), min(2 * length, _MOST_BYTES)

    def _quoting(self, start: int, end: int) -> Quoting:
        """Tell what the lines between two starts of lines do, looked at from the end until it is settled."""
        total, length = Quoting(), _LOOK_BYTES
        while end > start and not total.settles:
            first = max(start, end - length)
            lines, length = self._read(first, end - first), 2 * length
            if first > start:
                line_end = _LINE_END.search(lines)
                if line_end is None or line_end.end() == len(lines):
                    continue
                first, lines = first + line_end.end(), lines[line_end.end() :]
            total, end, length = self._quoting_of(lines).then(total), first, min(length, _MOST_BYTES)
        return total

    def _lines(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield whole lines at a time, from the start of a line on, with the place of their first."""
        length = _LOOK_BYTES
        while start < end:
            data = self._read(start, min(length, end - start))
            if len(data) < length:
                yield start, data
                return
            # A return at the end may be half of a line end.
            cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
            length *= 2
            if cut:
                yield start, data[:cut]
                start, length = start + cut, min(length, _MOST_BYTES)

    def _records(self, start: int, end: int, within: bool) -> Iterator[int]:
        for at, lines in self._lines(start, end):
            yield from (at + record_starts(lines, ord(self.dialect.delimiter), within)).tolist()
            within = self._quoting_of(lines).after(within)
