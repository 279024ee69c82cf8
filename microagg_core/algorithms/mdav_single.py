"""MDAV with one group a round, as the papers on mu-Approx and 2-mu-Approx describe it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from microagg_core.algorithms.contract import AlgorithmInfo
from microagg_core.algorithms.mdav import peeled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def groups(X: NDArray[np.float64], k: int, *, seed: int) -> NDArray[np.int64]:
    """Group the records; the method draws nothing at random, so the seed changes nothing."""
    return peeled(X, k, len(X) + 1)


def _cost_seconds(n: int, p: int, k: int) -> float:
    return 2.5e-7 * n + n * n / k * (1.0e-10 + 1.1e-10 * p)


def _memory_bytes(n: int, p: int, k: int) -> int:
    """A copy of the data, and seven numbers a record."""
    return 8 * n * (p + 7)


INFO = AlgorithmInfo(
    name="mdav_single",
    summary="MDAV with one group a round, around the record farthest from the centroid of what remains",
    description=(
        "Takes the record farthest from the centroid of the records that remain, groups it with its k-1 nearest, and "
        "goes on while at least 2k remain; the rest is the last group. Choose it where MDAV is meant but small losses "
        "count: on files without clusters it often loses a little less, as the centroid is renewed for every group. "
        "Groups have k records, but for the last, of up to 2k-1. Time grows with the square of the records and falls "
        "with k. It is a heuristic: no bound on its loss is proved."
    ),
    groups=groups,
    sizes=lambda k: (k, 2 * k - 1),
    sizes_text="k, and a last group of up to 2k-1",
    cost_seconds=_cost_seconds,
    memory_bytes=_memory_bytes,
)
