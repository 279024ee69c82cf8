"""2-mu-Approx: pairs and triples from the minimum-weight [1,2]-factor, at most twice the least possible loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from microagg_core.group.algorithms.info import AlgorithmInfo, AnyPoints, Ints, Values
from microagg_core.group.costs import factor_bytes, factor_seconds

if TYPE_CHECKING:
    from microagg_core.group.bounds import Certificate


def groups(values: Values, k: int, *, seed: int) -> Ints:
    from microagg_core.group.labels import points_of

    return certified(points_of(values))[0]


def certified(points: AnyPoints) -> tuple[Ints, Certificate]:
    """Group, and certify how far from the least possible loss the groups can be at most."""
    from microagg_core.group.factor import minimum_factor

    factor = minimum_factor(points)
    return factor.labels, factor.certificate


INFO = AlgorithmInfo(
    name="two_mu_approx",
    summary="k = 2 only: pairs and triples with at most twice the least possible loss",
    description=(
        "Joins records to others so that each is joined and the squared distances add up to the least possible, and "
        "takes the pairs and triples that this makes. Choose it for k = 2 wherever its time allows: on files of "
        "several attributes it loses less than any other heuristic here. A certificate comes with the groups: their "
        "loss is at most so many times the least possible for these records; the factor is proved never to be above "
        "2, and is near 1 on real files. Time grows little faster than the records while there are few attributes; "
        "with ten or more, on scattered data, almost with their square."
    ),
    groups=groups,
    min_k=2,
    max_k=2,
    sizes=lambda k: (2, 3),
    sizes_text="2 or 3",
    cost_seconds=lambda n, p, k: factor_seconds(n, p),
    memory_bytes=lambda n, p, k: factor_bytes(n, p),
    certified=certified,
)
