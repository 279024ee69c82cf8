"""How much of quasi-identifiers some features explain, jointly: shares of variance, beyond what chance gives.

Features are numbers (regressed on, with an intercept), or the levels of a category (whose means are compared). What
they explain of the quasi-identifiers is a matrix, so that of their linear combinations the best explained one is known
too: the largest canonical correlation, squared, or the largest share of scatter that lies between levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats, Ints

#: Directions of the features that vary by less than this share of their greatest are one too many, up to rounding.
_FLAT = 1e-10
#: Degrees of freedom below which a share is chance, for each column that a combination is chosen from.
_LEAST_FREEDOM = 10
#: A category in which fewer records share their level explains nothing: nearly everybody has one of his own.
_LEAST_REPETITION = 0.1


@dataclass(frozen=True)
class Explained:
    """What some features explain of the columns of a matrix of ``n`` rows, beside all that there is of it."""

    explained: Floats
    total: Floats
    n: int
    #: Free numbers in the features, the intercept not among them.
    predictors: int

    def share_of(self, j: int) -> float:
        """The share of column j's variance, adjusted for the predictors (adjusted R squared)."""
        if self.total[j, j] <= _FLAT * self.n:
            return 0.0
        return self._adjusted(float(self.explained[j, j] / self.total[j, j]), 0)

    def best(self) -> float:
        """The share of the linear combination of the columns of which most is explained."""
        values, directions = np.linalg.eigh(self.total)
        kept = values > _FLAT * max(values.max(initial=0.0), self.n * _FLAT)
        if not kept.any():
            return 0.0
        whitening = directions[:, kept] / np.sqrt(values[kept])
        greatest = np.linalg.eigvalsh(whitening.T @ self.explained @ whitening).max()
        return self._adjusted(float(greatest), int(kept.sum()) - 1)

    def of(self, columns: list[int]) -> Explained:
        """The same of some of the columns."""
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
        """Of features and columns, a row a record.

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
        """What some of the features explain."""
        values, directions = np.linalg.eigh(self.of_features[np.ix_(features, features)])
        kept = values > _FLAT * values.max(initial=0.0)
        A = (directions[:, kept] / np.sqrt(values[kept])).T @ self.across[features]
        return Explained(A.T @ A, self.total, self.n, int(kept.sum()))


def explained_by_levels(levels: Ints, columns: Floats) -> Explained:
    """What the levels of a category explain, of the records that share theirs with another.

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
    """The share of y that x explains alone, adjusted; ``lost`` are degrees of freedom that went before.

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
