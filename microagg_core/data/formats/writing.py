"""Write released files: the values that a format can carry, their bytes, and reading them back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import pyarrow as pa

from microagg_core import registry
from microagg_core.data.formats import RELEASED
from microagg_core.data.formats.options import CsvOutput
from microagg_core.errors import SpecError, StorageError

#: Rows of the tables in which a file is read again.
BATCH_ROWS = 65_536


class SaysFormat(Protocol):
    """The spec's ``output``, or a manifest."""

    @property
    def format(self) -> str:
        """The name of the format."""

    @property
    def csv(self) -> CsvOutput | None:
        """How CSV is written, where that is the format."""


@dataclass(frozen=True)
class ReaderCode:
    """Code of others that reads the files of a release, for the pages beside it.

    Each finds the files' names in ``files``, and ends with ``data``. ``{types}``, ``{delimiter}`` and ``{null_word}``
    stand for the types of columns and for the dialect; other braces are doubled.
    """

    #: Lines of Python for pandas, and what it imports.
    pandas: str
    #: An expression of polars that reads an open ``file``, and lines before it.
    polars: str
    #: Lines of R.
    r: str
    #: DuckDB's function that reads files in a view, and what must be run before.
    duckdb_function: str
    duckdb_setup: str = ""
    #: Lines of Python for DuckDB, and what they import, where reading by the view is not the easiest way.
    duckdb: str = ""
    duckdb_imports: str = ""
    pandas_imports: str = "import pandas as pd\n"
    polars_before: str = ""


def pandas_frames(read: str) -> str:
    return f"parts = [{read} for file in files]\ndata = pd.concat(parts, ignore_index=True)\n"


class ReleasedFormat(ABC):
    """A way in which releases are written. Same table, same bytes; nothing in them but the released values."""

    #: The name in specs and manifests, and the ending of the files.
    name: ClassVar[str]
    #: What people call it, and its media type; Croissant's readers may know it by another.
    title: ClassVar[str]
    media_type: ClassVar[str]
    croissant_type: ClassVar[str] = ""
    reader_code: ClassVar[ReaderCode]
    #: Whether a text that is not UTF-8 would make a file that cannot be read.
    needs_valid_text: ClassVar[bool] = False
    #: What may help, other than starting again, where a file that was written cannot be read: words before "else".
    cure: ClassVar[str] = ""

    @classmethod
    def of(cls, said: SaysFormat) -> Self:
        return cls()

    def in_manifest(self) -> dict[str, Any]:
        return {"format": self.name}

    def refusal(self, kind: pa.DataType) -> str | None:
        """Say why values of this type cannot be released so; None where they can."""
        return None

    def refuse_types(self, schema: pa.Schema) -> None:
        """Stop where a released column is of a type that the format cannot carry."""
        for field in schema:
            if reason := self.refusal(field.type):
                raise SpecError(f"output.format: column {field.name!r} holds {reason}")

    def released_form(self, table: pa.Table) -> pa.Table:
        """The table with its values as the file has them."""
        return table

    @abstractmethod
    def to_bytes(self, table: pa.Table, blocking: list[str]) -> bytes:
        """Write a file; readers may be helped to filter by the ``blocking`` columns, and by no other."""

    @abstractmethod
    def from_bytes(self, data: bytes, declared: pa.Schema) -> pa.Table:
        """Read a whole file; ``declared`` is for formats whose files do not say their types.

        Raises:
            pyarrow.ArrowException, OSError: it is no file of this format; the message may quote a value.
        """

    def read_back(self, data: bytes, declared: pa.Schema) -> pa.Table:
        """Read a file that was just written, as :meth:`from_bytes` does."""
        try:
            return self.from_bytes(data, declared)
        except (pa.ArrowException, OSError):
            raise StorageError(
                f"a file that was written for release cannot be read back; {self.cure}start the release again"
            ) from None

    def besides(self, path: Path, blocking: Collection[str]) -> str | None:
        """Say what a file carries besides the released values; None where it carries nothing else.

        Raises:
            pyarrow.ArrowException, OSError, ValueError: the file is damaged; the message may quote a value.
        """
        return None

    @abstractmethod
    def batches(self, path: Path, declared: Mapping[str, str]) -> tuple[pa.Schema, Iterator[pa.Table]]:
        """Read a file's schema, and its rows as tables of bounded size; ``declared`` is a name of a type each.

        Reading all of them checks every value against its column's type.

        Raises:
            pyarrow.ArrowException, OSError: the file is damaged; the message may quote a value.
            ValueError: there is no such type.
        """


def released_format(said: SaysFormat) -> ReleasedFormat:
    """Find the format that a spec's ``output`` or a manifest says, with its options.

    >>> from microagg_core.spec.release import Output
    >>> released_format(Output(url="out", format="csv")).in_manifest()["csv"].delimiter
    ','
    """
    package, group = RELEASED
    return registry.member_class(package, said.format, ReleasedFormat, group).of(said)
