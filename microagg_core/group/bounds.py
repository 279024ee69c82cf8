"""Lower bounds: a loss below which no partition into groups of at least k can come, whatever proved it.

Every bound is made a little smaller than its arithmetic gave it, by more than rounding can have added.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.group.labels import exponent_of
from microagg_core.group.points import Points

Kind: TypeAlias = Literal["neighbours", "one group", "columns", "factor", "optimum", "blocks", "attributes"]


@dataclass(frozen=True)
class Bound:
    """Proved lower bound on the sum of squared errors of partitions into groups of at least k.

    ``kind`` says how it was proved ("blocks" and "attributes": as the sum of what each of them loses), ``facts`` holds
    what the proof went through, as plain values.
    """

    sse: float
    kind: Kind
    facts: Mapping[str, Any] = field(default_factory=dict)

    def gap(self, sse: float) -> float:
        """Compute how much of a loss may be avoidable, in percent of that loss; a loss of nothing has no gap.

        >>> Bound(3.0, "neighbours").gap(4.0), Bound(0.0, "neighbours").gap(0.0)
        (25.0, 0.0)
        """
        return gap_percent(sse, self.sse)


def gap_percent(sse: float, bound: float) -> float:
    """Compute the share of a loss that lies above a lower bound, in percent; 0 where there is no loss."""
    return 100.0 * max(sse - bound, 0.0) / sse if sse > 0 else 0.0


def rounded_down(value: float, p: int) -> float:
    """Lower a computed sum of non-negative terms below the exact one, whatever the rounding of each.

    A squared distance over p attributes is off by less than (p + 4) units of 2**-52, its root and square by less
    than four more; a tree may pass over a neighbour that is nearer by the rounding of as many additions as it has
    levels. The terms are added exactly and rounded once.
    """
    return value * (1.0 - (p + 512) * 2.0**-51)


def in_units_of(points: Points, bound: Bound) -> Bound:
    """Convert a bound for a scaled copy of the points to one for them; never rounded up."""
    return Bound(
        float(floats_in_units(np.array([bound.sse]), np.array([exponent_of(points)]))[0]), bound.kind, bound.facts
    )


def floats_in_units(sse: Floats, exponents: Ints) -> Floats:
    """Divide bounds for what was multiplied by powers of two."""
    with np.errstate(over="ignore", under="ignore"):
        sse = np.ldexp(sse, -2 * exponents)
    return np.asarray(np.where(sse < sys.float_info.min, 0.0, np.minimum(sse, sys.float_info.max)))


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
        """Half the bound: no partition into groups of two or more has a smaller SSE.

        >>> Certificate(sse=3.0, weight=4.0, bound=4.0).lower_bound
        Bound(sse=2.0, kind='factor', facts={'weight': 4.0})
        """
        return Bound(self.bound / 2, "factor", {"weight": self.weight})

    @property
    def optimum_at_least(self) -> float:
        return self.lower_bound.sse

    @property
    def ratio(self) -> float:
        """Bound how many times the least SSE the partition's is; 1 for no loss at all, infinite without a bound.

        >>> Certificate(sse=3.0, weight=4.0, bound=4.0).ratio
        1.5
        """
        if self.sse == 0:
            return 1.0
        return self.sse / self.optimum_at_least if self.optimum_at_least > 0 else math.inf

    def document(self) -> dict[str, float | None]:
        ratio = self.ratio if math.isfinite(self.ratio) else None
        return {**vars(self), "optimum_at_least": self.optimum_at_least, "ratio": ratio}


#: The certificate of records that lose nothing, whatever their groups.
NOTHING = Certificate(sse=0.0, weight=0.0, bound=0.0)


def combined(certificates: Iterable[Certificate]) -> Certificate:
    """Certify blocks that are partitioned apart: sums, with the bounds' rounded down."""
    parts = list(certificates)
    bound = math.fsum(part.bound for part in parts)
    return Certificate(
        sse=math.fsum(part.sse for part in parts),
        weight=math.fsum(part.weight for part in parts),
        bound=math.nextafter(bound, 0.0) if len(parts) > 1 else bound,
    )
