"""Linear models by least squares: the spec's ``analyses``, of the records as they came and as they are released.

What a model needs to know of records are sums over its columns, which add up over the files of a release: the mean of
each column and the products of deviations from it, merged by Chan's formula, so that nothing cancels however far from
zero values lie, and what is constant has squares of exactly 0. What is too large to be squared is infinite or NaN in
the sums. A category is a column of zeros and ones for each of its levels.

The sums are scaled to correlations and solved variable by variable: one that follows from those before it is left out.
Levels of few records are joined, and what few records decide is left out too: where all records but a few have one
value, a coefficient is what these few have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.contract import Claim
from microagg_core.data.kinds.registry import kind_of, number_kind_for
from microagg_core.data.tables.hashing import one_array
from microagg_core.group.metrics.moments import standardized
from microagg_core.group.metrics.statistics import significant
from microagg_core.inspect.contract import Promise, ReleasedFile
from microagg_core.inspect.portrait.contract import Fit, Regression
from microagg_core.inspect.portrait.scales import ShownColumn
from microagg_core.plain import PlainFloats
from microagg_core.spec.analyses import formula_columns

#: Levels of a category at most; with more, a model is a list of levels.
MOST_LEVELS = 100
#: The level that stands for all rare ones.
OTHER_LEVELS = "other levels"
#: Of a column's variance, what the columns before it leave unexplained at least; less is rounding.
_LEAST_UNEXPLAINED = 1e-10
#: A record that makes more of a column's squares decides the coefficient alone.
_MOST_OF_SQUARES = 0.5
_DIGITS = 9
#: A column of a design: the place of its variable (0: the outcome), and its level; of numbers "".
ColumnKey: TypeAlias = tuple[int, str]
#: What is shown of a number is the first of these and the second times the value; None: a category.
Scale: TypeAlias = tuple[float, float] | None
AS_IT_IS: Scale = (0.0, 1.0)


@dataclass(frozen=True)
class Variable:
    """A variable of some records: numbers; or, of a category, each record's level as a place among ``levels``."""

    values: Floats | Ints
    levels: tuple[str, ...] | None = None

    @property
    def there(self) -> Bools:
        return np.isfinite(self.values) if self.levels is None else np.asarray(self.values >= 0)

    def taken(self, rows: Ints) -> Variable:
        return Variable(self.values[rows], self.levels)

    @cached_property
    def ends(self) -> Floats:
        """Mean, least and greatest of each column."""
        if self.levels is not None:
            width = len(self.levels)
            share = np.bincount(self.values.astype(np.int64), minlength=width) / len(self.values)
            return np.stack([share, np.zeros(width), np.ones(width)])
        return np.array([[self.values[0] + self._offsets.mean()], [self.values.min()], [self.values.max()]])

    @cached_property
    def _offsets(self) -> Floats:
        return np.asarray(self.values - self.values[0], dtype=np.float64)

    @cached_property
    def deviations(self) -> Floats:
        return np.asarray(self._offsets - self._offsets.mean())

    def products_with(self, other: Variable) -> Floats:
        """Add up products of deviations: a row for each own column, a column for each of the other's."""
        if self.levels is None and other.levels is None:
            # A BLAS would add in an order that depends on its threads.
            return np.array([[np.einsum("i,i->", self.deviations, other.deviations)]])
        if self.levels is None:
            return other.products_with(self).T
        if other.levels is None:
            sums = np.bincount(self.values, other.deviations, len(self.levels))
            return np.asarray(sums.reshape(-1, 1), dtype=np.float64)
        width, other_width = len(self.levels), len(other.levels)
        together = np.bincount(self.values * other_width + other.values, minlength=width * other_width)
        expected = len(self.values) * np.outer(self.ends[0], other.ends[0])
        return np.asarray(together.reshape(width, other_width) - expected)


@dataclass(frozen=True)
class DesignMoments:
    """Sums over some records; two sets combine by addition, and columns that one of them lacks are zero there."""

    columns: tuple[ColumnKey, ...]
    n: int
    mean: PlainFloats
    #: Of the deviations of each two columns from their means.
    products: PlainFloats
    least: PlainFloats
    greatest: PlainFloats

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(cls, variables: Sequence[Variable]) -> DesignMoments:
        """Sum over some records, none of which lacks a value.

        >>> sums = DesignMoments.of([Variable(np.array([1.0, 3.0])), Variable(np.array([0, 1]), ("n", "s"))])
        >>> sums.columns, sums.mean.tolist(), sums.products[0].tolist()
        (((0, ''), (1, 'n'), (1, 's')), [2.0, 0.5, 0.5], [2.0, -1.0, 1.0])
        """
        n = len(variables[0].values)
        if not n:
            return NO_RECORDS
        keys = [(j, level) for j, variable in enumerate(variables) for level in variable.levels or ("",)]
        products = np.block([[a.products_with(b) for b in variables] for a in variables])
        ends = np.concatenate([variable.ends for variable in variables], axis=1)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        mean, least, greatest = ends[:, order]
        return cls(tuple(keys[j] for j in order), n, mean, products[np.ix_(order, order)], least, greatest)

    @np.errstate(over="ignore", invalid="ignore")
    def __add__(self, other: DesignMoments) -> DesignMoments:
        if not (self.n and other.n):
            return self if self.n else other
        columns = sorted({*self.columns, *other.columns})
        becomes = {key: key for key in columns}
        a, b = self.combined(columns, becomes), other.combined(columns, becomes)
        n, apart = a.n + b.n, b.mean - a.mean
        products = a.products + b.products + np.outer(apart, apart) * (a.n * (b.n / n))
        least, greatest = np.minimum(a.least, b.least), np.maximum(a.greatest, b.greatest)
        return DesignMoments(a.columns, n, a.mean + apart * (b.n / n), products, least, greatest)

    def combined(self, columns: Sequence[ColumnKey], becomes: Mapping[ColumnKey, ColumnKey]) -> DesignMoments:
        """Add columns up to others, which some become and others do not; what nothing becomes is zero."""
        place, parts = {key: j for j, key in enumerate(columns)}, np.zeros((len(columns), len(self.columns)))
        for j, key in enumerate(self.columns):
            if key in becomes:
                parts[place[becomes[key]], j] = 1.0
        # Of levels that are added up, nobody asks for the ends.
        mean, least, greatest = (parts @ ends for ends in (self.mean, self.least, self.greatest))
        return DesignMoments(tuple(columns), self.n, mean, parts @ self.products @ parts.T, least, greatest)


NO_RECORDS = DesignMoments((), 0, np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class AnalysisSums:
    """The sums of one formula over the records of files, before and after; or the columns with too many levels."""

    before: DesignMoments
    after: DesignMoments
    too_many: tuple[str, ...] = ()

    def __add__(self, other: AnalysisSums) -> AnalysisSums:
        too_many = tuple(sorted({*self.too_many, *other.too_many}))
        return AnalysisSums(self.before + other.before, self.after + other.after, too_many)


@dataclass(frozen=True)
class LinearModel:
    """A formula: names of the outcome and of the terms behind it, and the scale of each."""

    formula: str
    names: tuple[str, ...]
    scales: tuple[Scale, ...]


def sums_of(file: ReleasedFile, text: str) -> AnalysisSums:
    """Sum over the records of a file that lack none of a formula's values."""
    names = formula_columns(text)
    sides = [_sides(file, name) for name in names]
    too_many = tuple(
        name
        for name, both in zip(names, sides, strict=True)
        if any(len(side.levels or ()) > MOST_LEVELS for side in both)
    )
    if too_many:
        return AnalysisSums(NO_RECORDS, NO_RECORDS, too_many)
    rows = np.flatnonzero(np.logical_and.reduce([side.there for both in sides for side in both]))
    before, after = ([both[i].taken(rows) for both in sides] for i in range(2))
    return AnalysisSums(DesignMoments.of(before), DesignMoments.of(after))


def _sides(file: ReleasedFile, name: str) -> tuple[Variable, Variable]:
    promise, released = file.promise, file.table[name]
    names = [kind.name for kind in promise.kinds]
    came = file.came[names.index(name)] if name in names else released
    if _is_category(promise, name):
        if name not in names:
            return (same := _levels(released)), same
        kind = promise.kinds[names.index(name)]
        ticks, missing = kind.reader.ticks(released)
        if kind.tree is not None:  # a record that got a parent has no level
            missing = missing | (ticks >= kind.tree.n_values)
        return _levels(came), _levels(kind.to_arrow(ticks, missing))
    if name in names:
        return _standardized(promise, names.index(name), came, released)
    same = Variable(ShownColumn(kind_of(name, released.type)).before(released))
    return same, same


def _levels(column: pa.ChunkedArray) -> Variable:
    encoded = one_array(column).cast(pa.string()).dictionary_encode()
    codes = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
    return Variable(codes, tuple(encoded.dictionary.to_pylist()))


def _is_category(promise: Promise, name: str) -> bool:
    """Tell columns that have levels: blocking columns, quasi-identifiers of which no mean is kept, and texts."""
    for kind in promise.kinds:
        if kind.name == name:
            return Claim.MEAN_KEPT not in kind.claims
    (column,) = (column for column in promise.schema.columns if column.name == name)
    return column.role == "blocking" or number_kind_for(column.type) is None


def _standardized(
    promise: Promise, j: int, came: pa.ChunkedArray, released: pa.ChunkedArray
) -> tuple[Variable, Variable]:
    encoding = promise.encoding
    kind, origin = encoding.kinds[j], encoding.origins[j]
    ticks, missing = kind.ticks(came)
    ticks_after, missing_after = kind.reader.ticks(released)
    offsets = np.stack([kind.offsets(ticks, origin), kind.released_offsets(ticks_after, origin)], axis=1)
    z = standardized(offsets, np.array([encoding.means[j]] * 2), np.array([encoding.deviations[j]] * 2))
    z[missing, 0], z[missing_after, 1] = np.nan, np.nan
    return Variable(z[:, 0]), Variable(z[:, 1])


def regressions_of(promise: Promise, sums: Sequence[AnalysisSums], fewest: int) -> tuple[list[Regression], list[str]]:
    """Fit all formulas from their sums; and sentences on what is left out."""
    models, left_out = [], []
    for text, of_formula in zip(promise.analyses, sums, strict=False):
        if of_formula.too_many:
            column = of_formula.too_many[0]
            left_out.append(f"{text!r} is not computed, as {column!r} has more than {MOST_LEVELS} levels")
            continue
        names = formula_columns(text)
        model = LinearModel(text, names, tuple(_scale(promise, name) for name in names))
        regression, remarks = regression_of(model, of_formula.before, of_formula.after, fewest)
        models += [] if regression is None else [regression]
        left_out += remarks
    return models, left_out


def _scale(promise: Promise, name: str) -> Scale:
    encoding, names = promise.encoding, [kind.name for kind in promise.kinds]
    if _is_category(promise, name):
        return None
    if name not in names:
        return AS_IT_IS
    j = names.index(name)
    ticks = encoding.kinds[j].ticks_of_value
    return (float(encoding.origins[j]) + encoding.means[j]) / ticks, encoding.deviations[j] / ticks


def regression_of(
    model: LinearModel, before: DesignMoments, after: DesignMoments, fewest: int
) -> tuple[Regression | None, list[str]]:
    """Fit the same records before and after; None where they are too few; and sentences on what is left out.

    ``fewest`` are the records that a level, and whatever decides a coefficient, has at least.
    """
    too_large = [f"{model.formula!r} is not computed, as its values are too large to be computed with"]
    if not (np.isfinite(before.products).all() and np.isfinite(after.products).all()):
        return None, too_large
    joined, bases = _joining(before, model, fewest)
    columns = sorted(set(joined.values()), key=lambda key: (key[0], key[1] == OTHER_LEVELS, _in_order(key[1])))
    ours, theirs = before.combined(columns, joined), after.combined(columns, joined)
    if ours.n < fewest + len(ours.columns):
        return None, [f"{model.formula!r} is not computed, as too few records have all its values"]
    decided = _decided_by_few(ours, model, fewest)
    if decided[0]:
        return None, [f"{model.formula!r} is not computed, as few records decide what {model.names[0]!r} is"]
    words = [_in_words(model, key) for key in ours.columns[1:]]
    few = [word for word, is_few in zip(words, decided[1:], strict=True) if is_few]
    remarks = [f"{model.formula!r} is without {word!r}, which few records decide" for word in few]
    fits = [_fit(side, model, ~decided[1:]) for side in (ours, theirs)]
    if any(np.isinf(fit.coefficients + fit.errors).any() or math.isnan(fit.errors[0]) for fit in fits):
        return None, too_large
    return Regression(model.formula, ("constant", *words), fits[0], fits[1], tuple(bases)), remarks


def _in_words(model: LinearModel, key: ColumnKey) -> str:
    variable, level = key
    name = model.names[variable]
    return name if model.scales[variable] is not None else f"{name}={level}"


def _joining(moments: DesignMoments, model: LinearModel, fewest: int) -> tuple[dict[ColumnKey, ColumnKey], list[str]]:
    """Map each column to that of the model; and list the bases of categories, which are in none of its columns."""
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


def _decided_by_few(moments: DesignMoments, model: LinearModel, fewest: int) -> Bools:
    """Find columns of numbers that few records decide: one by its size, or all that have the rarer of two values."""
    squares, n = np.diag(moments.products), moments.n
    low, high = moments.mean - moments.least, moments.greatest - moments.mean
    numbers = np.array([model.scales[variable] is not None for variable, _ in moments.columns]) & (squares > 0)
    largest = np.maximum(low, high) ** 2 > _MOST_OF_SQUARES * squares
    # Only of values at both ends, and none between, is the variance the product of the distances to them.
    two = np.isclose(squares, n * low * high, rtol=1e-9, atol=0.0)
    rarer = np.divide(n * np.minimum(low, high), low + high, out=np.zeros_like(low), where=low + high > 0)
    return np.asarray(numbers & (largest | (two & (rarer < fewest - 0.5))), dtype=np.bool_)


@np.errstate(over="ignore", invalid="ignore")
def _fit(moments: DesignMoments, model: LinearModel, wanted: Bools) -> Fit:
    """Fit one side, in the units of its columns; a term that is not wanted, or follows, has no coefficient."""
    sizes = np.sqrt(np.diag(moments.products))
    areas = np.outer(sizes, sizes)
    scaled = np.divide(moments.products, areas, out=np.zeros_like(areas), where=areas > 0)
    independent = _independent(scaled[1:, 1:], wanted & (sizes[1:] > 0))
    inverse = np.linalg.inv(scaled[1:, 1:][np.ix_(independent, independent)])
    with_outcome, kept = scaled[1:, 0][independent], [j + 1 for j in independent]
    slopes = inverse @ with_outcome
    unexplained = max(0.0, 1.0 - float(slopes @ with_outcome)) if sizes[0] > 0 else None
    variance = (unexplained or 0.0) * sizes[0] ** 2 / (moments.n - len(kept) - 1)
    covariance = inverse / np.outer(sizes[kept], sizes[kept]) * variance
    starts, steps = np.array([model.scales[variable] or AS_IT_IS for variable, _ in moments.columns]).T
    means = starts + steps * moments.mean
    slopes = slopes * sizes[0] / sizes[kept] * steps[0] / steps[kept]
    covariance = covariance * steps[0] ** 2 / np.outer(steps[kept], steps[kept])
    coefficients, errors = np.full((2, len(means)), np.nan)
    coefficients[0] = means[0] - float(slopes @ means[kept])
    errors[0] = np.sqrt(variance * steps[0] ** 2 / moments.n + means[kept] @ covariance @ means[kept])
    coefficients[kept], errors[kept] = slopes, np.sqrt(np.diag(covariance))
    return Fit(
        records=moments.n,
        coefficients=tuple(significant(value, _DIGITS) for value in coefficients.tolist()),
        errors=tuple(significant(value, _DIGITS) for value in errors.tolist()),
        r_squared=math.nan if unexplained is None else significant(1.0 - unexplained, _DIGITS),
    )


def _independent(correlations: Floats, wanted: Bools) -> list[int]:
    """Choose the columns that do not follow from wanted ones before them."""
    kept, unexplained = [], correlations.copy()
    for j in np.flatnonzero(wanted).tolist():
        if unexplained[j, j] > _LEAST_UNEXPLAINED:
            kept.append(j)
            unexplained -= np.outer(unexplained[j] / unexplained[j, j], unexplained[j])
    return kept
