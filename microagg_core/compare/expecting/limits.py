"""Limits: whether what is looked at would pass the checks that ``protect:`` has the gate make."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from microagg_core.inspect.risk.contract import ConfidentialValues, Exposure
from microagg_core.inspect.risk.inference import distinct_values
from microagg_core.release.context import Context
from microagg_core.release.steps.protecting import ProtectionFigures, check_protection, column_demands


def broken_limits(context: Context, exposure: Exposure, certain: Mapping[str, float], links: float) -> tuple[str, ...]:
    """What the gate would say of a release like this, if it demands more than that shows.

    Args:
        context: of the run, with the demands.
        exposure: what would be released.
        certain: for each confidential column, the share of records whose value would be certain.
        links: the share of records that are expected to be linked rightly, every record asked.
    """
    values = {column.name: column for column in exposure.confidential}
    columns = {
        name: {
            "distinct": int(distinct_values(values[name].codes, exposure.groups).min()),
            "t": _distance(values[name], exposure),
            "inference": certain[name],
        }
        for name in column_demands(context)
    }
    checks = check_protection(context, ProtectionFigures({**columns}, links))
    return tuple(check.detail for check in checks if not check.passed)


def _distance(column: ConfidentialValues, exposure: Exposure) -> float | None:
    """How far a group is at most from all that is looked at; None where nobody can tell."""
    if column.distribution is None:
        return None
    return float(np.max(column.distribution.distances(column.codes, exposure.groups)))
