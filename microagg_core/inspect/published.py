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

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.data.kinds.contract import Claim, Kind
from microagg_core.group.metrics.figures import AttributeFigures, CorrelationChange, Figures, WeightedFigures
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

#: What all but the two largest groups make of a sum is at least this share of what the largest makes. A reader who
#: guesses the rest to within a fifth, from the means beside it, is then off by 21 % of the largest. Most sums are of
#: squares, and 1.1 ** 2 = 1.21: so he is off by a tenth of how far each record lies from its group's mean, at least.
REST_OF_LARGEST = 0.21 / 0.2
#: Digits of a figure that no group dominates.
MOST_DIGITS = 6
_FREE_FOR_TOTALS = 7
_FREE_FOR_ATTRIBUTES = 50


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
    moments: Sequence[Moments],
    proved: Figures,
    weighed: Weighed | None = None,
) -> Figures:
    """Choose the figures that may be published of so many records and groups; ``moments`` are of what is released.

    With survey weights, plain variances and correlations from before tell of the plain means of groups, and these
    beside the weighted ones of single records: neither they nor what they follow from are published.
    """
    free = statistics.records - n_groups
    if free < _FREE_FOR_TOTALS:
        return figures_of_few(statistics.records)
    figures, why = Figures(records=statistics.records), []
    by_attribute = free >= _FREE_FOR_ATTRIBUTES
    attributes = _attributes(statistics, has_variances=weighed is None) if by_attribute else []
    totals = _totals(statistics, attributes)
    bound = _bound(statistics, proved, totals)
    figures |= Figures.model_validate(_given(totals)) | _still_proved(proved, bound)
    looked = {**totals, **bound}
    if by_attribute:
        named = zip(kinds, attributes, moments, strict=True)
        figures |= Figures(
            attributes={kind.name: _with_moments(kind, attribute, after) for kind, attribute, after in named}
        )
        for kind, attribute in zip(kinds, attributes, strict=True):
            looked |= {f"attributes.{kind.name}.{name}": rounded for name, rounded in attribute.figures.items()}
        changes = _correlations(statistics) if len(kinds) > 1 and weighed is None else {}
        if changes:
            figures |= Figures(correlation_change=_change(statistics, changes))
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
    ``lacking`` is what totals have to hide of ``sse`` where nothing is published of it.
    """

    figures: _Looked
    sse: Rounded
    absolute: Rounded
    is_dominated: bool
    lacking: float


def _attributes(statistics: LossStatistics, *, has_variances: bool) -> list[_Attribute]:
    before, losses, attributes = statistics.before, attribute_losses(statistics), []
    for j in range(len(before.n)):
        sst, to_sum = float(before.squares[j, j]), max(float(before.n[j, j]), 1.0) * math.sqrt(2.0)
        squares, differences = (_dominated(sums, j) for sums in (statistics.squares, statistics.differences))
        l_sse = hiding(losses["l_sse"][j], percent(squares.lacking, sst))
        il1s = hiding(losses["il1s"][j], differences.lacking / to_sum)
        # The released variance is there to be computed: the share that is kept of it tells the sum of squares as well.
        kept = None if squares.lacking else hiding(losses["variance_kept"][j], 0.0)
        attributes.append(
            _Attribute(
                figures={"l_sse": l_sse, "il1s": il1s, **({"variance_kept": kept} if has_variances else {})},
                sse=_as_told(l_sse, sst / 100.0, squares),
                absolute=_as_told(il1s, to_sum, differences),
                is_dominated=squares.lacking > 0,
                lacking=0.0 if l_sse else squares.lacking,
            )
        )
    return attributes


def _dominated(sums: Floats, place: int, total: float | None = None) -> Dominated:
    own, first, second = sums[:, place].tolist()
    return Dominated(own if total is None else total, first, second)


def _as_told(figure: Rounded | None, unit: float, true: Dominated) -> Rounded:
    """Take the sum that a coarser figure tells; else the true one."""
    if figure is None or not figure.within:
        return Rounded(true.total)
    return Rounded(figure.value * unit, figure.within * unit)


def _with_moments(kind: Kind, attribute: _Attribute, after: Moments) -> AttributeFigures:
    return AttributeFigures.model_validate(_moments(kind, after).model_dump() | _given(attribute.figures))


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
    lossy = [attribute.absolute for attribute in attributes if attribute.absolute.value]
    # Where one attribute alone loses anything, distances are its differences.
    sde = lossy[0] if len(lossy) == 1 else Rounded(losses.sde)
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


def _change(statistics: LossStatistics, changes: _Looked) -> CorrelationChange:
    pairs, p = len(correlation_changes(statistics)[0]), len(statistics.before.n)
    return CorrelationChange.model_validate({"pairs": pairs, "left_out": p * (p - 1) // 2 - pairs, **_given(changes)})
