"""M-d: the minimum spanning tree's longest edges cut where k records stay on both sides; MD does what is large."""

from __future__ import annotations

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.kernels.forests.mst import cut_longest, spanning_tree
    from microagg_core.kernels.scan.mdav import group_by_md

    labels = cut_longest(*spanning_tree(values._replace(X=values.X.copy())), k)
    group_by_md(values, labels, k)
    return labels


# Fitted to tests/benchmark/algorithm_cost.py on one core of a 2-core virtual machine: seconds a record, and seconds
# for a scanned record and for each of its attributes. What MD adds is small: few trees keep 2k records.
def _cost_seconds(n: int, p: int, k: int) -> float:
    return 1e-6 * n + n * n * (2.8e-10 + 5e-11 * p)


INFO = AlgorithmInfo(
    name="mst",
    summary="the minimum spanning tree, cut at its longest edges; for data with natural clusters",
    description=(
        "Joins all records by their minimum spanning tree, cuts its edges from the longest on wherever both sides keep "
        "k records, and partitions trees of 2k records and more by MD. Choose it for data with natural clusters, or "
        "when groups should follow gaps in the data; on scattered data MDAV's loss is lower. Groups have k to 2k-1 "
        "records. Time grows with the square of the records, whatever k is; it needs no matrix of distances. It is a "
        "heuristic: no bound on its loss is proved."
    ),
    groups=groups,
    sizes_text="k to 2k-1",
    cost_seconds=_cost_seconds,
    # Two copies of the data, and 18 numbers a record.
    memory_bytes=lambda n, p, k: 8 * n * (2 * p + 18),
)
