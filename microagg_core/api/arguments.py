"""Arguments of the Python functions besides tables: each is checked, and refused by its own name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from microagg_core.arrays import Floats
from microagg_core.data.kinds.contract import UNDECLARED, Declaration
from microagg_core.errors import DataError, SpecError
from microagg_core.group.algorithms import AlgorithmInfo, algorithms
from microagg_core.group.costs import EFFORTS
from microagg_core.group.headway import Listener

#: A source of seeds; a whole number is a seed itself.
RandomState: TypeAlias = "int | np.random.Generator | np.random.RandomState | None"

#: Drawn seeds are below this: what a release takes, too.
_SEEDS = 2**63 - 1
_LEAST_IMPORTANCE = 0.001


@dataclass(frozen=True)
class ChosenAlgorithm:
    """An algorithm of the registry by name, and those of its parameters that are given."""

    name: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Options:
    """Options of masking, checked."""

    k: int
    seed: int
    effort: str
    algorithm: ChosenAlgorithm
    standardize: bool
    bound: bool
    blocking: list[Hashable]
    undersized: str
    missing: str
    weight: Hashable | None
    #: How quasi-identifiers are to be taken, of those of which that is said.
    declared: Mapping[Hashable, Declaration]

    @property
    def has_importance(self) -> bool:
        return any(declared.importance != 1.0 for declared in self.declared.values())


def declarations(
    names: Sequence[Hashable], kinds: Mapping[Hashable, Any] | None, importance: Mapping[Hashable, float] | None
) -> dict[Hashable, Declaration]:
    """Check what is said of quasi-identifiers: a kind, or the levels of an ordinal one, and how often each counts.

    >>> declarations(["size"], {"size": ["S", "M"]}, {"size": 2})["size"].levels
    ('S', 'M')
    """
    for argument, said in (("kinds", kinds), ("importance", importance)):
        if said is not None and not isinstance(said, Mapping):
            raise SpecError(f"{argument}: must be a dictionary by quasi-identifier (got {type(said).__name__})")
        for name in said or ():
            if name not in names:
                raise SpecError(f"{argument}: {name!r} is none of the quasi_identifiers")
    declared = {name: _declaration(name, kind) for name, kind in (kinds or {}).items()}
    for name, times in (importance or {}).items():
        is_number = isinstance(times, int | float | np.number) and not isinstance(times, bool)
        if not (is_number and _LEAST_IMPORTANCE <= times <= 1 / _LEAST_IMPORTANCE):
            raise SpecError(f"importance: that of {name!r} must be a number from 0.001 to 1000 (got {times!r})")
        declared[name] = replace(declared.get(name, UNDECLARED), importance=float(times))
    return declared


def _declaration(name: Hashable, kind: Any) -> Declaration:
    if isinstance(kind, str):
        return Declaration(kind=one_of(f"kinds[{name!r}]", kind, ("number", "ordinal", "nominal")))
    levels = tuple(map(str, kind)) if isinstance(kind, Iterable) else ()
    if len(levels) < 2:
        raise SpecError(f"kinds: that of {name!r} must be a name, or two levels or more of an ordinal one")
    return Declaration(kind="ordinal", levels=levels)


def whole_number(name: str, value: Any, least: int) -> int:
    """Check a whole number of at least so much.

    >>> whole_number("k", np.int8(5), 1)
    5
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise SpecError(f"{name}: must be a whole number of at least {least} (got {value!r})")
    return int(value)


def one_seed(seed: int | None, random_state: RandomState) -> int:
    """Return the seed by either of its names; 0 where neither is given.

    A generator gives its next draw, so that a second call with the same generator has another seed.

    >>> one_seed(None, 7), one_seed(None, None), one_seed(None, np.random.default_rng(0)) > 0
    (7, 0, True)
    """
    if random_state is None:
        return whole_number("seed", 0 if seed is None else seed, 0)
    if seed is not None:
        raise SpecError("seed and random_state: are two names of one argument; give one of them")
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_SEEDS))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_SEEDS, dtype=np.int64))
    return whole_number("random_state", random_state, 0)


def chosen_algorithm(name: str, k: int, p: int, params: dict[str, Any]) -> AlgorithmInfo:
    """Return an algorithm of the registry that can do this k for so many attributes."""
    registry = algorithms()
    if name not in registry:
        raise SpecError(f"algorithm: must be one of {', '.join(registry)} (got {name!r})")
    info = registry[name]
    try:
        info.check_parameters(params)
    except ValueError as error:
        raise SpecError(str(error)) from None
    if problem := info.refuses(k, p):
        raise SpecError(problem)
    return info


def effort_of(name: str, value: str, *, may_be_off: bool = True) -> str:
    return one_of(name, value, ("off", *EFFORTS) if may_be_off else tuple(EFFORTS))


def one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Check a word of some.

    >>> one_of("missing", "separate", ("error", "separate"))
    'separate'
    """
    if value not in choices:
        *others, last = choices
        raise SpecError(f"{name}: must be {', '.join(others)} or {last} (got {value!r})")
    return value


def checked_listener(progress: Callable[..., Any] | None) -> Listener | None:
    if progress is not None and not callable(progress):
        raise SpecError(
            "progress: must be a function that takes one argument, which says where the work stands, or None "
            f"(got {type(progress).__name__})"
        )
    return progress


def matrix_of(X: ArrayLike) -> Floats:
    try:
        array = np.asarray(X)
    except ValueError:
        raise SpecError("X: must be a matrix, with as many numbers in each row") from None
    if array.ndim != 2:
        raise SpecError(f"X: must have two dimensions, records and attributes (got {array.ndim})")
    if array.dtype.kind not in "iuf":
        raise SpecError(f"X: must hold numbers (got an array of type {array.dtype})")
    matrix = array.astype(np.float64, copy=False)
    for j in np.flatnonzero(~np.isfinite(matrix).all(axis=0)):
        raise DataError(f"column {j} of X holds missing or infinite values; remove or replace them first")
    return matrix


def check_enough(n: int, k: int) -> None:
    if n < k:
        raise DataError(f"the data have {n} records, fewer than k = {k}; choose a smaller k or add records")
