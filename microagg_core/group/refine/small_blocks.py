"""Small blocks, many at once: the groups and bounds that each would have alone, in a tenth of the time."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Bools, Floats, Ints, ShortInts, UInt64s
from microagg_core.errors import DataError
from microagg_core.group.bounds import floats_in_units, rounded_down
from microagg_core.group.costs import annealing_sweeps, factor_is_affordable
from microagg_core.group.labels import checked_labels, exponents_for
from microagg_core.group.metrics.losses import squares_within
from microagg_core.group.points import Points
from microagg_core.group.refine.annealing import QUANTILES, padded, rebuild_every
from microagg_core.group.refine.packing import packed
from microagg_core.group.refine.refinement import neighbour_count, way_of
from microagg_core.kernels.refinement.nearest_lists import FEW
from microagg_core.kernels.refinement.small_blocks import anneal_blocks, order_blocks
from microagg_core.kernels.scan.mdav import peel
from microagg_core.kernels.tools.random_draws import random_states
from microagg_core.kernels.tools.threads import each
from microagg_core.kernels.values import Values

#: Records that a thread takes at a time, or a block.
_ROWS_AT_ONCE = 20_000
#: Codes below this are packed alike whatever other blocks have.
_ONE_BYTE = 256


class SmallBlock(NamedTuple):
    """Groups of one block, from 0, as made and as refined (the same array where nothing was gained), and a bound."""

    labels: Ints
    refined: Ints
    lower_bound: float


def are_small(sizes: Ints, points: Points, k: int, effort: str | float, proving: bool) -> Bools:
    """Say which blocks of points, grouped by MDAV, are made the same here; what proves more goes the long way."""
    p = points.shape[1]
    are_packed_alike = points.X[:, points.is_code].max(initial=0) < _ONE_BYTE
    if effort not in ("off", "fast") or not are_packed_alike or (proving and factor_is_affordable(k, p, k)):
        return np.zeros(len(sizes), dtype=np.bool_)
    # Of so few, MDAV has no use for a tree: see ``tree_pays``.
    return np.asarray(sizes < FEW)


def group_small_blocks(
    Z: Points, measured: Points, starts: Ints, k: int, effort: str, seeds: UInt64s, *, proving: bool = True
) -> list[SmallBlock]:
    """Group blocks by MDAV, refine them off or fast, and prove the neighbour bound, as for each of them alone.

    ``Z`` are the records on the scale on which groups are made, ``measured`` on that on which they are refined and what
    they lose is proved; without ``proving`` bounds are not numbers. Those of a block, at least k, are from one of the
    ``starts`` to the next.
    """
    if not (np.isfinite(Z.X).all() and np.isfinite(measured.X).all()):
        raise DataError("the records hold missing or infinite values; remove or replace them first")
    first = np.unique(starts[:-1] // _ROWS_AT_ONCE, return_index=True)[1].tolist()
    made: dict[int, list[SmallBlock]] = {}

    def group(which: tuple[int, int]) -> None:
        own = starts[which[0] : which[1] + 1]
        rows = slice(own[0], own[-1])
        made_on, on = (_Scaled.of(points.rows(rows).numbers_first(), own - own[0]) for points in (Z, measured))
        made[which[0]] = _made(made_on, on, k, effort, seeds[slice(*which)], proving)

    each(group, list(pairwise([*first, len(starts) - 1])))
    return [block for start in first for block in made[start]]


class _Scaled(NamedTuple):
    """Records of blocks, numbers first; each block's numbers are multiplied by a power of two, costs are not."""

    points: Points
    starts: Ints
    #: Of each block, that of its power.
    exponents: Ints

    @classmethod
    def of(cls, points: Points, starts: Ints) -> _Scaled:
        largest = np.maximum.reduceat(np.abs(points.X[:, ~points.is_code]).max(axis=1), starts[:-1])
        exponents = exponents_for(np.maximum(largest, math.sqrt(points.costs.max())))
        X = np.ldexp(points.X, np.repeat(exponents, np.diff(starts))[:, None])
        return cls(Points(np.where(points.is_code, points.X, X), points.costs), starts, exponents)

    @property
    def values(self) -> Values:
        return Values(np.ascontiguousarray(self.points.X.T), self.points.costs[self.points.is_code])

    @property
    def costs(self) -> Floats:
        """Those of codes, multiplied for each block."""
        return np.ldexp(self.values.costs, 2 * self.exponents[:, None])

    def taken(self, order: Ints) -> _Scaled:
        """Put the records of each block in an order."""
        return self._replace(points=self.points.rows(order + np.repeat(self.starts[:-1], np.diff(self.starts))))

    def squares(self, labels: Ints) -> list[float]:
        """Add up what groups lose, block by block, each numbered from 0 within its block."""
        n_groups = np.maximum.reduceat(labels, self.starts[:-1]) + 1
        own = labels + np.repeat(np.cumsum(n_groups) - n_groups, np.diff(self.starts))
        lost = squares_within(self.points, own)
        if not self.points.are_numbers:
            powers = np.repeat(2 * self.exponents, np.diff(self.starts))
            lost[:, self.points.is_code] = np.ldexp(lost[:, self.points.is_code], powers[:, None])
        return [float(np.sum(lost[rows])) for rows in self.blocks]

    @property
    def blocks(self) -> list[slice]:
        return [slice(*pair) for pair in pairwise(self.starts.tolist())]


def _made(made_on: _Scaled, on: _Scaled, k: int, effort: str, seeds: UInt64s, proving: bool) -> list[SmallBlock]:
    (n, p), starts, sizes = on.points.shape, on.starts, np.diff(on.starts).tolist()
    counts = np.array([k - 1 if effort == "off" else max(k - 1, neighbour_count(size, k)) for size in sizes])
    order, near, sums = np.zeros(n, dtype=np.int64), np.zeros((n, counts.max()), dtype=np.int32), np.empty(n)
    if proving or effort != "off":
        order_blocks(on.values, on.costs, starts, k, counts, order, near, sums)
    plain, bounds = [], np.full(len(sizes), np.nan)
    X, costs = made_on.values.X, made_on.costs
    for b, (size, rows) in enumerate(zip(sizes, on.blocks, strict=True)):
        if proving:
            total = math.fsum(sums[rows].tolist()) / (2 * (k if size >= 2 * k else size))
            bounds[b] = rounded_down(total, p if size >= 2 * k else size + p)
        labels = peel(Values(X[:, rows].copy(), costs[b]), k, 2 * k)
        plain.append(checked_labels(labels, (k, 2 * k - 1), "mdav"))
    refined = plain
    if effort != "off":
        refined = _refined(on.taken(order), plain, order, near, counts, k, seeds)
    return [SmallBlock(*of) for of in zip(plain, refined, floats_in_units(bounds, on.exponents).tolist(), strict=True)]


def _refined(
    placed: _Scaled, given: list[Ints], order: Ints, near: ShortInts, counts: Ints, k: int, seeds: UInt64s
) -> list[Ints]:
    """Refine groups of records, which stand by place; returns the very array that came in where nothing was gained."""
    points, codes = placed.points, placed.points.shape[1] - placed.points.n_numbers
    by_place = zip(given, placed.blocks, strict=True)
    start = np.concatenate([checked_labels(own[order[rows]], (k, None), "mdav") for own, rows in by_place])
    least = placed.squares(start)
    sweeps = [
        annealing_sweeps("fast", len(own), points.shape[1], k, codes) if len(own) >= 2 * k and sse > 0 else 0
        for own, sse in zip(given, least, strict=True)
    ]
    annealed, (words, worth) = start.copy(), packed(points)
    hottest, power, downhill = way_of("fast", k)
    worths = np.ldexp(worth, 2 * placed.exponents[:, None, None])
    blocks = (placed.starts, counts, k, np.array(sweeps))
    way = (hottest, power, rebuild_every(k), downhill)
    anneal_blocks(padded(points), words, worths, annealed, near, *blocks, way, QUANTILES, random_states(seeds))
    refined = []
    for own, rows, sse, before in zip(given, placed.blocks, placed.squares(annealed), least, strict=True):
        better = own
        if sse < before:
            better = np.empty_like(own)
            better[order[rows]] = annealed[rows]
            better = checked_labels(better, (k, None), "refinement")
        refined.append(better)
    return refined
