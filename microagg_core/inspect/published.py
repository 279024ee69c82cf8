"""Choose the figures of information loss that may be published: those that cannot be solved for single records.

A record's distance from its group's mean is unknown to a reader; there are as many free unknowns for each attribute as
records less groups. Figures are equations in them, so they are published only where unknowns abound, over the whole
release, and to six significant digits; and with fewer, or not at all, where one group dominates them.

A released figure is a sum over groups, of which a reader knows the means. Statistical offices ask of the total of a
cell that whoever knows the second-largest contribution, and takes it off, comes no nearer to the largest than some
percent of it (the p % rule). Here a contribution is a group's, which is at least that of any of its records.

Figures are looked at together: what can be computed from others tells no more than these do. A total over attributes of
which one has fewer digits is the total of what is published of each.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.data.kinds.contract import Claim, Kind
from microagg_core.group.metrics.figures import (
    AttributeFigures,
    CategoryFigures,
    CorrelationChange,
    Figures,
    WeightedFigures,
)
from microagg_core.group.metrics.losses import percent
from microagg_core.group.metrics.moments import Moments
from microagg_core.group.metrics.statistics import (
    LossStatistics,
    attribute_losses,
    correlation_changes,
    losses_of,
    significant,
)
from microagg_core.inspect.checks.weights import Weighed
from microagg_core.inspect.edits import RuleCount
from microagg_core.inspect.portrait.contract import PERCENTS, Portrait, Summary
from microagg_core.inspect.portrait.pictures import category_counts, named

#: What all but the two largest groups make of a sum is at least this share of what the largest makes. A reader who
#: guesses the rest to within a fifth, from the means beside it, is then off by 21 % of the largest. Most sums are of
#: squares, and 1.1 ** 2 = 1.21: so he is off by a tenth of how far each record lies from its group's mean, at least.
REST_OF_LARGEST = 0.21 / 0.2
#: Digits of a figure that no group dominates.
MOST_DIGITS = 6
_FREE_FOR_TOTALS = 7
_FREE_FOR_ATTRIBUTES = 50
#: Names of quantiles.
_PERCENTS = tuple(map(str, PERCENTS))


@dataclass(frozen=True)
class Dominated:
    """A sum over groups, with what the two that contribute most make of it."""

    total: float
    first: float
    second: float

    @property
    def lacking(self) -> float:
        """Shortfall of the rest from the rule; as much has to be hidden by rounding."""
        rest = max(self.total - self.first - self.second, 0.0)
        return max(REST_OF_LARGEST * self.first - rest, 0.0)


@dataclass(frozen=True)
class Rounded:
    """A figure as it is published, and how far from it the true one is at most; 0 stands for six digits."""

    value: float
    within: float = 0.0

    @classmethod
    def computed(cls, value: float, within: float) -> Rounded:
        """Round a figure computed from others to no more digits than these give it.

        >>> Rounded.computed(12.3456789, 0.4), Rounded.computed(12.3456789, 0.0)
        (Rounded(value=12.3, within=0.45), Rounded(value=12.3457, within=0.0))
        """
        if not within or not math.isfinite(value):
            return cls(to_digits(value, MOST_DIGITS))
        decimals = -math.floor(math.log10(within))
        return cls(round(value, decimals), float(f"{within + 0.5 * 10.0**-decimals:.2g}"))

    def percent_of(self, whole: Rounded) -> Rounded:
        """Compute a loss in percent, with no more digits than both sides give it."""
        value = percent(self.value, whole.value)
        relative = whole.within / whole.value if whole.value else 0.0
        return Rounded.computed(value, percent(self.within, whole.value) * (1 + relative) + value * relative)

    @classmethod
    def share(cls, count: int, records: int, low: int, high: int, fewest: int) -> Rounded | None:
        """Round a share, in percent, until more than ``fewest`` counts from ``low`` to ``high`` may be the true one.

        What holds of nobody, or of everybody, tells no record from others.

        >>> Rounded.share(1626, 4407, 560, 4000, 10), Rounded.share(3, 60, 0, 60, 10), Rounded.share(0, 60, 0, 60, 10)
        (Rounded(value=37.0, within=0.5), None, Rounded(value=0.0, within=0.0))
        """
        if count in (0, records):
            return cls(100.0 * count / records)
        return cls.uncertain(count, records, low, high, fewest)

    @classmethod
    def uncertain(cls, count: float, records: int, low: int, high: int, fewest: int) -> Rounded | None:
        """Round a share, in percent, likewise where none and all tell something, too.

        >>> Rounded.uncertain(0, 4407, 0, 4407, 10)
        Rounded(value=0.0, within=0.5)
        """
        for decimals in range(MOST_DIGITS, -2, -1):
            value, half = round(100 * count / records, decimals), float(f"5e{-decimals - 1}")
            least, most = math.ceil((value - half) * records / 100), math.floor((value + half) * records / 100)
            if min(most, high) - max(least, low) >= fewest:
                return cls(value, half)
        return None


#: Figures by name; None: withheld.
_Looked = Mapping[str, Rounded | None]


def hiding(value: float, lacking: float, direction: str = decimal.ROUND_HALF_EVEN) -> Rounded | None:
    """Round to as many digits as leave a figure unknown by ``lacking`` both ways; None where not one does.

    >>> hiding(12.3456789, 0.0), hiding(12.3456789, 0.03), hiding(12.3456789, 7.0)
    (Rounded(value=12.3457, within=0.0), Rounded(value=12.3, within=0.05), None)
    """
    if lacking <= 0.0 or not math.isfinite(value):
        return Rounded(to_digits(value, MOST_DIGITS, direction))
    greatest = math.floor(math.log10(abs(value))) if value else 0
    for digits in range(MOST_DIGITS, 0, -1):
        half = 10.0 ** (greatest - digits + 1) / 2
        if half >= lacking:
            within = half if direction == decimal.ROUND_HALF_EVEN else 2 * half
            return Rounded(to_digits(value, digits, direction), float(f"{within:.0e}"))
    return None


def hiding_decimals(value: float, lacking: float) -> Rounded | None:
    """Round a figure on a scale of its own, such as a correlation's, where 0.00 says something too.

    >>> hiding_decimals(0.001234, 0.004), hiding_decimals(0.4, 0.3)
    (Rounded(value=0.0, within=0.005), None)
    """
    if lacking <= 0.0:
        return hiding(value, 0.0)
    decimals = math.floor(-math.log10(2 * lacking))
    return Rounded(round(value, decimals), float(f"5e-{decimals + 1}")) if decimals >= 1 else None


def share_before(count: RuleCount, k: int) -> Rounded | None:
    """Publish the share of the input's records that broke a rule, so that twice k of them more or less look the same.

    With all digits, the shares of two rules that differ by a number would tell of the records between. Coarser ones do
    not even tell whether any record, or every one, broke a rule; and groups have less than twice k records, mostly.

    >>> share_before(RuleCount(40_000, 1_234), 5), share_before(RuleCount(150, 2), 5)
    (Rounded(value=0.031, within=0.0005), None)
    """
    return hiding_decimals(count.share, 2 * k / count.compared) if count.compared else None


def to_digits(value: float, digits: int, direction: str = decimal.ROUND_HALF_EVEN) -> float:
    """Round to so many significant digits, in one of decimal's directions.

    >>> to_digits(12.3456789, 3, decimal.ROUND_FLOOR)
    12.3
    """
    if not math.isfinite(value):
        return value
    return float(decimal.Context(prec=digits, rounding=direction).plus(decimal.Decimal(value)))


def published_figures(
    statistics: LossStatistics,
    n_groups: int,
    kinds: Sequence[Kind],
    moments: Sequence[tuple[Moments, Moments]],
    proved: Figures,
    fewest: int,
    weighed: Weighed | None = None,
    unit_rows: int = 1,
) -> Figures:
    """Choose the figures that may be published of so many records and groups; a unit is up to ``unit_rows`` of these.

    The ``moments`` of each quasi-identifier are of the released records, as they came and as they are released. What
    tells a count of the input leaves ``fewest`` possible. With survey weights, plain variances and correlations from
    before tell of the plain means of groups, and these beside the weighted ones of single records: neither they nor
    what they follow from are published.
    """
    free = (statistics.records - n_groups) // unit_rows
    if free < _FREE_FOR_TOTALS:
        return figures_of_few(statistics.records)
    figures, why = Figures(records=statistics.records), []
    by_attribute = free >= _FREE_FOR_ATTRIBUTES
    has_variances = weighed is None
    attributes = _attributes(statistics, kinds, moments, fewest, has_variances=has_variances) if by_attribute else []
    totals = _totals(statistics, attributes)
    bound = _bound(statistics, proved, totals)
    figures |= Figures.model_validate(_given(totals)) | _still_proved(proved, bound)
    looked = {**totals, **bound}
    if by_attribute:
        named = zip(kinds, attributes, moments, strict=True)
        figures |= Figures(
            attributes={kind.name: _with_moments(kind, attribute, *own) for kind, attribute, own in named}
        )
        for kind, attribute in zip(kinds, attributes, strict=True):
            looked |= {f"attributes.{kind.name}.{name}": rounded for name, rounded in attribute.figures.items()}
        n_numbers = sum(not kind.is_coded for kind in kinds)
        changes = _correlations(statistics) if n_numbers > 1 and weighed is None else {}
        if changes:
            figures |= Figures(correlation_change=_change(statistics, changes, n_numbers))
            looked |= {f"correlation_change.{name}": rounded for name, rounded in changes.items()}
    else:
        why.append("figures by attribute: the release is too small for them")
    if weighed is not None:
        loss = _weighted_loss(weighed)
        looked["weighted.l_sse"] = loss
        figures |= Figures(weighted=_weighted(weighed, kinds, loss))
    return figures | _told(looked, why)


def _weighted_loss(weighed: Weighed) -> Rounded | None:
    """Round the weighted loss until no group shows in it, whatever is known of the others.

    A multiple of the plain loss takes all groups of one weight away from it, and may leave a single one: so the figure
    has to hide the most that a group makes of either, without any help of others.
    """
    squares = weighed.squares
    lacking = REST_OF_LARGEST * percent(weighed.largest * weighed.most_lost, squares)
    return hiding(percent(weighed.lost, squares), lacking)


def _weighted(weighed: Weighed, kinds: Sequence[Kind], loss: Rounded | None) -> WeightedFigures:
    """Give the loss, and the weighted means of what is released, which its readers can compute."""
    weights, means = weighed.weights_of_columns, dict[str, float | str]()
    for kind, total, weight in zip(kinds, weighed.after.tolist(), weights.tolist(), strict=True):
        if weight > 0 and Claim.MEAN_KEPT in kind.claims:
            shown = kind.shown(total / weight)
            means[kind.name] = shown if isinstance(shown, str) else significant(shown)
    return WeightedFigures.model_validate({"means": means, **_given({"l_sse": loss})})


def with_summaries(figures: Figures, portrait: Portrait, k: int, fewest: int) -> Figures:
    """Add shares of zeros and heaps, and quantiles, where figures by attribute are published.

    Those of the release can be computed by whoever reads it. The share of zeros of the input tells, beside them, how
    many zeros lie in groups that have other values; where that is but one group, and all its records but one are zeros,
    its mean tells that one's value. So a share is rounded until more than ``fewest`` counts may be the true one: no
    less than the zeros that are released, and, as each other group has a value, no more than leaves one to each.
    Quantiles of the input are common to so many records before they come here.
    """
    if not figures.attributes or not portrait.summaries:
        return figures
    attributes, coarser, withheld = dict(figures.attributes), dict(figures.coarser or {}), []
    for summary in portrait.summaries:
        given: dict[str, Any] = {"quantiles_before": {}, "quantiles": dict(zip(_PERCENTS, summary.after, strict=True))}
        shares = _shares(summary, k, fewest)
        quantiles = {f"quantiles_before.{at}": of for at, of in zip(_PERCENTS, summary.before, strict=True)}
        for name, told in (*shares.items(), *quantiles.items()):
            place, (field, _, at) = f"attributes.{summary.column}.{name}", name.partition(".")
            if told is None:
                withheld.append(place)
                continue
            if told.within:
                coarser[place] = told.within
            (given[field] if at else given)[at or field] = told.value
        own = attributes[summary.column].model_dump()
        attributes[summary.column] = AttributeFigures.model_validate(own | given)
    more: dict[str, Any] = {"coarser": coarser} if coarser else {}
    if withheld:
        why = f"{', '.join(withheld)}: too few records are near them"
        more["withheld"] = "; ".join([*([figures.withheld] if figures.withheld else []), why])
    if portrait.drawn < portrait.records:
        more["drawn"] = portrait.drawn
    return figures | Figures(attributes=attributes, **more)


def with_categories(
    figures: Figures, kinds: Sequence[Kind], moments: Sequence[tuple[Moments, Moments]], k: int, fewest: int
) -> Figures:
    """Add the shares of categories, where figures by attribute are published.

    Those of the release can be counted by whoever reads it. Of the input a category is told that ``fewest`` records
    had, or more, rounded until so many counts may be the true one.
    """
    attributes, is_weighted = dict(figures.attributes or {}), any(kind.is_weight for kind in kinds)
    for kind, (came, after) in zip(kinds, moments, strict=True):
        if kind.name in attributes and came.counts and after.n:
            known = _known_shares(came, k, has_mode=kind.is_coded and not is_weighted, has_half=not is_weighted)
            names, before, released = category_counts(kind, came, after)
            chosen = named(kind, names, np.maximum(released, np.where(before >= fewest, before, 0)))
            shares = [
                _category(names[code], int(released[code]), after.n, _before(code, came, after, known, fewest, kind))
                for code in chosen
            ]
            if not kind.is_ranked:  # not by what is only known of the input
                shares.sort(key=lambda of: (-of.share, -(of.share_before or 0.0), of.category))
            others = significant(100.0 * float(released.sum() - released[chosen].sum()) / after.n)
            own = AttributeFigures(shares=tuple(shares), other_shares=others).model_dump()
            attributes[kind.name] = AttributeFigures.model_validate(attributes[kind.name].model_dump() | own)
    return figures | Figures(attributes=attributes) if attributes else figures


def _category(name: str, count: int, records: int, before: Rounded | None) -> CategoryFigures:
    told = {} if before is None else {"share_before": before.value, "within": before.within}
    return CategoryFigures.model_validate({"category": name, "share": significant(100.0 * count / records), **told})


def _known_shares(came: Moments, k: int, *, has_mode: bool, has_half: bool) -> tuple[Fraction, Fraction]:
    """Bound what share of a group a reader knows to have the released category at least, and another one at most.

    One record of it has what is released; of a mode without weights, as many as have any other category. And of modes
    and medians without weights, no more than half have another one.

    >>> of_three = Moments(30, 0, 0.0, 0.0, 0, 0, 2, (10, 10, 10))
    >>> [str(share) for share in _known_shares(of_three, 5, has_mode=True, has_half=True)]
    ['3/7', '2/5']
    """
    other = min(Fraction(size // 2, size) for size in (k, k + 1)) if has_half else Fraction(1)
    if not has_mode:
        return Fraction(1, k), other
    n_categories = sum(map(bool, came.counts))
    return max(Fraction(-(-size // n_categories), size) for size in range(k, k + min(k, n_categories) + 1)), other


def _before(
    code: int, came: Moments, after: Moments, known: tuple[Fraction, Fraction], fewest: int, kind: Kind
) -> Rounded | None:
    """Publish the share that a category had, if enough records had it; by that, too, a reader knows something.

    Of records that got a parent all may have had a category below it, and none any other.
    """
    count, released = (of.counts[code] if code < len(of.counts) else 0 for of in (came, after))
    if count < fewest:
        return None
    own, other = known
    with_value, below = after.n, 0
    if kind.tree is not None:
        parents, above = after.counts[kind.tree.n_values :], kind.tree.ancestors[code].tolist()
        with_value -= sum(parents)
        below = sum(n for place, n in enumerate(parents, kind.tree.n_values) if place in above)
    high = released + below + math.floor(other * (with_value - released)) + came.n - after.n
    told = Rounded.share(count, came.n, max(fewest, math.ceil(own * released)), high, fewest)
    return told if told and told.value else None


def _shares(summary: Summary, k: int, fewest: int) -> dict[str, Rounded | None]:
    shares: dict[str, Rounded | None] = {}
    n = summary.records
    for name, counted in (("zeros", summary.zeros), ("heaps", summary.heaps)):
        if counted is None:
            continue
        before, after, low, high = counted.before, counted.after, 0, n
        if name == "zeros" and before >= after:
            low, high = after, n - (n - after) // k
        shares[f"{name}_before"] = Rounded.share(before, n, low, high, fewest)
        shares[name] = Rounded(significant(100 * after / n))
    return shares


def figures_of_few(records: int) -> Figures:
    return Figures(records=records, withheld="the release is too small for figures that do not tell of single records")


def figures_of_night(rows: int, kinds: Sequence[Kind], moments: Sequence[Moments], arrivals: Figures) -> Figures:
    """Put the figures of a file that holds carried records around those of its arrivals.

    Of carried records the values that were grouped are not kept; against tonight's, two nights' losses would differ by
    that of the few who changed or left. Moments are those of released values, which all may read.
    """
    named = zip(kinds, moments, strict=True)
    return Figures(
        records=rows,
        attributes={kind.name: _moments(kind, after) for kind, after in named},
        withheld="the loss of the whole file: of records that earlier releases grouped, only their means are kept",
        arrivals=arrivals,
    )


def _told(looked: _Looked, why: list[str]) -> Figures:
    withheld = [name for name, rounded in looked.items() if rounded is None]
    if withheld:
        why = [*why, f"{', '.join(withheld)}: one group of records makes most of what they tell"]
    coarser = {name: rounded.within for name, rounded in looked.items() if rounded and rounded.within}
    told = Figures(coarser=coarser) if coarser else Figures()
    return told | Figures(withheld="; ".join(why)) if why else told


def _given(looked: _Looked) -> dict[str, float | None]:
    """Values by name; None where there is none that JSON could hold."""
    given = {name: rounded.value for name, rounded in looked.items() if rounded is not None}
    return {name: value if math.isfinite(value) else None for name, value in given.items()}


@dataclass(frozen=True)
class _Attribute:
    """Published figures of an attribute, and what totals may tell of it.

    ``sse`` and ``absolute`` are its sums: as a reader computes them from coarser figures, or else as they are.
    ``lacking`` is what totals have to hide of ``sse`` where nothing is published of it. Distances of categories are not
    their differences, and ``absolute`` is None.
    """

    figures: _Looked
    sse: Rounded
    absolute: Rounded | None
    is_dominated: bool
    lacking: float


def _attributes(
    statistics: LossStatistics,
    kinds: Sequence[Kind],
    moments: Sequence[tuple[Moments, Moments]],
    fewest: int,
    *,
    has_variances: bool,
) -> list[_Attribute]:
    before, losses, attributes = statistics.before, attribute_losses(statistics), []
    for j, (kind, own) in enumerate(zip(kinds, moments, strict=True)):
        sst, to_sum = float(before.squares[j, j]), max(float(before.n[j, j]), 1.0) * math.sqrt(2.0)
        squares, differences = (_dominated(sums, j) for sums in (statistics.squares, statistics.differences))
        l_sse = hiding(losses["l_sse"][j], percent(squares.lacking, sst))
        il1s = hiding(losses["il1s"][j], differences.lacking / to_sum)
        # The released variance is there to be computed: the share that is kept of it tells the sum of squares as well.
        kept = None if squares.lacking else hiding(losses["variance_kept"][j], 0.0)
        is_category = kind.is_coded or kind.is_ranked
        of_categories = _categories(statistics, j, kind, own, fewest) if is_category else {}
        of_numbers = {"il1s": il1s, **({"variance_kept": kept} if has_variances else {})}
        attributes.append(
            _Attribute(
                figures={"l_sse": l_sse, **(of_categories or of_numbers)},
                sse=_as_told(l_sse, sst / 100.0, squares),
                absolute=None if is_category else _as_told(il1s, to_sum, differences),
                is_dominated=squares.lacking > 0,
                lacking=0.0 if l_sse else squares.lacking,
            )
        )
    return attributes


def _categories(
    statistics: LossStatistics, j: int, kind: Kind, moments: tuple[Moments, Moments], fewest: int
) -> _Looked:
    """Publish how many records have another category, how far away, and what that did to the shares of categories.

    A group moves the shares by as many records as get another category in it, or a parent of theirs, at most. What all
    shares changed is what those that grew did together: with the released shares it tells how many records had one of
    these categories.
    """
    came, after = moments
    n, changed = max(float(statistics.before.n[j, j]), 1.0), _dominated(statistics.changed, j)
    lacking = percent(changed.lacking, n)
    looked = {"mismatches": hiding(percent(changed.total, n), lacking)}
    if kind.is_ranked:
        moved = _dominated(statistics.differences, j)
        # Midranks are doubled, and standardized.
        of_ranks = 100.0 * came.deviation / 2.0 / n / n
        return {**looked, "rank_displacement": hiding(moved.total * of_ranks, moved.lacking * of_ranks)}
    pairs = zip_longest(came.counts, after.counts, fillvalue=0)
    apart = sum(abs(a / max(came.n, 1) - b / max(after.n, 1)) for a, b in pairs) / 2.0
    least = max(fewest, math.ceil(2.0 * _dominated(statistics.moved, j).lacking))
    return {**looked, "margins": Rounded.uncertain(apart * n, round(n), 0, round(n), least)}


def _dominated(sums: Floats, place: int, total: float | None = None) -> Dominated:
    own, first, second = sums[:, place].tolist()
    return Dominated(own if total is None else total, first, second)


def _as_told(figure: Rounded | None, unit: float, true: Dominated) -> Rounded:
    """Take the sum that a coarser figure tells; else the true one."""
    if figure is None or not figure.within:
        return Rounded(true.total)
    return Rounded(figure.value * unit, figure.within * unit)


def _with_moments(kind: Kind, attribute: _Attribute, came: Moments, after: Moments) -> AttributeFigures:
    pairs = {"categories": came, "categories_kept": after} if kind.is_coded else {}
    counted: dict[str, float] = {name: sum(map(bool, of.counts[: len(came.counts)])) for name, of in pairs.items()}
    counted |= _generalized(kind, after)
    return AttributeFigures.model_validate(_moments(kind, after).model_dump() | _given(attribute.figures) | counted)


def _generalized(kind: Kind, after: Moments) -> dict[str, float]:
    """Count what got a parent, and how general records are told on average; readers of the release can do it too."""
    if kind.tree is None or not after.n:
        return {}
    n_values, counts = kind.tree.n_values, np.array(after.counts)
    shares = {"generalized": counts[n_values:].sum(), "generality": counts @ kind.tree.generality[: len(counts)]}
    return {name: significant(percent(float(of), after.n)) for name, of in shares.items()}


def _moments(kind: Kind, after: Moments) -> AttributeFigures:
    if Claim.MEAN_KEPT not in kind.claims:  # a weight's moments are those of its logarithm
        return AttributeFigures(unit=kind.unit.name)
    return AttributeFigures(
        unit=kind.unit.name,
        mean=_mean(kind, after) if after.n else None,  # nothing but missing values has none
        variance=_squared(after.deviation / kind.unit.ticks),
    )


def _mean(kind: Kind, after: Moments) -> float | str:
    mean = kind.shown(float(after.origin) + after.mean)
    return mean if isinstance(mean, str) else significant(mean)


def _squared(deviation: float) -> float | None:
    """Square a deviation; None where it is beyond the greatest float, since JSON has no infinity."""
    squared = deviation * deviation
    return significant(squared) if math.isfinite(squared) else None


def _totals(statistics: LossStatistics, attributes: Sequence[_Attribute]) -> dict[str, Rounded | None]:
    losses, whole = losses_of(statistics), statistics.whole
    # Less what is published of the other attributes, a total is a figure of those that one group dominates.
    lacking = _dominated(whole, 0, losses.sse).lacking
    if any(attribute.is_dominated for attribute in attributes):
        lacking = sum(attribute.lacking for attribute in attributes)
    sse = _added([a.sse for a in attributes] or [Rounded(losses.sse)], lacking)
    lossy = [attribute.absolute for attribute in attributes if attribute.sse.value]
    # Where one attribute alone loses anything, and is a number, distances are its differences.
    sde = (lossy[0] if len(lossy) == 1 else None) or Rounded(losses.sde)
    sde_or_none = _added([sde], 0.0 if sde.within else _dominated(whole, 1).lacking)
    # Of the distances from the file's mean, those of what is released are there to be computed.
    sdt = hiding(losses.sdt, _dominated(whole, 2, abs(losses.sdt - statistics.sdt_after)).lacking)
    return {
        "sse": sse,
        "sst": Rounded.computed(losses.sst, 0.0),
        "l_sse": _percent(sse, losses.sse, Rounded(losses.sst), losses.sst),
        "sde": sde_or_none,
        "sdt": sdt,
        "l_e": _percent(sde_or_none, losses.sde, sdt, losses.sdt),
    }


def _added(parts: Sequence[Rounded], lacking: float) -> Rounded | None:
    """Add figures so that the sum tells no part better than it is known, and hides what is lacking."""
    total = hiding(math.fsum(part.value for part in parts), lacking)
    within = math.fsum(part.within for part in parts)
    return Rounded.computed(total.value, within + total.within) if total and within else total


def _percent(part: Rounded | None, true_part: float, whole: Rounded | None, true_whole: float) -> Rounded | None:
    """Compute a loss from the true sums where all their digits are published, else from those that are."""
    if part is None or whole is None:
        return None
    if part.within or whole.within:
        return part.percent_of(whole)
    return hiding(percent(true_part, true_whole), 0.0)


def _bound(statistics: LossStatistics, proved: Figures, totals: _Looked) -> dict[str, Rounded | None]:
    """Publish the lower bound, if no group dominates it, and what follows from it and the loss.

    A group's records make no more of the bound than of the loss, as each is nearest to others at most as near. A loss
    that has fewer digits, or none, has no bound beside it: where groups are near the best, it is the loss.
    """
    if proved.lower_bound is None:
        return {}
    squares = _dominated(statistics.whole, 0, proved.lower_bound)
    bound, sse = None, totals["sse"]
    if sse is not None and not sse.within:
        bound = Rounded(proved.lower_bound)
        if squares.lacking:
            bound = hiding(proved.lower_bound, squares.lacking, decimal.ROUND_FLOOR)
    exact = bound is not None and not bound.within
    looked = {"lower_bound": bound}
    if proved.gap is not None:
        looked["gap"] = Rounded(proved.gap) if exact else None
    if proved.certificate is not None and not exact:
        looked["certificate"] = None
    return looked


def _still_proved(proved: Figures, bound: _Looked) -> Figures:
    withheld = {name for name, rounded in bound.items() if rounded is None}
    told = {name: getattr(proved, name) for name in proved.model_fields_set - withheld}
    return Figures.model_validate(told | _given({name: bound[name] for name in bound.keys() - {"certificate"}}))


def _correlations(statistics: LossStatistics) -> dict[str, Rounded | None]:
    """Publish the changes, as far as they do not tell the groups that move each pair's correlation most.

    A group moves a correlation by its products of differences, and by what it makes of either variance.
    """
    change, places = correlation_changes(statistics)
    if not len(change):
        return {}
    before, lacking = statistics.before, []
    squares = [_dominated(statistics.squares, j).lacking for j in range(len(before.n))]
    for place, i, j in zip(places.tolist(), *(of[places] for of in np.triu_indices(len(squares), 1)), strict=True):
        of_i, of_j = before.squares[i, j], before.squares[j, i]
        products = _dominated(statistics.products, place).lacking / math.sqrt(of_i * of_j)
        lacking.append(products + (squares[i] / of_i + squares[j] / of_j) / 2)
    return {
        "mean": hiding_decimals(float(change.mean()), max(lacking) / len(change)),
        "largest": hiding_decimals(float(change.max()), lacking[int(change.argmax())]),
    }


def _change(statistics: LossStatistics, changes: _Looked, p: int) -> CorrelationChange:
    pairs = len(correlation_changes(statistics)[0])
    return CorrelationChange.model_validate({"pairs": pairs, "left_out": p * (p - 1) // 2 - pairs, **_given(changes)})
