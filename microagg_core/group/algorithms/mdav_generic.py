"""MDAV-generic: MDAV as sdcMicro and mu-ARGUS run it."""

from __future__ import annotations

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values
from microagg_core.group.algorithms.mdav import INFO as MDAV


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.kernels.tree.mdav import quicker_peel

    return quicker_peel(values, k, 3 * k)


INFO = AlgorithmInfo(
    name="mdav_generic",
    summary="MDAV as sdcMicro and mu-ARGUS run it: the last records always make groups of their own",
    description=(
        "Makes two groups a round as MDAV does while at least 3k records remain; of 2k to 3k-1, one more group is "
        "taken around the record farthest from the centroid, and what then remains is the last group. Choose it to "
        "get the groups that sdcMicro and mu-ARGUS would make; on most data its loss is MDAV's to three digits. "
        "Groups have k records, but for the last, of up to 2k-1. Time grows little faster than the records while "
        "there are few attributes, or structure to go by; with ten or more and none, with their square. It is a "
        "heuristic: no bound on its loss is proved."
    ),
    groups=groups,
    sizes_text="k, and a last group of up to 2k-1",
    cost_seconds=MDAV.cost_seconds,
    memory_bytes=MDAV.memory_bytes,
)
