"""mu-Approx: trees of near neighbours, cut into groups whose spread is bounded by the least possible.

FOREST gives each record at most one edge, to one of its k-1 nearest, until every tree has k records; trees that are too
large are then cut into trees of at least k records; groups of 2k and more are at last split in two.

What is proved is about the trees, before that last step. Let D be the sum over records of the distance to the (k-1)-th
nearest. The edges of all trees together are at most D long, as each goes out from another record, to one of its k-1
nearest. In a tree of at most 3k-3 records, none is farther from the centroid than all of the tree's edges together are
long, so the sum of distances to centroids is at most (3k-3) D. And D is at most k+1 times that sum S for any partition
into groups of k and more: in a group of L records, the k nearest to the centroid lie within S / (L-k+1) of it, each
record has k-1 others at most that and its own distance to the centroid away, and 1 + L / (L-k+1) is at most k+1. The
published bound on squared distances takes the edges of a tree to go out from the tree's own records. Where Steiner
vertices stand for records of other trees they do not, so that bound is not claimed here.
"""

from __future__ import annotations

import math

from microagg_core.group.algorithms.info import AlgorithmInfo, Ints, Values


def trees(values: Values, k: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """Return the record to which each record's edge went in FOREST (-1: it had none), and the trees after cutting.

    They are given as the tree of each record, and as the tree that its edge is in (-1: none, or cut); numbered from 0
    by first records. An edge may be in another tree than its record, where a Steiner vertex stands for the record. A
    tree has k to max(2k-1, 3k-5) records, but for one that could not be cut at a Steiner vertex: at most 3k-3.
    """
    import numpy as np

    from microagg_core.group.headway import Progress
    from microagg_core.kernels.forests.forest import decompose, forest

    n, progress = values.X.shape[1], Progress("growing trees")
    generator = np.random.Generator(np.random.PCG64(seed))
    order = np.argsort(generator.random(n), kind="stable")
    heads = forest(values, k, order)
    progress.report()
    return heads, *decompose(heads, k, generator.random(n // k))


def groups(values: Values, k: int, *, seed: int) -> Ints:
    """Group the records; the seed draws the order in which trees grow and where they are cut."""
    from microagg_core.kernels.scan.mdav import halve_groups

    labels = trees(values, k, seed)[1]
    halve_groups(values, labels, k)
    return labels


# Fitted to tests/benchmark/algorithm_cost.py, on uniform data, on one core of a 2-core virtual machine: seconds a
# record, and seconds to find its nearest, which grow with the attributes up to those of a walk over the whole tree.
def _cost_seconds(n: int, p: int, k: int) -> float:
    search = 3.3e-9 * math.pow(1.6, min(p, 60)) * math.pow(n, 0.3)
    walk = n * (8e-10 + 1.3e-10 * p)
    return n * (6.5e-7 + min(search, walk))


INFO = AlgorithmInfo(
    name="mu_approx",
    summary="trees of near neighbours, cut into groups; fast on large files, with a proved bound",
    description=(
        "Links records to near neighbours until every tree has k, and cuts trees that are too large. Choose it for "
        "files too large for the MDAV family, or with natural clusters; on scattered data its loss is higher. Groups "
        "have k to 2k-1 records. Time grows little faster than the records themselves while there are few attributes; "
        "with ten or more, on scattered data, with their square. It is randomized: another seed gives other groups; "
        "try several and keep the least loss. Proved: before groups of 2k and more are split, the sum of distances to "
        "centroids is at most (k+1)(3k-3) times the least possible; what is met in practice is far less."
    ),
    groups=groups,
    sizes_text="k to 2k-1",
    cost_seconds=_cost_seconds,
    # A copy of the data, and either the search tree or the trees of records, 18 numbers each.
    memory_bytes=lambda n, p, k: 8 * n * (p + max(2 * p + 6, 18)),
    draws=True,
)
