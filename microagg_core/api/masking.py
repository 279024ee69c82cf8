"""Mask tables: quasi-identifiers are replaced by the means of groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from microagg_core.api.arguments import (
    ChosenAlgorithm,
    Options,
    RandomState,
    check_enough,
    checked_listener,
    chosen_algorithm,
    declarations,
    effort_of,
    one_of,
    one_seed,
    whole_number,
)
from microagg_core.api.grouping import grouped, improved
from microagg_core.api.tables import Table, any_table, chosen_columns, quasi_identifier
from microagg_core.arrays import Ints
from microagg_core.errors import SpecError
from microagg_core.group.algorithms import AlgorithmInfo, algorithms
from microagg_core.group.headway import Headway, listening, working_on
from microagg_core.group.metrics.losses import Losses, losses, percent, squares_within
from microagg_core.group.points import Points
from microagg_core.kernels.tools.threads import Threads

if TYPE_CHECKING:
    from microagg_core.data.kinds.encoding import QuasiIdentifiers
    from microagg_core.group.algorithms.best import Tried
    from microagg_core.group.bounds import Bound, Certificate

#: Digits of a percentage that somebody reads.
_DIGITS = 4
#: Attributes that are shown one by one; of more, those that lose most.
_MOST_SHOWN = 30


@dataclass(frozen=True, repr=False)
class Microaggregated:
    """A masked table, the group of each of its records, and what the masking cost.

    ``groups`` holds one label a record; where each quasi-identifier was masked on its own (individual_ranking), it
    is an (n, p) array with one label a record and quasi-identifier, in the order in which they were named.
    """

    #: The masked table, as a frame of the kind that came in.
    data: Any
    groups: Ints
    losses: Losses
    #: With ``algorithm="best"``: every algorithm that was run, and what it lost, before and after refinement.
    tried: tuple[Tried, ...] = ()
    k: int = 0
    #: Of each quasi-identifier, its loss in percent of its variance.
    by_attribute: Mapping[Hashable, float] = field(default_factory=dict)
    #: What no groups could lose less than, if it was asked for; on the scale of ``losses``.
    bound: Bound | None = None
    #: Records that were withheld, by their places in the table that came in: they are not in ``data``.
    withheld: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    #: With ``missing="blank"``: of each quasi-identifier how many values were taken out.
    blanked: Mapping[Hashable, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Microaggregated({', '.join(f'{name}: {text}' for name, text in self._facts())})"

    def _repr_html_(self) -> str:
        """Show the same as tables, for notebooks: no value of a record is in it."""
        facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._facts())
        shown = sorted(self.by_attribute.items(), key=lambda item: -item[1])[:_MOST_SHOWN]
        rows = "".join(f"<tr><td>{escape(str(name))}</td><td>{_percent(loss)}</td></tr>" for name, loss in shown)
        rest = len(self.by_attribute) - len(shown)
        more = f"<tr><td colspan='2'>and {rest} that lose less</td></tr>" if rest else ""
        head = "<thead><tr><th>quasi-identifier</th><th>loss of its variance</th></tr></thead>"
        attributes = f"<table>{head}<tbody>{rows}{more}</tbody></table>" if rows else ""
        return f"<div><table><tbody>{facts}</tbody></table>{attributes}</div>"

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "k", str(self.k)
        yield "records", f"{len(self.groups):,}"
        yield "groups", self._groups_in_words()
        yield "loss", _percent(self.losses.l_sse)
        if self.bound is not None and self.losses.sst > 0:
            least = _percent(100.0 * self.bound.sse / self.losses.sst)
            yield "no groups lose less than", f"{least} (gap {_percent(self.bound.gap(self.losses.sse))})"
        if self.losses.certificate is not None:
            yield "at most so many times the least possible", f"{self.losses.certificate.ratio:.3f}"
        if len(self.withheld):
            yield "withheld", f"{len(self.withheld):,}"
        if cells := sum(self.blanked.values()):
            yield "cells blanked", f"{cells:,}"

    def _groups_in_words(self) -> str:
        if self.groups.ndim == 2:
            return "each quasi-identifier has groups of its own"
        sizes = np.bincount(self.groups)
        return f"{len(sizes):,} of {sizes.min():,} to {sizes.max():,}" if len(sizes) else "0"


def _percent(value: float) -> str:
    return f"{value:.{_DIGITS}g} %"


def microaggregate(
    df: Any,
    quasi_identifiers: Sequence[Hashable] | None = None,
    k: int = 0,
    algorithm: str = "mdav",
    *,
    blocking: Sequence[Hashable] = (),
    undersized: str = "merge",
    missing: str = "error",
    weight: Hashable | None = None,
    kinds: Mapping[Hashable, str | Sequence[Any]] | None = None,
    importance: Mapping[Hashable, float] | None = None,
    standardize: bool = True,
    refine: str = "off",
    bound: bool = False,
    seed: int | None = None,
    random_state: RandomState = None,
    threads: int = 1,
    progress: Callable[[Headway], object] | None = None,
    **params: Any,
) -> Microaggregated:
    """Replace the quasi-identifiers of each record by what stands for its group of at least k: means, mostly.

    The table ``df`` is a frame of pandas or Polars, a table of Arrow or what gives one, a dictionary of columns, or an
    array, whose columns are named by their numbers and all taken where none is named; ``data`` is the same. Numbers and
    booleans (released as float64), dates and timestamps (rounded to their unit) are compared at mean 0 and variance 1,
    or with ``standardize=False`` as they are; losses are of the standardized ones. Of texts, equal or not, a group gets
    its most frequent; of ordered categories, compared by rank, its lower median; ``kinds={"roof": "nominal", "size":
    ["S", "M"]}`` says which columns are such, and ``importance={"age": 2}`` how many times one counts. All else stays.
    individual_ranking gives each column groups of its own, not k-anonymous together. ``refine`` ("off", "fast",
    "thorough") improves groups, in so many ``threads``; ``bound=True`` proves what any lose; ``algorithm="best"`` tells
    in ``tried`` what was run.

    No group crosses the combinations of the columns in ``blocking``, from general to fine. Those with fewer than k
    records are, by ``undersized``, joined with neighbours ("merge": the columns become text, ``a|b`` for either),
    withheld, with others where they could be computed ("suppress"), or refused ("error"). ``missing="blank"`` groups
    records that lack the same, and blanks cells until k do; "separate" withholds the others: as in a release without
    rounding that cuts no blocks. ``weight`` names survey weights, of which totals are kept. ``random_state`` is
    ``seed``; a generator gives its next draw. ``progress`` gets a :class:`Headway` now and then; its error ends all.

    Raises:
        SpecError: a wrong argument: an unknown or repeated column, algorithm or parameter, or a k too small.
        DataError: records that cannot be masked: too few, without a mean, missing, infinite, too many to withhold.

    >>> firms = {"staff": [10, 12, 90, 94], "town": ["Ayr", "Bern", "Bern", "Ayr"]}
    >>> microaggregate(firms, ["staff"], k=2)
    Microaggregated(k: 2, records: 4, groups: 2 of 2 to 2, loss: 0.1522 %)
    >>> microaggregate(firms, ["staff"], k=2, blocking=["town"]).data["staff"].tolist()
    [52.0, 51.0, 51.0, 52.0]
    """
    k, seed, refine = whole_number("k", k, 1), one_seed(seed, random_state), effort_of("refine", refine)
    table, chosen = any_table(df), ChosenAlgorithm(algorithm, params)
    of_blocks = _of_blocks(table, blocking, undersized, missing, weight)
    names = _names(table, quasi_identifiers, of_blocks["weight"])
    declared = declarations(names, kinds, importance)
    options = Options(k, seed, refine, chosen, standardize, bound, **of_blocks, declared=declared)
    with Threads(whole_number("threads", threads, 1)).running(), listening(checked_listener(progress)):
        return _masked(table, names, options)


def _of_blocks(
    table: Table, blocking: Sequence[Hashable] | None, undersized: str, missing: str, weight: Hashable | None
) -> dict[str, Any]:
    return {
        "missing": one_of("missing", missing, ("error", "blank", "separate")),
        "undersized": one_of("undersized", undersized, ("merge", "suppress", "error")),
        "blocking": chosen_columns(table, "blocking", () if blocking is None else blocking, may_be_none=True),
        "weight": None if weight is None else chosen_columns(table, "weight", [weight])[0],
    }


def _names(table: Table, quasi_identifiers: Sequence[Hashable] | None, weight: Hashable | None) -> list[Hashable]:
    names = chosen_columns(table, "quasi_identifiers", quasi_identifiers)
    if weight is not None and quasi_identifiers is None:
        names.remove(weight)
    return names


def _masked(table: Table, names: list[Hashable], options: Options) -> Microaggregated:
    algorithm, has_weight = options.algorithm, options.weight is not None
    each = algorithm.name in algorithms() and algorithms()[algorithm.name].each_attribute
    n_averaged = len(names) + has_weight
    info = chosen_algorithm(algorithm.name, options.k, 1 if each else n_averaged, algorithm.parameters)
    _refuse_together(names, options)
    check_enough(len(table), options.k)
    with working_on(len(table)):
        if not (options.blocking or has_weight or options.has_importance) and options.missing == "error":
            return _masked_as_one(table, names, info, options)
        # No release has these options beside blocks.
        if not options.standardize:
            raise SpecError(
                "standardize=False: cannot be combined with blocking=, missing=, weight= or importance=, whose groups "
                "are made on one scale for all blocks; scale the columns and leave it out, or mask each block alone"
            )
        if each and n_averaged > 1:
            raise SpecError(
                "algorithm: individual_ranking cannot be combined with blocking=, missing=, weight= or importance= "
                "for more than one of the quasi_identifiers; choose another algorithm, or mask each column on its own"
            )
        from microagg_core.api.blocks import mask_by_blocks

        return mask_by_blocks(table, names, info, options)


def _refuse_together(names: Sequence[Hashable], options: Options) -> None:
    if options.weight is not None and options.missing == "blank":
        raise SpecError(
            'missing="blank": cannot be combined with weight=, as it is not known before whose weights share a pattern '
            'of missing values; say missing="separate", or replace missing values'
        )
    for name in options.blocking:
        if name in names:
            raise SpecError(f"blocking: column {name!r} is in quasi_identifiers, too; name it in one of them")
    if options.weight is not None and options.weight in (*names, *options.blocking):
        raise SpecError(f"weight: column {options.weight!r} is in quasi_identifiers or blocking, too; name it once")


def _masked_as_one(table: Table, names: list[Hashable], info: AlgorithmInfo, options: Options) -> Microaggregated:
    quasi = read_quasi_identifiers(table, names, options)
    Z = quasi.standardized()
    # Of values as they are given, a category that differs counts one.
    X = Z if options.standardize else Points(quasi.as_given(), np.where(Z.costs > 0, 1.0, 0.0))
    refuse_nominal(info, quasi)
    k, seed, effort, params = options.k, options.seed, options.effort, options.algorithm.parameters
    certificate: Certificate | None = None
    tried: tuple[Tried, ...] = ()
    if info.each_attribute:
        labels = np.stack([grouped(info, column[:, None], k, seed, params, effort) for column in X.X.T], axis=1)
    elif info.name == "best":
        from microagg_core.group.algorithms.best import best

        labels, tried = best(X, k, seed=seed)
        labels = improved(X, labels, k, seed, effort)
    else:
        start = info.start_of(effort, *X.shape, k)
        labels, certificate = start.run_certified(X, k, measured=Z, seed=seed, **params)
        labels = improved(X, labels, k, seed, effort)
    measured = quasi.measured()
    lost = losses(measured, labels)
    if certificate is not None:
        lost = lost.certified(quasi.certified(certificate))
    data = table.exchanged(quasi.means(labels), None, names)
    proved = _bound(measured, labels, k, effort) if options.bound else None
    return Microaggregated(data, labels, lost, tried, k, _by_attribute(names, measured, labels), proved)


def read_quasi_identifiers(table: Table, names: Sequence[Hashable], options: Options) -> QuasiIdentifiers:
    from microagg_core.data.kinds.encoding import QuasiIdentifiers

    columns = {name: quasi_identifier(table, name) for name in names}
    may_be_missing, weight = options.missing != "error", options.weight
    try:
        return QuasiIdentifiers.of(columns, may_be_missing=may_be_missing, weight=weight, declared=options.declared)
    except SpecError as error:
        raise SpecError(error.message.replace("roles.quasi_identifiers:", "kinds:")) from None


def refuse_nominal(info: AlgorithmInfo, quasi: QuasiIdentifiers) -> None:
    """Stop where an algorithm that sorts values is given some that have no order."""
    columns = zip(quasi.names, quasi.encoding.kinds, strict=True)
    if problem := info.refuses_nominal([str(name) for name, kind in columns if kind.is_coded]):
        raise SpecError(problem)


def _bound(measured: Points, labels: Ints, k: int, effort: str) -> Bound:
    """Prove what no groups lose less than; where each attribute has groups of its own, the sum over attributes."""
    from microagg_core.group.bounds import Bound
    from microagg_core.group.refine.bounds import best_bound

    how = "thorough" if effort == "thorough" else "fast"
    if labels.ndim == 1:
        return best_bound(measured, k, how)
    each = [best_bound(np.ascontiguousarray(column[:, None]), k, how).sse for column in measured.X.T]
    return Bound(sum(each) * (1.0 - 2.0**-40), "attributes", {"attributes": len(each)})


def _by_attribute(names: list[Hashable], measured: Points, labels: Ints) -> dict[Hashable, float]:
    within = np.sum(squares_within(measured, labels), axis=0)
    total = np.sum(squares_within(measured, np.zeros(len(measured), dtype=np.int64)), axis=0)
    return {name: percent(float(within[j]), float(total[j])) for j, name in enumerate(names)}
