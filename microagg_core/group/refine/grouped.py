"""What the kernels of refinement work on: groups in arrays, and room for the drafts of changes."""

from __future__ import annotations

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.kernels.refinement.changing_groups import Grouping, fill
from microagg_core.kernels.refinement.drafts import GroupDraft


def grouping_of(X: Floats, labels: Ints, k: int) -> Grouping:
    """Groups of padded records as labels 0 to g-1 say, none of 2k records or more."""
    n, width = X.shape
    slots = n // k + 2
    grouping = Grouping(
        X=X,
        label=labels.astype(np.int64, copy=True),
        place=np.zeros(n, dtype=np.int64),
        members=np.zeros((slots, 2 * k), dtype=np.int64),
        size=np.zeros(slots, dtype=np.int64),
        centre=np.zeros((slots, width)),
        own=np.zeros(n),
        sse=np.zeros(slots),
        free=np.zeros(slots + 2, dtype=np.int64),
        n_free=np.zeros(1, dtype=np.int64),
        room=np.zeros((4, max(width, 2 * k))),
    )
    fill(grouping)
    return grouping


def draft_of(grouping: Grouping, k: int, every: int) -> GroupDraft:
    """An empty draft, with room for what one change may touch, if one in ``every`` makes groups anew."""
    slots, most = grouping.members.shape
    rows, loose = (3 * k + 12, 4 * most) if every else (1, 1)
    return GroupDraft(
        entry=np.zeros((slots, 2), dtype=np.int64),
        group=np.zeros(rows, dtype=np.int64),
        size=np.zeros(rows, dtype=np.int64),
        centre=np.zeros((rows, grouping.X.shape[1])),
        moved=np.zeros(loose, dtype=np.int64),
        to=np.zeros(loose, dtype=np.int64),
        distance=np.zeros(loose),
        counters=np.zeros(4, dtype=np.int64),
    )
