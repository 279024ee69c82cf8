"""Column roles against the real file: what each column is, and what it is released as.

Every column of the file has a role or the run stops; every role names a column that is there. The result,
a :class:`FileSchema`, is all that later steps know of the table's shape.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from microagg_core.data.kinds.contract import DEFAULT_ROUNDING, Claim, Declaration, Kind
from microagg_core.data.kinds.metric import Metric
from microagg_core.data.kinds.registry import kind_for, kind_of, number_kind_for
from microagg_core.data.kinds.weights import weight_kind
from microagg_core.data.tables.types import is_bytes, is_nested, is_text, levels_of
from microagg_core.errors import DataError, SpecError
from microagg_core.group.algorithms import algorithms
from microagg_core.spec.analyses import formula_columns
from microagg_core.spec.edits import Comparison
from microagg_core.spec.quasi_identifiers import QuasiIdentifier
from microagg_core.spec.release import ReleaseSpec

_MARKS = {";": "semicolons", "\t": "tabs", "|": "bars"}
#: Roles of columns whose groups get one value, and all that are released.
AVERAGED_ROLES = ("quasi_identifiers", "weight")
RELEASED_ROLES = (*AVERAGED_ROLES, "blocking", "confidential")
MISSING_PATTERN_LIMIT = 62  # patterns of missing values are bits of a 64-bit word


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType
    role: str


@dataclass(frozen=True)
class FileSchema:
    """The columns of the input in file order, with the roles the spec gives them."""

    columns: tuple[Column, ...]
    #: Blocking columns in the spec's order, because merging gives up the last one first.
    blocking: tuple[Column, ...]
    #: What each quasi-identifier is, in file order.
    kinds: tuple[Kind, ...]
    #: Its scale, where it has one, and whether its zeros are grouped apart.
    metrics: tuple[Metric | None, ...]
    zeros_apart: tuple[bool, ...]
    #: Of the release, made fresh: no metadata, no index, no dictionaries.
    released_schema: pa.Schema
    #: Of units of several rows: whether each quasi-identifier is the same in all rows of a unit.
    per_unit: tuple[bool, ...] = ()

    def _with_role(self, *roles: str) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.role in roles)

    @cached_property
    def quasi_identifiers(self) -> tuple[Column, ...]:
        """Columns of which a group shows one value: the weight is one of them."""
        return self._with_role(*AVERAGED_ROLES)

    @property
    def weight(self) -> str | None:
        return next((column.name for column in self._with_role("weight")), None)

    @cached_property
    def confidential(self) -> tuple[Column, ...]:
        return self._with_role("confidential")

    @cached_property
    def travelling(self) -> tuple[str, ...]:
        """Names of the columns that may leave the input: neither identifiers nor dropped ones do."""
        return tuple(c.name for c in (*self.quasi_identifiers, *self.blocking, *self.confidential))

    @cached_property
    def grouping(self) -> tuple[str, ...]:
        return tuple(c.name for c in (*self.quasi_identifiers, *self.blocking))

    @cached_property
    def released(self) -> tuple[Column, ...]:
        return self._with_role(*RELEASED_ROLES)


def resolve_schema(spec: ReleaseSpec, file_schema: pa.Schema) -> FileSchema:
    """Match the spec's roles with the file's columns."""
    names = file_schema.names
    if len(set(names)) != len(names):
        twice = sorted({n for n in names if names.count(n) > 1})
        raise DataError(f"the input has more than one column named {_quoted(twice)}; rename them")
    role_of = spec.roles.role_of()
    _check_names(names, role_of)
    columns = tuple(Column(field.name, field.type, role_of[field.name]) for field in file_schema)
    for column in columns:
        if column.role != "drop":
            _check_type(column)
    by_name = {c.name: c for c in columns}
    for name in spec.several.named if spec.several else ():
        _check_type(replace(by_name[name], role="identifiers"))
    if spec.several and spec.several.limit and spec.several.limit.by:
        _check_order(by_name[spec.several.limit.by])
    _check_analyses(spec, by_name)
    _check_edits(spec, {name: column.type for name, column in by_name.items()})
    if spec.missing != "error" and spec.roles.n_averaged > MISSING_PATTERN_LIMIT:
        raise SpecError(
            f"missing: {spec.missing} takes at most {MISSING_PATTERN_LIMIT} quasi-identifiers "
            f"(got {spec.roles.n_averaged}); fill missing values in and set missing: error"
        )
    released = [c for c in columns if c.role in RELEASED_ROLES]
    quasi = [c for c in released if c.role in AVERAGED_ROLES]
    declared = {q.name: q for q in spec.roles.quasi_identifiers}
    kinds = {c.name: _kind(spec, declared.get(c.name), file_schema.field(c.name)) for c in quasi}
    _check_algorithm(spec, kinds.values())
    for name, quasi_identifier in declared.items():
        _check_metric(kinds[name], quasi_identifier)
    as_declared = [declared.get(name) for name in kinds]
    return FileSchema(
        columns=columns,
        blocking=tuple(by_name[name] for name in spec.roles.blocking),
        kinds=tuple(kinds.values()),
        metrics=tuple(of.metric if of else None for of in as_declared),
        zeros_apart=tuple(of is not None and of.zeros is not None for of in as_declared),
        per_unit=tuple(spec.several is not None and name in spec.several.per_unit for name in kinds),
        released_schema=pa.schema([(column.name, _released_type(spec, column, kinds)) for column in released]),
    )


def _kind(spec: ReleaseSpec, declared: QuasiIdentifier | None, field: pa.Field) -> Kind:
    """Take a column for what the spec declares it; an ordered dictionary of text for ordinal, where it says nothing.

    What has a hierarchy is nominal. What is not declared is the weight, beside which rounded means would not keep
    weighted totals.
    """
    if declared is None:
        return weight_kind(field.name, field.type)
    kind, levels, own = declared.kind, declared.levels, levels_of(field)
    if (hierarchy := spec.hierarchies.get(field.name)) is not None:
        kind = "nominal"
    elif own is not None and (kind, levels) in ((None, None), ("ordinal", None)):
        kind, levels = "ordinal", own or None
    of = kind_for(field.type, Declaration(kind=kind, hierarchy=hierarchy))
    otherwise = "none" if spec.roles.weight is not None and of is not None and of.may_be_float else DEFAULT_ROUNDING
    rule, is_category = spec.rounding.get(field.name, otherwise), declared.missing == "category"
    said = {"kind": kind, "levels": levels, "importance": declared.weight, "null_is_category": is_category}
    return kind_of(field.name, field.type, rule, hierarchy=hierarchy, **said)


def _check_algorithm(spec: ReleaseSpec, kinds: Iterable[Kind]) -> None:
    """Stop where an algorithm that sorts values is given some that have no order."""
    if problem := algorithms()[spec.algorithm.name].refuses_nominal(
        [k.name for k in kinds if k.declared_as == "nominal"]
    ):
        raise SpecError(f"algorithm: {problem}")


def _check_metric(kind: Kind, declared: QuasiIdentifier) -> None:
    """Stop where a date, a truth value or a category is to be treated as an amount."""
    if kind.unit.name == "the column's" and not pa.types.is_boolean(kind.source_type):
        return
    is_category = Claim.MEAN_KEPT not in kind.claims
    amounts = {
        "scale": declared.scale == "log1p" or (is_category and declared.scale),
        "top": isinstance(declared.top, float) or (is_category and declared.top),
        "zeros": declared.zeros,
    }
    for field in (field for field, is_there in amounts.items() if is_there):
        raise SpecError(
            f"roles.quasi_identifiers: {field} of {kind.name!r} is for amounts, and it is "
            f"{kind.declared_as if is_category else f'of type {kind.source_type}'}; take it away"
        )


def _check_analyses(spec: ReleaseSpec, columns: dict[str, Column]) -> None:
    """Stop where a formula has a column of a type that models have no place for."""
    for place, text in enumerate(spec.analyses):
        names = formula_columns(text)
        for column in (columns[name] for name in names if number_kind_for(columns[name].type) is None):
            if column.name == names[0]:
                raise SpecError(
                    f"analyses[{place}]: {column.name!r} has the type {column.type}, and only a number, a date or a "
                    "timestamp can be explained; take another outcome"
                )
            if not is_text(column.type) and column.role == "confidential":
                raise SpecError(
                    f"analyses[{place}]: {column.name!r} has the type {column.type}, which cannot explain; leave it out"
                )


def _check_edits(spec: ReleaseSpec, types: dict[str, pa.DataType]) -> None:
    for place, edit in enumerate(spec.edits):
        try:
            refuse_types(edit.comparison, types)
        except ValueError as error:
            raise SpecError(f"edits[{place}]: {error}") from None


def family(held: pa.DataType) -> str:
    """Name what values of a type can be compared with; nothing, where that is nothing.

    >>> family(pa.int8()), family(pa.date32()), family(pa.string())
    ('a number', 'a date or a time', '')
    """
    types = pa.types
    if types.is_integer(held) or types.is_floating(held) or types.is_decimal(held):
        return "a number"
    if types.is_timestamp(held) and held.tz:
        return "a time with a zone"
    return "a date or a time" if types.is_date(held) or types.is_timestamp(held) else ""


def refuse_types(comparison: Comparison, types: Mapping[str, pa.DataType]) -> None:
    """ValueError where the file's types cannot be compared."""
    families = [(name, family(types[name])) for name in comparison.columns]
    for name, of in families:
        if not of:
            raise ValueError(f"{name!r} has the type {types[name]}, and only numbers, dates and times are compared")
    compared = [of for _, of in families] + ["a number"] * (len(families) == 1)
    if compared[0] != compared[1]:
        other = f"{families[1][0]!r} is {compared[1]}" if len(families) == 2 else "it is compared with a number"
        raise ValueError(f"{families[0][0]!r} is {compared[0]}, and {other}; compare what is alike")


def _check_names(names: list[str], role_of: dict[str, str]) -> None:
    without_role = [name for name in names if name not in role_of]
    without_column = [name for name in role_of if name not in names]
    problems = []
    if without_role:
        problems.append(
            f"the input has columns without a role: {_quoted(without_role)}; "
            "name each under roles (use drop for what is not to be released)"
        )
    if len(names) == 1 and (mark := next((m for m in ";\t|" if m in names[0]), None)):
        problems = [
            f"the input has a single column, whose name holds {_MARKS[mark]}: set input.csv.delimiter to {mark!r}, and "
            "input.csv.decimal_mark where numbers have decimal commas"
        ]
    for name in () if problems and len(names) == 1 else without_column:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        problems.append(f"roles.{role_of[name]}: the input has no column {name!r}{hint}")
    if problems:
        raise SpecError("\n".join(problems))


def _check_type(column: Column) -> None:
    held = column.type
    if is_nested(held):
        raise DataError(
            f"column {column.name!r} has the nested type {held}, which cannot be released; give it the role drop"
        )
    if pa.types.is_decimal256(held) or pa.types.is_float16(held):
        raise DataError(
            f"column {column.name!r} has the type {held}, which is not supported; cast it or give it the role drop"
        )
    if pa.types.is_timestamp(held) and held.tz and not _is_zone(held):
        raise DataError(
            f"column {column.name!r} has the time zone {held.tz!r}, which is none that this machine knows; cast it to "
            "UTC or give it the role drop"
        )
    if column.role == "blocking" and is_bytes(held):
        raise DataError(f"blocking column {column.name!r} holds bytes; make it text or give it another role")


def _check_order(column: Column) -> None:
    """Refuse texts, whose order need not be that of time: 31.1.2024 stands after 1.2.2024."""
    held = column.type
    if not (pa.types.is_temporal(held) or pa.types.is_integer(held) or pa.types.is_floating(held)):
        what = "text" if is_text(held) else f"of type {held}"
        raise SpecError(
            f"unit.rows.by: {column.name!r} is {what}, by which no row is newer than another; name a column of dates, "
            "times or numbers, or give this one such a type (of CSV under input.csv.types)"
        )


def _is_zone(held: pa.DataType) -> bool:
    """Ask Arrow whether it knows the zone of a timestamp, as it is Arrow that writes such times."""
    try:
        pa.array([0], pa.int64()).cast(held).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _released_type(spec: ReleaseSpec, column: Column, kinds: dict[str, Kind]) -> pa.DataType:
    if column.name in kinds:
        return kinds[column.name].released_type
    if column.role == "blocking" and spec.blocks.undersized == "merge":
        return pa.string()
    return column.type


def _quoted(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)
