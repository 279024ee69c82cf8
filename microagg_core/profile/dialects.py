"""How a CSV file is written, told from its first lines: what separates cells, and that the lines fit together."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass

from microagg_core.errors import DataError
from microagg_core.profile.headers import Record, refuse_doubtful_header

#: What may separate cells, the commonest first.
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
#: Records by which a file is judged.
_MOST_RECORDS = 2000
#: Cells of a text file are shorter, unless a quote is left open.
_MOST_CHARACTERS = 2**20
#: A delimiter that cuts a greater share of the lines into as many cells is meant as one.
_MOST_OF_THEM = 0.5


@dataclass(frozen=True)
class _Lines:
    """The first records as one delimiter cuts them, and the lines where they begin."""

    delimiter: str
    records: list[Record]
    numbers: list[int]

    @property
    def n_names(self) -> int:
        return len(self.records[0]) if self.records else 0

    @property
    def agree(self) -> bool:
        return self.n_names > 1 and all(len(record) == self.n_names for record in self.records)

    @property
    def agree_in_one(self) -> bool:
        """Tell whether the delimiter cuts no line."""
        return all(len(record) == 1 for record in self.records)

    @property
    def usual(self) -> int:
        """Count the cells that most records have."""
        return Counter(map(len, self.records)).most_common(1)[0][0] if self.records else 0

    @property
    def weight(self) -> int:
        """Count the records that have the usual number of cells, if that is more than one."""
        return sum(len(record) == self.usual for record in self.records) if self.usual > 1 else 0


def delimiter_of(head: str, is_whole: bool, place: str, delimiter: str | None = None) -> str:
    """What separates the cells of a file that begins with ``head``; a ``delimiter`` that is asked for is tried alone.

    Raises:
        DataError: the lines fit together in no way, or in more than one; or the header is none.

    >>> delimiter_of("name;age\\nAyr;1,5\\n", True, "people.csv")
    ';'
    """
    tried = [_lines(head, is_whole, one) for one in ([delimiter] if delimiter else DELIMITERS)]
    if not any(lines.records for lines in tried):
        raise DataError(f"{place} has no lines, or a first one without an end; check where it came from")
    agreeing = [lines for lines in tried if lines.agree]
    if len(agreeing) > 1:
        ways = " and ".join(f"a {DELIMITERS[lines.delimiter]} ({lines.n_names} columns)" for lines in agreeing)
        raise DataError(f"{place} can be read with {ways} between its cells; say --delimiter")
    lines = agreeing[0] if agreeing else _single_column(tried, place)
    if len(lines.records) < 2:
        raise DataError(f"{place} has no records behind its header; check where it came from")
    refuse_doubtful_header(lines.records[0], lines.records[1:], place)
    return lines.delimiter


def _lines(head: str, is_whole: bool, delimiter: str) -> _Lines:
    reader = csv.reader(io.StringIO(head.removeprefix("\ufeff"), newline=""), delimiter=delimiter)
    csv.field_size_limit(_MOST_CHARACTERS)
    records: list[Record] = []
    numbers: list[int] = []
    start = 1
    try:
        for record in reader:
            if record:
                records.append(record)
                numbers.append(start)
            start = reader.line_num + 1
            if len(records) > _MOST_RECORDS:
                break
    except csv.Error:  # a quote that is left open
        pass
    if not is_whole and len(records) <= _MOST_RECORDS:
        records, numbers = records[:-1], numbers[:-1]
    return _Lines(delimiter, records, numbers)


def _single_column(tried: list[_Lines], place: str) -> _Lines:
    """The one column of a file whose lines no delimiter cuts.

    Raises:
        DataError: some cut most of them, or the header, and the lines do not fit together.
    """
    best = max(tried, key=lambda lines: (lines.weight, lines.n_names))
    uncut = [lines for lines in tried if lines.agree_in_one]
    if not uncut or best.weight > _MOST_OF_THEM * len(best.records) or any(lines.n_names > 1 for lines in tried):
        raise _ragged(best, tried, place)
    return uncut[0]


def _ragged(best: _Lines, tried: list[_Lines], place: str) -> DataError:
    number = next(i for i, record in enumerate(best.records) if len(record) != best.usual)
    record, line = best.records[number], best.numbers[number]
    place_of_line = f"{place}:{line}"
    if number == 0 and len(record) == best.usual - 1:
        return DataError(
            f"{place_of_line}: the header has {len(record)} names and the lines below {best.usual} cells; name every "
            "column (R's row names have none: write the file without), or take out delimiters at the ends of lines"
        )
    if other := _other_delimiter(record, best, tried, number):
        return DataError(
            f"{place_of_line}: the line is separated by a {_called(other)} and others by a {_called(best.delimiter)}; "
            "write the file with one delimiter"
        )
    if number == 0:
        header = next(i for i, record in enumerate(best.records) if len(record) == best.usual)
        advice = f"take out what stands above line {best.numbers[header]}, if that is the header"
        return DataError(
            f"{place_of_line}: the line has {len(record)} cells and most have {best.usual}, as cut at each "
            f"{_called(best.delimiter)}; {advice}"
        )
    return DataError(
        f"{place_of_line}: the line has {len(record)} cells instead of {best.usual}, as cut at each "
        f"{_called(best.delimiter)}; correct it, or say --delimiter"
    )


def _other_delimiter(record: Record, best: _Lines, tried: list[_Lines], number: int) -> str | None:
    """Find what cuts a record into as many cells as others have, where the best delimiter does not."""
    if len(record) > 1:
        return None
    cut = {one.delimiter: len(one.records[number]) for one in tried if len(one.records) > number}
    return next((name for name, n in cut.items() if n == best.usual > 1 and name != best.delimiter), None)


def _called(delimiter: str) -> str:
    return DELIMITERS.get(delimiter, repr(delimiter))
