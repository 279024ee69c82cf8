"""Cells: settings of a release that are tried side by side on what is looked at, and what each of them costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from microagg_core.blocks.plan import default_max_records
from microagg_core.compiling import PROTECTION, grouping_parts, needed_parts
from microagg_core.errors import DataError
from microagg_core.group.algorithms import AlgorithmInfo, algorithms
from microagg_core.group.costs import optimum_is_affordable, proof_seconds
from microagg_core.spec.release import Algorithm, ReleaseSpec, TimeBudget

#: Seeds are numbers below this.
_SEEDS = 2**63


@dataclass(frozen=True)
class Cell:
    """An algorithm, a k and a refinement; the rest is as the spec has it."""

    k: int
    algorithm: str
    parameters: dict[str, float | str]
    #: By its name, or seconds a block.
    refine: str | float

    @classmethod
    def of(cls, spec: ReleaseSpec, k: int | None = None) -> Cell:
        """What a spec says, for its k or another."""
        return cls(k or spec.k, spec.algorithm.name, dict(spec.algorithm.parameters), spec.effort)

    def applied(self, spec: ReleaseSpec) -> ReleaseSpec:
        """The spec with these settings."""
        algorithm = Algorithm(name=self.algorithm, parameters=self.parameters)
        refine = self.refine if isinstance(self.refine, str) else TimeBudget(seconds=self.refine)
        return spec.model_copy(update={"k": self.k, "algorithm": algorithm, "refine": refine})

    def seeds(self, first: int, n: int) -> tuple[int, ...]:
        """The spec's seed, and where another one makes other groups, those that follow it, n in all."""
        draws = algorithms()[self.algorithm].draws or self.refine != "off"
        return tuple((first + i) % _SEEDS for i in range(n if draws else 1))

    def parts(self, proving: bool, protecting: bool) -> tuple[str, ...]:
        """What has to be compiled for it."""
        parts = needed_parts if proving else grouping_parts
        return (*parts(self.algorithm, self.refine, self.k), *((PROTECTION,) if protecting else ()))


@dataclass(frozen=True)
class CellCosts:
    """What a cell costs for p quasi-identifiers, by the models of its algorithm and refinement."""

    cell: Cell
    p: int

    @property
    def info(self) -> AlgorithmInfo:
        """The algorithm, with the costs of all that is done."""
        info = algorithms()[self.cell.algorithm].with_costs_of(self.cell.parameters)
        return info.with_refinement(self.cell.refine)

    def seconds(self, rows: float) -> float:
        """CPU seconds that a block takes."""
        return self.info.cost_seconds(max(int(rows), self.cell.k), self.p, self.cell.k)

    def grouping_seconds(self, rows: float) -> float:
        """Those of them without what is proved of the groups, and of no use for making them."""
        n, k, is_thorough = max(int(rows), self.cell.k), self.cell.k, self.cell.refine == "thorough"
        if is_thorough and optimum_is_affordable(n, self.p, k):
            return self.seconds(rows)
        return self.seconds(rows) - proof_seconds(n, self.p, k, is_thorough, self.info.certified is not None)

    def limit(self, spec: ReleaseSpec, row_bytes: float, largest: int) -> int:
        """The largest block of a release whose largest stratum has so many records.

        Raises:
            DataError: a release with these settings would be refused.
        """
        k, most = self.cell.k, spec.blocks.max_records
        if most is not None and most < 2 * k:
            raise DataError(f"blocks.max_records must be at least 2k = {2 * k} (got {most})")
        if problem := self.info.refuses(k, self.p) or (most and self.info.refuses_records(most)):
            raise DataError(problem)
        limit = most or default_max_records(self.info, self.p, k, row_bytes)
        if limit >= largest and (problem := self.info.refuses_records(largest)):
            raise DataError(problem)
        return limit


def cells_by_k(cells: Sequence[Cell]) -> dict[int, list[Cell]]:
    """The cells of each k, the smallest k first."""
    return {k: [cell for cell in cells if cell.k == k] for k in sorted({cell.k for cell in cells})}
