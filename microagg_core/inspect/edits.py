"""Count edits: records that have both values of a rule, and those of them that break it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools
from microagg_core.data.tables.hashing import missing_in, one_array
from microagg_core.spec.edits import Comparison, Operand, Sign

Column: TypeAlias = "pa.Array | pa.ChunkedArray"
#: Of a rule, which records have both values, and which of these break it.
Broken: TypeAlias = "tuple[Bools, Bools]"

_HOLDS: dict[Sign, Callable[[Any, Any], Any]] = {
    "<=": pc.less_equal,
    "<": pc.less,
    ">=": pc.greater_equal,
    ">": pc.greater,
    "==": pc.equal,
    "!=": pc.not_equal,
}
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY, _INT64 = 86_400 * 10**9, 2**63


@dataclass(frozen=True)
class RuleCount:
    """Records that have both values of a rule, and those of them that break it."""

    compared: int = 0
    broken: int = 0

    @property
    def share(self) -> float:
        return self.broken / self.compared if self.compared else 0.0


@dataclass(frozen=True)
class EditCount:
    """Counts of a rule, of records as they came and of the same as they are released."""

    before: RuleCount = RuleCount()
    after: RuleCount = RuleCount()

    @property
    def is_worse(self) -> bool:
        return self.after.share > self.before.share

    def in_words(self, rule: str) -> str:
        """Say how often a rule is broken.

        >>> EditCount(RuleCount(2503, 2), RuleCount(2503, 1216)).in_words("dodth <= dox")
        "'dodth <= dox' is broken by 48.6 % of 2,503 records as released, and by 0.0799 % as they came"
        """
        after, before = (f"{100 * count.share:.3g} %" for count in (self.after, self.before))
        of = f"{self.after.compared:,} records as released"
        return f"{rule!r} is broken by {after} of {of}, and by {before} as they came"


def count_of(comparison: Comparison, columns: Mapping[str, Column]) -> RuleCount:
    """Count a rule over columns by name.

    >>> count_of(Comparison("a", "<=", "b"), {"a": pa.array([1, 3, None]), "b": pa.array([1.5, 2.5, 0.0])})
    RuleCount(compared=2, broken=1)
    """
    compared, broken = breaking(comparison, columns)
    return RuleCount(int(compared.sum()), int(broken.sum()))


def breaking(comparison: Comparison, columns: Mapping[str, Column]) -> Broken:
    """Find the records that have both values, no NaN among them, and those that break the rule."""
    arrays = [_array(operand, columns) for operand in comparison.operands]
    missing = [missing_in(array) for array in arrays if isinstance(array, pa.Array)]
    compared = ~np.logical_or.reduce(missing)
    holds = _HOLDS[comparison.sign](*_alike(*arrays))
    return compared, compared & ~np.asarray(pc.fill_null(holds, True))


def _array(operand: Operand, columns: Mapping[str, Column]) -> pa.Array | pa.Scalar:
    if isinstance(operand, str):
        return one_array(columns[operand])
    if operand == int(operand) and abs(operand) < _INT64:
        return pa.scalar(int(operand), pa.int64())
    return pa.scalar(Decimal(f"{operand:f}"))


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Make both sides of one type, in which they compare as their exact values do; beside floats, as floats."""
    types = (left.type, right.type)
    if types[0] == types[1] or all(pa.types.is_signed_integer(held) for held in types):
        return left, right
    if any(pa.types.is_temporal(held) for held in types):
        return _nanoseconds(left), _nanoseconds(right)
    if any(pa.types.is_floating(held) for held in types):
        common, safe = pa.float64(), False
    else:
        common, safe = pa.decimal256(76, max(getattr(held, "scale", 0) for held in types)), True
    return left.cast(common, safe=safe), right.cast(common, safe=safe)


def _nanoseconds(times: pa.Array) -> pa.Array:
    """Nanoseconds since 1970, as decimals: 64 bits end in the year 2262."""
    held = times.type
    days = pa.types.is_date32(held)
    ticks = times.view(pa.int32() if days else pa.int64()).cast(pa.int64()).cast(pa.decimal128(19, 0))
    length = _DAY if days else _NANOSECONDS["ms" if pa.types.is_date64(held) else held.unit]
    return pc.multiply(ticks, pa.scalar(Decimal(length), pa.decimal128(18, 0)))
