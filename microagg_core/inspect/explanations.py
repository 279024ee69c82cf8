"""How far confidential columns tell quasi-identifiers: what features explain, and what completes released means.

Features are numbers (regressed on, with an intercept), or the levels of a category (whose means are compared). What
they explain of the quasi-identifiers is a matrix, so that of their linear combinations the best explained one is known
too: the largest canonical correlation, squared, or the largest share of scatter that lies between levels. Shares of
variance are beyond what chance gives.

The last digits of an income, a birthday without its year, the distance from a median leave some values of the
quasi-identifier, and the group's mean says which of them it is. The outsider who is played here looks at the records
whose confidential value is the same, or next to it, and takes the quasi-identifier that is nearest to the mean. How
often that is nearly the record's own is compared with a column that has nothing to do with the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.inspect.disclosures import Disclosure

#: Directions of the features that vary by less than this share of their greatest are one too many, up to rounding.
_FLAT = 1e-10
#: Degrees of freedom below which a share is chance, for each column that a combination is chosen from.
_LEAST_FREEDOM = 10
#: A category in which fewer records share their level explains nothing: nearly everybody has one of his own.
_LEAST_REPETITION = 0.1
#: Of records beyond chance. Columns of real files that complete nothing are below 0.2, digits and copies of most
#: records mostly above 0.4.
COMPLETES = 0.25
TOLD_COMPLETES = 0.2
#: Records on either side, in the order of the confidential column, that are looked at: few for a copy in part of the
#: file, where others are off; many for digits, where each value leaves as many branches as it has records.
_WINDOWS = (2, 8, 64)
#: Nearly: a fifth of what the means are off on average. Nearer than that the mean alone need not be completed.
_NEARLY = 0.2
#: Of the drawn records so many are looked at, which takes a hundredth of a second a column beside some others.
_MOST_RECORDS = 5000
#: Means that are narrower by less than this are tried once.
_AS_NARROW = 0.8
#: Of fewer records whose mean is off, most are told by chance in some window often enough.
_LEAST_ASKED = 30


@dataclass(frozen=True)
class Explained:
    """What some features explain of the columns of a matrix of ``n`` rows, beside all that there is of it."""

    explained: Floats
    total: Floats
    n: int
    #: Free numbers in the features, the intercept not among them.
    predictors: int

    def share_of(self, j: int) -> float:
        """Share of column j's variance, adjusted for the predictors (adjusted R squared)."""
        if self.total[j, j] <= _FLAT * self.n:
            return 0.0
        return self._adjusted(float(self.explained[j, j] / self.total[j, j]), 0)

    def best(self) -> float:
        """Share of the linear combination of the columns of which most is explained."""
        values, directions = np.linalg.eigh(self.total)
        kept = values > _FLAT * max(values.max(initial=0.0), self.n * _FLAT)
        if not kept.any():
            return 0.0
        whitening = directions[:, kept] / np.sqrt(values[kept])
        greatest = np.linalg.eigvalsh(whitening.T @ self.explained @ whitening).max()
        return self._adjusted(float(greatest), int(kept.sum()) - 1)

    def of(self, columns: list[int]) -> Explained:
        place = np.ix_(columns, columns)
        return Explained(self.explained[place], self.total[place], self.n, self.predictors)

    def _adjusted(self, share: float, more: int) -> float:
        freedom = self.n - 1 - self.predictors - more
        if freedom < _LEAST_FREEDOM * (1 + more):
            return 0.0
        return min(1.0, max(0.0, 1.0 - (1.0 - share) * (self.n - 1) / freedom))


@dataclass(frozen=True)
class Normal:
    """The normal equations of centred columns on centred features: what any of the features explain follows."""

    of_features: Floats
    across: Floats
    total: Floats
    n: int

    @classmethod
    def of(cls, features: Floats, columns: Floats) -> Normal:
        """Centre features and columns, a row a record.

        >>> x = np.arange(20.0)
        >>> normal = Normal.of(np.column_stack([x, x**2]), (3 * x + 1)[:, None])
        >>> round(normal.explained([0]).share_of(0), 9), normal.explained([]).share_of(0)
        (1.0, 0.0)
        """
        if not len(columns):
            f, q = features.shape[1], columns.shape[1]
            return cls(np.zeros((f, f)), np.zeros((f, q)), np.zeros((q, q)), 0)
        F, Y = _unit(features), columns - columns.mean(axis=0)
        return cls(F.T @ F, F.T @ Y, Y.T @ Y, len(Y))

    def explained(self, features: list[int]) -> Explained:
        values, directions = np.linalg.eigh(self.of_features[np.ix_(features, features)])
        kept = values > _FLAT * values.max(initial=0.0)
        A = (directions[:, kept] / np.sqrt(values[kept])).T @ self.across[features]
        return Explained(A.T @ A, self.total, self.n, int(kept.sum()))


def explained_by_levels(levels: Ints, columns: Floats) -> Explained:
    """Explain columns by the levels of a category, over the records that share theirs with another.

    >>> explained_by_levels(np.arange(60) % 3, (np.arange(60.0) % 3)[:, None]).share_of(0)
    1.0
    """
    _, codes, counts = np.unique(levels, return_inverse=True, return_counts=True)
    shared = counts[codes] > 1
    if shared.sum() < max(1, _LEAST_REPETITION * len(columns)):
        return Explained(np.zeros((columns.shape[1],) * 2), np.eye(columns.shape[1]), len(columns), 0)
    _, codes, counts = np.unique(codes[shared], return_inverse=True, return_counts=True)
    Y = columns[shared] - columns[shared].mean(axis=0)
    sums = np.column_stack([np.bincount(codes, y) for y in Y.T])
    return Explained(sums.T @ (sums / counts[:, None]), Y.T @ Y, len(Y), len(counts) - 1)


def squared_correlation(x: Floats, y: Floats, lost: int = 0) -> float:
    """Share of y that x explains alone, adjusted; ``lost`` are degrees of freedom that went before.

    >>> round(squared_correlation(np.arange(30.0), 7 - 2 * np.arange(30.0)), 9)
    1.0
    """
    if len(x) < 2:
        return 0.0
    both = Normal.of(x[:, None], y[:, None]).explained([0])
    return Explained(both.explained, both.total, both.n, both.predictors + lost).share_of(0)


def _unit(features: Floats) -> Floats:
    """Centred features at a deviation of 1; constant ones are 0."""
    centred = features - features.mean(axis=0)
    deviations = np.sqrt(np.square(centred).mean(axis=0))
    scale = np.abs(features).max(axis=0, initial=0.0)
    # What a constant has after centring is rounding of its size.
    return np.where(deviations > 1e-12 * scale, centred / np.where(deviations > 0, deviations, 1.0), 0.0)


@dataclass(frozen=True)
class Completion:
    """Share of records whose quasi-identifier a column and the means tell nearly, beside that by chance."""

    share: float = 0.0
    by_chance: float = 0.0
    #: Records of which that was asked: all whose mean does not tell it alone.
    asked: int = 0

    @property
    def beyond_chance(self) -> float:
        return self.share - self.by_chance - 1 / math.sqrt(max(1, self.asked))


class DrawnMeans:
    """Quasi-identifiers of drawn records, and means as a release would have them.

    Groups of the drawn records, which are in the order of their hashes, are wider than those of all. In small blocks
    they are about as wide, in one block of all they are narrower as there are more records: both are tried.
    """

    def __init__(self, Z: Floats, k: int, n_records: int) -> None:
        Z = Z[:_MOST_RECORDS]
        self._p = Z.shape[1]
        medians = np.nanmedian(np.where(np.isnan(Z).all(axis=0), 0.0, Z), axis=0)
        means = pd.DataFrame(Z).groupby(halved(np.where(np.isnan(Z), medians, Z), k)).transform("mean").to_numpy()
        narrower = min(1.0, len(Z) / max(1, n_records)) ** (1 / self._p)
        widths = (1.0, narrower) if narrower < _AS_NARROW else (1.0,)
        self._guesses = [_Guesses(Z, Z + width * (means - Z)) for width in widths]
        # Seeded, and of records in the order of their hashes: the same whoever works.
        self._shuffled = np.random.default_rng(0).permutation(len(Z))
        self._by_chance = [guesses.hits(self._shuffled) for guesses in self._guesses]

    def completions(self, numbers: Floats, levels: Ints) -> list[Completion]:
        """Measure what a column completes of each quasi-identifier; without a number, by the hashes of its values."""
        numbers, levels = numbers[:_MOST_RECORDS], levels[:_MOST_RECORDS]
        order = self._shuffled[np.lexsort((levels[self._shuffled], numbers[self._shuffled]))]
        is_number = ~np.isnan(numbers)
        counted = is_number if is_number.any() else ~is_number
        tried: list[list[Completion]] = [[Completion()] for _ in range(self._p)]
        for guesses, by_chance in zip(self._guesses, self._by_chance, strict=True):
            asked = guesses.is_off & counted[:, None]
            for hits, chance in zip(guesses.hits(order), by_chance, strict=True):
                for j in np.flatnonzero(asked.sum(axis=0) >= _LEAST_ASKED):
                    rows = asked[:, j]
                    shares = float(hits[rows, j].mean()), float(chance[rows, j].mean())
                    tried[j].append(Completion(*shares, int(rows.sum())))
        return [max(of_column, key=lambda completion: completion.beyond_chance) for of_column in tried]


def completed_means(name: str, quasi: Sequence[str], completions: Sequence[Completion]) -> Iterator[Disclosure]:
    """Disclose the quasi-identifiers that a column completes as far as is refused, or else told."""
    for level in (COMPLETES, TOLD_COMPLETES):
        names = tuple(q for q, completion in zip(quasi, completions, strict=True) if completion.beyond_chance >= level)
        if names:
            most = max(completions, key=lambda completion: completion.beyond_chance)
            is_refused = level == COMPLETES
            yield Disclosure("completes_mean", (name,), most.share, is_refused, names, by_chance=most.by_chance)
            return


class _Guesses:
    def __init__(self, Z: Floats, means: Floats) -> None:
        self._Z, self._means = Z, means
        errors = np.abs(Z - means)
        self._nearly = _NEARLY * np.nanmean(np.where(np.isnan(errors).all(axis=0), 0.0, errors), axis=0)
        #: Whose mean does not tell it alone (records x p).
        self.is_off: Bools = errors > self._nearly

    def hits(self, order: Ints) -> list[Bools]:
        """Find records whose value each window in an order nearly tells (records x p)."""
        values, means = self._Z[order], self._means[order]
        nearest, picked = np.full(values.shape, np.inf), np.full(values.shape, np.nan)
        windows = []
        for shift in range(1, _WINDOWS[-1] + 1):
            for here, other in ((slice(shift, None), slice(-shift)), (slice(-shift), slice(shift, None))):
                distances = np.abs(values[other] - means[here])
                is_nearer = distances < nearest[here]  # never, where one is missing
                np.copyto(nearest[here], distances, where=is_nearer)
                np.copyto(picked[here], values[other], where=is_nearer)
            if shift in _WINDOWS:
                hits = np.empty(values.shape, dtype=np.bool_)
                hits[order] = np.abs(picked - values) <= self._nearly
                windows.append(hits)
        return windows


def halved(points: Floats, k: int) -> Ints:
    """Group points by halving at medians, each time along the widest column; groups have k to 2k of them.

    >>> halved(np.array([[1.0], [9.0], [2.0], [8.0], [3.0]]), 2).tolist()
    [0, 1, 0, 1, 1]
    """
    groups = np.zeros(len(points), dtype=np.int64)
    for _ in range(int(math.log2(max(1.0, len(points) / k)))):
        of_groups = pd.DataFrame(points).groupby(groups)
        widest = (of_groups.max() - of_groups.min()).to_numpy().argmax(axis=1)
        order = np.lexsort((points[np.arange(len(points)), widest[groups]], groups))
        sizes = np.bincount(groups)
        place = np.empty(len(points), dtype=np.int64)
        place[order] = np.arange(len(points))
        groups = 2 * groups + (place - (np.cumsum(sizes) - sizes)[groups] >= sizes[groups] // 2)
    return groups
