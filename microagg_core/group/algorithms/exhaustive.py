"""The optimal groups of a few records, found by going through all of them."""

from __future__ import annotations

import math

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values

#: Time triples with each record, and memory doubles: 20 records take seconds and 50 MB.
MOST_RECORDS = 20


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.kernels.scan.optimal import exhaustive

    return exhaustive(values, k)


def _cost_seconds(n: int, p: int, k: int) -> float:
    return 2e-4 + 2.6e-10 * math.pow(3.0, n) if n <= MOST_RECORDS else math.inf


INFO = AlgorithmInfo(
    name="exhaustive",
    summary=f"the optimal groups of up to {MOST_RECORDS} records",
    description=(
        "Finds groups with the least sum of squares that any groups of at least k records can have, by dynamic "
        f"programming over all sets of records. Choose it for blocks of up to {MOST_RECORDS} records, and to see how "
        "far from the optimum other methods stay. Groups have k to 2k-1 records: larger ones are never better than "
        "the two that they can be split into. Sums are carried in 32 digits; of equally good partitions, the lowest "
        "record's group is the one whose highest record is lowest. Time grows threefold with each record, whatever k "
        "is, and memory twofold."
    ),
    groups=groups,
    sizes_text="k to 2k-1",
    cost_seconds=_cost_seconds,
    # A copy of the data; two floats for every set of records, twice; its size, and a group.
    memory_bytes=lambda n, p, k: 8 * n * (p + 2) + 37 * (1 << min(n, MOST_RECORDS)),
    # A block of 2k records can then always be taken.
    max_k=MOST_RECORDS // 2,
    max_records=MOST_RECORDS,
)
