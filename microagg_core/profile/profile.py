"""Profile an input: how it is written, what its columns hold, and which roles they may have."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from microagg_core.data.formats.reading import count_rows
from microagg_core.data.places import Input
from microagg_core.data.tables.types import levels_of
from microagg_core.profile.columns import ColumnProfile, profiled
from microagg_core.profile.proposals import (
    RoleProposal,
    SeveralProposal,
    look_at_rows,
    proposed_roles,
    without_refusals,
)
from microagg_core.profile.reading import Understanding, understood
from microagg_core.profile.units import several_rows
from microagg_core.store.inputs import input_files
from microagg_core.store.urls import shown

FORMAT_VERSION = 1


@dataclass(frozen=True)
class FileProfile:
    source: Input
    #: Rows of the input, about that many where not all were counted; and which of them were looked at, in words.
    n_rows: int
    is_counted: bool
    looked_at: str
    proposals: tuple[RoleProposal, ...]
    encoding_reason: str = ""
    #: None where every unit has one row.
    several: SeveralProposal | None = None

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
            "unit": self.several.fields(self.proposals) if self.several else None,
            "columns": [
                {**asdict(one.column), "proposed": one.role, "kind": one.kind, "reason": one.reason}
                for one in self.proposals
            ],
        }


def profile_of(
    url: str, delimiter: str | None = None, encoding: str | None = None, storage_options: dict[str, Any] | None = None
) -> FileProfile:
    understanding = understood(url, delimiter, encoding, storage_options)
    sample = understanding.sample
    columns = []
    for field in sample.table.schema:
        type_name, remark = understanding.type_of(field.name), understanding.remarks.get(field.name, "")
        column = profiled(field.name, type_name, sample.table.column(field.name), remark)
        columns.append(replace(column, is_ordered=levels_of(field) is not None))
    several = several_rows(columns, sample.table, sample.is_whole)
    look = partial(look_at_rows, understanding.source, sample.table, several)
    proposals = without_refusals(proposed_roles(columns, sample.table, several), look)
    reason = understanding.encoding_reason
    return FileProfile(understanding.source, *_rows(understanding), sample.in_words(), proposals, reason, several)


def _rows(understanding: Understanding) -> tuple[int, bool]:
    """Count the rows of the input; estimate those of a large CSV file, which would have to be read for that."""
    source = understanding.source
    if understanding.sample.is_whole:
        return understanding.sample.table.num_rows, True
    if source.format != "csv":
        return count_rows(source), True
    n_bytes = sum(file.size or 0 for file in input_files(source.url, source.storage_options))
    return round(n_bytes / understanding.row_bytes), False


#: Of a terminal.
WIDTH = 80
_LONGEST_NAME = 20
_HEADINGS = ("type", "distinct", "missing", "unique", "zeros", "skew", "longest")
_WIDTHS = (9, 8, 7, 7, 7, 6, 7)
_INDENT = "    "


def profile_lines(profile: FileProfile) -> Iterator[str]:
    """Write the profile in lines of at most 80 characters, unless a name is longer; nothing is left out."""
    yield from _input_lines(profile)
    for sentence in unit_sentences(profile.several):
        yield from _wrapped(sentence, "")
    yield ""
    name_width = min(_LONGEST_NAME, max(len("column"), *(len(_shown(one.name)) for one in profile.columns)))
    yield _row("column", _HEADINGS, name_width)
    for proposal in profile.proposals:
        yield from _column_lines(proposal, name_width)


#: Columns that are named of those that are the same in all rows of a unit.
_NAMED = 4


def unit_sentences(several: SeveralProposal | None) -> Iterator[str]:
    """Say in figures why rows are taken to belong together, and which of them are left out."""
    if several is None:
        return
    each = f"{several.least:,} to {several.most:,}" if several.least < several.most else f"{several.most:,}"
    names = [name for name in several.telling if name in several.same] or several.telling
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    are = f"{'is' if len(names) == 1 else 'are'}{'' if several.same.issuperset(names) else ' nearly'}"
    within = f"within which {', '.join(names[:_NAMED])}{more} {are} constant" if names else "with nothing in common"
    yield (
        f"unit: {several.id} has {several.units:,} values, {each} rows each, {within}: so k counts these, households "
        "or patients, and not rows; if each row is a person or firm of its own, name what tells them apart under unit"
    )
    if several.nameless:
        yield f"unit: {several.nameless:,} rows have no {several.id}, where a run stops; fill it in or leave them out"
    if several.at_most:
        yield (
            f"unit: {several.cut_units:,} of them have more than {several.at_most} rows, and {several.left_out:,} of "
            f"{several.rows:,} rows beyond that are left out: with too few others as long, they could not be released"
        )


def held(column: ColumnProfile) -> str:
    """What a column holds, on one line.

    >>> held(ColumnProfile("age", "int8", 1000, 2, distinct=77, low="18", high="90"))
    'int8, 77 distinct, 0.2 % missing, 18 to 90'
    """
    if column.is_nested:
        return column.type
    missing = f"{share_in_words(column.missing / column.records)} missing" if column.missing else ""
    unique = f"{share_in_words(column.unique)} unique" if column.unique > 0 else ""
    range_ = f"{column.low} to {column.high}" if column.low is not None else ""
    return ", ".join(word for word in (column.type, f"{column.distinct:,} distinct", unique, missing, range_) if word)


def share_in_words(part: float) -> str:
    """A share in percent, with two digits; never 0 or 100 for what is only nearly that.

    >>> share_in_words(0.0), share_in_words(0.00204), share_in_words(0.99999), share_in_words(1.0)
    ('0 %', '0.2 %', '>99.9 %', '100 %')
    """
    percent = 100 * part
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.1f} %" if 0 < percent < 10 and round(percent, 1) != round(percent) else f"{percent:.0f} %"


def notes(column: ColumnProfile) -> list[str]:
    """Say what else is to be known: words and numbers for missing values, notations that are not read."""
    lines = []
    if words := [repr(word) for word in column.null_words if word]:
        lines.append(f"{', '.join(words)} in a column of text stay texts: only columns with a type have null words")
    if column.codes:
        codes = ", ".join(f'"{code}"' for code in column.codes)
        lines.append(f"{codes} may stand for missing values: then add them to null_words, or correct the file")
    if column.remark:
        lines.append(column.remark)
    return lines


def _input_lines(profile: FileProfile) -> Iterator[str]:
    source = profile.source
    about = "" if profile.is_counted else "about "
    size = f"{source.format}, {about}{profile.n_rows:,} rows, {len(profile.columns):,} columns"
    yield from _wrapped(f"{size}; looked at {profile.looked_at}", "")
    if source.format != "csv":
        return
    dialect = source.csv
    written = f"delimiter {dialect.delimiter!r}, encoding {dialect.encoding}, decimal mark {dialect.decimal_mark!r}"
    yield from _wrapped(f"{written}, quotes '\"', null words {', '.join(map(repr, dialect.null_words))}", "")
    yield from _wrapped(profile.encoding_reason, "")


def _column_lines(proposal: RoleProposal, name_width: int) -> Iterator[str]:
    column = proposal.column
    name = _shown(column.name)
    if len(name) > name_width:
        yield name
        name = ""
    cells = (
        column.type if len(column.type) <= _WIDTHS[0] else "",
        f"{column.distinct:,}",
        share_in_words(column.missing / max(1, column.records)),
        share_in_words(column.unique),
        "" if column.zeros is None else share_in_words(column.zeros),
        "" if column.skew is None else f"{column.skew:.1f}",
        "" if column.longest is None else f"{column.longest:,}",
    )
    yield _row(name, cells, name_width)
    range_ = f"{column.low} to {column.high}; " if column.low is not None else ""
    long_type = "" if cells[0] else f"{column.type}; "
    yield from _wrapped(f"{long_type}{range_}propose {proposal.in_words}: {proposal.reason}", _INDENT)
    for note in notes(column):
        yield from _wrapped(note, _INDENT)


def _row(name: str, cells: tuple[str, ...], name_width: int) -> str:
    first, *rest = cells
    figures = " ".join(f"{cell:>{width}}" for cell, width in zip(rest, _WIDTHS[1:], strict=True))
    return f"{name:<{name_width}} {first:<{_WIDTHS[0]}} {figures}".rstrip()


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _shown(name: str) -> str:
    return name if name.isprintable() and name.strip() == name else repr(name)
