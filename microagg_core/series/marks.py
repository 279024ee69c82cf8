"""Marks: what each record of an input part is to tonight's release of a series.

The marks of a part are a table with a row for every record of the part, in their order: column ``CODE`` says what the
record is, and column ``RANGE``, where it is a survivor, to which range of atoms it goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools

#: The columns of the marks, and their types.
CODE, RANGE = "code", "range"
CODE_TYPE, RANGE_TYPE = np.uint8, np.uint16

#: A unit that was never released, which is grouped tonight if its block has enough of them.
ARRIVAL = 0
#: A unit that was released before: it goes with its atom, and is never grouped again.
SURVIVOR = 1
#: A unit that was released before and never will be again.
CLOSED = 2
#: An arrival that has waited as long as any has to.
WAITED = 3


def take_part(codes: NDArray[Any]) -> Bools:
    """Which records are grouped tonight: the arrivals, however long they have waited.

    >>> take_part(np.array([ARRIVAL, SURVIVOR, CLOSED, WAITED])).tolist()
    [True, False, False, True]
    """
    return np.asarray((codes == ARRIVAL) | (codes == WAITED), dtype=np.bool_)
