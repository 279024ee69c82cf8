"""Find out how a file of text is written: its format, encoding, delimiter and header."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
from charset_normalizer import from_bytes

from microagg_core.data.formats.inputs.csv import CsvText
from microagg_core.data.formats.options import compression_of
from microagg_core.data.formats.reading import format_of, input_formats, refuse_foreign
from microagg_core.data.places import Input
from microagg_core.errors import DataError
from microagg_core.profile.notations import notation_counts
from microagg_core.store.inputs import InputFile, open_input
from microagg_core.store.urls import shown

#: Enough to know a format by, and a first line of text.
_HEAD_BYTES = 4096
_PACKED = {b"\x1f\x8b": ("gzip", ".gz"), b"\x28\xb5\x2f\xfd": ("zstd", ".zst")}


def format_by_content(first: InputFile, source: Input) -> str:
    """The format of a file by what is in it; text of any ending is CSV."""
    place, ending = shown(first.url), format_of(first.url)
    with open_input(first.url, source.storage_options) as file:
        packed = file.read(_HEAD_BYTES)
        if not packed:
            raise DataError(f"{place} is empty; check where it came from")
        _refuse_other_packing(packed, first.url)
        head = packed
        if compression_of(first.url):
            head = CsvText(file, first.url, n_fetched=_HEAD_BYTES).read(_HEAD_BYTES)
            if _marked(head):
                raise DataError(f"{place} is {_marked(head)} within {compression_of(first.url)}; unpack it")
    content = _marked(head) or "csv"
    refuse_foreign(head, place)
    if ending and ending != content:
        what = "text" if content == "csv" else content
        fitting = next(form.endings[0] for form in input_formats() if form.name == content)
        raise DataError(f"{place} holds {what}, not {ending} as its ending says; rename it to end in {fitting}")
    return content


def _marked(head: bytes) -> str | None:
    return next((form.name for form in input_formats() if head.startswith(form.marks)), None)


def _refuse_other_packing(head: bytes, url: str) -> None:
    said = compression_of(url)
    actual = next(((name, end) for mark, (name, end) in _PACKED.items() if head.startswith(mark)), None)
    if actual and said != actual[0]:
        raise DataError(f"{shown(url)} is packed with {actual[0]}; rename it to end in .csv{actual[1]}")
    if said and not actual:
        raise DataError(f"{shown(url)} is not packed with {said}, as its ending says; rename it")


#: Of a larger file so much is decoded: an hour at a slow store would tell little more.
CHECKED_BYTES = 256 * 2**20
_BLOCK_BYTES = 4 * 2**20
#: Marks that some write first; UTF-32's begins like UTF-16's. The reader takes UTF-8 with its mark and without.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
#: A text of western languages in UTF-16 has a zero in nearly every second byte.
_ZEROS_OF_UTF16 = 0.4
#: What is not ASCII in western Europe's texts: where it makes up nearly all, cp1252 was right.
_WESTERN = frozenset(
    "äöüÄÖÜßéèêëÉÈÊËàáâãåæÀÁÂÃÅÆçÇíìîïÍÌÎÏñÑóòôõøÓÒÔÕØúùûÚÙÛýÿœŒžŽšŠ€£°§²³µ·«»’‘“”„–…¡¿ªº\xa0´`¨ðÐþÞ®©½¼¾"
)
_NEARLY_ALL = 0.95
#: Bytes of lines with other characters than ASCII that are enough to judge an encoding by.
_TELLING_BYTES = 2**16
_JUDGED = "it is not UTF-8, and its characters are those of {name}: see whether names and accents look right"


def encoding_of(text: BinaryIO, place: str) -> tuple[str, str]:
    """Find the encoding of an unpacked file, read from its start, and say why where that is a judgement."""
    first = text.read(_BLOCK_BYTES)
    for mark, name in _BYTE_ORDER_MARKS.items():
        if first.startswith(mark):
            _refuse_undecodable(_blocks(first, text), name, place)
            return name, ""
    if unmarked := _utf_16_without_mark(first):
        _refuse_undecodable(_blocks(first, text), unmarked, place)
        return unmarked, "it has no mark of its encoding, and every second byte is zero"
    if b"\0" in first:
        raise DataError(f"{place} holds bytes that no text has, so it is no CSV; check what kind of file it is")
    telling = _lines_beside_utf_8(_blocks(first, text), place)
    return _judged(telling, place) if telling else ("utf-8", "")


def _utf_16_without_mark(first: bytes) -> str | None:
    half = max(1, len(first) // 2)
    even, odd = first[::2].count(0) / half, first[1::2].count(0) / half
    if max(even, odd) > _ZEROS_OF_UTF16 > 10 * min(even, odd):
        return "utf-16-le" if odd > even else "utf-16-be"
    return None


def _blocks(first: bytes, text: BinaryIO) -> Iterator[bytes]:
    n = 0
    while first and n < CHECKED_BYTES:
        yield first
        n += len(first)
        first = text.read(_BLOCK_BYTES)


def _refuse_undecodable(blocks: Iterator[bytes], name: str, place: str) -> None:
    decoder, line, n = codecs.getincrementaldecoder(name)(), 1, 0
    try:
        for block in blocks:
            line, n = line + decoder.decode(block).count("\n"), n + len(block)
        decoder.decode(b"", final=n < CHECKED_BYTES)
    except UnicodeError:
        raise DataError(
            f"{place}: its first bytes say {name}, which it is not from about line {line} on; write it again as UTF-8"
        ) from None


def _lines_beside_utf_8(blocks: Iterator[bytes], place: str) -> bytes:
    """Take lines with bytes beside ASCII of a file that is not UTF-8; nothing where it is."""
    n_bad, n_right, line, first_line, telling = 0, 0, 1, 0, b""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for block in blocks:
        text = decoder.decode(block)
        n_worse = text.count("\ufffd")
        if n_worse and not n_bad:
            first_line = line + text[: text.index("\ufffd")].count("\n")
        n_bad += n_worse
        n_right += len(text) - len(text.encode("ascii", "ignore")) - n_worse
        if not block.isascii() and len(telling) < _TELLING_BYTES:
            telling += b"\n".join(some for some in block.split(b"\n") if not some.isascii())[:_TELLING_BYTES]
        line += text.count("\n")
    if n_right > n_bad > 0:
        raise DataError(
            f"{place}:{first_line}: the text is UTF-8 elsewhere and not in this line; correct it, or say --encoding"
        )
    return telling if n_bad else b""


def _judged(telling: bytes, place: str) -> tuple[str, str]:
    western = telling.decode("cp1252", "replace")
    others = [character for character in western if not character.isascii()]
    if sum(character in _WESTERN for character in others) >= _NEARLY_ALL * len(others):
        return "cp1252", _JUDGED.format(name="cp1252")
    best = from_bytes(telling).best()
    if best is None or best.coherence == 0:
        raise DataError(f"{place} is not UTF-8, and its encoding cannot be told; say --encoding, or write it as UTF-8")
    return best.encoding, _JUDGED.format(name=best.encoding)


#: What may separate cells, the commonest first.
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
#: Records by which a file is judged.
_MOST_RECORDS = 2000
#: Cells of a text file are shorter, unless a quote is left open.
_MOST_CHARACTERS = 2**20
#: A delimiter that cuts a greater share of the lines into as many cells is meant as one.
_DELIMITED_SHARE = 0.5


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
    def usual(self) -> int:
        """Count the cells that most records have."""
        return Counter(map(len, self.records)).most_common(1)[0][0] if self.records else 0

    @property
    def weight(self) -> int:
        """Count the records that have the usual number of cells, if that is more than one."""
        return sum(len(record) == self.usual for record in self.records) if self.usual > 1 else 0


def delimiter_of(head: str, is_whole: bool, place: str, delimiter: str | None = None) -> str:
    """What separates the cells of a file that begins with ``head``; a ``delimiter`` that is asked for is tried alone.

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
    """Take a file as one column; refuse it if a delimiter cuts its header or most lines, or none leaves all whole."""
    best = max(tried, key=lambda lines: (lines.weight, lines.n_names))
    uncut = [lines for lines in tried if all(len(record) == 1 for record in lines.records)]
    if not uncut or best.weight > _DELIMITED_SHARE * len(best.records) or any(lines.n_names > 1 for lines in tried):
        raise _ragged(best, tried, place)
    return uncut[0]


def _ragged(best: _Lines, tried: list[_Lines], place: str) -> DataError:
    number = next(i for i, record in enumerate(best.records) if len(record) != best.usual)
    record, called = best.records[number], _called(best.delimiter)
    if number == 0 and len(record) == best.usual - 1:
        says = (
            f"the header has {len(record)} names and the lines below {best.usual} cells; name every column (R's row "
            "names have none: write the file without), or take out delimiters at the ends of lines"
        )
    elif other := _other_delimiter(record, best, tried, number):
        says = (
            f"the line is separated by a {_called(other)} and others by a {called}; write the file with one delimiter"
        )
    elif number == 0:
        header = next(i for i, record in enumerate(best.records) if len(record) == best.usual)
        says = (
            f"the line has {len(record)} cells and most have {best.usual}, as cut at each {called}; take out what "
            f"stands above line {best.numbers[header]}, if that is the header"
        )
    else:
        cells = f"{len(record)} cells instead of {best.usual}"
        says = f"the line has {cells}, as cut at each {called}; correct it, or say --delimiter"
    return DataError(f"{place}:{best.numbers[number]}: {says}")


def _other_delimiter(record: Record, best: _Lines, tried: list[_Lines], number: int) -> str | None:
    """Find what cuts a record into as many cells as others have, where the best delimiter does not."""
    if len(record) > 1:
        return None
    cut = {one.delimiter: len(one.records[number]) for one in tried if len(one.records) > number}
    return next((name for name, n in cut.items() if n == best.usual > 1 and name != best.delimiter), None)


def _called(delimiter: str) -> str:
    return DELIMITERS.get(delimiter, repr(delimiter))


#: With fewer records nobody can tell a second header line from a record.
_LEAST_RECORDS = 3
#: Of the first line's cells, as many stand in their columns again where it is a record like the others.
_MANY = 0.5
_NO_NAMES = {"null", "text"}

Record = Sequence[str]


def refuse_doubtful_header(header: Record, records: Sequence[Record], place: str) -> None:
    """Stop where the first lines are not one line of names and then records; no cell is quoted but a repeated name."""
    columns = [[record[number] for record in records] for number in range(len(header))]
    if _is_record(header, columns):
        raise DataError(
            f"{place}:1: the first line looks like a record, not like a header; write a line of column names above it"
        )
    if "" in header:
        number = header.index("") + 1
        hint = " (row names or an index, as R and pandas write them? write the file without)" if number == 1 else ""
        raise DataError(f"{place}:1: column {number} has no name; give it one{hint}")
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise DataError(f"{place}:1: more than one column is named {', '.join(map(repr, twice))}; rename them")
    if n := _n_odd_firsts(columns):
        raise DataError(
            f"{place}: the first line behind the header holds text where the lines below hold numbers or dates, in {n} "
            "of the columns; take it out if it is a second header line (labels, units), else correct it"
        )
    for column in columns:
        cells = [cell for cell in column if cell]
        if len(cells) >= _LEAST_RECORDS and all(len(c) > 1 and c[0] == c[-1] == "'" for c in cells):
            raise DataError(f"{place}: cells are quoted with ' instead of \"; write the file with double quotes")


def _is_record(header: Record, columns: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first line is a record: it has numbers or days over such columns; without any, cells repeat."""
    told = [(name, kind) for name, column in zip(header, columns, strict=True) if (kind := _kind(column))]
    if told:
        return all(_kind([name]) == kind for name, kind in told)
    again = sum(name in column for name, column in zip(header, columns, strict=True) if name)
    return again > _MANY * len(header)


def _kind(column: Sequence[str]) -> str | None:
    """Tell numbers from days, where a column holds nothing else."""
    notations = notation_counts(pa.array(column, pa.string())).keys() - {"null"}
    if not notations or notations & _NO_NAMES:
        return None
    return "numbers" if notations <= {"whole", "decimal", "comma", "either", "code"} else min(notations)


def _n_odd_firsts(columns: Sequence[Sequence[str]]) -> int:
    """Count columns that would be of numbers or days but for their first cell; 0 where those are less than half."""
    if not columns or len(columns[0]) < _LEAST_RECORDS:
        return 0
    firsts = [column[0] for column in columns if _kind(column[1:])]
    odd = notation_counts(pa.array(firsts, pa.string())).get("text", 0)
    return odd if odd > _MANY * len(firsts) else 0
