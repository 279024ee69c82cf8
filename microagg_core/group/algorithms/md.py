"""MD: maximum distance, two groups a round around the two records that are farthest apart."""

from __future__ import annotations

import math

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.kernels.scan.mdav import md

    return md(values, k)


# Fitted to tests/benchmark/algorithm_cost.py, on uniform data, on one core of a 2-core virtual machine: seconds a pair
# of records for each round's search, and what near-ties between partners add to it with every attribute.
def _cost_seconds(n: int, p: int, k: int) -> float:
    near_ties = min(4e-10 * math.exp(0.2 * min(p, 60)), 3e-7)
    return 2.5e-7 * n + n * n / k * (8e-10 + 3e-10 * p + near_ties)


INFO = AlgorithmInfo(
    name="md",
    summary="two groups a round, around the two records that are farthest apart; the oldest method",
    description=(
        "Takes the two records that are farthest from each other, groups the first of them with its k-1 nearest, "
        "then the second, and goes on with what remains until fewer than 2k are left. Choose it to compare with "
        "figures that were published for it; MDAV, which came after it, loses about as much and is quicker. Groups "
        "have k records, but for one of up to 2k-1. Time grows with the square of the records where the data have "
        "few attributes or long tails, and almost with the cube where they have dozens of like spread; memory only "
        "with their number. It is a heuristic: no bound on its loss is proved."
    ),
    groups=groups,
    sizes_text="k, and one group of up to 2k-1",
    cost_seconds=_cost_seconds,
    # Two copies of the data, and a dozen numbers a record.
    memory_bytes=lambda n, p, k: 8 * n * (2 * p + 12),
)
