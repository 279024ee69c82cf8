"""Whether the first line of a CSV file names its columns, and the second begins the records."""

from __future__ import annotations

from collections.abc import Sequence

from microagg_core.errors import DataError
from microagg_core.profile.notations import notation_of

#: With fewer records nobody can tell a second header line from a record.
_LEAST_RECORDS = 3
#: Of the first line's cells, as many stand in their columns again where it is a record like the others.
_MANY = 0.5
_NO_NAMES = {"null", "text"}

Record = Sequence[str]


def refuse_doubtful_header(header: Record, records: Sequence[Record], place: str) -> None:
    """Stop where the first lines are not one line of names and then records; no cell is quoted but a name that repeats.

    Raises:
        DataError: no header line, two of them, a column without a name, or two of one name.
    """
    columns = [[record[number] for record in records] for number in range(len(header))]
    if _is_record(header, columns):
        raise DataError(
            f"{place}:1: the first line looks like a record, not like a header; write a line of column names above it"
        )
    _refuse_names(header, place)
    if n := _n_odd_firsts(columns):
        raise DataError(
            f"{place}: the first line behind the header holds text where the lines below hold numbers or dates, in {n} "
            "of the columns; take it out if it is a second header line (labels, units), else correct it"
        )
    _refuse_single_quotes(columns, place)


def _is_record(header: Record, columns: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first line is a record: it has numbers or days over such columns; without any, cells repeat."""
    told = [(name, kind) for name, column in zip(header, columns, strict=True) if (kind := _kind(column))]
    if told:
        return all(_kind([name]) == kind for name, kind in told)
    again = sum(name in column for name, column in zip(header, columns, strict=True) if name)
    return again > _MANY * len(header)


def _kind(column: Sequence[str]) -> str | None:
    """Tell numbers from days, where a column holds nothing else."""
    notations = {notation_of(cell) for cell in column} - {"null"}
    if not notations or notations & _NO_NAMES:
        return None
    return "numbers" if notations <= {"whole", "decimal", "comma", "either", "code"} else min(notations)


def _refuse_names(header: Record, place: str) -> None:
    if "" in header:
        number = header.index("") + 1
        hint = " (row names or an index, as R and pandas write them? write the file without)" if number == 1 else ""
        raise DataError(f"{place}:1: column {number} has no name; give it one{hint}")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{place}:1: more than one column is named {', '.join(map(repr, twice))}; rename them")


def _n_odd_firsts(columns: Sequence[Sequence[str]]) -> int:
    """Count columns that would be of numbers or days but for their first cell; 0 where those are less than half."""
    if not columns or len(columns[0]) < _LEAST_RECORDS:
        return 0
    rests = [(column[0], _kind(column[1:])) for column in columns]
    typed = [notation_of(first) for first, kind in rests if kind]
    odd = typed.count("text")
    return odd if odd > _MANY * len(typed) else 0


def _refuse_single_quotes(columns: Sequence[Sequence[str]], place: str) -> None:
    for column in columns:
        cells = [cell for cell in column if cell]
        if len(cells) >= _LEAST_RECORDS and all(len(c) > 1 and c[0] == c[-1] == "'" for c in cells):
            raise DataError(f"{place}: cells are quoted with ' instead of \"; write the file with double quotes")
