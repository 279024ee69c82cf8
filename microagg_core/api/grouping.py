"""Groups of an array's records, and what no groups can lose less than."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from microagg_core.api.arguments import (
    RandomState,
    check_enough,
    checked_listener,
    chosen_algorithm,
    effort_of,
    matrix_of,
    one_seed,
    whole_number,
)
from microagg_core.arrays import Ints
from microagg_core.errors import SpecError
from microagg_core.group.algorithms import AlgorithmInfo
from microagg_core.group.headway import Headway, listening, working_on
from microagg_core.group.points import AnyPoints
from microagg_core.kernels.tools.threads import Threads

if TYPE_CHECKING:
    from microagg_core.group.bounds import Bound


def grouped(info: AlgorithmInfo, X: AnyPoints, k: int, seed: int, params: dict[str, Any], effort: str) -> Ints:
    n, p = X.shape
    start = info.start_of(effort, n, p, k)
    return improved(X, start.run(X, k, seed=seed, **params), k, seed, effort)


def improved(X: AnyPoints, labels: Ints, k: int, seed: int, effort: str) -> Ints:
    if effort == "off":
        return labels
    from microagg_core.group.refine.refinement import refine

    return refine(X, labels, k, effort=effort, seed=seed)


def partition(
    X: ArrayLike,
    k: int,
    algorithm: str = "mdav",
    *,
    refine: str = "off",
    seed: int | None = None,
    random_state: RandomState = None,
    threads: int = 1,
    progress: Callable[[Headway], object] | None = None,
    **params: Any,
) -> Ints:
    """Group the records of X so that no group has fewer than k.

    X is an (n, p) array of finite numbers, one record a row, used as it is given: standardize it first where
    its attributes have different units. Tables of numbers are taken, too. ``params`` are the algorithm's own, as
    ``algorithms()`` lists them. ``refine`` improves the groups afterwards, by moves and exchanges of records: "off",
    "fast" or "thorough". It uses at most so many ``threads``, as far as the records suffice; the labels do not depend
    on them. ``random_state`` is another name for ``seed``, which may be a generator of NumPy's, too: its next draw is
    the seed. ``progress`` is called every few seconds with a :class:`Headway` where the work lasts; what it raises
    ends the work.

    Returns one int64 label a record, 0 to g-1 in the order of each group's first record; the same arguments
    give the same labels on every machine, but for an algorithm that is given seconds.

    Raises:
        SpecError: a wrong argument: an unknown algorithm or parameter, a k that it cannot do, X not a matrix.
        DataError: fewer than k records, or values that are missing or infinite.

    >>> partition([[1.0], [9.0], [1.5], [8.0]], k=2).tolist()
    [0, 1, 0, 1]
    """
    matrix = matrix_of(X)
    n, p = matrix.shape
    k, seed = whole_number("k", k, 1), one_seed(seed, random_state)
    info, effort = chosen_algorithm(algorithm, k, p, params), effort_of("refine", refine)
    listener, n_threads = checked_listener(progress), whole_number("threads", threads, 1)
    check_enough(n, k)
    with Threads(n_threads).running(), listening(listener), working_on(n):
        return grouped(info, matrix, k, seed, params, effort)


def lower_bound(
    X: ArrayLike, k: int, effort: str = "fast", *, progress: Callable[[Headway], object] | None = None
) -> Bound:
    """A sum of squared errors that no partition of X into groups of at least k can be below.

    ``X`` is an (n, p) array of finite numbers, used as it is given. "fast" gives the neighbour bound, in
    near-linear time; "thorough" also tries a stronger proof where one is affordable, and gives the best: the
    [1,2]-factor for k=2, column generation for k from 3 to 5 on up to 1,500 records (some minutes at most, in which
    ``progress`` is called every few seconds). The bound's ``kind`` and ``facts`` say how it was proved.

    Raises:
        SpecError: a wrong argument.
        DataError: fewer than k records, or values that are missing or infinite.

    >>> bound = lower_bound([[0.0], [1.0], [8.0], [9.0]], k=2)
    >>> bound.kind, round(bound.sse, 9), round(bound.gap(1.0), 9)
    ('neighbours', 1.0, 0.0)
    """
    from microagg_core.group.refine.bounds import best_bound

    matrix, k = matrix_of(X), whole_number("k", k, 1)
    effort_of("effort", effort, may_be_off=False)
    listener = checked_listener(progress)
    check_enough(len(matrix), k)
    if matrix.shape[1] == 0:
        raise SpecError("X: needs at least one attribute")
    with listening(listener), working_on(len(matrix)):
        return best_bound(matrix, k, effort)
