"""The grid: which algorithms, k and refinements of a release are tried side by side, and how long that may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from microagg_core.compare.asked import chosen_algorithms, refuse_small_k
from microagg_core.compare.expecting.cells import Cell
from microagg_core.compare.expecting.drafts import Frugality
from microagg_core.compare.expecting.drawing import neighbours
from microagg_core.errors import SpecError
from microagg_core.group.costs import EFFORTS
from microagg_core.spec.release import ReleaseSpec

#: Records up to which an input is looked at whole, and about as many are drawn of a larger one: all algorithms of the
#: registry take a few minutes for them, and a loss that is known from so many is off by some percent of itself.
MOST_RECORDS = 30_000
#: With fewer, blocks of a few hundred would be too few to say anything of the others.
LEAST_RECORDS = 1_000
#: Seeds that are tried by default: enough to see how far losses are apart, and no more than three times the work.
SEEDS = 3
#: CPU seconds of a cell, by the cost model: there are some hundred cells. What takes longer is left out unless its
#: algorithm is asked for by name; where only proofs and other seeds would, these are.
PATIENCE = 10.0
_REFINEMENTS = ("off", *EFFORTS)


@dataclass(frozen=True)
class Grid:
    """What is asked for; what is empty is all that there is to choose from."""

    ks: tuple[int, ...] = ()
    algorithms: tuple[str, ...] = ()
    refinements: tuple[str, ...] = ()
    seeds: int = SEEDS
    records: int = MOST_RECORDS

    def refuse_unknown(self) -> None:
        """Stop before any work is done.

        Raises:
            SpecError: an algorithm, a k or a refinement that there is not.
        """
        chosen_algorithms(self.algorithms)
        refuse_small_k(self.ks)
        unknown = [name for name in self.refinements if name not in _REFINEMENTS]
        if unknown:
            raise SpecError(f"--refine: must be among {', '.join(_REFINEMENTS)} (got {unknown[0]!r})")
        if self.records < LEAST_RECORDS:
            raise SpecError(f"--records: must be at least {LEAST_RECORDS} (got {self.records})")

    def cells(self, spec: ReleaseSpec) -> list[Cell]:
        """All combinations, the k that the spec asks for among them, and its own algorithm with its parameters.

        >>> places = {"input": {"url": "/in"}, "output": {"url": "/out"}, "work": {"url": "/work"}}
        >>> spec = ReleaseSpec(name="a", k=4, roles={"quasi_identifiers": ["age"]}, **places)
        >>> [(cell.k, cell.refine) for cell in Grid((8,), ("md",), ("off", "fast")).cells(spec)]
        [(4, 'off'), (4, 'fast'), (8, 'off'), (8, 'fast')]
        """
        own = Cell.of(spec)
        refinements: Sequence[str | float] = self.refinements or tuple(dict.fromkeys((*_REFINEMENTS, own.refine)))
        return [
            Cell(k, info.name, own.parameters if info.name == own.algorithm else {}, refine)
            for k in sorted({*(self.ks or neighbours(spec.k)), spec.k})
            for info in chosen_algorithms(self.algorithms)
            for refine in refinements
        ]

    def frugality(self) -> Frugality:
        """How much is looked at."""
        return Frugality(
            self.records,
            PATIENCE,
            shrinks=False,
            seeds=self.seeds,
            proves=True,
            compiles=True,
            patient_with=self.algorithms,
        )
