"""MDAV+: one group a round, from the outside in, around the centroid of the whole file."""

from __future__ import annotations

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values
from microagg_core.group.algorithms.v_mdav import grown
from microagg_core.group.costs import bytes_of_tree, peeling


def groups(values: Values, k: int, *, seed: int) -> Ints:
    return grown(values, k, 0.0)


INFO = AlgorithmInfo(
    name="mdav_plus",
    summary="one group a round, from the outside in; the fastest of the MDAV family",
    description=(
        "Takes the record farthest from the centroid of the whole file, groups it with its k-1 nearest, and goes on "
        "with the farthest that is left; the last records, fewer than k, each join the group with the nearest "
        "centroid. Choose it when MDAV is too slow: its loss is much the same. Groups have k records, and up to 2k-1 "
        "where the last records joined. Time grows little faster than the records while there are few attributes, or "
        "structure to go by; with ten or more and none, with their square. It is a heuristic: no bound on its loss "
        "is proved."
    ),
    groups=groups,
    sizes_text="k, and up to 2k-1 where the last records joined",
    # Fitted to tests/benchmark/algorithm_cost.py, on uniform data, on one core of a 2-core virtual machine.
    cost_seconds=peeling(scanned=2.3e-7, scan=(3.0e-10, 5.0e-11), record=(4.5e-7, 6.5e-8), search=2.3e-7),
    # A copy of the data, and the tree, or in its place the centroids.
    memory_bytes=lambda n, p, k: 8 * n * p + max(bytes_of_tree(n, p), n * 56 + 8 * (n // k) * (p + 3)),
)
