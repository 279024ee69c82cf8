"""Describe algorithms, and run them in one way."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

from microagg_core.errors import DataError, SpecError
from microagg_core.group.costs import (
    EFFORTS,
    annealing_sweeps,
    proof_bytes,
    proof_seconds,
    refinement_bytes,
    refinement_seconds,
    starts_from_slabs,
)

if TYPE_CHECKING:
    from microagg_core.arrays import Ints
    from microagg_core.group.bounds import Certificate
    from microagg_core.group.points import AnyPoints
    from microagg_core.kernels.values import Values
else:  # for the algorithms' files, which are read without numpy
    Ints = AnyPoints = Values = Any

__all__ = ["AlgorithmInfo", "AnyPoints", "Ints", "Parameter", "Values"]


#: What an algorithm's file implements: ``groups(values, k, *, seed, **parameters) -> labels``. The values are n >= k
#: records as kernels read them, finite, one attribute a row, numbers before codes. They are the algorithm's own to
#: change, and were scaled by a power of two so that squared distances neither overflow nor vanish.
#: The labels are one group number a record, from 0, in any order.
GroupsFunction: TypeAlias = "Callable[..., Ints]"

#: What an algorithm whose loss is proved implements besides: points, as they were given, to labels and certificate.
CertifyFunction: TypeAlias = "Callable[[AnyPoints], tuple[Ints, Certificate]]"


@dataclass(frozen=True)
class Parameter:
    """A number that an algorithm takes besides k; ``words`` are what may stand in its place."""

    name: str
    type: str
    default: float
    minimum: float
    description: str
    words: tuple[str, ...] = ()

    def problem(self, value: Any) -> str | None:
        """Say what is wrong with a value, or None.

        >>> Parameter("gamma", "number", 0.2, 0.0, "").problem(-1)
        'gamma: must be a number of at least 0 (got -1)'
        """
        if self._accepts(value):
            return None
        words = "".join(f" or {word!r}" for word in self.words)
        return f"{self.name}: must be a {self.type} of at least {self.minimum:g}{words} (got {value!r})"

    def _accepts(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, Real):
            return isinstance(value, str) and value in self.words
        try:
            return self.minimum <= float(value) < math.inf
        except OverflowError:  # a whole number beyond the floats
            return False


@dataclass(frozen=True)
class AlgorithmInfo:
    """An algorithm of the registry.

    ``sizes(k)`` gives the least and the most records of a group (None: no ceiling). ``cost_seconds(n, p, k)``
    is the time of one core for n records, p attributes and parameters at their defaults, compilation not
    counted; ``memory_bytes(n, p, k)`` is what a run allocates besides the array it is given. ``slowdown(params)`` is
    how many times as long a run takes with other parameters. ``max_records`` is the most that a run can take.
    ``each_attribute`` marks what makes groups for one attribute, and may mask several of a table, each on its own.
    ``certified`` gives, for what proves a bound on its loss for the records at hand, the groups with their certificate.
    ``draws`` marks what makes other groups with another seed. ``sorts`` marks what needs an order of all values, and
    so takes no nominal attributes. ``start`` names what makes the groups in its place, where they are refined and it
    would take too long.
    """

    name: str
    summary: str
    description: str
    groups: GroupsFunction
    cost_seconds: Callable[[int, int, int], float]
    memory_bytes: Callable[[int, int, int], int]
    sizes_text: str
    sizes: Callable[[int], tuple[int, int | None]] = lambda k: (k, 2 * k - 1)
    parameters: tuple[Parameter, ...] = ()
    min_k: int = 2
    max_k: int | None = None
    max_attributes: int | None = None
    max_records: int | None = None
    each_attribute: bool = False
    certified: CertifyFunction | None = None
    draws: bool = False
    sorts: bool = False
    start: str | None = None
    slowdown: Callable[[Mapping[str, Any]], float] = lambda params: 1.0

    def check_parameters(self, params: Mapping[str, Any]) -> None:
        """Raise ValueError, with a sentence, for a parameter that is unknown or out of its range."""
        parameters = {parameter.name: parameter for parameter in self.parameters}
        problems = []
        for name, value in params.items():
            if name not in parameters:
                problems.append(f"{self.name} takes no parameter {name!r}")
            elif problem := parameters[name].problem(value):
                problems.append(problem)
        if problems:
            raise ValueError("; ".join(problems))

    def with_defaults(self, params: Mapping[str, Any]) -> dict[str, float | str]:
        """Check the parameters and give all of them, the missing ones at their defaults."""
        self.check_parameters(params)
        given = {parameter.name: params.get(parameter.name, parameter.default) for parameter in self.parameters}
        return {name: value if isinstance(value, str) else float(value) for name, value in given.items()}

    def with_costs_of(self, params: Mapping[str, Any]) -> AlgorithmInfo:
        times = self.slowdown(params)
        return replace(self, cost_seconds=lambda n, p, k: times * self.cost_seconds(n, p, k))

    def start_of(self, effort: str | float, n: int, p: int, k: int) -> AlgorithmInfo:
        """Return what makes the groups of so many records that are refined with this effort."""
        if self.start is None or effort not in EFFORTS or not starts_from_slabs(n, p, k):
            return self
        from microagg_core.group.algorithms import algorithms  # the registry, which stands on this module

        return algorithms()[self.start]

    def with_refinement(self, effort: str | float) -> AlgorithmInfo:
        """Copy with the cost and memory of what follows: an effort by name, or seconds a block."""

        def seconds(n: int, p: int, k: int) -> float:
            proof = proof_seconds(n, p, k, effort == "thorough", self.certified is not None)
            grouping = self.start_of(effort, n, p, k).cost_seconds(n, p, k)
            if not isinstance(effort, str):
                return grouping + proof + effort
            efforts = {effort, "fast"} if effort in EFFORTS else ()  # with the thorough annealing the fast one, too
            sweeps = sum(annealing_sweeps(each, n, p, k) for each in efforts)
            return grouping + proof + refinement_seconds(n, p, k, sweeps)

        def memory(n: int, p: int, k: int) -> int:
            return max(
                self.memory_bytes(n, p, k), refinement_bytes(n, p, k), proof_bytes(n, p, k, effort == "thorough")
            )

        return replace(self, cost_seconds=seconds, memory_bytes=memory)

    def refuses(self, k: int, p: int) -> str | None:
        """Say, in a sentence, why this k or this number of attributes cannot be done, or None."""
        if k < self.min_k:
            return f"{self.name} needs a k of at least {self.min_k} (got {k})"
        if self.max_k is not None and k > self.max_k:
            return f"{self.name} needs a k of at most {self.max_k} (got {k})"
        if p < 1:
            return f"{self.name} needs at least one attribute"
        if self.each_attribute and p > 1:
            return (
                f"{self.name} groups each quasi-identifier on its own, so that only a release with one of them would "
                f"be k-anonymous (got {p}); choose another algorithm, or mask a table with microaggregate"
            )
        if self.max_attributes is not None and p > self.max_attributes:
            return f"{self.name} takes at most {self.max_attributes} attribute(s) (got {p})"
        return None

    def refuses_nominal(self, names: Sequence[str]) -> str | None:
        """Say, in a sentence, why attributes without an order cannot be done, or None."""
        if not self.sorts or not names:
            return None
        return f"{self.name} sorts values, and nominal ones such as {names[0]!r} have no order; choose another one"

    def refuses_records(self, n: int) -> str | None:
        """Say, in a sentence, why this number of records cannot be done, or None."""
        if self.max_records is None or n <= self.max_records:
            return None
        most = f"{self.name} takes at most {self.max_records} records (got {n})"
        return f"{most}; choose another algorithm, or smaller blocks"

    def run(self, X: AnyPoints, k: int, *, seed: int = 0, **params: Any) -> Ints:
        """Group the n records of X, points or an (n, p) array of finite numbers, n >= k, which is left as it is.

        Labels are 0..g-1 in the order of each group's first record. ValueError for a wrong parameter, SpecError for a
        k or a number of attributes that cannot be done, DataError for too many records, NaN and infinity; a group
        outside the sizes that the registry promises is a bug of ours and raises InternalError.
        """
        from microagg_core.group.labels import checked_labels, private_copy

        parameters = self._checked(X, k, params)
        labels = self.groups(private_copy(X), k, seed=seed, **parameters)
        return checked_labels(labels, self.sizes(k), self.name)

    def _checked(self, X: AnyPoints, k: int, params: Mapping[str, Any]) -> dict[str, float | str]:
        parameters = self.with_defaults(params)
        if problem := self.refuses(k, X.shape[1]):
            raise SpecError(problem)
        if problem := self.refuses_records(len(X)):
            raise DataError(problem)
        return parameters

    def run_certified(
        self, X: AnyPoints, k: int, *, measured: AnyPoints, seed: int = 0, **params: Any
    ) -> tuple[Ints, Certificate | None]:
        """Group the records of X as :meth:`run` does, with the certificate, if there is one, about other values.

        ``measured`` are the same records on the scale by which the loss is measured, which may be X itself. The
        bound is about all groups of these records; the SSE in the certificate is that of the factor's own groups.

        >>> import numpy as np
        >>> from microagg_core.group.algorithms import algorithms
        >>> X = np.array([[9.0], [1.0], [2.0], [8.0]])
        >>> round(algorithms()["two_mu_approx"].run_certified(X, 2, measured=X)[1].bound, 9)
        2.0
        """
        from microagg_core.group.labels import checked_labels
        from microagg_core.group.points import Points

        if self.certified is None or not Points.of(X).equals(Points.of(measured)):
            labels = self.run(X, k, seed=seed, **params)
            return labels, None if self.certified is None else self.certified(measured)[1]
        self._checked(X, k, params)
        labels, certificate = self.certified(X)
        return checked_labels(labels, self.sizes(k), self.name), certificate

    def document(self) -> dict[str, Any]:
        example = {
            "records": min(100_000, self.max_records or 100_000),
            "attributes": min(4, self.max_attributes or 4),
            "k": 5,
        }
        return {
            "name": self.name,
            "summary": self.summary,
            "description": self.description,
            "parameters": [vars(parameter) for parameter in self.parameters],
            "min_k": self.min_k,
            "max_k": self.max_k,
            "max_attributes": self.max_attributes,
            "max_records": self.max_records,
            "each_attribute": self.each_attribute,
            "certified": self.certified is not None,
            "draws": self.draws,
            "sorts": self.sorts,
            "sizes": self.sizes_text,
            "cost": {
                **example,
                "seconds": self.cost_seconds(*example.values()),
                "memory_bytes": self.memory_bytes(*example.values()),
            },
        }
