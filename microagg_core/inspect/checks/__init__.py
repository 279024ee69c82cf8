"""The checks of the gate, one file each; a new one is a file here and a line in this list.

Their order is that of the manifest. That the columns are the declared ones, and the records as many as they should be,
comes before them: see :mod:`microagg_core.inspect.gate`.
"""

from __future__ import annotations

from typing import Any

from microagg_core.inspect.checks.combinations import KAnonymity
from microagg_core.inspect.checks.contract import Inspection
from microagg_core.inspect.checks.groups import GroupRanges
from microagg_core.inspect.checks.means import Means
from microagg_core.inspect.checks.missing_values import MissingValues
from microagg_core.inspect.checks.values import Values

CHECKS: tuple[Inspection[Any], ...] = (KAnonymity(), MissingValues(), Means(), GroupRanges(), Values())
