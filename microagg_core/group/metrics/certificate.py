"""What a factor certifies: how far a partition into groups of two or more can be from the best one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from microagg_core.group.grouping.bounds import Bound


@dataclass(frozen=True)
class Certificate:
    """Loss of a partition beside a bound on the least loss there can be, in squared units of the data.

    ``sse`` is the partition's; ``weight`` is that of the minimum-weight [1,2]-factor, as a float; ``bound`` is a
    number that the weight of every [1,2]-factor has been proved to reach. SSE <= w(F_min) <= 2 SSE_opt, so the
    least SSE there can be is at least half the bound.
    """

    sse: float
    weight: float
    bound: float

    @property
    def lower_bound(self) -> Bound:
        """What is certified: no partition into groups of two or more has a smaller SSE than half the bound.

        >>> Certificate(sse=3.0, weight=4.0, bound=4.0).lower_bound
        Bound(sse=2.0, kind='factor', facts={'weight': 4.0})
        """
        return Bound(self.bound / 2, "factor", {"weight": self.weight})

    @property
    def optimum_at_least(self) -> float:
        """The SSE that no partition is below."""
        return self.lower_bound.sse

    @property
    def ratio(self) -> float:
        """At most so many times the least SSE is the partition's.

        >>> Certificate(sse=3.0, weight=4.0, bound=4.0).ratio
        1.5
        """
        return self.lower_bound.ratio(self.sse)

    def document(self) -> dict[str, float | None]:
        """All figures by name; an infinite ratio is None.

        >>> Certificate(sse=0.0, weight=0.0, bound=0.0).document()["ratio"]
        1.0
        """
        ratio = self.ratio if math.isfinite(self.ratio) else None
        return {**vars(self), "optimum_at_least": self.optimum_at_least, "ratio": ratio}


#: The certificate of records that lose nothing, whatever their groups.
NOTHING = Certificate(sse=0.0, weight=0.0, bound=0.0)


def combined(certificates: Iterable[Certificate]) -> Certificate:
    """The certificate of blocks that are partitioned apart: sums, each bound's sum rounded down.

    >>> combined([Certificate(1.0, 1.0, 1.0), Certificate(2.0, 3.0, 3.0)]).sse
    3.0
    """
    parts = list(certificates)
    bound = math.fsum(part.bound for part in parts)
    return Certificate(
        sse=math.fsum(part.sse for part in parts),
        weight=math.fsum(part.weight for part in parts),
        bound=math.nextafter(bound, 0.0) if len(parts) > 1 else bound,
    )
