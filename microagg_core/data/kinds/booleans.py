"""Truth values: false is 0, true is 1, and a group gets what more of its records have."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools
from microagg_core.data.kinds.contract import Declaration, Ticks
from microagg_core.data.kinds.exact import ExactKind


class BooleanKind(ExactKind):
    """Truth values. The mean as a float is the share of true ones, which the Python functions give."""

    has_float_means: ClassVar[bool] = True
    is_compared: ClassVar[bool] = False

    @classmethod
    def takes(cls, arrow_type: pa.DataType, declared: Declaration) -> bool:
        return bool(pa.types.is_boolean(arrow_type))

    @property
    def whole_type(self) -> pa.DataType:
        return pa.int8()

    @property
    def range(self) -> tuple[int, int]:
        return 0, 1

    def _ticks_of(self, array: pa.Array) -> Ticks:
        return np.asarray(pc.fill_null(array, False)).astype(np.int64)

    def _to_own_type(self, ticks: Ticks, mask: Bools | None) -> pa.Array:
        return pa.array(ticks, mask=mask).cast(self.source_type)
