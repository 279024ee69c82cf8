"""The public Python functions: a partition of an array, a bound, and a masked copy of a table."""

from __future__ import annotations

from microagg_core.api.grouping import lower_bound, partition
from microagg_core.api.masking import Microaggregated, microaggregate
from microagg_core.group.headway import Headway

__all__ = ["Headway", "Microaggregated", "lower_bound", "microaggregate", "partition"]
