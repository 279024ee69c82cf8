"""What may be demanded of a release besides k: of every group, and of what can be inferred or linked in the end.

The same object is made of a spec, of a manifest's promise and of a receiver's demand, and is asked by whoever makes
groups, by the gate and by whoever verifies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Ints
from microagg_core.inspect.distributions import Distribution, codes_of, distinct_values
from microagg_core.spec.protect import Protect

#: A distance counts as at most t if it is above by no more than its rounding can be.
SLACK = 1e-12


class Asked(Protocol):
    """A spec's or a manifest's entry of one column."""

    @property
    def distinct(self) -> int | None: ...
    @property
    def t(self) -> float | None: ...


@dataclass(frozen=True)
class Demand:
    """Demands on a confidential column: distinct values and t-closeness of every group; and inference."""

    column: str
    distinct: int = 0
    t: float | None = None
    inference: float | None = None

    @classmethod
    def of(cls, column: str, asked: Asked) -> Demand:
        return cls(column, asked.distinct or 0, asked.t, getattr(asked, "inference", None))

    @property
    def is_of_groups(self) -> bool:
        """Groups have to be made so; a limit of inference is a condition of the gate alone."""
        return self.distinct > 0 or self.t is not None

    def promise(self) -> dict[str, Any]:
        return {
            name: value for name, value in (("distinct", self.distinct or None), ("t", self.t)) if value is not None
        }

    def codes(self, values: pa.ChunkedArray | pa.Array, whole: Distribution | None) -> Ints:
        """Number values; where closeness is demanded, by their places among the values of the whole."""
        return codes_of(values) if self.t is None or whole is None else whole.codes(values)

    def broken(self, codes: Ints, labels: Ints, whole: Distribution | None) -> Bools:
        """Find the groups, 0 to g-1, that do not hold it; codes are those of :meth:`codes`.

        >>> Demand("diagnosis", distinct=2).broken(np.array([7, 7, 7, 8]), np.array([0, 0, 1, 1]), None).tolist()
        [True, False]
        """
        broken = distinct_values(codes, labels) < self.distinct
        if self.t is not None and whole is not None:
            broken |= whole.distances(codes, labels) > self.t + SLACK
        return np.asarray(broken)


@dataclass(frozen=True)
class Protection:
    """All that is demanded of a release besides k; ``linkage`` is the share of records that may be linked rightly."""

    columns: tuple[Demand, ...] = ()
    linkage: float | None = None

    @classmethod
    def of_spec(cls, protect: Protect | None, confidential: Iterable[str]) -> Protection:
        if protect is None:
            return cls()
        asked = protect.of_columns(confidential)
        return cls(tuple(Demand.of(column, of_column) for column, of_column in asked.items()), protect.linkage)

    @property
    def of_groups(self) -> tuple[Demand, ...]:
        return tuple(demand for demand in self.columns if demand.is_of_groups)

    def wants_closeness(self, column: str) -> bool:
        return any(demand.t is not None for demand in self.columns if demand.column == column)
