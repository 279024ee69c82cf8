"""Marks: what each record of an input part is to tonight's release of a series.

The marks of a part are a table with a row for every record of the part, in their order, whose column ``CODE`` says what
the record is. Beside it lie, in the same order, the atom of every survivor and the range of units of every record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools

#: The column of the marks, and its type.
CODE = "code"
CODE_TYPE = np.uint8
#: The column of survivors' atoms, wherever they travel.
ATOM = "atom"
#: A unit that was never released, which is grouped tonight if its block has enough of them.
ARRIVAL = 0
#: A unit that was released before: it goes with its atom, and is never grouped again.
SURVIVOR = 1
#: A unit that was released before and never will be again.
CLOSED = 2
#: An arrival that has waited as long as any has to.
WAITED = 3
#: A survivor whose confidential values are not those of its last release.
CHANGED = 4


def take_part(codes: NDArray[Any]) -> Bools:
    """Mark the records that are grouped tonight: the arrivals, however long they have waited.

    >>> take_part(np.array([ARRIVAL, SURVIVOR, CLOSED, WAITED, CHANGED])).tolist()
    [True, False, False, True, False]
    """
    return np.asarray((codes == ARRIVAL) | (codes == WAITED), dtype=np.bool_)


def survive(codes: NDArray[Any]) -> Bools:
    """Mark the records that go with their atoms."""
    return np.asarray((codes == SURVIVOR) | (codes == CHANGED), dtype=np.bool_)
