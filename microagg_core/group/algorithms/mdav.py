"""MDAV: maximum distance to average vector, two groups a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from microagg_core.group.algorithms.info import AlgorithmInfo
from microagg_core.group.costs import bytes_of_tree, of_a_record, of_a_search

if TYPE_CHECKING:
    from microagg_core.arrays import Floats, Ints


def groups(X: Floats, k: int, *, seed: int) -> Ints:
    from microagg_core.kernels.tree.mdav import quicker_peel

    return quicker_peel(X.T, k, 2 * k)


# Fitted to tests/benchmark/algorithm_cost.py, on uniform data, on one core of a 2-core virtual machine: seconds a
# record, and a group's by a search, which is no longer than a scan; or plain scans where they are quicker.
def _cost_seconds(n: int, p: int, k: int) -> float:
    scan = n * (3.9e-10 + 1.1e-10 * p)
    search = min(scan, 5.3e-7 * of_a_search(n, p))
    return min(2.4e-7 * n + n / k * scan, n * (5.1e-7 + 2.4e-8 * p) * of_a_record(n) + n / k * search)


INFO = AlgorithmInfo(
    name="mdav",
    summary="two groups a round, at opposite ends of what remains; the standard method",
    description=(
        "Takes the record farthest from the centroid of the records that remain and groups it with its k-1 nearest, "
        "then does the same around the record farthest from that one, until fewer than 2k remain. Choose it when "
        "figures must be comparable with the literature and with other tools. Groups have k records, but for one of "
        "up to 2k-1. Time grows little faster than the records while there are few attributes, or structure to go "
        "by; with ten or more and none, with their square. It is a heuristic: no bound on its loss is proved; on the "
        "literature's scattered files it is 5 to 25 % above the best known, on its clustered one up to twice that "
        "and more."
    ),
    groups=groups,
    sizes=lambda k: (k, 2 * k - 1),
    sizes_text="k, and one group of up to 2k-1",
    cost_seconds=_cost_seconds,
    # A copy of the data, and the tree.
    memory_bytes=lambda n, p, k: 8 * n * p + bytes_of_tree(n, p),
)
