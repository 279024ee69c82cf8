"""A CSV file that is read in ranges of bytes holds the records that it holds when it is read whole, in their order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from covering import examples
from microagg_core.data.formats.csv_bytes import count_line_ends, quoting, record_starts
from microagg_core.data.formats.options import CsvInput
from microagg_core.data.formats.reading import InputListing, input_format, list_input, read_part
from microagg_core.data.places import Input
from microagg_core.errors import DataError

COMMA, QUOTE, ENDS = ord(","), ord('"'), b"\r\n"
RANGES = "microagg_core.data.formats.csv_bytes"

#: What makes a difference to who looks for the ends of records, and some text that does not.
MARKS = ['"', '""', '"""', ",", "\n", "\r\n", "\r", "\n\n", "a", "é", "€", "\U0001f600", " ", "\ufeff", "x" * 90]
TEXTS = st.lists(st.sampled_from(MARKS), max_size=6).map("".join)
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def in_quotes(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def as_it_is(text: str) -> str:
    """A cell without quotes: one that holds quotes behind its start has them as text."""
    return text.replace(",", "").replace("\n", "").replace("\r", "").lstrip('"')


CELLS = st.one_of(
    TEXTS.map(in_quotes),
    TEXTS.map(as_it_is),
    st.just(""),
    st.tuples(TEXTS.map(in_quotes), TEXTS.map(as_it_is)).map("".join),
    st.integers(100, 700).map(lambda n: in_quotes("line\n," * (n // 6))),
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file that can be read: two columns, a third to see that rows are whole, and whatever a cell may hold."""
    end = draw(LINE_ENDS)
    rows = draw(st.lists(st.tuples(CELLS, CELLS), max_size=12))
    lines = ["a,n,b", *(f"{a},{i},{b}" for i, (a, b) in enumerate(rows))]
    text = "".join(line + draw(st.sampled_from([end, end, end, end * 2, "\n"])) for line in lines)
    text = text if draw(st.booleans()) else text.rstrip("\r\n")
    before = draw(st.sampled_from(["", "\ufeff", end, "\n" * 9]))
    return (before + text).encode()


def read_all(listing: InputListing, source: Input) -> pa.Table:
    columns = tuple(listing.schema.names)
    tables = [table for part in listing.parts for table in read_part(part, source, columns)]
    return pa.concat_tables([listing.schema.empty_table(), *tables])


def cut(source: Input, n_bytes: int) -> InputListing:
    """The input in ranges of so many bytes, of which every look takes in a few."""
    with mock.patch(f"{RANGES}.RANGE_BYTES", n_bytes), mock.patch(f"{RANGES}._LOOK_BYTES", 7):
        whole = list_input(source)
        form = input_format(source)
        return form.cut(whole, source, [(one, form.scan(one, source)) for one in form.stretches_to_scan(whole, source)])


def outcome(listing: InputListing, source: Input) -> pa.Table | str:
    try:
        return read_all(listing, source)
    except DataError as error:
        return error.message


def assert_same_in_ranges(data: bytes, n_bytes: int, dialect: CsvInput) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv"
        path.write_bytes(data)
        source = Input(url=str(path), csv=dialect)
        whole, ranges = outcome(list_input(source), source), outcome(cut(source, n_bytes), source)
        assert whole == ranges if isinstance(whole, str) or isinstance(ranges, str) else whole.equals(ranges)


@examples(150)
@given(data=files(), n_bytes=st.integers(3, 300))
def test_the_same_records_in_ranges_of_any_size(data: bytes, n_bytes: int) -> None:
    assert_same_in_ranges(data, n_bytes, CsvInput(types={"n": "int64"}))


@examples(150)
@given(cells=st.lists(TEXTS, max_size=25), n_bytes=st.integers(3, 60))
def test_the_same_outcome_for_what_is_hardly_csv(cells: list[str], n_bytes: int) -> None:
    """One column and any text: quotes that are never closed included. What cannot be read is told by the same line."""
    assert_same_in_ranges("\n".join(["a", *cells]).encode(), n_bytes, CsvInput())


@examples(60)
@given(data=files(), n_bytes=st.integers(3, 200), encoding=st.sampled_from(["latin-1", "cp1252", "utf-8-sig"]))
def test_other_encodings_of_single_bytes(data: bytes, n_bytes: int, encoding: str) -> None:
    text = data.decode().encode(encoding, "replace")
    assert_same_in_ranges(text, n_bytes, CsvInput(encoding=encoding))


def naive(lines: bytes, within: bool) -> tuple[list[int], bool]:
    """Byte by byte, as Arrow's reader does it: where records begin, and whether the end is within quotes."""
    state, starts = "quoted" if within else "field", []
    for i, byte in enumerate(lines):
        if state == "quote in quotes" and byte != QUOTE:
            state = "text"
        if state == "field" and byte not in ENDS and (i == 0 or lines[i - 1] in ENDS):
            starts.append(i)
        if state == "field":
            state = "quoted" if byte == QUOTE else "field" if byte in (*ENDS, COMMA) else "text"
        elif state == "text":
            state = "field" if byte in (*ENDS, COMMA) else "text"
        elif state == "quoted":
            state = "quote in quotes" if byte == QUOTE else "quoted"
        else:
            state = "quoted"
    return starts, state == "quoted"


LINES = st.lists(st.sampled_from([b'"', b'"', b",", b"\n", b"\r", b"a"]), max_size=30).map(
    lambda x: b"".join(x) + b"\n"
)


@examples(500)
@given(lines=LINES, within=st.booleans())
@example(lines=b'"a,"\n""\n"""b"\n', within=True)
def test_records_are_found_as_byte_by_byte(lines: bytes, within: bool) -> None:
    starts, ends_within = naive(lines, within)
    assert record_starts(lines, COMMA, within).tolist() == starts
    assert quoting(lines, COMMA).after(within) == ends_within


@examples(200)
@given(some=st.lists(LINES, max_size=4), within=st.booleans())
def test_what_lines_do_to_quotes_is_what_their_pieces_do(some: list[bytes], within: bool) -> None:
    together = quoting(b"", COMMA)
    for lines in some:
        together = together.then(quoting(lines, COMMA))
    assert together.after(within) == quoting(b"".join(some), COMMA).after(within)


@given(lines=LINES)
def test_line_ends_are_counted_as_python_does(lines: bytes) -> None:
    assert count_line_ends(lines) == len(lines.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1
