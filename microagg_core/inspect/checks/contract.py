"""What a check of the gate is: what it notes of either side, and what it says of all notes.

A worker reads one released file, or one part of the input, and notes what every check wants to know of it; the flow
reads the notes and decides. Notes are plain frozen dataclasses (see :mod:`microagg_core.plain`). They lie in the
private work area, and may hold values of records; what a check says of them may not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Ints
from microagg_core.data.kinds.contract import Kind
from microagg_core.inspect.check import Check
from microagg_core.spec.columns import FileSchema

N = TypeVar("N")


@dataclass(frozen=True)
class Promise:
    """What the release has to keep, as spec, survey and plan have it."""

    schema: FileSchema
    kinds: tuple[Kind, ...]
    k: int
    #: Records of the input that take part, and how many of them are withheld.
    rows: int
    withheld: int
    #: Parts of the input.
    n_parts: int
    #: Records that are released as an earlier night of the series released them.
    carried: int = 0
    #: Whether it is a later night of a series, whose arrivals alone are grouped.
    in_series: bool = False

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns whose combinations are k-anonymous."""
        return tuple(c.name for c in (*self.schema.blocking, *self.schema.quasi_identifiers))


@dataclass(frozen=True)
class ReleasedFile:
    """A file that would be published, as it was read back; its columns are the declared ones."""

    promise: Promise
    table: pa.Table
    #: Row by row, the private record number, and but for survivors the quasi-identifiers q0, q1, ... as they came in.
    origins: pa.Table
    #: The input part from which each record comes.
    parts: Ints

    @property
    def came(self) -> list[pa.ChunkedArray]:
        """The quasi-identifiers as they came in."""
        return [self.origins[f"q{j}"] for j in range(len(self.promise.kinds))]


@dataclass(frozen=True)
class InputBatch:
    """Records of an input part that have to be in the release."""

    promise: Promise
    part: int
    records: Ints
    #: What should be released of them; of quasi-identifiers, only which of them are missing.
    expected: pa.Table
    #: The quasi-identifiers as they come in, and the ticks of those that are not missing.
    came: tuple[pa.Array, ...]
    values: tuple[NDArray[Any], ...]


class Inspection(ABC, Generic[N]):
    """One check of the gate, with notes of the class ``note``."""

    name: str
    note: type[N]
    #: Whether it is asked of survivors' files too, whose values come from earlier releases and not from the input.
    of_all_files = False
    #: Whether they are read for it all the same, for figures of the whole release.
    notes_all_files = False

    @abstractmethod
    def of_file(self, file: ReleasedFile) -> N:
        """What to note of a released file."""

    def of_batch(self, batch: InputBatch, before: N | None) -> N | None:
        """What to note of an input part, once this batch is read too; nothing, where a check asks the files alone."""
        return None

    @abstractmethod
    def check(self, promise: Promise, files: Sequence[N], parts: Sequence[N]) -> Check:
        """What the notes of all files and of all input parts come to; a part without a record may have none."""
