"""Hierarchies as a spec declares them: nested mappings and lists of a column's values, or a CSV file of codes.

A file is read with the spec that names it, so that whoever gets the spec has its hierarchies.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from microagg_core.data.hierarchies import Hierarchy, Row, name_problems, row_problems
from microagg_core.model import Loc, PartError, Problem

_HEADERS = (["code", "parent"], ["code", "parent", "label"])
_SHAPE = "must be a CSV file with the columns code, parent and, if you like, label; or nested lists and mappings"


def _hierarchy(value: Any) -> Hierarchy:
    """Take nested values, or rows of codes as a spec is dumped."""
    if isinstance(value, Hierarchy):
        return value
    if isinstance(value, list) and value and all(isinstance(row, list | tuple) for row in value):
        located: list[tuple[Loc, Row]] = [((place,), (row[0], row[1], row[2])) for place, row in enumerate(value)]
    elif isinstance(value, dict | list):
        located = list(_nested(value, "", ()))
    else:
        raise ValueError(_SHAPE)
    rows = [row for _, row in located]
    if wrong := [(located[place][0], why) for place, why in row_problems(rows)]:
        raise PartError(wrong)
    hierarchy, where = Hierarchy.of(rows), {row[0]: loc for loc, row in located}
    if wrong := [(where.get(code, ()), why) for code, why in name_problems(hierarchy)]:
        raise PartError(wrong)
    return hierarchy


def _nested(value: Any, parent: str, loc: Loc) -> Iterator[tuple[Loc, Row]]:
    """Walk through mappings, whose keys are codes with others below them, and lists, whose items are values."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            if isinstance(item, dict | list):
                yield from _nested(item, parent, (*loc, place))
            else:
                yield (*loc, place), (str(item), parent, "")
    elif isinstance(value, dict):
        for code, below in value.items():
            yield (*loc, code), (str(code), parent, "")
            if below is not None:
                yield from _nested(below, str(code), (*loc, code))
    else:
        raise PartError([(loc, "must be a list of values, or a mapping of codes to such lists")])


AnyHierarchy = Annotated[
    Hierarchy,
    PlainValidator(_hierarchy),
    PlainSerializer(lambda hierarchy: [list(row) for row in hierarchy.rows]),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "object"}, {"type": "array"}]}),
]


def hierarchy_of_csv(text: str) -> Hierarchy | list[str]:
    """Read a hierarchy from a CSV file, or list what is wrong with it; values are never quoted.

    >>> hierarchy_of_csv("code,parent\\nAyr,north\\nBern,south\\n").leaves
    ('Ayr', 'Bern')
    >>> hierarchy_of_csv("code,parent\\nAyr,north\\nBern,south\\nAyr,south\\n")
    ['line 4: the code is there twice; give it one parent']
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [(reader.line_num, fields) for fields in reader if fields]
    except csv.Error:
        return [f"line {reader.line_num} is no CSV; quotes within a field are doubled"]
    if not lines or lines[0][1] not in _HEADERS:
        return ["the first line must be code,parent or code,parent,label"]
    width = len(lines[0][1])
    if wrong := [f"line {line} must have {width} fields" for line, fields in lines if len(fields) != width]:
        return wrong
    located = [(line, (fields[0], fields[1], fields[2] if width == 3 else "")) for line, fields in lines[1:]]
    rows = [row for _, row in located]
    if wrong := [f"line {located[place][0]}: the code {why}" for place, why in row_problems(rows)]:
        return wrong
    if len(rows) < 2:
        return ["has fewer than two codes"]
    hierarchy, line_of = Hierarchy.of(rows), {row[0]: line for line, row in located}
    return [
        f"line {line_of[code]}: the code {why}" if code in line_of else f"a parent without a line of its own {why}"
        for code, why in name_problems(hierarchy)
    ] or hierarchy


def hierarchy_problems(parts: Mapping[str, Any]) -> Iterator[Problem]:
    """Find hierarchies of columns that have no use for one."""
    if "roles" not in parts:
        return
    roles, quasi = parts["roles"].role_of(), {column.name: column for column in parts["roles"].quasi_identifiers}
    for column in parts.get("hierarchies", {}):
        if roles.get(column) == "blocking":
            if "blocks" in parts and (undersized := parts["blocks"].undersized) != "merge":
                why = f"is of a blocking column, and with blocks.undersized: {undersized} none of its values are merged"
                yield ("hierarchies", column), why
        elif column not in quasi:
            yield ("hierarchies", column), "is neither a quasi-identifier nor a blocking column"
        elif (kind := quasi[column].kind) not in (None, "nominal"):
            yield ("hierarchies", column), f"is for nominal columns, and this is {kind}; take one of both away"
