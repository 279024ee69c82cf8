"""Find the kind of a column, by what the spec declares of it and by its Arrow type.

A new kind is one file in this folder, or an entry point of the group ``microagg.kinds``. The spec's checks, every step
of a release, the gate, the Python functions and the starter ask the kind. What it claims is tried before it is used.
"""

from __future__ import annotations

from collections.abc import Hashable

import pyarrow as pa

from microagg_core import registry
from microagg_core.data.kinds.claims import refuse_broken_claims
from microagg_core.data.kinds.contract import DEFAULT_ROUNDING, UNDECLARED, Declaration, Kind, Rule
from microagg_core.errors import DataError


def kind_for(arrow_type: pa.DataType, declared: Declaration = UNDECLARED) -> type[Kind] | None:
    """Find the kind of columns that are declared so and have this type; None: they cannot be quasi-identifiers.

    >>> kind_for(pa.date32()), kind_for(pa.string())
    (<class 'microagg_core.data.kinds.dates.DateKind'>, None)
    """
    kinds = registry.classes("microagg_core.data.kinds", Kind, "microagg.kinds")
    return next((kind for kind in kinds if kind.takes(arrow_type, declared)), None)


def kind_of(name: Hashable, arrow_type: pa.DataType, rule: Rule = DEFAULT_ROUNDING) -> Kind:
    """Make the quasi-identifier ``name`` of this type, rounded by the spec's rule.

    Raises:
        DataError: a type that has no mean.
        SpecError: a rule that does not fit the type, or a kind that does not keep what it claims.

    >>> kind_of("income", pa.float64(), 0.5).applied_rule
    0.5
    """
    cure = "for CSV declare its type under input.csv.types; else code it in numbers, coarsen it for blocking or drop it"
    declared = Declaration(str(name), rule)
    kind = _kind_or_refuse(declared, arrow_type, cure)(declared.name, arrow_type, rule)
    kind.refuse_rule()
    refuse_broken_claims(kind)
    return kind


def unrounded_kind(name: Hashable, arrow_type: pa.DataType) -> Kind:
    """Make it as the Python functions have it: means are floats, where the kind's means can be.

    Raises:
        DataError: a type that has no mean.

    >>> unrounded_kind("member", pa.bool_()).released_type, unrounded_kind("born", pa.date32()).released_type
    (DataType(double), DataType(date32[day]))
    """
    cure = "convert it to numbers, name it in blocking, or drop it"
    of = _kind_or_refuse(Declaration(str(name)), arrow_type, cure)
    kind = of(str(name), arrow_type, "none" if of.has_float_means else "type")
    refuse_broken_claims(kind)
    return kind


def _kind_or_refuse(declared: Declaration, arrow_type: pa.DataType, cure: str) -> type[Kind]:
    kind = kind_for(arrow_type, declared)
    if kind is None:
        raise DataError(
            f"quasi-identifier {declared.name!r} has the type {arrow_type}, which has no mean; it must be numeric, a "
            f"date or a timestamp ({cure})"
        )
    return kind
