"""Units behind rows, for the gate's k and for the sizes of combinations in risk and limits.

k is about units. In this version a unit has one row in a release, since repeated ones are refused, so units are counted
as rows. Where units of several rows are taken, this is what changes.
"""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.data.tables.ordering import Runs


def units_of_groups(groups: Ints) -> Ints:
    """Count the units behind each group of rows, 0, 1, ..."""
    return np.bincount(groups)


def units_of_runs(runs: Runs) -> Ints:
    """Count the units behind each run of equal rows."""
    return runs.lengths
