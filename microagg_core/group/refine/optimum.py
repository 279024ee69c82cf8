"""The optimum itself: what thorough refinement gives for k = 2, where it takes seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from microagg_core.arrays import Ints
from microagg_core.group.refine.costs import optimum_is_affordable
from microagg_core.group.refine.improving import refine_near, sse_of_labels
from microagg_core.group.refine.neighbours import Records

if TYPE_CHECKING:
    from microagg_core.group.factor import Optimum

#: Losses that differ by a smaller share are the same but for rounding.
_NOTHING = 1e-12


def affordable_optimum(records: Records, k: int, effort: str | float) -> Optimum | None:
    """The best groups of two and three places with what is proved of them; None where nobody asks for so much.

    It stops by counts, not by the clock, so that the same records give the same groups on every machine.

    >>> import numpy as np
    >>> records = Records.of(np.array([[0.0], [1.0], [10.0], [12.0], [13.0]]), 2)
    >>> affordable_optimum(records, 2, "thorough").gap, affordable_optimum(records, 2, "fast")
    (0.0, None)
    """
    n, p = records.Z.shape
    if effort != "thorough" or not optimum_is_affordable(n, p, k):
        return None
    from microagg_core.group.factor import (
        optimal_two,  # loads solvers, which a worker has no memory for unless it needs them
    )

    return optimal_two(records.Z, seconds=None)


def least_loss(records: Records, given: Ints, optimum: Optimum, seed: int) -> Ints:
    """The optimum's groups, or refined ones where these lose less; the very array that came in where nothing is gained.

    An optimum that is proved needs no comparison with refined groups.
    """
    refined = [] if optimum.gap == 0 else [refine_near(records, given, 2, "thorough", seed)]
    candidates = [given, *refined, records.outward(optimum.labels, 2)]
    losses = [sse_of_labels(records.Z, records.inward(labels)) for labels in candidates]
    enough = min(losses) * (1 + _NOTHING)
    return next(labels for labels, loss in zip(candidates, losses, strict=True) if loss <= enough)
