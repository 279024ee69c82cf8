"""Disclosure risk of a release, for the operator alone: it stays in the audit and is never published.

Measured is what would be published: the rows of a released file, beside what the input has of the same records. A
measure notes something of each file, notes of files add up, and their sum becomes figures of the release. A new one is
a file here and a line in ``MEASURES``; :func:`microagg_core.inspect.risk.tables.measure_risk` measures two tables.
"""

from __future__ import annotations

from typing import Any

from microagg_core.inspect.risk.contract import RiskMeasure
from microagg_core.inspect.risk.inference import Inference
from microagg_core.inspect.risk.intervals import Intervals
from microagg_core.inspect.risk.linkage import Linkage
from microagg_core.inspect.risk.sizes import Sizes
from microagg_core.inspect.risk.uniqueness import Uniqueness

MEASURES: tuple[RiskMeasure[Any], ...] = (Sizes(), Linkage(), Intervals(), Inference(), Uniqueness())
