"""Linear models by least squares from sums alone, before and after, in the units of the columns.

The sums are scaled to correlations and solved by Cholesky's method, variable by variable: one that follows from those
before it is left out. Levels of few records are joined, and what few records decide is left out too: where all records
but a few have one value, a coefficient is what these few have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Bools, Floats
from microagg_core.group.metrics.statistics import significant
from microagg_core.inspect.portrait.contract import Fit, Regression
from microagg_core.inspect.portrait.design import ColumnKey, DesignMoments

#: The level that stands for all rare ones.
OTHER_LEVELS = "other levels"
#: Of a column's variance, what the columns before it leave unexplained at least; less is rounding.
_LEAST_UNEXPLAINED = 1e-10
#: A record that makes more of a column's squares decides the coefficient alone.
_MOST_OF_SQUARES = 0.5
_DIGITS = 9


@dataclass(frozen=True)
class Scaled:
    """How a numeric variable came onto the scale of the sums: what is shown is ``start + step * value``."""

    start: float = 0.0
    step: float = 1.0


@dataclass(frozen=True)
class LinearModel:
    """A formula: names of the outcome and of the terms behind it, and the scale of each; None for categories."""

    formula: str
    names: tuple[str, ...]
    scales: tuple[Scaled | None, ...]


def regression_of(
    model: LinearModel, before: DesignMoments, after: DesignMoments, fewest: int
) -> tuple[Regression | None, list[str]]:
    """A model of the same records before and after; None where they are too few, and sentences on what is left out.

    Args:
        model: the formula.
        before: sums over the records as they came.
        after: the same over them as they are released.
        fewest: records that a level, and whatever decides a coefficient, has at least.
    """
    too_large = [f"{model.formula!r} is not computed, as its values are too large to be computed with"]
    if not (np.isfinite(before.products).all() and np.isfinite(after.products).all()):
        return None, too_large
    joined, bases = _joining(before, model, fewest)
    ours, theirs = _combined(before, joined), _combined(after, joined)
    if ours.n < fewest + len(ours.columns):
        return None, [f"{model.formula!r} is not computed, as too few records have all its values"]
    decided = _decided_by_few(ours, model, fewest)
    if decided[0]:
        return None, [f"{model.formula!r} is not computed, as few records decide what {model.names[0]!r} is"]
    words = [_in_words(model, key) for key in ours.columns[1:]]
    few = [word for word, is_few in zip(words, decided[1:], strict=True) if is_few]
    said = [f"{model.formula!r} is without {word!r}, which few records decide" for word in few]
    fits = [_fit(side, model, ~decided[1:]) for side in (ours, theirs)]
    if any(np.isinf(fit.coefficients + fit.errors).any() or math.isnan(fit.errors[0]) for fit in fits):
        return None, too_large
    return Regression(model.formula, ("constant", *words), fits[0], fits[1], tuple(bases)), said


def _in_words(model: LinearModel, key: ColumnKey) -> str:
    variable, level = key
    name = model.names[variable]
    return name if model.scales[variable] is not None else f"{name}={level}"


# --- Which columns there are ---------------------------------------------------------------------------------


def _joining(moments: DesignMoments, model: LinearModel, fewest: int) -> tuple[dict[ColumnKey, ColumnKey], list[str]]:
    """What each column is in the model, and the bases of categories, which are in none of its columns."""
    becomes = {key: key for key in moments.columns if model.scales[key[0]] is not None}
    bases = []
    for variable, scale in enumerate(model.scales):
        if scale is not None:
            continue
        records = {key: round(moments.n * mean) for key, mean in zip(moments.columns, moments.mean, strict=True)}
        levels = sorted((key[1] for key in moments.columns if key[0] == variable), key=_in_order)
        rare = _rare(levels, [records[variable, level] for level in levels], fewest)
        kept = [level for level in levels if level not in rare] + ([OTHER_LEVELS] if rare else [])
        for level in levels:
            if (other := OTHER_LEVELS if level in rare else level) != kept[0]:
                becomes[variable, level] = (variable, other)
        bases.append(_in_words(model, (variable, kept[0])))
    return becomes, bases


def _in_order(level: str) -> tuple[float, str]:
    """Numbers by their size, before texts."""
    try:
        return float(level), level
    except ValueError:
        return math.inf, level


def _rare(levels: Sequence[str], records: Sequence[int], fewest: int) -> set[str]:
    """Levels that are joined: those of few records, and as many more as make these no longer few."""
    rare: set[str] = set()
    joined = 0
    for count, level in sorted(zip(records, levels, strict=True)):
        if count >= fewest and (not rare or joined >= fewest):
            break
        rare.add(level)
        joined += count
    return rare


def _combined(moments: DesignMoments, becomes: dict[ColumnKey, ColumnKey]) -> DesignMoments:
    """The sums over the columns of the model, the outcome first."""
    columns = sorted(set(becomes.values()), key=lambda key: (key[0], key[1] == OTHER_LEVELS, _in_order(key[1])))
    place = {key: j for j, key in enumerate(columns)}
    parts = np.zeros((len(columns), len(moments.columns)))
    for j, key in enumerate(moments.columns):
        if key in becomes:
            parts[place[becomes[key]], j] = 1.0
    mean, products = parts @ moments.mean, parts @ moments.products @ parts.T
    # Of levels, nobody asks for the ends.
    least, greatest = parts @ moments.least, parts @ moments.greatest
    return DesignMoments(tuple(columns), moments.n, mean, products, least, greatest)


def _decided_by_few(moments: DesignMoments, model: LinearModel, fewest: int) -> Bools:
    """Which columns of numbers few records decide: one by its size, or all that have the rarer of two values."""
    squares, n = np.diag(moments.products), moments.n
    low, high = moments.mean - moments.least, moments.greatest - moments.mean
    numbers = np.array([model.scales[variable] is not None for variable, _ in moments.columns]) & (squares > 0)
    largest = np.maximum(low, high) ** 2 > _MOST_OF_SQUARES * squares
    # Only of values at both ends, and none between, is the variance the product of the distances to them.
    two = np.isclose(squares, n * low * high, rtol=1e-9, atol=0.0)
    rarer = np.divide(n * np.minimum(low, high), low + high, out=np.zeros_like(low), where=low + high > 0)
    return np.asarray(numbers & (largest | (two & (rarer < fewest - 0.5))), dtype=np.bool_)


# --- Solving -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Solved:
    """The slopes of the terms that have one, on the scale of the sums, and what they leave unexplained."""

    kept: list[int]
    slopes: Floats
    covariance: Floats
    #: Of the outcome's variance about the model; and as a share of that about its mean, None where it has none.
    variance: float
    unexplained: float | None


def _solve(moments: DesignMoments, wanted: Bools) -> _Solved:
    """The model over the wanted columns behind the first, which is the outcome."""
    sizes = np.sqrt(np.diag(moments.products))
    areas = np.outer(sizes, sizes)
    scaled = np.divide(moments.products, areas, out=np.zeros_like(areas), where=areas > 0)
    kept = _independent(scaled[1:, 1:], wanted & (sizes[1:] > 0))
    inverse, with_outcome = np.linalg.inv(scaled[1:, 1:][np.ix_(kept, kept)]), scaled[1:, 0][kept]
    slopes = inverse @ with_outcome
    unexplained = max(0.0, 1.0 - float(slopes @ with_outcome)) if sizes[0] > 0 else None
    variance = (unexplained or 0.0) * sizes[0] ** 2 / (moments.n - len(kept) - 1)
    steps = sizes[1:][kept]
    covariance = inverse / np.outer(steps, steps) * variance
    return _Solved(kept, slopes * sizes[0] / steps, covariance, variance, unexplained)


@np.errstate(over="ignore", invalid="ignore")
def _fit(moments: DesignMoments, model: LinearModel, wanted: Bools) -> Fit:
    """The model of one side, in the units of its columns; a term that is not wanted, or follows, has no coefficient."""
    solved, (means, steps) = _solve(moments, wanted), _shown_scale(moments, model)
    kept = [j + 1 for j in solved.kept]
    slopes = solved.slopes * steps[0] / steps[kept]
    covariance = solved.covariance * steps[0] ** 2 / np.outer(steps[kept], steps[kept])
    coefficients, errors = np.full((2, len(means)), np.nan)
    coefficients[0] = means[0] - float(slopes @ means[kept])
    errors[0] = np.sqrt(solved.variance * steps[0] ** 2 / moments.n + means[kept] @ covariance @ means[kept])
    coefficients[kept], errors[kept] = slopes, np.sqrt(np.diag(covariance))
    return Fit(
        records=moments.n,
        coefficients=tuple(significant(one, _DIGITS) for one in coefficients.tolist()),
        errors=tuple(significant(one, _DIGITS) for one in errors.tolist()),
        r_squared=math.nan if solved.unexplained is None else significant(1.0 - solved.unexplained, _DIGITS),
    )


def _shown_scale(moments: DesignMoments, model: LinearModel) -> tuple[Floats, Floats]:
    """Of each column, its mean in its own unit, and how many of these a unit of the sums is."""
    scales = [model.scales[variable] or Scaled() for variable, _ in moments.columns]
    steps = np.array([scale.step for scale in scales])
    return np.array([scale.start for scale in scales]) + steps * moments.mean, steps


def _independent(correlations: Floats, wanted: Bools) -> list[int]:
    """The columns that do not follow from wanted ones before them."""
    kept: list[int] = []
    factor = np.zeros_like(correlations)
    for j in np.flatnonzero(wanted).tolist():
        row = np.zeros(len(kept) + 1)
        for place, other in enumerate(kept):
            row[place] = (correlations[j, other] - row[:place] @ factor[other, :place]) / factor[other, place]
        left = correlations[j, j] - float(row @ row)
        if left > _LEAST_UNEXPLAINED:
            row[-1] = math.sqrt(left)
            factor[j, : len(row)] = row
            kept.append(j)
    return kept
