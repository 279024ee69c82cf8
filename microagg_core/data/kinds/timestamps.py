"""Timestamps: ticks are their own units, from seconds to nanoseconds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.data.kinds.contract import Declaration, Unit
from microagg_core.data.kinds.exact import ExactKind

_TICKS_OF_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class TimestampKind(ExactKind):
    @classmethod
    def takes(cls, arrow_type: pa.DataType, declared: Declaration) -> bool:
        return bool(pa.types.is_timestamp(arrow_type))

    @property
    def whole_type(self) -> pa.DataType:
        return pa.int64()

    @property
    def unit(self) -> Unit:
        return Unit("seconds", float(_TICKS_OF_A_SECOND[self.source_type.unit]))

    def shown(self, tick: float) -> str:
        """The second, as ISO 8601 has it; numpy's calendar goes on where Python's ends, in the year 9999."""
        # A float near the ends of 64 bits rounds to beyond them; the lowest number is no time, but numpy's NaT.
        seconds = min(max(round(tick / self.unit.ticks), 1 - 2**63), 2**63 - 1)
        return str(np.datetime64(seconds, "s")) + ("Z" if self.source_type.tz else "")
