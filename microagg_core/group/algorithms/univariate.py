"""The optimal groups of a single attribute, by Hansen and Mukherjee's shortest path."""

from __future__ import annotations

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.kernels.scan.optimal import univariate

    return univariate(values.X[0], k)


# Fitted to tests/benchmark/algorithm_cost.py on one core of a 2-core virtual machine: seconds to sort a record, and
# seconds for each cut that is tried after it.
def _cost_seconds(n: int, p: int, k: int) -> float:
    return n * p * (1.5e-7 + 4.7e-8 * k)


INFO = AlgorithmInfo(
    name="univariate",
    summary="the optimal groups of one attribute",
    description=(
        "Sorts the records by their one attribute and finds, as a shortest path, the cuts into groups of k to 2k-1 "
        "with the least sum of squares that any groups of at least k can have. Choose it whenever there is one "
        "quasi-identifier, a number or ordinal: nothing loses less. A nominal one has no order to sort by. Sums are "
        "carried in 32 digits, so that rounding decides nothing; of equally good groups, those are made that are "
        "smallest at the end where the lowest record number stands. Time grows with the records times k, but for "
        "sorting."
    ),
    groups=groups,
    sizes_text="k to 2k-1",
    cost_seconds=_cost_seconds,
    # A copy of the data, and a dozen numbers a record.
    memory_bytes=lambda n, p, k: 8 * n * (p + 12),
    max_attributes=1,
    sorts=True,
)
