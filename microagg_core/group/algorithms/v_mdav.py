"""V-MDAV: MDAV+ whose groups may grow by records that lie close to them."""

from __future__ import annotations

import math

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Parameter, Values
from microagg_core.group.costs import bytes_of_tree, of_a_record, of_a_search

#: What ``gamma="auto"`` tries: all values that the papers found best for some file, and some between and beyond.
GAMMAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.1, 1.3, 2.0)
#: Losses that differ by a smaller share are the same but for rounding.
_NOTHING = 1e-12


def groups(values: Values, k: int, *, seed: int, gamma: float | str) -> Ints:
    return _groups_of_least_loss(values, k) if isinstance(gamma, str) else grown(values, k, gamma)


def grown(values: Values, k: int, gamma: float) -> Ints:
    """Group the records from the outside in, and let groups grow; the records may be rearranged."""
    from microagg_core.kernels.scan.variable_groups import v_mdav
    from microagg_core.kernels.tree.searches import tree_pays
    from microagg_core.kernels.tree.variable_groups import v_mdav_tree

    p, n = values.X.shape
    return v_mdav_tree(values, k, gamma) if tree_pays(n, p, k) else v_mdav(values, k, gamma)


def _groups_of_least_loss(values: Values, k: int) -> Ints:
    """Take the groups of the gamma that loses least; of several, the least gamma."""
    from microagg_core.group.labels import points_of
    from microagg_core.group.metrics.losses import sse_of_labels

    least = math.inf
    for gamma in GAMMAS:
        labels = grown(values._replace(X=values.X.copy()), k, gamma)
        sse = sse_of_labels(points_of(values), labels)
        if sse < least * (1 - _NOTHING):
            best, least = labels, sse
    return best


# Fitted to tests/benchmark/algorithm_cost.py, for gamma 0.2, on uniform data, on one core of a 2-core virtual machine:
# seconds a record; a group's by a search; and a member's by a search; neither is longer than a scan. Or plain scans
# where they are quicker.
def _cost_seconds(n: int, p: int, k: int) -> float:
    scan, scan_of_members = n * (1.0e-9 + 8.2e-11 * p), n * (3.2e-11 + 4.0e-11 * p)
    search = min(scan, 6.7e-7 * of_a_search(n, p)) / k + min(scan_of_members, 2.3e-7 * of_a_search(n, p))
    return min(n * (2.3e-7 + scan / k + scan_of_members), n * (3.6e-7 * of_a_record(n) + search))


INFO = AlgorithmInfo(
    name="v_mdav",
    summary="groups of variable size: a group takes in records that are closer to it than to any other",
    description=(
        "Makes groups as MDAV+ does, then lets each grow to at most 2k-1 records: the nearest record outside joins "
        "when its squared distance to the group is less than gamma times that to the nearest record still free. "
        "Choose it for data with natural clusters, with gamma near 1; for data without, gamma 0.2 or less "
        "(0 is MDAV+). With gamma 'auto', each block is grouped with each of "
        f"{', '.join(f'{gamma:g}' for gamma in GAMMAS)} and the groups with the least loss are kept, which takes "
        f"{len(GAMMAS)} times as long. Groups have k to 2k-1 records, up to 3k-2 where the last records joined. Time "
        "grows little faster than the records while there are few attributes, or structure to go by; with ten or more "
        "and none, with their square, whatever k is. It is a heuristic: no bound on its loss is proved."
    ),
    groups=groups,
    parameters=(
        Parameter(
            name="gamma",
            type="number",
            default=0.2,
            minimum=0.0,
            description=(
                "how readily a group grows: 0 never, 0.2 for scattered data, about 1 for clustered data; 'auto' tries "
                "several and keeps the least loss"
            ),
            words=("auto",),
        ),
    ),
    sizes=lambda k: (k, 3 * k - 2),
    sizes_text="k to 2k-1, and up to 3k-2 where the last records joined",
    cost_seconds=_cost_seconds,
    # Two copies of the data, for gamma "auto", and the tree, or in its place the centroids.
    memory_bytes=lambda n, p, k: 16 * n * p + max(bytes_of_tree(n, p), n * 72 + 8 * (n // k) * (p + 3)),
    slowdown=lambda params: float(len(GAMMAS)) if params.get("gamma") == "auto" else 1.0,
)
