"""MDAV: maximum distance to average vector, two groups a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from microagg_core.algorithms.contract import AlgorithmInfo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def groups(X: NDArray[np.float64], k: int, *, seed: int) -> NDArray[np.int64]:
    """Group the records; MDAV draws nothing at random, so the seed changes nothing."""
    return peeled(X, k, 2 * k)


def peeled(X: NDArray[np.float64], k: int, two_from: int) -> NDArray[np.int64]:
    """Group the records from the outside in: two groups a round while ``two_from`` records remain, else one."""
    from microagg_core.kernels.mdav import peel
    from microagg_core.kernels.mdav_tree import peel_tree
    from microagg_core.kernels.searching import tree_pays

    return peel_tree(X.T, k, two_from) if tree_pays(len(X), X.shape[1], k) else peel(X.T, k, two_from)


# Fitted to tests/benchmark/algorithm_cost.py on one core of a 2-core virtual machine: seconds a record, and seconds
# for a scanned record and for each of its attributes.
def _cost_seconds(n: int, p: int, k: int) -> float:
    return 2.5e-7 * n + n * n / k * (1.0e-10 + 1.1e-10 * p)


def _memory_bytes(n: int, p: int, k: int) -> int:
    """A copy of the data, and seven numbers a record."""
    return 8 * n * (p + 7)


INFO = AlgorithmInfo(
    name="mdav",
    summary="two groups a round, at opposite ends of what remains; the standard method",
    description=(
        "Takes the record farthest from the centroid of the records that remain and groups it with its k-1 nearest, "
        "then does the same around the record farthest from that one, until fewer than 2k remain. Choose it when "
        "figures must be comparable with the literature and with other tools. Groups have k records, but for "
        "one of up to 2k-1. Time grows with the square of the records and falls with k. It is a heuristic: no "
        "bound on its loss is proved; on the literature's scattered files it is 5 to 25 % above the best known, on "
        "its clustered one up to twice that and more."
    ),
    groups=groups,
    sizes=lambda k: (k, 2 * k - 1),
    sizes_text="k, and one group of up to 2k-1",
    cost_seconds=_cost_seconds,
    memory_bytes=_memory_bytes,
)
