"""Drawing: for each k the blocks that a plan with it would have, and those of them that are looked at.

Blocks are drawn with chances like the roots of their sizes, as a small block costs little to look at and its records
lose much: by points at equal distances along all blocks in the order of their size, so that large and small ones are
met. What is met stands for the more records the smaller its chances were; what is met twice counts twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.algorithms import AlgorithmInfo, algorithms
from microagg_core.arrays import Floats, Ints
from microagg_core.blocking.cuts import next_cut
from microagg_core.blocking.holding import Holding
from microagg_core.blocking.plan import default_max_records
from microagg_core.blocking.strata import Strata, StrataRules, plan_strata
from microagg_core.compiling import grouping_parts, needed_parts
from microagg_core.errors import DataError
from microagg_core.steps.oversize import Passes, surveyed_samples
from microagg_core.steps.sampling import uniform
from microagg_core.steps.survey import Survey
from microagg_core.steps.work import Context

#: Records that are grouped for one k: enough blocks for a loss that is off by some percent. Smaller inputs are whole.
MOST_ROWS = 60_000
#: What grouping them for all k takes on one core, by the algorithm's own model.
SECONDS = 10.0
#: A larger block is met in pieces: of too few large blocks one would stand for all.
_PIECE_ROWS = 2_000
#: A piece has so many groups at least, or most of them would lie at its border.
_PIECE_GROUPS = 40
#: At most so many blocks: each costs a millisecond or two, whatever is in it.
_MOST_POINTS = 1_024
#: From one number of points that takes too long to the next.
_FEWER = 0.8
#: With more blocking keys, planning for another k takes as long as the plan itself; then only the k asked is looked at.
_MOST_KEYS = 500_000


@dataclass(frozen=True)
class Step:
    """A cut on the way to a piece: records with ``x[attribute] <= threshold`` lie to its left."""

    attribute: int
    threshold: float
    goes_left: bool


@dataclass(frozen=True)
class DrawnBlock:
    """A block that is looked at, or a piece of one; and the part of all records that it stands for."""

    stratum: int
    #: Of the stratum's records those behind these cuts; without cuts all.
    path: tuple[Step, ...]
    #: The number of the block, which makes its seed.
    block: int
    label: int
    #: Records that it stands for, but for a factor.
    weight: float


@dataclass(frozen=True)
class LookAhead:
    """What is looked at for one k."""

    k: int
    hash_seed: int
    #: Released by a plan with this k, and not.
    records: int
    withheld: int
    #: Whether it is everything that would be released.
    is_whole: bool
    units: tuple[DrawnBlock, ...]


@dataclass(frozen=True)
class Drafts:
    """For each k what is looked at, the routes of its keys, and why other k are not looked at."""

    drafts: tuple[LookAhead, ...]
    routes: tuple[pa.Table, ...]
    left_out: tuple[str, ...]


def neighbours(k: int) -> tuple[int, ...]:
    """The k asked between a smaller and a larger one.

    >>> neighbours(5), neighbours(3), neighbours(2)
    ((2, 5, 10), (2, 3, 6), (2, 4))
    """
    return tuple(sorted({max(2, k // 2), k, 2 * k}))


def draw_blocks(
    context: Context, survey: Survey, keys: pa.Table, passes: Passes, hold: Holding | None = None
) -> Drafts:
    """What is looked at for the k asked and its neighbours; the same whoever asks, and wherever.

    ``hold`` says which records of a first night wait for more.
    """
    asked = context.spec.k
    wanted = neighbours(asked) if keys.num_rows <= _MOST_KEYS else (asked,)
    many = f"only k={asked} is looked at, as there are more than {_MOST_KEYS:,} blocking keys"
    left_out = [] if len(wanted) > 1 else [many]
    drafts, routes = [], []
    for k in wanted:
        try:
            draft, of_keys = _Drawing.of(context, survey, keys, passes, k, SECONDS / len(wanted), hold).draft()
        except DataError as error:
            left_out.append(f"k={k}: {error.message}")
            continue
        drafts.append(draft)
        routes.append(of_keys)
    return Drafts(tuple(drafts), tuple(routes), tuple(left_out))


def _refuse_other(context: Context, info: AlgorithmInfo, k: int) -> None:
    """Stop where another k is none of the algorithm's, or needs code that the release does not."""
    spec = context.spec
    if problem := info.refuses(k, len(context.kinds)):
        raise DataError(problem)
    more = set(grouping_parts(info.name, spec.effort, k)) - set(needed_parts(info.name, spec.effort, spec.k))
    if more:
        raise DataError(f"would need kernels that k={spec.k} does not, and nothing is compiled for a look ahead")


@dataclass(frozen=True)
class _Drawing:
    """What is known when blocks are drawn for one k."""

    context: Context
    survey: Survey
    passes: Passes
    info: AlgorithmInfo
    strata: Strata
    k: int
    seconds: float

    @classmethod
    def of(
        cls,
        context: Context,
        survey: Survey,
        keys: pa.Table,
        passes: Passes,
        k: int,
        seconds: float,
        hold: Holding | None,
    ) -> _Drawing:
        """Plan strata for this k."""
        spec, schema = context.spec, context.schema
        info = algorithms()[spec.algorithm.name].with_costs_of(spec.algorithm.parameters).with_refinement(spec.effort)
        _refuse_other(context, info, k)
        released = {c.name: t for c, t in zip(schema.released, schema.released_types, strict=True)}
        rules = StrataRules(k, spec.blocks.undersized, spec.blocks.labels, spec.blocks.totals_known)
        strata = plan_strata(keys, rules, [released[c.name] for c in schema.blocking], hold)
        return cls(context, survey, passes, info, strata, k, seconds)

    def draft(self) -> tuple[LookAhead, pa.Table]:
        """What is looked at, and the routes of its keys."""
        limit = self._limit
        whole = self._everything(limit) if int(self.strata.rows.sum()) <= MOST_ROWS else None
        units = self._some(limit) if whole is None else whole
        if not units:
            raise DataError("blocks are larger than what is looked at")
        strata = self.strata
        draft = LookAhead(
            self.k,
            strata.hash_seed,
            int(strata.rows.sum()),
            strata.suppressed_rows,
            whole is not None,
            tuple(units),
        )
        mine = np.isin(strata.stratum_of_hash, [unit.stratum for unit in units])
        return draft, pa.table({"hash": strata.key_hashes[mine], "stratum": strata.stratum_of_hash[mine]})

    @property
    def _limit(self) -> int:
        """The largest block of a plan."""
        row_bytes, p = self.survey.row_bytes, len(self.context.kinds)
        limit = self.context.spec.blocks.max_records or default_max_records(self.info, p, self.k, row_bytes)
        least = int(self.strata.rows.max())
        if limit >= least and (problem := self.info.refuses_records(least)):
            raise DataError(problem)
        return limit

    def _cost(self, rows: float) -> float:
        return self.info.cost_seconds(max(int(rows), self.k), len(self.context.kinds), self.k)

    def _samples(self, strata: Ints) -> dict[int, Floats]:
        """What the survey drew of these strata."""
        if not len(strata):
            return {}
        return surveyed_samples(self.context, self.strata, self.survey, strata, self.passes)[1]

    # --- All of it ---

    def _everything(self, limit: int) -> list[DrawnBlock] | None:
        """All blocks of a plan, numbered as there; None where they take too long."""
        rows = self.strata.rows
        oversize = np.flatnonzero(rows > limit)
        samples = self._samples(oversize)
        if any(len(samples.get(stratum, ())) < rows[stratum] for stratum in oversize.tolist()):
            return None
        units: list[DrawnBlock] = []
        seconds = 0.0
        for stratum, n in enumerate(rows.tolist()):
            ways = [((), float(n))] if n <= limit else self._ways(samples[stratum], n, limit, self.k)
            for path, of_way in ways:
                units.append(DrawnBlock(stratum, path, len(units), int(self.strata.label[stratum]), 1.0))
                seconds += self._cost(of_way)
        return units if seconds <= self.seconds else None

    def _ways(self, Z: Floats, rows: int, limit: int, least: int) -> list[tuple[tuple[Step, ...], float]]:
        """The ways to all leaves, as the plan would cut them, and their records."""
        every = np.arange(len(Z)) / max(1, len(Z))
        return [(path, share * rows) for path, share, _ in _leaves_met(Z, limit * len(Z) / rows, least, every)]

    # --- Some of it ---

    def _some(self, limit: int) -> list[DrawnBlock]:
        """Blocks and pieces, as many as time and records allow."""
        rows, most = self.strata.rows, self._piece_rows(limit)
        order = np.lexsort((self._of_keys(), -rows))
        sizes = np.minimum(rows, most)
        mean = float(np.sum(rows * np.sqrt(sizes)) / np.sum(rows / np.sqrt(sizes)))
        points = min(_MOST_POINTS, math.ceil(4 * MOST_ROWS / mean))
        samples = self._samples(np.flatnonzero(rows > most))
        while True:
            met = list(self._met(order, points, most, samples))
            n_rows, seconds = sum(n for _, n in met), sum(self._cost(n) for _, n in met)
            if (n_rows <= MOST_ROWS and seconds <= self.seconds) or points == 1:
                return [unit for unit, _ in met]
            points = max(1, int(points * _FEWER))

    def _piece_rows(self, limit: int) -> int:
        """The most records of a piece: few enough that several can be looked at."""
        most = min(limit, max(_PIECE_ROWS, _PIECE_GROUPS * self.k))
        while most > 4 * self.k and self._cost(most) > self.seconds / 4:
            most //= 2
        return min(most, self.info.max_records or most)

    def _of_keys(self) -> Floats:
        """A number for each stratum by which ties are broken, the same for another k that leaves its keys together."""
        first = np.full(len(self.strata.rows), np.iinfo(np.uint64).max, dtype=np.uint64)
        there = self.strata.stratum_of_hash >= 0
        np.minimum.at(first, self.strata.stratum_of_hash[there], self.strata.key_hashes[there])
        return uniform((first >> np.uint64(1)).astype(np.int64), self.context.spec.seed)

    def _met(
        self, order: Ints, points: int, most: int, samples: dict[int, Floats]
    ) -> Iterator[tuple[DrawnBlock, float]]:
        """What is met by so many points at equal distances; and about how many records that has."""
        rows = self.strata.rows[order]
        sizes = np.minimum(rows, most)
        lengths = rows / np.sqrt(sizes)  # of a block, the root of its size; of one in pieces, those of its pieces
        ends = np.cumsum(lengths)
        start = float(uniform(np.zeros(1, dtype=np.int64), self.context.spec.seed)[0])
        at = (np.arange(points) + start) * (ends[-1] / points)
        which = np.minimum(np.searchsorted(ends, at, side="right"), len(order) - 1)
        number = 0
        for place in np.unique(which).tolist():
            stratum, n = int(order[place]), int(rows[place])
            inside = (at[which == place] - (ends[place] - lengths[place])) / lengths[place]
            met: list[tuple[tuple[Step, ...], float, int]] = [((), 1.0, len(inside))]
            Z = samples.get(stratum)  # of few records the survey may have none; they are met together
            if Z is not None:
                met = list(_leaves_met(Z, most * len(Z) / n, 1, inside))
            for path, share, times in met:
                yield DrawnBlock(stratum, path, number, number, times * math.sqrt(sizes[place])), share * n
                number += 1


def _leaves_met(Z: Floats, most: float, least: int, points: Floats) -> Iterator[tuple[tuple[Step, ...], float, int]]:
    """The leaves of cuts at medians in which points lie, from left to right.

    Args:
        Z: records, as :func:`microagg_core.blocking.cuts.grow` takes them.
        most: records of a leaf.
        least: records of a leaf.
        points: between 0 and 1 along the records, leaf by leaf.

    Yields:
        The cuts on the way to a leaf, its share of the records, and how many of the points are in it.
    """
    cut = next_cut(Z, most, least)
    if cut is None:
        yield (), 1.0, len(points)
        return
    attribute, threshold = cut
    is_left = Z[:, attribute] <= threshold
    left = float(is_left.mean())
    sides = (
        (True, points[points < left] / left, left),
        (False, (points[points >= left] - left) / (1 - left), 1 - left),
    )
    for goes_left, inside, share in sides:
        if len(inside):
            step = Step(attribute, threshold, goes_left)
            for path, part, times in _leaves_met(Z[is_left == goes_left], most, least, inside):
                yield (step, *path), share * part, times
