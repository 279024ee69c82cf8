"""MDAV*: each record, from the outside in, starts a group or joins one, whichever adds less."""

from __future__ import annotations

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values
from microagg_core.group.costs import bytes_of_tree, of_a_record, of_a_search


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.kernels.scan.variable_groups import mdav_star
    from microagg_core.kernels.tree.searches import tree_pays
    from microagg_core.kernels.tree.variable_groups import mdav_star_tree

    p, n = values.X.shape
    # A group has its total in two floats an attribute, and its size and numbers.
    pays = tree_pays(n, p, k, more_bytes=(16 * p + 16) / k)
    return mdav_star_tree(values, k) if pays else mdav_star(values, k)


# Fitted to tests/benchmark/algorithm_cost.py, on uniform data, on one core of a 2-core virtual machine: seconds a
# record, of which many are looked at one by one; and a group's by a search, which is no longer than a scan; or plain
# scans where they are quicker.
def _cost_seconds(n: int, p: int, k: int) -> float:
    scan, scan_alone = n * (4.8e-10 + 8.0e-11 * p), n * 1.5e-11 * p
    search = min(scan, 9.4e-7 * of_a_search(n, p)) / k + min(scan_alone, 9.1e-8 * of_a_search(n, p))
    by_tree = n * ((3.9e-7 + 4.2e-8 * p) * of_a_record(n) + search)
    return min(n * (7.3e-7 + scan / k + scan_alone), by_tree)


INFO = AlgorithmInfo(
    name="mdav_star",
    summary="groups of variable size: each record starts a group or joins one, whichever costs less; often the best",
    description=(
        "Takes the records from the outside in. Each one either starts a group with its k-1 nearest or joins the "
        "closed group whose sum of squares it raises least, whichever adds less for each record that it places; the "
        "last records, fewer than k, join one by one. Choose it when the loss counts most: of the MDAV family it "
        "loses the least on most files, by 1 to 45 % against MDAV+, most where there are clusters. Groups have at "
        "least k records and no ceiling: few have more than 2k-1. Time grows little faster than the records while "
        "there are few attributes, or structure to go by; with ten or more and none, with their square. It is a "
        "heuristic: no bound on its loss is proved."
    ),
    groups=groups,
    sizes=lambda k: (k, None),
    sizes_text="k and more, without a ceiling; few above 2k-1",
    cost_seconds=_cost_seconds,
    # A copy of the data, the tree, and the groups' totals in two floats each.
    memory_bytes=lambda n, p, k: 8 * n * p + bytes_of_tree(n, p) + 16 * (n // k) * (p + 1),
)
