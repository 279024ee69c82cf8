"""Dates, kept as days or as the milliseconds of whole days."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from microagg_core.data.kinds.contract import Declaration, Unit
from microagg_core.data.kinds.exact import ExactKind

_MILLISECONDS = 86_400_000


class DateKind(ExactKind):
    may_be_objects: ClassVar[bool] = True

    @classmethod
    def takes(cls, arrow_type: pa.DataType, declared: Declaration) -> bool:
        return bool(pa.types.is_date(arrow_type))

    @property
    def _is_in_days(self) -> bool:
        return bool(pa.types.is_date32(self.source_type))

    @property
    def whole_type(self) -> pa.DataType:
        return pa.int32() if self._is_in_days else pa.int64()

    @property
    def own_step(self) -> int:
        return 1 if self._is_in_days else _MILLISECONDS

    @property
    def step_unit(self) -> str:
        return "days" if self._is_in_days else super().step_unit

    @property
    def unit(self) -> Unit:
        return Unit("days", float(self.own_step))

    def shown(self, tick: float) -> str:
        """The day, as ISO 8601 has it; numpy's calendar goes on where Python's ends, in the year 9999."""
        return str(np.datetime64(round(tick / self.unit.ticks), "D"))
