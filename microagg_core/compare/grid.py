"""Settings of a release that are tried side by side, what each costs, and how much is spent on trying them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from microagg_core.blocks.plan import default_max_records
from microagg_core.compiling import PROTECTION, grouping_parts, needed_parts
from microagg_core.errors import DataError, SpecError
from microagg_core.group.algorithms import AlgorithmInfo, algorithms
from microagg_core.group.costs import EFFORTS, optimum_is_affordable, proof_seconds
from microagg_core.spec.release import Algorithm, ReleaseSpec, TimeBudget

#: Records up to which a comparison takes an input whole, and draws of a larger one: all algorithms of the registry take
#: a few minutes for them, and a loss that is known from so many is off by some percent of itself.
MOST_RECORDS = 30_000
#: With fewer, blocks of a few hundred would be too few to say anything of the others.
LEAST_RECORDS = 1_000
#: Seeds that are tried by default: enough to see how far losses are apart, and no more than three times the work.
SEEDS = 3
#: CPU seconds of a setting, by the cost model, as there are some hundred. What takes longer is left out unless its
#: algorithm is asked for by name; where only proofs and other seeds would, these are.
PATIENCE = 10.0
_REFINEMENTS = ("off", *EFFORTS)
#: Seeds are numbers below this.
_SEEDS = 2**63


@dataclass(frozen=True)
class Setting:
    """An algorithm, a k and a refinement; the rest is as the spec has it."""

    k: int
    algorithm: str
    parameters: dict[str, float | str]
    #: By its name, or seconds a block.
    refine: str | float

    @classmethod
    def of(cls, spec: ReleaseSpec, k: int | None = None) -> Setting:
        """Take the setting of a spec, for its k or another."""
        return cls(k or spec.k, spec.algorithm.name, dict(spec.algorithm.parameters), spec.effort)

    def applied(self, spec: ReleaseSpec) -> ReleaseSpec:
        algorithm = Algorithm(name=self.algorithm, parameters=self.parameters)
        refine = self.refine if isinstance(self.refine, str) else TimeBudget(seconds=self.refine)
        return spec.model_copy(update={"k": self.k, "algorithm": algorithm, "refine": refine})

    def seeds(self, first: int, n: int) -> tuple[int, ...]:
        """List the spec's seed and those that follow it, n in all; the spec's alone where others change nothing."""
        draws = algorithms()[self.algorithm].draws or self.refine != "off"
        return tuple((first + i) % _SEEDS for i in range(n if draws else 1))

    def parts(self, proving: bool, protecting: bool) -> tuple[str, ...]:
        """List the kernels that it needs."""
        parts = needed_parts if proving else grouping_parts
        return (*parts(self.algorithm, self.refine, self.k), *((PROTECTION,) if protecting else ()))

    @property
    def info(self) -> AlgorithmInfo:
        """The algorithm, with the costs of its parameters and of the refinement."""
        return _with_costs(self.algorithm, tuple(self.parameters.items()), self.refine)

    def seconds(self, rows: float, p: int) -> float:
        """Estimate the CPU seconds of a block with p quasi-identifiers."""
        return self.info.cost_seconds(max(int(rows), self.k), p, self.k)

    def grouping_seconds(self, rows: float, p: int) -> float:
        """Estimate them without what is proved of the groups, and of no use for making them."""
        n, is_thorough = max(int(rows), self.k), self.refine == "thorough"
        if is_thorough and optimum_is_affordable(n, p, self.k):
            return self.seconds(rows, p)
        return self.seconds(rows, p) - proof_seconds(n, p, self.k, is_thorough, self.info.certified is not None)

    def most_records(self, spec: ReleaseSpec, p: int, row_bytes: float, largest: int) -> int:
        """Find the most records of a block, in a release whose largest stratum has so many; refuse as it would."""
        most = spec.blocks.max_records
        if most is not None and most < 2 * self.k:
            raise DataError(f"blocks.max_records must be at least 2k = {2 * self.k} (got {most})")
        if problem := self.info.refuses(self.k, p) or (most and self.info.refuses_records(most)):
            raise DataError(problem)
        limit = most or default_max_records(self.info, p, self.k, row_bytes)
        if limit >= largest and (problem := self.info.refuses_records(largest)):
            raise DataError(problem)
        return limit


@lru_cache(maxsize=256)
def _with_costs(name: str, parameters: tuple[tuple[str, float | str], ...], refine: str | float) -> AlgorithmInfo:
    return algorithms()[name].with_costs_of(dict(parameters)).with_refinement(refine)


@dataclass(frozen=True)
class Budget:
    """Budget of trying settings: records for one k, and CPU seconds for one setting."""

    rows: int
    seconds: float
    #: Whether fewer records are drawn where a setting would take longer; else it is left out.
    shrinks: bool = True
    seeds: int = 1
    proves: bool = False
    #: Whether kernels may be compiled that the release itself does not need.
    compiles: bool = False
    #: Algorithms that may take as long as they do.
    patient_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grid:
    """Settings to compare; an empty list means all there are."""

    ks: tuple[int, ...] = ()
    algorithms: tuple[str, ...] = ()
    refinements: tuple[str, ...] = ()
    seeds: int = SEEDS
    records: int = MOST_RECORDS

    def refuse_unknown(self) -> None:
        """Stop before any work is done."""
        chosen_algorithms(self.algorithms)
        refuse_small_k(self.ks)
        unknown = [name for name in self.refinements if name not in _REFINEMENTS]
        if unknown:
            raise SpecError(f"--refine: must be among {', '.join(_REFINEMENTS)} (got {unknown[0]!r})")
        if self.records < LEAST_RECORDS:
            raise SpecError(f"--records: must be at least {LEAST_RECORDS} (got {self.records})")

    def settings(self, spec: ReleaseSpec) -> list[Setting]:
        """Combine all, the k that the spec asks for among them, and its own algorithm with its parameters.

        >>> places = {"input": {"url": "/in"}, "output": {"url": "/out"}, "work": {"url": "/work"}}
        >>> spec = ReleaseSpec(name="a", k=4, roles={"quasi_identifiers": ["age"]}, **places)
        >>> [(setting.k, setting.refine) for setting in Grid((8,), ("md",), ("off", "fast")).settings(spec)]
        [(4, 'off'), (4, 'fast'), (8, 'off'), (8, 'fast')]
        """
        own = Setting.of(spec)
        refinements: Sequence[str | float] = self.refinements or tuple(dict.fromkeys((*_REFINEMENTS, own.refine)))
        return [
            Setting(k, info.name, own.parameters if info.name == own.algorithm else {}, refine)
            for k in sorted({*(self.ks or neighbours(spec.k)), spec.k})
            for info in chosen_algorithms(self.algorithms)
            for refine in refinements
        ]

    def budget(self) -> Budget:
        return Budget(
            self.records,
            PATIENCE,
            shrinks=False,
            seeds=self.seeds,
            proves=True,
            compiles=True,
            patient_with=self.algorithms,
        )


def neighbours(k: int) -> tuple[int, ...]:
    """Put k between a smaller and a larger one.

    >>> neighbours(5), neighbours(3), neighbours(2)
    ((2, 5, 10), (2, 3, 6), (2, 4))
    """
    return tuple(sorted({max(2, k // 2), k, 2 * k}))


def chosen_algorithms(names: Sequence[str]) -> list[AlgorithmInfo]:
    """Find algorithms by name; all, where none is named.

    >>> [info.name for info in chosen_algorithms(["mdav", "md"])]
    ['mdav', 'md']
    """
    registry = algorithms()
    unknown = [name for name in names if name not in registry]
    if unknown:
        raise SpecError(f"--algorithms: must be among {', '.join(registry)} (got {unknown[0]!r})")
    return [registry[name] for name in dict.fromkeys(names)] if names else list(registry.values())


def refuse_small_k(ks: Iterable[int]) -> None:
    """Stop for a k that hides nobody."""
    for k in ks:
        if k < 2:
            raise SpecError(f"--k: must be at least 2 (got {k})")
