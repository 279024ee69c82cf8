"""Decimals of up to 38 digits: ticks are whole numbers of their last digit, of any size."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.arrays import Bools
from microagg_core.data.kinds.contract import Declaration, Ticks, Unit
from microagg_core.data.kinds.exact import ExactKind

_MAX_NARROW_DIGITS = 18  # that always fit 64 bits


class DecimalKind(ExactKind):
    """Decimals; their ticks are Python's whole numbers where 64 bits could be too few."""

    has_float_means: ClassVar[bool] = True
    may_be_float: ClassVar[bool] = True
    may_be_objects: ClassVar[bool] = True

    @classmethod
    def takes(cls, arrow_type: pa.DataType, declared: Declaration) -> bool:
        return bool(pa.types.is_decimal(arrow_type))

    @property
    def whole_type(self) -> pa.DataType:
        return self.source_type

    @property
    def scale(self) -> int:
        return int(self.source_type.scale)

    @property
    def range(self) -> tuple[int, int]:
        greatest = 10**self.source_type.precision - 1
        return -greatest, greatest

    @property
    def unit(self) -> Unit:
        return Unit("the column's", 10.0**self.scale if self.step else 1.0)

    def _ticks_of(self, array: pa.Array) -> Ticks:
        width = int(array.type.bit_width)
        whole = np.frombuffer(array.buffers()[1], dtype=np.int32 if width == 32 else np.int64)
        words = whole.reshape(-1, max(1, width // 64))[array.offset : array.offset + len(array)]
        words = np.where(np.asarray(pc.is_null(array))[:, None], 0, words)
        if array.type.precision <= _MAX_NARROW_DIGITS:
            return words[:, 0].astype(np.int64)
        ticks = words[:, -1].astype(object)
        for lower in reversed(words.T[:-1]):
            ticks = (ticks << 64) + lower.astype(np.uint64)
        return np.asarray(ticks)

    def _to_own_type(self, ticks: Ticks, mask: Bools | None) -> pa.Array:
        words: NDArray[Any] = np.empty((len(ticks), 2), dtype=np.int64)
        words[:, 1] = ticks >> 63 if ticks.dtype != object else ticks >> 64
        words[:, 0] = ticks if ticks.dtype != object else (ticks & (2**64 - 1)).astype(np.uint64).view(np.int64)
        validity = None if mask is None else pa.array(~mask).buffers()[1]
        return pa.Array.from_buffers(self.source_type, len(ticks), [validity, pa.py_buffer(words)])
