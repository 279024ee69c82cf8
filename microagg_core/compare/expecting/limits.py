"""Limits: whether what is looked at would pass the checks that ``protect:`` has the gate make."""

from __future__ import annotations

from collections.abc import Mapping

from microagg_core.inspect.exposure import Exposure
from microagg_core.inspect.gate import limits
from microagg_core.inspect.limits.inference import CertainValues
from microagg_core.inspect.limits.linkage import EVERY_COLUMN, RightLinks
from microagg_core.release.steps.demands import protection_of
from microagg_core.release.steps.work import Context


def broken_limits(context: Context, exposure: Exposure, certain: Mapping[str, float], links: float) -> tuple[str, ...]:
    """Say what the gate would, of a release like this, if it demands more than that shows.

    Args:
        context: of the run, with the demands.
        exposure: what would be released.
        certain: for each confidential column, the share of records whose value would be certain.
        links: the share of records that are expected to be linked rightly, every record asked.
    """
    protection, weighed = protection_of(context), {CertainValues.name: certain, RightLinks.name: {EVERY_COLUMN: links}}
    checks = []
    for limit in limits():
        shown = {column: limit.show(exposure, column) for column in limit.limits(protection)}
        checks.append(limit.check(protection, weighed.get(limit.name, shown)))
    return tuple(check.detail for check in checks if check is not None and not check.passed)
