"""The registry: which kind a column is of, by its Arrow type.

A new kind is one file in this folder and a line here. The spec's checks, every step of a release, the gate, the Python
functions and the starter ask the kind.
"""

from __future__ import annotations

from collections.abc import Hashable

import pyarrow as pa

from microagg_core.data.kinds.booleans import BooleanKind
from microagg_core.data.kinds.contract import DEFAULT_ROUNDING, Kind, Rule
from microagg_core.data.kinds.dates import DateKind
from microagg_core.data.kinds.decimals import DecimalKind
from microagg_core.data.kinds.floats import FloatKind
from microagg_core.data.kinds.timestamps import TimestampKind
from microagg_core.data.kinds.whole_numbers import WholeNumberKind
from microagg_core.errors import DataError

KINDS: tuple[type[Kind], ...] = (
    FloatKind,
    WholeNumberKind,
    DecimalKind,
    DateKind,
    TimestampKind,
    BooleanKind,
)


def kind_for(arrow_type: pa.DataType) -> type[Kind] | None:
    """The kind of columns of this type; None where they cannot be quasi-identifiers.

    >>> kind_for(pa.date32()), kind_for(pa.string())
    (<class 'microagg_core.data.kinds.dates.DateKind'>, None)
    """
    return next((kind for kind in KINDS if kind.takes(arrow_type)), None)


def kind_of(name: Hashable, arrow_type: pa.DataType, rule: Rule = DEFAULT_ROUNDING) -> Kind:
    """The quasi-identifier ``name`` of this type, rounded by the spec's rule.

    Raises:
        DataError: a type that has no mean.
        SpecError: a rule that does not fit the type.

    >>> kind_of("income", pa.float64(), 0.5).applied_rule
    0.5
    """
    cure = "for CSV declare its type under input.csv.types; else code it in numbers, coarsen it for blocking or drop it"
    kind = _kind_or_refuse(name, arrow_type, cure)(str(name), arrow_type, rule)
    kind.refuse_rule()
    return kind


def unrounded_kind(name: Hashable, arrow_type: pa.DataType) -> Kind:
    """The same as the Python functions have it: means are floats, where the kind's means can be.

    Raises:
        DataError: a type that has no mean.

    >>> unrounded_kind("member", pa.bool_()).released_type, unrounded_kind("born", pa.date32()).released_type
    (DataType(double), DataType(date32[day]))
    """
    kind = _kind_or_refuse(name, arrow_type, "convert it to numbers, name it in blocking, or drop it")
    return kind(str(name), arrow_type, "none" if kind.has_float_means else "type")


def _kind_or_refuse(name: Hashable, arrow_type: pa.DataType, cure: str) -> type[Kind]:
    kind = kind_for(arrow_type)
    if kind is None:
        raise DataError(
            f"quasi-identifier {str(name)!r} has the type {arrow_type}, which has no mean; it must be numeric, a date "
            f"or a timestamp ({cure})"
        )
    return kind
