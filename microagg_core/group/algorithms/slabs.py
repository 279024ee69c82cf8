"""Slabs: records cut in two again and again, across the attribute that varies most."""

from __future__ import annotations

import math

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.kernels.tree.slabs import cut_into_slabs

    return cut_into_slabs(values, k)


INFO = AlgorithmInfo(
    name="slabs",
    summary="cuts across the attribute that varies most, down to groups; the fastest, to be refined",
    description=(
        "Cuts the records in two at the median of the attribute that varies most among them, then each part likewise, "
        "down to groups; equal values stay together where that leaves k on both sides. Choose it with refinement, for "
        "many attributes or records: refined groups lose about as much as from MDAV's. Alone it loses a fifth more "
        "than MDAV on uniform data, and several times as much where a few records lie far out. Groups have k to 2k-1 "
        "records. Time grows little faster than the records, whatever the attributes. It is a heuristic: no bound on "
        "its loss is proved."
    ),
    groups=groups,
    sizes_text="k to 2k-1",
    # Fitted to tests/benchmark/algorithm_cost.py, on one core of a 2-core virtual machine: seconds of a record, and of
    # each time that it is cut off from others.
    cost_seconds=lambda n, p, k: n * (5e-8 + (1.2e-8 + 8e-10 * p) * math.log2(max(2, n / k))),
    # A copy of the data, the records' order, and what is sorted.
    memory_bytes=lambda n, p, k: 8 * n * p + 32 * n,
)
