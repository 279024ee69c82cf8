"""Inference: of at most a share of the records, the released combination has one value alone, or none."""

from __future__ import annotations

from microagg_core.inspect.contract import Limit
from microagg_core.inspect.demand import Protection
from microagg_core.inspect.exposure import Exposure


class CertainValues(Limit):
    name = "inference"
    how = "sum"

    def limits(self, protection: Protection) -> dict[str, float]:
        return {demand.column: demand.inference for demand in protection.columns if demand.inference is not None}

    def show(self, exposure: Exposure, column: str) -> float:
        return int(exposure.cells.rows[exposure.shown[column].distinct <= 1].sum())

    def holds(self, figure: float, limit: float) -> bool:
        return figure <= limit

    def breach(self, column: str, limit: float) -> str:
        return (
            f"more than the allowed share of {limit:g} of the records have a value of {column!r} that follows from "
            "their combination"
        )
