"""Read the input, whatever its format: the parts it has, and a part as a stream of tables of bounded size.

How an input is cut depends on its files alone, never on who reads it: a large file is several parts, where its format
has places to cut at, and of small files many are one part. A file may be larger than a worker. Messages name the file,
the line and the column, never a value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, ClassVar, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from microagg_core import registry
from microagg_core.data.formats import INPUTS
from microagg_core.data.formats.options import compression_of
from microagg_core.data.places import Input
from microagg_core.data.tables.types import is_ordered, is_text_or_bytes, levels_of, plain, plain_schema, with_levels
from microagg_core.errors import DataError, SpecError
from microagg_core.store.inputs import InputFile, input_file, input_files, open_input
from microagg_core.store.urls import basename, is_local, shown

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Requests at a time.
AHEAD = 16


def ahead(function: Callable[[Item], Result], items: Iterable[Item], n_ahead: int = AHEAD) -> Generator[Result]:
    """Yield a function's results in the items' order; the next ``n_ahead`` are worked on in threads.

    >>> list(ahead(str.upper, "abc", 2))
    ['A', 'B', 'C']
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_ahead) as threads:
        try:
            for item in items:
                waiting.append(threads.submit(function, item))
                if len(waiting) == n_ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


_AS_PARQUET = "write it as Parquet or CSV first"
_AS_CSV = "save its sheet as CSV UTF-8"
#: First bytes of formats that are not read here: what they are, and what to do.
_FOREIGN = {
    b"PK\x03\x04": ("a zip archive, as Excel workbooks are too", f"unpack it, or {_AS_CSV}"),
    b"\xd0\xcf\x11\xe0": ("an Office file, such as an old Excel workbook", _AS_CSV),
    b"BZh": ("packed with bzip2", "unpack it, or pack it with gzip or zstd"),
    b"\xfd7zXZ": ("packed with xz", "unpack it, or pack it with gzip or zstd"),
    b"7z\xbc\xaf": ("a 7z archive", "unpack it"),
    b"$FL": ("a file of SPSS", _AS_PARQUET),
    b"<stata_dta>": ("a file of Stata", _AS_PARQUET),
    b"\0" * 12 + b"\xc2\xea\x81\x60": ("a file of SAS", _AS_PARQUET),
    b"RDX": ("a file of R", _AS_PARQUET),
    b"SQLite format 3": ("an SQLite database", _AS_PARQUET),
    b"FEA1": ("Feather of version 1", "write it again as version 2, or as Parquet"),
    b"Obj\x01": ("an Avro file", _AS_PARQUET),
    b"ORC": ("an ORC file", _AS_PARQUET),
    b"%PDF": ("a PDF", "ask for the data as CSV"),
}
#: First characters of texts that are no tables.
_MARKUP = {
    "<?xml": "XML", "<!doctype": "a page of HTML", "<html": "a page of HTML", '{"': "JSON", "[{": "JSON",
}  # fmt: skip


def refuse_foreign(head: bytes, place: str) -> None:
    """Stop where the first bytes of a file are those of a format that is not read here."""
    for mark, (what, advice) in _FOREIGN.items():
        if head.startswith(mark):
            raise DataError(f"{place} is {what}, which is not read here; {advice}")
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for text, what in _MARKUP.items():
        if start.startswith(text.encode()):
            raise DataError(f"{place} is {what}, no table of rows and columns; {_AS_PARQUET}")


#: Bytes of uncompressed rows that one part aims at.
PART_BYTES = 128 * 2**20
#: To open one more file takes as long as to read this much of it.
OPENING_BYTES = 2 * 2**20
#: As many parts as workers may well share: small files are one part with others only where there would be more.
MANY_PARTS = 32
#: A file up to this size is read at once, whatever is wanted of it.
AT_ONCE_BYTES = 2**20
#: Enough to know a format by.
_HEAD_BYTES = 4096
#: Rows of a batch, where the format leaves their number to us.
BATCH_ROWS = 65_536

#: Where something lies in its file, in numbers that only its format understands.
Place = tuple[int, ...]


@dataclass(frozen=True)
class Stretch:
    """A file of the input, or some of it."""

    url: str
    #: Bytes of the file; 0 where that is not known.
    size: int = 0
    #: Empty: the whole file.
    place: Place = ()
    #: What the file has to be for the place to be right, where it is not all of it.
    state: str = ""

    @property
    def is_small(self) -> bool:
        return 0 < self.size <= AT_ONCE_BYTES

    def opened(self, source: Input) -> BinaryIO:
        """Open the file, whose place may be anywhere if it is not what it was when it was cut."""
        if self.state and input_file(self.url, source.storage_options).state != self.state:
            raise file_changed(shown(self.url))
        return open_input(self.url, source.storage_options, at_once=self.is_small)


@dataclass(frozen=True)
class InputPart:
    """Part of the input that is read on its own: stretches of files, in the order of their rows."""

    number: int
    stretches: tuple[Stretch, ...]

    @property
    def files(self) -> str:
        """Its file, or the first and last of its files, for messages.

        >>> InputPart(0, (Stretch("s3://in/a.csv"), Stretch("s3://in/b.csv"))).files
        's3://in/a.csv to b.csv'
        """
        first, last = self.stretches[0].url, self.stretches[-1].url
        return shown(first) if first == last else f"{shown(first)} to {basename(last)}"

    def in_files(self) -> Iterator[InputPart]:
        return (InputPart(self.number, (stretch,)) for stretch in self.stretches)


@dataclass(frozen=True)
class InputListing:
    """The parts of the input with their common schema, and what identifies the files' present state."""

    parts: tuple[InputPart, ...]
    schema: pa.Schema
    state: tuple[tuple[str, str], ...]
    #: Sentences for who wonders about the parts.
    remarks: tuple[str, ...] = ()


class InputFormat(ABC):
    """A way in which microdata come: files of one schema, each of which is handed to it open, at its start.

    It holds no state: everything is in the spec's ``input``.
    """

    #: The name in a spec, which is that of its file, and the endings of its files.
    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]] = ()
    #: How its files begin, where that tells them from all others.
    marks: ClassVar[tuple[bytes, ...]] = ()
    #: Bytes of small files that are one part.
    part_bytes: ClassVar[int] = PART_BYTES
    #: About how many bytes in memory become of each that is stored.
    decoded: ClassVar[int] = 2

    @abstractmethod
    def layout(self, file: BinaryIO, url: str, source: Input) -> tuple[pa.Schema, list[tuple[Place, int]]]:
        """Read a file's schema, and the places of its stretches with the bytes of their rows; all of it is no place."""

    @abstractmethod
    def rows_in(self, file: BinaryIO, url: str, source: Input) -> Iterator[int]:
        """Yield numbers that add up to a file's rows, or a little more; the next is asked for only if it matters."""

    def ready(self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]) -> BinaryIO:
        """Have a remote file fetch what will be asked for at first, where that is known."""
        return file

    @abstractmethod
    def rows_of(
        self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        """Yield a stretch's rows in their order, in batches that hold ``columns`` at least."""

    def first_rows_of(
        self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the same, of which only the first is certain; afterwards nothing goes on reading in the background."""
        return self.rows_of(file, stretch, source, columns)

    def remarks(self, parts: Sequence[InputPart], source: Input) -> tuple[str, ...]:
        """Say in sentences why parts are as they are."""
        return ()

    def stretches_to_scan(self, listing: InputListing, source: Input) -> list[Stretch]:
        """List stretches to be scanned before :meth:`cut` can cut larger parts."""
        return []

    def scan(self, stretch: Stretch, source: Input) -> Place:
        """Look at a stretch for :meth:`cut`."""
        return ()

    def cut(self, listing: InputListing, source: Input, scanned: Sequence[tuple[Stretch, Place]]) -> InputListing:
        """Cut large parts of a listing, by the scans of its stretches."""
        return listing

    def starter_options(self, source: Input) -> str:
        """Write the format's own lines under ``input:`` in a starter spec."""
        return ""


def input_format(source: Input) -> InputFormat:
    """Find the format of the input.

    >>> input_format(Input(url="people.feather")).name
    'arrow'
    """
    package, group = INPUTS
    name = source.format if source.format != "auto" else format_of(source.url) or "parquet"
    return registry.member(package, name, InputFormat, group)


def format_of(url: str) -> str | None:
    """Tell by a file's ending, compressed or not, its format.

    >>> format_of("people.csv.gz"), format_of("people.feather"), format_of("people")
    ('csv', 'arrow', None)
    """
    name = url.lower()
    if compression_of(name):
        name = name.rpartition(".")[0]
    return next((form.name for form in input_formats() if name.endswith(form.endings)), None)


def input_formats() -> tuple[InputFormat, ...]:
    package, group = INPUTS
    return registry.members(package, InputFormat, group)


def list_input(source: Input) -> InputListing:
    """Find the input's files, check that all have one schema, and cut them into parts; small ones together."""
    form, files = input_format(source), input_files(source.url, source.storage_options)
    stretches: list[Stretch] = []
    sizes: list[int] = []
    schema: pa.Schema = None
    for file, (of_file, places) in zip(files, ahead(lambda f: _laid_out(form, f, source), files), strict=True):
        if schema is None:
            schema = _with_levels(form, of_file, places[0][0], source)
        _refuse_other_schema(schema, plain_schema(of_file), files[0].url, file.url)
        stretches += [stretch for stretch, _ in places]
        sizes += [size for _, size in places]
    parts = tuple(InputPart(i, tuple(stretches[a:b])) for i, (a, b) in enumerate(_packs(sizes, form.part_bytes)))
    return InputListing(parts, schema, tuple((file.url, file.state) for file in files), form.remarks(parts, source))


def _laid_out(form: InputFormat, found: InputFile, source: Input) -> tuple[pa.Schema, list[tuple[Stretch, int]]]:
    """Read a file's schema and stretches, after what state it has."""
    whole = Stretch(found.url, found.size or 0)
    state = "" if whole.is_small else input_file(found.url, source.storage_options).state
    with whole.opened(source) as file:
        try:
            schema, places = form.layout(file, whole.url, source)
        except DataError:
            file.seek(0)
            refuse_foreign(file.read(_HEAD_BYTES), shown(whole.url))
            raise
    is_cut = len(places) > 1
    return schema, [(replace(whole, place=place, state=state * is_cut), n) for place, n in places]


def _with_levels(form: InputFormat, schema: pa.Schema, stretch: Stretch, source: Input) -> pa.Schema:
    """Make a file's schema plain, but for the levels of ordered dictionaries, as the first rows have them."""
    ordered = {field.name: levels_of(field) for field in schema if is_ordered(field.type)}
    schema, batch = plain_schema(schema), None
    if None in ordered.values():
        with stretch.opened(source) as file:
            batch = next((b for b in form.first_rows_of(file, stretch, source, tuple(ordered)) if b.num_rows), None)
    for name, levels in ordered.items():
        if levels is None:
            levels = () if batch is None else tuple(map(str, batch.column(name).dictionary.to_pylist()))
        schema = schema.set(schema.get_field_index(name), with_levels(schema.field(name), levels))
    return schema


def _packs(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Yield first and end of each run of neighbours that are read together: up to a limit, but not if they are few.

    >>> list(_packs([10, 20, 30], limit=2**30))
    [(0, 1), (1, 2), (2, 3)]
    >>> [end - first for first, end in _packs([10] * 500, limit=50 * 2**20)][-3:]
    [15, 15, 5]
    """
    costs = [size + OPENING_BYTES for size in sizes]
    limit = min(limit, sum(costs) // MANY_PARTS)
    first, held = 0, 0
    for number, cost in enumerate(costs):
        if number > first and held + cost > limit:
            yield first, number
            first, held = number, 0
        held += cost
    yield first, len(sizes)


def _refuse_other_schema(first: pa.Schema, other: pa.Schema, first_url: str, url: str) -> None:
    expected = {f.name: f.type for f in first}
    present = {f.name: f.type for f in other}
    problems = [f"has no column {name!r}" for name in expected if name not in present]
    problems += [f"has a column {name!r} more" for name in present if name not in expected]
    problems += [
        f"has column {name!r} as {present[name]} instead of {kind}"
        for name, kind in expected.items()
        if name in present and present[name] != kind
    ]
    if problems:
        raise DataError(
            f"{shown(url)} {'; it '.join(problems)}: all input files must have the schema of {shown(first_url)}"
        )


def file_changed(files: str) -> DataError:
    return DataError(f"{files} changed while the release was made; run again when nobody writes to the input")


def _opened_ahead(
    stretches: Sequence[Stretch], source: Input, ready: Callable[[BinaryIO, Stretch], BinaryIO] | None = None
) -> Iterator[tuple[Stretch, BinaryIO]]:
    """Open stretches in turn; small ones ahead, and a remote one is made ready while the one before it is worked on."""
    if is_local(source.url):
        ready = None

    def opened(stretch: Stretch) -> tuple[Stretch, BinaryIO]:
        file = stretch.opened(source)
        return stretch, file if ready is None or stretch.is_small else ready(file, stretch)

    if len(stretches) == 1 and ready is None:
        return map(opened, stretches)
    all_small = all(stretch.is_small for stretch in stretches)
    return ahead(opened, stretches, AHEAD if all_small else 1 if ready is None else 2)


def count_rows(source: Input, most: int | None = None, most_bytes: int | None = None) -> int:
    """Count the rows of the input, or a few more, by as little of it as tells; no further than to ``most``.

    An input of more than ``most_bytes`` is taken to have ``most`` rows.
    """
    form, rows = input_format(source), 0
    files = input_files(source.url, source.storage_options)
    if most is not None and most_bytes is not None and sum(one.size or 0 for one in files) > most_bytes:
        return most
    for stretch, file in _opened_ahead([Stretch(one.url, one.size or 0) for one in files], source):
        with file:
            for some in form.rows_in(file, stretch.url, source):
                rows += some
                if most is not None and rows >= most:
                    return rows
    return rows


#: Bytes of a text or binary value, at most. A default block may have a thousand of them, and a task holds six copies of
#: its rows: that is 384 MiB, while 600 values of 1 MB took 2.5 GiB.
MOST_VALUE_BYTES = 64 * 2**10
#: Bytes of texts that are decoded at once, whatever a dictionary makes of few.
_DECODED_BYTES = 32 * 2**20


def read_part(
    part: InputPart, source: Input, columns: tuple[str, ...], longest: int | None = MOST_VALUE_BYTES
) -> Iterator[pa.Table]:
    """Yield the part's rows in file order, as tables of bounded size holding ``columns`` in that order.

    ``longest`` is the most bytes of a text or binary value; None: any, for who proposes roles and releases nothing.
    """
    form = input_format(source)
    opened = _opened_ahead(part.stretches, source, lambda file, stretch: form.ready(file, stretch, source, columns))
    for stretch, file in opened:
        with file:
            for batch in form.rows_of(file, stretch, source, columns):
                decoded = sum(_text_bytes(name, batch.column(name), longest) for name in columns)
                n_rows = max(1, batch.num_rows // (decoded // _DECODED_BYTES + 1))
                for start in range(0, batch.num_rows, n_rows):
                    yield _plain_table(batch.slice(start, n_rows), columns)


def first_rows(part: InputPart, source: Input, columns: tuple[str, ...]) -> pa.Table | None:
    """Read the first of the tables that :func:`read_part` gives; None where the part has no rows.

    For a process that may end at once: nothing goes on reading in the background.
    """
    for stretch in part.stretches:
        with stretch.opened(source) as file:
            for batch in input_format(source).first_rows_of(file, stretch, source, columns):
                if batch.num_rows:
                    return _plain_table(batch, columns)
    return None


def _plain_table(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.Table:
    return pa.Table.from_arrays([plain(batch.column(name)) for name in columns], names=list(columns))


def _text_bytes(name: str, column: pa.Array, most: int | None) -> int:
    """Sum the lengths of a column's texts as they will be decoded."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    if pa.types.is_run_end_encoded(column.type):
        values = column.values
    values = plain(values)
    if not is_text_or_bytes(values.type):
        return 0
    lengths = pc.binary_length(values)
    if pa.types.is_dictionary(column.type):
        lengths = lengths.take(column.indices)
    if most is not None and (pc.max(lengths).as_py() or 0) > most:
        raise DataError(
            f"column {name!r} has a value longer than {most // 2**10} KiB, which is no text to release; "
            "give the column the role drop, or shorten its values"
        )
    return int(pc.sum(lengths).as_py() or 0)


_PARQUET_MAGIC = b"PAR1"


def read_unit_list(path: str, names: Sequence[str]) -> pa.Table:
    """Read the units of a CSV or Parquet file; of CSV all values are text, so that 012 stays what it is."""
    types = dict.fromkeys(names, pa.large_string())
    options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""])
    try:
        with Path(path).open("rb") as file:
            is_parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
        table = pa.parquet.read_table(path) if is_parquet else pa.csv.read_csv(path, convert_options=options)
    except OSError as error:
        raise SpecError(f"--units: {path} cannot be read ({error.strerror or 'an error'}); name a file") from None
    except pa.ArrowException:  # the library's message may quote a unit
        raise DataError(
            f"--units: {path} is no CSV or Parquet file; write the units below the names of its columns"
        ) from None
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise SpecError(f"--units: {path} has no column {missing[0]!r}; its columns must be those of unit in the spec")
    return table.select(list(names))
