"""MDAV+: one group a round, from the outside in, around the centroid of the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from microagg_core.algorithms.contract import AlgorithmInfo
from microagg_core.algorithms.v_mdav import grown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def groups(X: NDArray[np.float64], k: int, *, seed: int) -> NDArray[np.int64]:
    """Group the records; MDAV+ draws nothing at random, so the seed changes nothing."""
    return grown(X, k, 0.0)


# Fitted to tests/benchmark/algorithm_cost.py on one core of a 2-core virtual machine: seconds a record, and seconds
# for a scanned record and for each of its attributes.
def _cost_seconds(n: int, p: int, k: int) -> float:
    return 3.5e-7 * n + n * n / k * (5e-11 + 6.2e-11 * p)


def _memory_bytes(n: int, p: int, k: int) -> int:
    """A copy of the data, seven numbers a record, and the centroids."""
    return 8 * n * (p + 7) + 8 * (n // k) * (p + 1)


INFO = AlgorithmInfo(
    name="mdav_plus",
    summary="one group a round, from the outside in; the fastest of the MDAV family",
    description=(
        "Takes the record farthest from the centroid of the whole file, groups it with its k-1 nearest, and goes on "
        "with the farthest that is left; the last records, fewer than k, each join the group with the nearest "
        "centroid. Choose it when MDAV is too slow: its loss is much the same. Groups have k records, and up to 2k-1 "
        "where the last records joined. Time grows with the square of the records and falls with k. It is a "
        "heuristic: no bound on its loss is proved."
    ),
    groups=groups,
    sizes=lambda k: (k, 2 * k - 1),
    sizes_text="k, and up to 2k-1 where the last records joined",
    cost_seconds=_cost_seconds,
    memory_bytes=_memory_bytes,
)
