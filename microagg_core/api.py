"""The public Python functions: a partition of an array, and a masked copy of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from microagg_core.algorithms import AlgorithmInfo, algorithms
from microagg_core.arrays import Floats, Ints
from microagg_core.errors import DataError, SpecError
from microagg_core.kernels.tools.threads import Threads
from microagg_core.metrics.losses import Losses, losses
from microagg_core.refine.costs import EFFORTS

if TYPE_CHECKING:
    import pandas as pd

    from microagg_core.algorithms.trying import Tried
    from microagg_core.grouping.bounds import Bound


@dataclass(frozen=True)
class Microaggregated:
    """A masked table, the group of each of its records, and what the masking cost.

    ``groups`` holds one label a record; where each quasi-identifier was masked on its own (individual_ranking), it
    is an (n, p) array with one label a record and quasi-identifier, in the order in which they were named.
    """

    data: pd.DataFrame
    groups: Ints
    losses: Losses
    #: With ``algorithm="best"``: every algorithm that was run, and what it lost, before and after refinement.
    tried: tuple[Tried, ...] = ()


def _whole_number(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise SpecError(f"{name}: must be a whole number of at least {least} (got {value!r})")
    return int(value)


def _algorithm(name: str, k: int, p: int, params: dict[str, Any]) -> AlgorithmInfo:
    """Look an algorithm up, and refuse what it cannot do."""
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


def _matrix(X: ArrayLike) -> Floats:
    """X as an (n, p) array of finite float64."""
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


def _effort(refine: str) -> str:
    if refine not in ("off", *EFFORTS):
        raise SpecError(f"refine: must be off, {' or '.join(EFFORTS)} (got {refine!r})")
    return refine


def _grouped(info: AlgorithmInfo, X: Floats, k: int, seed: int, params: dict[str, Any], effort: str) -> Ints:
    """The algorithm's groups, improved as the effort says."""
    return _improved(X, info.run(X, k, seed=seed, **params), k, seed, effort)


def _improved(X: Floats, labels: Ints, k: int, seed: int, effort: str) -> Ints:
    if effort == "off":
        return labels
    from microagg_core.refine.refining import refine

    return refine(X, labels, k, effort=effort, seed=seed)


def _check_enough(n: int, k: int) -> None:
    if n < k:
        raise DataError(f"the data have {n} records, fewer than k = {k}; choose a smaller k or add records")


def partition(
    X: ArrayLike,
    k: int,
    algorithm: str = "mdav",
    *,
    refine: str = "off",
    seed: int = 0,
    threads: int = 1,
    **params: Any,
) -> Ints:
    """Group the records of X so that no group has fewer than k.

    X is an (n, p) array of finite numbers, one record a row, used as it is given: standardize it first where
    its attributes have different units. ``params`` are the algorithm's own, as ``algorithms()`` lists them.
    ``refine`` improves the groups afterwards, by moves and exchanges of records: "off", "fast" or "thorough". It uses
    at most so many ``threads``, as far as the records suffice; the labels do not depend on them.

    Returns one int64 label a record, 0 to g-1 in the order of each group's first record; the same arguments
    give the same labels on every machine.

    Raises:
        SpecError: a wrong argument: an unknown algorithm or parameter, a k that it cannot do, X not a matrix.
        DataError: fewer than k records, or values that are missing or infinite.

    >>> partition([[1.0], [9.0], [1.5], [8.0]], k=2).tolist()
    [0, 1, 0, 1]
    """
    matrix = _matrix(X)
    n, p = matrix.shape
    k, seed = _whole_number("k", k, 1), _whole_number("seed", seed, 0)
    info, effort = _algorithm(algorithm, k, p, params), _effort(refine)
    _check_enough(n, k)
    with Threads(_whole_number("threads", threads, 1)).running():
        return _grouped(info, matrix, k, seed, params, effort)


def lower_bound(X: ArrayLike, k: int, effort: str = "fast") -> Bound:
    """A sum of squared errors that no partition of X into groups of at least k can be below.

    ``X`` is an (n, p) array of finite numbers, used as it is given. "fast" gives the neighbour bound, in
    near-linear time; "thorough" also tries a stronger proof where one is affordable, and gives the best: the
    [1,2]-factor for k=2, column generation for k from 3 to 5 on up to 1,500 records (some minutes at most). The
    bound's ``kind`` and ``facts`` say how it was proved.

    Raises:
        SpecError: a wrong argument.
        DataError: fewer than k records, or values that are missing or infinite.

    >>> bound = lower_bound([[0.0], [1.0], [8.0], [9.0]], k=2)
    >>> bound.kind, round(bound.sse, 9), round(bound.gap(1.0), 9)
    ('neighbours', 1.0, 0.0)
    """
    from microagg_core.refine.certifying import best_bound

    matrix, k = _matrix(X), _whole_number("k", k, 1)
    if effort not in EFFORTS:
        raise SpecError(f"effort: must be {' or '.join(EFFORTS)} (got {effort!r})")
    _check_enough(len(matrix), k)
    if matrix.shape[1] == 0:
        raise SpecError("X: needs at least one attribute")
    return best_bound(matrix, k, effort)


def microaggregate(
    df: pd.DataFrame,
    quasi_identifiers: Sequence[str],
    k: int,
    algorithm: str = "mdav",
    *,
    standardize: bool = True,
    refine: str = "off",
    seed: int = 0,
    threads: int = 1,
    **params: Any,
) -> Microaggregated:
    """Replace the quasi-identifiers of each record by the means of its group of at least k records.

    Quasi-identifiers are numbers (released as float64), booleans (as the share of true ones), dates or
    timestamps (released as such, rounded to their unit). They are standardized to mean 0 and variance 1 before
    records are compared; with ``standardize=False`` they are compared as they are, dates and timestamps in
    days or in their unit. All other columns, the index and the order of columns stay. The losses are always
    those of the standardized quasi-identifiers. With the algorithm individual_ranking each quasi-identifier has groups
    of its own: every one of them is k-anonymous, their combinations are not. ``refine`` ("off", "fast" or "thorough")
    improves the groups, whichever algorithm made them, with at most so many ``threads``. Where the algorithm proves
    how far from the least possible the loss is (two_mu_approx), ``losses.certificate`` says so. With
    ``algorithm="best"`` the result's ``tried`` has every algorithm that was run.

    Raises:
        SpecError: a wrong argument: an unknown or repeated column, algorithm or parameter, or a k too small.
        DataError: fewer than k records; a column without a mean (text); missing or infinite values.

    >>> import pandas as pd
    >>> firms = pd.DataFrame({"staff": [10, 12, 90, 94], "town": list("abcd")})
    >>> masked = microaggregate(firms, ["staff"], k=2)
    >>> masked.data["staff"].tolist(), round(masked.losses.l_sse, 3)
    ([11.0, 11.0, 92.0, 92.0], 0.152)
    """
    from microagg_core.kinds.frames import QuasiIdentifiers

    k, seed = _whole_number("k", k, 1), _whole_number("seed", seed, 0)
    table = QuasiIdentifiers.of(df, quasi_identifiers)
    each = algorithm in algorithms() and algorithms()[algorithm].each_attribute
    info, effort = _algorithm(algorithm, k, 1 if each else len(quasi_identifiers), params), _effort(refine)
    _check_enough(len(df), k)
    Z = table.standardized()
    X = Z if standardize else table.as_given()
    certificate = None
    tried: tuple[Tried, ...] = ()
    with Threads(_whole_number("threads", threads, 1)).running():
        if each:
            labels = np.stack([_grouped(info, column[:, None], k, seed, params, effort) for column in X.T], axis=1)
        elif info.name == "best":
            from microagg_core.algorithms.trying import best

            choice = best(X, k, seed=seed)
            labels, tried = _improved(X, choice.labels, k, seed, effort), choice.tried
        else:
            labels, certificate = info.run_certified(X, k, measured=Z, seed=seed, **params)
            labels = _improved(X, labels, k, seed, effort)
    lost = losses(table.measured(), labels)
    if certificate is not None:
        lost = lost.certified(table.certified(certificate))
    return Microaggregated(table.masked(df, labels), labels, lost, tried)
