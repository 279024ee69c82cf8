"""Distinct values: every released combination has at least l of them in a column; a missing value is none."""

from __future__ import annotations

from collections.abc import Mapping

from microagg_core.inspect.contract import Limit
from microagg_core.inspect.demand import Protection
from microagg_core.inspect.exposure import Exposure


class DistinctValues(Limit):
    name = "distinct values"
    how = "least"

    def limits(self, protection: Protection) -> dict[str, float]:
        return {demand.column: demand.distinct for demand in protection.columns if demand.distinct}

    def show(self, exposure: Exposure, column: str) -> float:
        return int(exposure.shown[column].distinct.min())

    def holds(self, figure: float, limit: float) -> bool:
        return figure >= limit

    def breach(self, column: str, limit: float) -> str:
        return f"a combination has fewer than {limit} distinct values of {column!r}"

    def promise(self, limits: Mapping[str, float]) -> str:
        return "; ".join(f"at least {limit} of {column!r}" for column, limit in limits.items())
