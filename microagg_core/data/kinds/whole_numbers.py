"""Whole numbers of 8 to 64 bits, with or without a sign."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pyarrow as pa

from microagg_core.data.kinds.contract import Declaration, Kind
from microagg_core.data.kinds.exact import ExactKind


class WholeNumberKind(ExactKind):
    """Integers: a tick is a one. With a step between two of them, means are released as float64.

    >>> WholeNumberKind("age", pa.int16(), 5.0).step, WholeNumberKind("age", pa.int16(), 0.1).released_type
    (5, DataType(double))
    """

    has_float_means: ClassVar[bool] = True
    may_be_float: ClassVar[bool] = True
    may_have_fractions: ClassVar[bool] = True

    @classmethod
    def takes(cls, arrow_type: pa.DataType, declared: Declaration) -> bool:
        return bool(pa.types.is_integer(arrow_type))

    @property
    def finer(self) -> Kind | None:
        return replace(self, rule=0.1) if isinstance(self.rule, str) and self.step else None

    @property
    def whole_type(self) -> pa.DataType:
        return self.source_type
