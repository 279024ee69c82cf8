"""The profile of an input: what was understood of it, what its columns hold, and the roles that this suggests."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from microagg_core.data.formats.reading import count_rows
from microagg_core.data.places import Input
from microagg_core.profile.columns import ColumnProfile, profiled
from microagg_core.profile.proposing import RoleProposal, proposed_roles
from microagg_core.profile.refusals import ProfiledRows, without_refusals
from microagg_core.profile.understanding import Understanding, understood
from microagg_core.store.inputs import input_files
from microagg_core.store.urls import shown

FORMAT_VERSION = 1


@dataclass(frozen=True)
class FileProfile:
    source: Input
    #: Its columns in the types that they are read in.
    schema: pa.Schema
    #: Rows of the input, about that many where not all were counted; and which of them were looked at, in words.
    n_rows: int
    is_counted: bool
    looked_at: str
    proposals: tuple[RoleProposal, ...]
    encoding_reason: str = ""

    @property
    def columns(self) -> tuple[ColumnProfile, ...]:
        return tuple(proposal.column for proposal in self.proposals)

    def with_role(self, role: str) -> tuple[ColumnProfile, ...]:
        return tuple(proposal.column for proposal in self.proposals if proposal.role == role)

    def document(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "input": self.source.model_dump(mode="json") | {"url": shown(self.source.url)},
            "rows": self.n_rows,
            "rows_are_counted": self.is_counted,
            "looked_at": self.looked_at,
            "columns": [{**asdict(one.column), "proposed": one.role, "reason": one.reason} for one in self.proposals],
        }


def profile_of(
    url: str,
    delimiter: str | None = None,
    encoding: str | None = None,
    storage_options: dict[str, Any] | None = None,
) -> FileProfile:
    """The profile of the file or files at a URL or glob.

    Raises:
        SpecError: the URL cannot stand in a spec.
        StorageError: nothing there, or not readable.
        DataError: what is there is not understood; the sentence says where.
    """
    understanding = understood(url, delimiter, encoding, storage_options)
    sample = understanding.sample
    columns = [
        profiled(field.name, _type_name(understanding, field), sample.table.column(number), remark)
        for number, field in enumerate(sample.table.schema)
        for remark in [understanding.remarks.get(field.name, "")]
    ]
    n_rows, is_counted = _rows(understanding)
    return FileProfile(
        understanding.source,
        sample.table.schema,
        n_rows,
        is_counted,
        sample.in_words(),
        without_refusals(proposed_roles(columns, sample.table), ProfiledRows(sample.table, understanding.source)),
        understanding.encoding_reason,
    )


def _type_name(understanding: Understanding, field: pa.Field) -> str:
    """Name the type as a spec does, of a CSV column, or as Arrow does."""
    if understanding.source.format == "csv":
        return understanding.source.csv.types.get(field.name, "text")
    return "text" if pa.types.is_string(field.type) or pa.types.is_large_string(field.type) else str(field.type)


def _rows(understanding: Understanding) -> tuple[int, bool]:
    """Count the rows of the input; estimate those of a large CSV file, which would have to be read for that."""
    source = understanding.source
    if understanding.sample.is_whole:
        return understanding.sample.table.num_rows, True
    if source.format != "csv":
        return count_rows(source), True
    n_bytes = sum(file.size or 0 for file in input_files(source.url, source.storage_options))
    return round(n_bytes / understanding.row_bytes), False
