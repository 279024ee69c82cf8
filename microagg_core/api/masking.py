"""Tables whose quasi-identifiers are replaced by the means of groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from microagg_core.algorithms import AlgorithmInfo, algorithms
from microagg_core.api.arguments import (
    RandomState,
    check_enough,
    checked_listener,
    chosen_algorithm,
    effort_of,
    one_of,
    one_seed,
    whole_number,
)
from microagg_core.api.grouping import grouped, improved
from microagg_core.api.result import Microaggregated
from microagg_core.api.tables import Table, chosen_columns, quasi_identifier, table_of
from microagg_core.arrays import Floats, Ints
from microagg_core.errors import SpecError
from microagg_core.grouping.standing import Standing, listening, working_on
from microagg_core.kernels.tools.threads import Threads
from microagg_core.metrics.losses import losses, masked_by, percent

if TYPE_CHECKING:
    from microagg_core.algorithms.trying import Tried
    from microagg_core.grouping.bounds import Bound
    from microagg_core.kinds.quasi_identifiers import QuasiIdentifiers
    from microagg_core.metrics.certificate import Certificate


def microaggregate(
    df: Any,
    quasi_identifiers: Sequence[Hashable] | None = None,
    k: int = 0,
    algorithm: str = "mdav",
    *,
    blocking: Sequence[Hashable] = (),
    undersized: str = "merge",
    missing: str = "error",
    standardize: bool = True,
    refine: str = "off",
    bound: bool = False,
    seed: int | None = None,
    random_state: RandomState = None,
    threads: int = 1,
    progress: Callable[[Standing], object] | None = None,
    **params: Any,
) -> Microaggregated:
    """Replace the quasi-identifiers of each record by the means of its group of at least k records.

    The table is a frame of pandas or Polars, a table of Arrow or what gives one (``__arrow_c_stream__``), a dictionary
    of columns, a structured array, or a matrix of numbers, whose columns are named by their numbers and are all
    quasi-identifiers where none is named. The result's ``data`` is of the same kind; k has to be given.

    Quasi-identifiers are numbers (released as float64), booleans (as the share of true ones), dates or
    timestamps (released as such, rounded to their unit). They are standardized to mean 0 and variance 1 before
    records are compared; with ``standardize=False`` they are compared as they are, dates and timestamps in
    days or in their unit. All other columns, the index and the order of columns and records stay. The losses are always
    those of the standardized quasi-identifiers. With the algorithm individual_ranking each quasi-identifier has groups
    of its own: every one of them is k-anonymous, their combinations are not. ``refine`` ("off", "fast" or "thorough")
    improves the groups, whichever algorithm made them, with at most so many ``threads``. Where the algorithm proves
    how far from the least possible the loss is (two_mu_approx), ``losses.certificate`` says so; with ``bound=True`` a
    bound is proved for any groups. With ``algorithm="best"`` the result's ``tried`` has every algorithm that was run.

    No group crosses the combinations of the columns in ``blocking``, from general to fine. What becomes of
    combinations with fewer than k records is said by ``undersized``: "merge" joins them with their neighbours, and
    makes blocking columns text in which ``a|b`` stands for either; "suppress" withholds their records, and others where
    these alone could be computed; "error" refuses. ``missing="separate"`` gives each pattern of missing
    quasi-identifiers blocks of its own, in which they stay missing, and withholds those that reach no k. The result
    is then that of a release of the same table without rounding, to the last digit, unless a release would cut its
    blocks (``blocks.max_records``); places of withheld records are in ``withheld``.

    ``random_state`` is another name for ``seed``; a generator of NumPy's gives its next draw. ``progress`` is
    called every few seconds with a :class:`Standing` where the work lasts; what it raises ends the work.

    Raises:
        SpecError: a wrong argument: an unknown or repeated column, algorithm or parameter, or a k too small.
        DataError: fewer than k records; a column without a mean (text); missing or infinite values; too many records
            to be withheld.

    >>> import pandas as pd
    >>> firms = pd.DataFrame({"staff": [10, 12, 90, 94], "town": list("abcd")})
    >>> masked = microaggregate(firms, ["staff"], k=2)
    >>> masked.data["staff"].tolist(), round(masked.losses.l_sse, 3)
    ([11.0, 11.0, 92.0, 92.0], 0.152)
    >>> masked
    Microaggregated(k: 2, records: 4, groups: 2 of 2 to 2, loss: 0.1524 %)
    >>> firms["town"] = ["Ayr", "Bern", "Bern", "Ayr"]
    >>> microaggregate(firms, ["staff"], k=2, blocking=["town"]).data["staff"].tolist()
    [52.0, 51.0, 51.0, 52.0]
    """
    k, seed = whole_number("k", k, 1), one_seed(seed, random_state)
    table = table_of(df)
    names = chosen_columns(table, "quasi_identifiers", quasi_identifiers)
    each = algorithm in algorithms() and algorithms()[algorithm].each_attribute
    info, effort = chosen_algorithm(algorithm, k, 1 if each else len(names), params), effort_of("refine", refine)
    blocks_of = _blocking(table, names, blocking, missing, undersized)
    listener, n_threads = checked_listener(progress), whole_number("threads", threads, 1)
    check_enough(len(table), k)
    with Threads(n_threads).running(), listening(listener), working_on(len(table)):
        if blocks_of or missing != "error":
            _refuse_unlike_releases(standardize, each and len(names) > 1)
            rules = (k, seed, effort, params, undersized, missing, bound)
            return _masked_by_blocks(table, names, blocks_of, info, *rules)
        return _masked_as_one(table, names, info, k, seed, effort, params, standardize, bound)


def _blocking(
    table: Table, names: list[Hashable], blocking: Sequence[Hashable], missing: str, undersized: str
) -> list[Hashable]:
    """The columns that make blocks, checked with what is said of them."""
    one_of("missing", missing, ("error", "separate"))
    one_of("undersized", undersized, ("merge", "suppress", "error"))
    columns = chosen_columns(table, "blocking", () if blocking is None else blocking, may_be_none=True)
    for name in columns:
        if name in names:
            raise SpecError(f"blocking: column {name!r} is in quasi_identifiers, too; name it in one of them")
    return columns


def _refuse_unlike_releases(standardize: bool, each: bool) -> None:
    """Stop where blocks are asked for together with what no release can be asked for."""
    if not standardize:
        raise SpecError(
            'standardize=False: cannot be combined with blocking= or missing="separate", whose groups are made on one '
            "scale for all blocks; scale the columns and leave it out, or mask each block on its own"
        )
    if each:
        raise SpecError(
            'algorithm: individual_ranking cannot be combined with blocking= or missing="separate" for more than one '
            "of the quasi_identifiers; choose another algorithm, or mask each column on its own"
        )


def _masked_as_one(
    table: Table,
    names: list[Hashable],
    info: AlgorithmInfo,
    k: int,
    seed: int,
    effort: str,
    params: dict[str, Any],
    standardize: bool,
    bound: bool,
) -> Microaggregated:
    """All records in one block."""
    from microagg_core.kinds.quasi_identifiers import QuasiIdentifiers

    quasi = QuasiIdentifiers.of({name: quasi_identifier(table, name) for name in names})
    Z = quasi.standardized()
    X = Z if standardize else quasi.as_given()
    certificate: Certificate | None = None
    tried: tuple[Tried, ...] = ()
    if info.each_attribute:
        labels = np.stack([grouped(info, column[:, None], k, seed, params, effort) for column in X.T], axis=1)
    elif info.name == "best":
        from microagg_core.algorithms.trying import best

        choice = best(X, k, seed=seed)
        labels, tried = improved(X, choice.labels, k, seed, effort), choice.tried
    else:
        labels, certificate = info.run_certified(X, k, measured=Z, seed=seed, **params)
        labels = improved(X, labels, k, seed, effort)
    measured = quasi.measured()
    lost = losses(measured, labels)
    if certificate is not None:
        lost = lost.certified(quasi.certified(certificate))
    data = table.exchanged(quasi.means(labels), None)
    proved = _bound(quasi, measured, labels, k, effort) if bound else None
    return Microaggregated(data, labels, lost, tried, k, _by_attribute(names, measured, labels), proved)


def _bound(quasi: QuasiIdentifiers, measured: Floats, labels: Ints, k: int, effort: str) -> Bound:
    """What no groups lose less than; where each attribute has groups of its own, the sum of what each loses."""
    from microagg_core.grouping.bounds import Bound
    from microagg_core.refine.certifying import best_bound

    how = "thorough" if effort == "thorough" else "fast"
    if labels.ndim == 1:
        return best_bound(measured, k, how)
    each = [best_bound(np.ascontiguousarray(column[:, None]), k, how).sse for column in measured.T]
    return Bound(sum(each) * (1.0 - 2.0**-40), "attributes", {"attributes": len(quasi.names)})


def _by_attribute(names: list[Hashable], measured: Floats, labels: Ints) -> dict[Hashable, float]:
    """Of each quasi-identifier, what it loses in percent of its variance."""
    within = np.sum((measured - masked_by(measured, labels)) ** 2, axis=0)
    total = np.sum((measured - measured.mean(axis=0)) ** 2, axis=0)
    return {name: percent(float(within[j]), float(total[j])) for j, name in enumerate(names)}


def _masked_by_blocks(
    table: Table,
    names: list[Hashable],
    blocking: list[Hashable],
    info: AlgorithmInfo,
    k: int,
    seed: int,
    effort: str,
    params: dict[str, Any],
    undersized: str,
    missing: str,
    bound: bool,
) -> Microaggregated:
    """The records of each block on their own."""
    from microagg_core.api.blocks import BlockRules, ChosenAlgorithm, losses_and_shares, mask_by_blocks

    # A release takes quasi-identifiers as they stand in its file, and sums over them in this order.
    ordered = [name for name in table.names if name in set(names)]
    rules = BlockRules(k, seed, effort, ChosenAlgorithm(info.name, params), undersized, missing, bound)
    masked = mask_by_blocks(table, ordered, blocking, info, rules)
    is_whole = len(masked.rows) == len(table)
    lost, shares = losses_and_shares(masked)
    of_name = dict(zip(ordered, shares, strict=True))
    return Microaggregated(
        data=table.exchanged(masked.columns, None if is_whole else masked.rows),
        groups=masked.groups,
        losses=lost,
        k=k,
        by_attribute={name: of_name[name] for name in names},
        bound=masked.bound,
        withheld=np.setdiff1d(np.arange(len(table)), masked.rows),
    )
