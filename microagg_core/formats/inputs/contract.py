"""What an input format has to tell: its schema, the parts that can be read on their own, and their rows in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from microagg_core.errors import DataError
from microagg_core.formats.inputs.plain_types import plain_schema
from microagg_core.spec.places import Input
from microagg_core.storage.inputs import input_files
from microagg_core.storage.urls import shown

#: Bytes of uncompressed rows that one part aims at.
PART_BYTES = 128 * 2**20
#: Rows of a batch, where the format leaves their number to us.
BATCH_ROWS = 65_536

#: Where a part lies in its file, in numbers that only its format understands.
Place = tuple[int, ...]


@dataclass(frozen=True)
class InputPart:
    """A piece of the input that is read on its own. Only its format knows what ``place`` means."""

    number: int
    url: str
    place: Place = ()


@dataclass(frozen=True)
class InputListing:
    """The parts of the input with their common schema, and what identifies the files' present state."""

    parts: tuple[InputPart, ...]
    schema: pa.Schema
    state: tuple[tuple[str, str], ...]


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

    def with_guessed_types(self, source: Input) -> Input:
        """The input with types for its columns, where its files do not say them."""
        return source

    def starter_options(self, source: Input) -> str:
        """The format's own lines under ``input:`` in a starter spec."""
        return ""


class FileFormat(InputFormat):
    """A format of files: found by URL or glob, all of one schema, and cut one by one."""

    @abstractmethod
    def layout(self, url: str, source: Input) -> tuple[pa.Schema, list[Place]]:
        """A file's schema and the places of its parts."""

    @abstractmethod
    def rows_in(self, url: str, source: Input) -> Iterator[int]:
        """As :meth:`row_counts`, for one file."""

    def schema(self, source: Input) -> pa.Schema:
        """That of the first file."""
        url, _ = input_files(source.url, source.storage_options)[0]
        return plain_schema(self.layout(url, source)[0])

    def listing(self, source: Input) -> InputListing:
        """The parts of every file, in the files' order."""
        files = input_files(source.url, source.storage_options)
        parts: list[InputPart] = []
        schemas: list[pa.Schema] = []
        for url, _ in files:
            schema, places = self.layout(url, source)
            schemas.append(plain_schema(schema))
            _refuse_other_schema(schemas[0], schemas[-1], files[0][0], url)
            parts += [InputPart(len(parts) + i, url, place) for i, place in enumerate(places)]
        return InputListing(tuple(parts), schemas[0], tuple(files))

    def row_counts(self, source: Input) -> Iterator[int]:
        """File by file."""
        for url, _ in input_files(source.url, source.storage_options):
            yield from self.rows_in(url, source)


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
