"""Information loss of a partition, as the literature of microaggregation measures it.

SSE is the sum over records of the squared Euclidean distance to the centroid of the record's group, SST that to
the centroid of the file; SDE and SDT are the same with distances not squared. All are taken on attributes
standardized to mean 0 and population variance 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Floats, Ints
from microagg_core.group.bounds import Certificate
from microagg_core.group.metrics.moments import Groups, float_means, moments_of, offsets_from, standardized, steadied
from microagg_core.group.points import AnyPoints, Points


@dataclass(frozen=True)
class Losses:
    """Sums over all records, and the losses they make, in percent.

    ``certificate`` says how far from the least possible the SSE is at most, where the algorithm proves that.
    """

    sse: float
    sst: float
    sde: float
    sdt: float
    certificate: Certificate | None = None

    @property
    def l_sse(self) -> float:
        return percent(self.sse, self.sst)

    @property
    def l_e(self) -> float:
        return percent(self.sde, self.sdt)

    def document(self) -> dict[str, Any]:
        figures = {**vars(self), "l_sse": self.l_sse, "l_e": self.l_e}
        certificate = figures.pop("certificate")
        return figures if certificate is None else {**figures, "certificate": certificate.document()}

    def certified(self, certificate: Certificate) -> Losses:
        return replace(self, certificate=replace(certificate, sse=self.sse))


def percent(part: float, whole: float) -> float:
    """Express a part in percent of the whole; none of nothing is 0, and something of nothing infinite."""
    if whole > 0:
        return 100.0 * part / whole
    return 0.0 if part == 0 else math.inf


def standardize(X: NDArray[Any]) -> Floats:
    """Bring each column of an (n, p) array of finite numbers to mean 0 and variance 1; a constant one to 0.

    Mean and deviation have 24 bits, as in a release and in ``microaggregate``, so that groups of what is returned are
    those that they make.
    """
    moments = [moments_of(np.asarray(column)) for column in X.T]
    offsets = np.stack([offsets_from(column, m.origin) for column, m in zip(X.T, moments, strict=True)], axis=1)
    scale = np.array([steadied(m.origin, m.mean, m.deviation) for m in moments])
    return standardized(offsets, scale[:, 0], scale[:, 1])


def group_means(X: Floats, labels: Ints) -> Floats:
    """Compute the centroid of each group 0..g-1, as (g, p); a group of equal records has exactly that record.

    >>> group_means(np.array([[1.0], [3.0], [0.1], [0.1], [0.1]]), np.array([0, 0, 1, 1, 1])).ravel().tolist()
    [2.0, 0.1]
    """
    groups = Groups.of(labels)
    return np.stack([float_means(column, groups) for column in X.T], axis=1)


def sse_of_labels(X: AnyPoints, labels: Ints) -> float:
    """Add up squared distances of records to their group's centroid, computed from nothing but both."""
    return float(np.sum(squares_within(X, labels)))


def masked_by(X: Floats, labels: Ints) -> Floats:
    """Replace each value of X, an (n, p) array, by its group's mean.

    ``labels`` are group numbers 0..g-1, none of them without a record: one a record, or, where each attribute has
    groups of its own, an (n, p) array of one a record and attribute.

    >>> masked_by(np.array([[1.0, 8.0], [3.0, 8.0], [5.0, 6.0], [7.0, 6.0]]), np.array([0, 0, 1, 1])).tolist()
    [[2.0, 8.0], [2.0, 8.0], [6.0, 6.0], [6.0, 6.0]]
    """
    if labels.ndim == 1:
        return group_means(X, labels)[labels]
    return np.hstack([group_means(X[:, [j]], groups)[groups] for j, groups in enumerate(labels.T)])


def squares_of_codes(codes: Ints, group: Ints) -> Floats:
    """Compute each record's squared distance from its group's centre, where codes that differ are 1 apart, squared.

    Records may stand in any order, and ``group`` numbers each one's group. Those of a group add up to half of its size,
    times the chance that two of its records, drawn with replacement, differ.

    >>> squares_of_codes(np.array([0, 0, 1, 5]), np.array([0, 0, 0, 1])).round(6).tolist()
    [0.111111, 0.111111, 0.444444, 0.0]
    """
    pairs, place, count = np.unique(group * (codes.max() + 1) + codes, return_inverse=True, return_counts=True)
    of_pair, sizes = pairs // (codes.max() + 1), np.bincount(group)
    share = count / sizes[of_pair]
    agreeing = np.bincount(of_pair, share * share, len(sizes))
    return np.asarray((1.0 - 2.0 * share[place.ravel()] + agreeing[group]) / 2)


def squares_within(points: AnyPoints, labels: Ints) -> Floats:
    """Compute the squared distances of records from their groups' centres, as (n, p), by attribute.

    ``labels`` are group numbers as :func:`masked_by` takes them; where some attributes are codes, one a record.
    """
    points = Points.of(points)
    numbers = points.X if points.are_numbers else np.where(points.is_code, 0.0, points.X)
    squares = (numbers - masked_by(numbers, labels)) ** 2
    for j in np.flatnonzero(points.is_code):
        squares[:, j] = points.costs[j] * squares_of_codes(points.X[:, j].astype(np.int64), labels)
    return squares


def losses(X: AnyPoints, labels: Ints) -> Losses:
    """Measure a partition of records, points or an (n, p) array as :func:`standardize` makes it.

    ``labels`` are group numbers as :func:`squares_within` takes them.
    """
    within = np.sum(squares_within(X, labels), axis=1)
    total = np.sum(squares_within(X, np.zeros(len(X), dtype=np.int64)), axis=1)
    return Losses(
        sse=float(within.sum()),
        sst=float(total.sum()),
        sde=float(np.sqrt(within).sum()),
        sdt=float(np.sqrt(total).sum()),
    )
