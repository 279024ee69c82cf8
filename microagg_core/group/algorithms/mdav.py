"""MDAV: maximum distance to average vector, two groups a round."""

from __future__ import annotations

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values
from microagg_core.group.costs import bytes_of_tree, mdav_seconds


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.kernels.tree.mdav import quicker_peel

    return quicker_peel(values, k, 2 * k)


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
    sizes_text="k, and one group of up to 2k-1",
    cost_seconds=mdav_seconds,
    # A copy of the data, and the tree.
    memory_bytes=lambda n, p, k: 8 * n * p + bytes_of_tree(n, p),
    start="slabs",
)
