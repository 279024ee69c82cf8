"""What an input format has to tell: its schema, the parts that can be read on their own, and their rows in batches.

How an input is cut depends on its files alone, never on who reads it: a large file is several parts, where its format
has places to cut at, and of small files many are one part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

import pyarrow as pa

from microagg_core.data.formats.inputs.ahead import AHEAD, ahead
from microagg_core.data.formats.inputs.foreign import refuse_foreign
from microagg_core.data.formats.inputs.plain_types import plain_schema
from microagg_core.errors import DataError
from microagg_core.spec.places import Input
from microagg_core.store.inputs import InputFile, fetch_input, input_file, input_files, open_input
from microagg_core.store.urls import basename, is_local, shown

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
    """A file of the input, or some of it. Only its format knows what ``place`` means."""

    url: str
    #: Bytes of the file; 0 where that is not known.
    size: int = 0
    #: Empty: the whole file.
    place: Place = ()
    #: What the file has to be for the place to be right, where it is not all of it.
    state: str = ""


@dataclass(frozen=True)
class InputPart:
    """A piece of the input that is read on its own: stretches of files, in the order of their rows."""

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
        """The same rows, in parts of one stretch each."""
        return (InputPart(self.number, (stretch,)) for stretch in self.stretches)


@dataclass(frozen=True)
class InputListing:
    """The parts of the input with their common schema, and what identifies the files' present state."""

    parts: tuple[InputPart, ...]
    schema: pa.Schema
    state: tuple[tuple[str, str], ...]
    #: Sentences for who wonders about the parts.
    remarks: tuple[str, ...] = ()


What = TypeVar("What", InputFile, Stretch)


class InputFormat(ABC):
    """One way in which microdata come. It holds no state: everything is in the spec's ``input``."""

    #: The name in a spec.
    name: str

    @abstractmethod
    def schema(self, source: Input) -> pa.Schema:
        """The columns, in plain types, from as little of the input as tells them."""

    @abstractmethod
    def listing(self, source: Input) -> InputListing:
        """The parts that can be read on their own, and what changes when the input does."""

    @abstractmethod
    def row_counts(self, source: Input) -> Iterator[int]:
        """Numbers that add up to the rows of the input, or a little more; the next is asked for only if it matters."""

    @abstractmethod
    def batches(self, part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """A part's rows in their order, in batches that hold ``columns`` at least."""

    def first_batches(self, part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The same, of which only the first is certain; afterwards nothing goes on reading in the background."""
        return self.batches(part, source, columns)

    def to_scan(self, listing: InputListing, source: Input) -> list[Stretch]:
        """What has to be looked at, by who has time for it, before :meth:`cut` can cut larger parts of it."""
        return []

    def scan(self, stretch: Stretch, source: Input) -> Place:
        """What :meth:`cut` wants to know of a stretch: nothing, in formats that have none to scan."""
        return ()

    def cut(self, listing: InputListing, source: Input, scanned: Sequence[tuple[Stretch, Place]]) -> InputListing:
        """The listing with large parts cut, by what was found in each stretch that was to be scanned."""
        return listing

    def with_guessed_types(self, source: Input) -> Input:
        """The input with types for its columns, where its files do not say them."""
        return source

    def starter_options(self, source: Input) -> str:
        """The format's own lines under ``input:`` in a starter spec."""
        return ""


class FileFormat(InputFormat):
    """A format of files: found by URL or glob, all of one schema, and cut one by one.

    Files are handed to it open, at their start, and closed for it.
    """

    #: Bytes of small files that are one part.
    part_bytes = PART_BYTES

    @abstractmethod
    def layout(self, file: BinaryIO, url: str, source: Input) -> tuple[pa.Schema, list[tuple[Place, int]]]:
        """A file's schema, and the places of its stretches with the bytes of their rows; all of it is no place."""

    @abstractmethod
    def rows_in(self, file: BinaryIO, url: str, source: Input) -> Iterator[int]:
        """As :meth:`row_counts`, for one file."""

    def ready(self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]) -> BinaryIO:
        """A remote file, with what will be asked for at first on its way; as it is, where that is not known."""
        return file

    @abstractmethod
    def rows_of(
        self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`batches`, for one stretch."""

    def first_rows_of(
        self, file: BinaryIO, stretch: Stretch, source: Input, columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`first_batches`, for one stretch."""
        return self.rows_of(file, stretch, source, columns)

    def schema(self, source: Input) -> pa.Schema:
        """That of the first file."""
        first = input_files(source.url, source.storage_options)[0]
        with _opened(first, source) as file:
            return plain_schema(self.layout(file, first.url, source)[0])

    def listing(self, source: Input) -> InputListing:
        """The stretches of all files, in the files' order; small ones together."""
        files = input_files(source.url, source.storage_options)
        stretches: list[Stretch] = []
        sizes: list[int] = []
        schema: pa.Schema = None
        for one, (of_file, places) in zip(files, ahead(lambda f: self._laid_out(f, source), files), strict=True):
            schema = of_file if schema is None else schema
            _refuse_other_schema(schema, of_file, files[0].url, one.url)
            stretches += [stretch for stretch, _ in places]
            sizes += [size for _, size in places]
        parts = [InputPart(i, tuple(stretches[a:b])) for i, (a, b) in enumerate(_packs(sizes, self.part_bytes))]
        return InputListing(tuple(parts), schema, tuple((file.url, file.state) for file in files))

    def _laid_out(self, one: InputFile, source: Input) -> tuple[pa.Schema, list[tuple[Stretch, int]]]:
        """A file's schema and stretches; what state the file has is asked before it is read."""
        url, size = one.url, one.size or 0
        state = "" if _is_small(size) else input_file(url, source.storage_options).state
        with _opened(one, source) as file:
            try:
                schema, places = self.layout(file, url, source)
            except DataError:
                file.seek(0)
                refuse_foreign(file.read(_HEAD_BYTES), shown(url))
                raise
        is_cut = len(places) > 1
        return plain_schema(schema), [(Stretch(url, size, place, state * is_cut), n) for place, n in places]

    def row_counts(self, source: Input) -> Iterator[int]:
        """File by file."""
        files = input_files(source.url, source.storage_options)
        for one, file in _opened_in_turn(files, source):
            with file:
                yield from self.rows_in(file, one.url, source)

    def batches(self, part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Stretch by stretch.

        Raises:
            DataError: a damaged file, or one that is not what it was when it was cut.
        """
        for stretch, file in self._opened_ahead(part, source, columns):
            with file:
                yield from self.rows_of(file, stretch, source, columns)

    def _opened_ahead(
        self, part: InputPart, source: Input, columns: tuple[str, ...]
    ) -> Iterator[tuple[Stretch, BinaryIO]]:
        """Each stretch with its open file; a remote one is asked for while the one before it is worked on."""
        if is_local(source.url):
            yield from _opened_in_turn(part.stretches, source)
            return

        def opened(stretch: Stretch) -> tuple[Stretch, BinaryIO]:
            file = _opened(stretch, source)
            return stretch, file if _is_small(stretch.size) else self.ready(file, stretch, source, columns)

        small = all(_is_small(stretch.size) for stretch in part.stretches)
        yield from ahead(opened, part.stretches, AHEAD if small else 2)

    def first_batches(self, part: InputPart, source: Input, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The same, one after the other."""
        for stretch in part.stretches:
            with _opened(stretch, source) as file:
                yield from self.first_rows_of(file, stretch, source, columns)


def file_changed(files: str) -> DataError:
    """What stops a release whose input is no longer what it was."""
    return DataError(f"{files} changed while the release was made; run again when nobody writes to the input")


def _packs(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """The first and the end of each run of neighbours that are read together: up to a limit, but not if they are few.

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


def _is_small(size: int | None) -> bool:
    return size is not None and 0 < size <= AT_ONCE_BYTES


def _opened(what: InputFile | Stretch, source: Input) -> BinaryIO:
    if isinstance(what, Stretch):
        refuse_other_state(what, source)
    fetch = fetch_input if _is_small(what.size) else open_input
    return fetch(what.url, source.storage_options)


def _opened_in_turn(items: Sequence[What], source: Input) -> Iterator[tuple[What, BinaryIO]]:
    """Each with its open file, at its start; small files are fetched ahead."""
    if len(items) < 2:
        yield from ((item, _opened(item, source)) for item in items)
        return
    fetched = ahead(lambda item: _opened(item, source) if _is_small(item.size) else None, items)
    for item, file in zip(items, fetched, strict=True):
        yield item, file or _opened(item, source)


def refuse_other_state(stretch: Stretch, source: Input) -> None:
    """Where a file was cut is right for what it was then: in another it may be anywhere.

    Raises:
        DataError: it changed.
    """
    if stretch.state and input_file(stretch.url, source.storage_options).state != stretch.state:
        raise file_changed(shown(stretch.url))


def _refuse_other_schema(first: pa.Schema, other: pa.Schema, first_url: str, url: str) -> None:
    """The same columns with the same types; their order may differ."""
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
