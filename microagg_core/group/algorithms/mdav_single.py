"""MDAV with one group a round, as the papers on mu-Approx and 2-mu-Approx describe it."""

from __future__ import annotations

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values
from microagg_core.group.costs import bytes_of_tree, peeling


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.kernels.tree.mdav import quicker_peel

    return quicker_peel(values, k, values.X.shape[1] + 1)


INFO = AlgorithmInfo(
    name="mdav_single",
    summary="MDAV with one group a round, around the record farthest from the centroid of what remains",
    description=(
        "Takes the record farthest from the centroid of the records that remain, groups it with its k-1 nearest, and "
        "goes on while at least 2k remain; the rest is the last group. Choose it where MDAV is meant but small "
        "losses count: on files without clusters it often loses a little less, as the centroid is renewed for every "
        "group. Groups have k records, but for the last, of up to 2k-1. Time grows little faster than the records "
        "while there are few attributes, or structure to go by; with ten or more and none, with their square. It is "
        "a heuristic: no bound on its loss is proved."
    ),
    groups=groups,
    sizes_text="k, and a last group of up to 2k-1",
    # Fitted to tests/benchmark/algorithm_cost.py, on uniform data, on one core of a 2-core virtual machine.
    cost_seconds=peeling(scanned=2.3e-7, scan=(4.4e-10, 1.0e-10), record=(1.2e-6, 1.1e-8), search=2.3e-7),
    # A copy of the data, and the tree.
    memory_bytes=lambda n, p, k: 8 * n * p + bytes_of_tree(n, p),
)
