"""Closeness: the values of a released combination are within a distance t of those of the whole release."""

from __future__ import annotations

from collections.abc import Mapping

from microagg_core.inspect.contract import Limit
from microagg_core.inspect.demand import SLACK, Protection
from microagg_core.inspect.exposure import Exposure


class Closeness(Limit):
    name = "closeness"
    how = "most"

    def limits(self, protection: Protection) -> dict[str, float]:
        return {demand.column: demand.t for demand in protection.columns if demand.t is not None}

    def show(self, exposure: Exposure, column: str) -> float | None:
        """Largest distance; None where a value was not counted, which is not within any distance."""
        return exposure.shown[column].distance

    def holds(self, figure: float, limit: float) -> bool:
        return figure <= limit + SLACK

    def breach(self, column: str, limit: float) -> str:
        return f"the values of {column!r} in a combination differ from the whole release's by more than t = {limit:g}"

    def promise(self, limits: Mapping[str, float]) -> str:
        return "; ".join(f"{column!r} within t = {limit:g} of the whole release" for column, limit in limits.items())
