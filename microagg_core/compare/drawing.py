"""Draw the blocks that settings are tried on: for each k those that a plan with it would have, or some of them.

Of large blocks pieces are drawn that are cut out of them at medians, in which records lie as densely as in the whole:
rows that are drawn one by one would lie further from each other than they do. Settings whose blocks are cut alike are
tried on the same ones, so that chance has no part in how they differ.

Blocks are drawn with chances like the roots of their sizes, as a small block costs little and its records lose much: by
points at equal distances along all blocks in the order of their size, so that large and small ones are met. What is met
stands for the more records the smaller its chances were; what is met twice counts twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.blocks.blanking import Move
from microagg_core.blocks.cuts import next_cut
from microagg_core.blocks.strata import Strata
from microagg_core.compare.grid import Budget, Setting
from microagg_core.compiling import grouping_parts, needed_parts
from microagg_core.errors import DataError
from microagg_core.release.context import Context
from microagg_core.release.planning import strata_of
from microagg_core.release.steps.cuts import least_of_leaves, read_samples, surveyed_samples
from microagg_core.release.steps.drawn_rows import Cut, Draft, DrawnBlock
from microagg_core.release.steps.sampling import Drawn as PartSample
from microagg_core.release.steps.sampling import uniform
from microagg_core.release.steps.survey import Survey
from microagg_core.release.wiring import StepsDone
from microagg_core.spec.release import ReleaseSpec

#: Records that a plan groups for one k where it is asked to: enough blocks for a loss that is off by some percent.
#: Smaller inputs are whole.
MOST_ROWS = 60_000
#: Records that the operator's page groups for one k, and a plan that was not asked to.
PAGE_ROWS = 20_000
#: CPU seconds that grouping them for all k takes on one core, by the algorithm's own model.
SECONDS = 10.0
#: A larger block is met in pieces: of too few large blocks one would stand for all.
_PIECE_ROWS = 2_000
#: A piece has so many groups at least, or most of them would lie at its border.
_PIECE_GROUPS = 40
#: Of what has to make do with fewer records there are so many pieces, if each then has enough groups.
_PIECES = 30
#: At most so many blocks: each costs a millisecond or two, whatever is in it.
_MOST_POINTS = 1_024
#: From one number of points that takes too long to the next.
_FEWER = 0.8
#: With more blocking keys, planning for another k takes as long as the plan itself; then only the k asked is tried.
_MOST_KEYS = 500_000


@dataclass(frozen=True)
class PlannedTrial:
    """A setting, and the draft that it is tried on."""

    setting: Setting
    #: Its place among all drafts.
    draft: int
    #: The spec's, and others by which it is seen what they change.
    seeds: tuple[int, ...]
    #: Whether it is proved what any groups lose at least.
    proves: bool
    #: CPU seconds of all blocks of a release, by the models, proofs included.
    model_seconds: float


@dataclass(frozen=True)
class Drawn:
    """Drafts, the strata of their keys, what is tried on them, and why other settings are not."""

    drafts: tuple[Draft, ...]
    routes: tuple[pa.Table, ...]
    trials: tuple[PlannedTrial, ...]
    left_out: tuple[tuple[Setting, str], ...]


def only_asked(keys: pa.Table, asked: int) -> str | None:
    """Say why no other k is tried, if none is.

    >>> only_asked(pa.table({"hash": [1, 2, 3]}), 5) is None
    True
    """
    if keys.num_rows <= _MOST_KEYS:
        return None
    return f"only k={asked} is looked at, as there are more than {_MOST_KEYS:,} blocking keys"


@dataclass(frozen=True)
class Surveyed:
    """A surveyed input: all that blocks are drawn by."""

    context: Context
    survey: Survey
    keys: pa.Table
    #: Reads what the survey sampled.
    done: StepsDone
    #: Which records of a first night wait for more.
    hold_until: int | None = None

    @cached_property
    def samples(self) -> list[tuple[int, PartSample]]:
        """The survey's sample of each part, 2 million records at most: read once for all k."""
        return list(read_samples(self.done))


def draw_blocks(known: Surveyed, settings: Sequence[Setting], budget: Budget) -> Drawn:
    """Draw the blocks on which settings are tried; the same whoever asks, and wherever."""
    drafts: list[tuple[Draft, pa.Table]] = []
    trials: list[PlannedTrial] = []
    left_out: list[tuple[Setting, str]] = []
    for k in sorted({setting.k for setting in settings}):
        of_k = [setting for setting in settings if setting.k == k]
        try:
            drawing = _Drawing(known, k, budget)
        except DataError as error:
            left_out += [(setting, error.message) for setting in of_k]
            continue
        for setting in of_k:
            try:
                trials.append(drawing.trial(setting, len(drafts)))
            except DataError as error:
                left_out.append((setting, error.message))
        drafts += drawing.drafts()
    return Drawn(tuple(d for d, _ in drafts), tuple(routes for _, routes in drafts), tuple(trials), tuple(left_out))


def _refuse_compiling(spec: ReleaseSpec, setting: Setting) -> None:
    """Stop where a setting needs kernels that the release does not."""
    more = set(grouping_parts(setting.algorithm, setting.refine, setting.k))
    if more - set(needed_parts(spec.algorithm.name, spec.effort, spec.k)):
        raise DataError(f"would need kernels that k={spec.k} does not, and nothing is compiled for a look ahead")


#: A draft, and about how many records each of its blocks has.
_Sized: TypeAlias = tuple[Draft, Floats]


class _Drawing:
    """The strata of a plan with one k, and what was drawn of them."""

    def __init__(self, known: Surveyed, k: int, budget: Budget) -> None:
        spec, schema = known.context.spec, known.context.schema
        self._strata: Strata = strata_of(spec, schema, known.keys, known.hold_until, k)
        self._known, self._spec, self._k, self._budget = known, spec, k, budget
        self._p = len(known.context.kinds)
        self._whole: dict[int | None, _Sized | None] = {}
        self._some: dict[object, _Sized] = {}
        self._used: list[Draft] = []
        self._samples: dict[bytes, dict[int, Floats]] = {}

    def trial(self, setting: Setting, first: int) -> PlannedTrial:
        """Plan how a setting is tried; ``first`` is the number of drafts of other k."""
        if not self._budget.compiles:
            _refuse_compiling(self._spec, setting)
        largest = int(self._strata.rows.max(initial=0))
        limit = setting.most_records(self._spec, self._p, self._known.survey.row_bytes, largest)
        draft, rows = self._drawn(setting, limit)
        proves, n_seeds = self._affordable(setting, rows)
        seconds = self._seconds(setting, rows if draft.is_whole else self._rows_of_blocks(limit))
        if not any(draft is used for used in self._used):
            self._used.append(draft)
        place = next(i for i, used in enumerate(self._used) if draft is used)
        return PlannedTrial(setting, first + place, setting.seeds(self._spec.seed, n_seeds), proves, seconds)

    def drafts(self) -> list[tuple[Draft, pa.Table]]:
        """List the drafts that some setting is tried on, with the strata of their keys."""
        strata, drafts = self._strata, []
        for draft in self._used:
            own = np.isin(strata.stratum_of_hash, [block.stratum for block in draft.blocks])
            columns = {"hash": strata.key_hashes[own], "stratum": strata.stratum_of_hash[own]}
            drafts.append((draft, pa.table(columns)))
        return drafts

    def _draft(self, met: Sequence[tuple[DrawnBlock, float]], is_whole: bool) -> _Sized:
        if not met:
            raise DataError("no record would be released")
        strata, blocks = self._strata, tuple(block for block, _ in met)
        n_released = int(strata.rows.sum())
        draft = Draft(self._k, strata.hash_seed, n_released, strata.suppressed_rows, is_whole, blocks)
        return draft, np.array([rows for _, rows in met])

    def _affordable(self, setting: Setting, rows: Floats) -> tuple[bool, int]:
        """Find whether there is time for proofs, and for how many seeds."""
        budget = self._budget
        if budget.shrinks or setting.algorithm in budget.patient_with:
            return budget.proves, budget.seeds
        grouping = _sum_over(rows, lambda n: setting.grouping_seconds(n, self._p))
        if grouping > budget.seconds:
            raise DataError(f"would take about {grouping:,.0f} s; name it under --algorithms to run it all the same")
        proving = self._seconds(setting, rows)
        proves = budget.proves and proving <= budget.seconds
        left = budget.seconds - (proving if proves else grouping)
        return proves, min(budget.seeds, 1 + int(left / max(grouping, budget.seconds / budget.seeds / 10)))

    def _seconds(self, setting: Setting, rows: Floats) -> float:
        return _sum_over(rows, lambda n: setting.seconds(n, self._p))

    def _rows_of_blocks(self, limit: int) -> Floats:
        """Estimate how many records each block of a release would have: what is too large is halved, and again."""
        rows = self._strata.rows
        pieces = 2 ** np.maximum(0, np.ceil(np.log2(np.maximum(1, rows) / limit))).astype(np.int64)
        return np.repeat(rows / pieces, pieces)

    def _drawn(self, setting: Setting, limit: int) -> _Sized:
        """Take all blocks where they are few enough; else draw some."""
        rows, budget = self._strata.rows, self._budget
        if int(rows.sum()) <= budget.rows:
            cut = limit if bool((rows > limit).any()) else None
            if cut not in self._whole:
                self._whole[cut] = self._all_blocks(limit)
            whole = self._whole[cut]
            if whole is not None and (not budget.shrinks or self._seconds(setting, whole[1]) <= budget.seconds):
                return whole
        most = self._most_of_piece(setting, limit)
        # Where fewer blocks are drawn for what takes long, each setting is tried on others.
        name = (most, setting.algorithm if budget.shrinks else "")
        if name not in self._some:
            self._some[name] = self._some_blocks(setting, most)
        return self._some[name]

    def _sampled(self, strata: Ints) -> dict[int, Floats]:
        """Read what the survey sampled of these strata."""
        if not len(strata):
            return {}
        name = strata.tobytes()
        if name not in self._samples:
            known = self._known
            samples = surveyed_samples(known.context, self._strata, known.survey, strata, known.samples)
            self._samples[name] = samples[1]
        return self._samples[name]

    def _all_blocks(self, limit: int) -> _Sized | None:
        """Take all blocks of a plan, numbered as there; None where the survey's sample lacks some of what is cut."""
        rows = self._strata.rows
        oversize = np.flatnonzero(rows > limit)
        samples = self._sampled(oversize)
        if any(len(samples.get(stratum, ())) < rows[stratum] for stratum in oversize.tolist()):
            return None
        least, move_to, last = least_of_leaves(self._strata, self._k), self._move_to, list[int]()
        met: list[tuple[DrawnBlock, float]] = []
        for stratum, n in enumerate(rows.tolist()):
            leaves: list[tuple[tuple[Cut, ...], float, int]] = [((), 1.0, n)]
            if n > limit:
                leaves = list(Piece(samples[stratum], limit, int(least[stratum])).leaves(np.arange(n) / n))
            for path, share, _ in leaves:
                label = int(self._strata.label[stratum])
                block = DrawnBlock(stratum, path, len(met), label, 1.0, self._pattern(stratum))
                met.append((block, share * n))
            if (move := move_to.get(stratum)) is not None:
                block, some = met[-1]
                met[-1] = replace(block, source=last[move.source], takes=move.rows), some + move.rows
            last.append(len(met) - 1)
        return self._draft(met, is_whole=True)

    @cached_property
    def _move_to(self) -> dict[int, Move]:
        """The strata that take records of others."""
        return {move.target: move for move in self._strata.moves}

    def _pattern(self, stratum: int) -> int | None:
        """List what the records of a stratum are released without; None where that is what they lack."""
        return None if self._strata.blanked_cells is None else int(self._strata.pattern[stratum])

    def _some_blocks(self, setting: Setting, most: int) -> _Sized:
        """Draw blocks and pieces of at most so many records, until the budget of rows or of time is used up."""
        rows, budget = self._strata.rows, self._budget
        # What takes records of another stratum has too few of its own.
        is_drawn = ~np.isin(np.arange(len(rows)), list(self._move_to))
        order = np.lexsort((self._tie_breakers(), -rows))
        order = order[is_drawn[order]]
        own, sizes = rows[is_drawn], np.minimum(rows[is_drawn], most)
        mean = float(np.sum(own * np.sqrt(sizes)) / np.sum(own / np.sqrt(sizes)))
        points = min(_MOST_POINTS, math.ceil(4 * budget.rows / mean))
        # Of few records the survey may have none; they are met together.
        large = {
            stratum: Piece(Z, most * len(Z) / int(rows[stratum]), 1)
            for stratum, Z in self._sampled(np.flatnonzero(rows > most)).items()
        }
        while True:
            draft, drawn = self._draft(list(self._met(order, points, most, large)), is_whole=False)
            is_quick = not budget.shrinks or self._seconds(setting, drawn) <= budget.seconds
            if (drawn.sum() <= budget.rows and is_quick) or points == 1:
                return draft, drawn
            points = max(1, int(points * _FEWER))

    def _most_of_piece(self, setting: Setting, limit: int) -> int:
        """Find the most records of a piece: few enough that several can be drawn."""
        budget, k = self._budget, self._k
        most = min(limit, max(min(_PIECE_ROWS, budget.rows // _PIECES), _PIECE_GROUPS * k))
        while budget.shrinks and most > 4 * k and setting.seconds(most, self._p) > budget.seconds / 4:
            most //= 2
        return min(most, setting.info.max_records or most)

    def _tie_breakers(self) -> Floats:
        """Draw a number for each stratum, the same for another k that leaves its keys together."""
        first = np.full(len(self._strata.rows), np.iinfo(np.uint64).max, dtype=np.uint64)
        there = self._strata.stratum_of_hash >= 0
        np.minimum.at(first, self._strata.stratum_of_hash[there], self._strata.key_hashes[there])
        return uniform((first >> np.uint64(1)).astype(np.int64), self._spec.seed)

    def _met(self, order: Ints, points: int, most: int, large: dict[int, Piece]) -> Iterator[tuple[DrawnBlock, float]]:
        """Find what so many points at equal distances meet, and about how many records that has."""
        rows = self._strata.rows[order]
        sizes = np.minimum(rows, most)
        lengths = rows / np.sqrt(sizes)  # of a block, the root of its size; of one in pieces, those of its pieces
        ends = np.cumsum(lengths)
        start = float(uniform(np.zeros(1, dtype=np.int64), self._spec.seed)[0])
        at = (np.arange(points) + start) * (ends[-1] / points)
        which = np.minimum(np.searchsorted(ends, at, side="right"), len(order) - 1)
        number = 0
        for place in np.unique(which).tolist():
            stratum, n = int(order[place]), int(rows[place])
            inside = (at[which == place] - (ends[place] - lengths[place])) / lengths[place]
            piece = large.get(stratum)
            leaves = [((), 1.0, len(inside))] if piece is None else piece.leaves(inside)
            for path, share, times in leaves:
                weight = times * math.sqrt(sizes[place])
                yield DrawnBlock(stratum, path, number, number, weight, self._pattern(stratum)), share * n
                number += 1


def _sum_over(rows: Floats, seconds: Callable[[float], float]) -> float:
    """Add up the seconds of blocks with so many records."""
    sizes, times = np.unique(rows.astype(np.int64), return_counts=True)
    return float(sum(n * seconds(size) for size, n in zip(sizes.tolist(), times.tolist(), strict=True)))


class Piece:
    """A sample of a stratum, or a part of it, that is cut in two at a median when it is first looked into.

    ``Z`` is as :func:`microagg_core.blocks.cuts.grow` takes it, ``most`` and ``least`` are records of a leaf.
    """

    def __init__(self, Z: Floats, most: float, least: int) -> None:
        self._Z: Floats | None = Z
        self._most, self._least = most, least
        self._sides: list[tuple[Cut, float, Piece]] = []

    def leaves(self, points: Floats) -> Iterator[tuple[tuple[Cut, ...], float, int]]:
        """Yield the leaves in which points (from 0 to 1 along the records) lie, from left to right.

        Of each: the cuts on the way to it, its share of the records, and how many of the points are in it.
        """
        self._cut()
        if not self._sides:
            yield (), 1.0, len(points)
            return
        (_, left, _), _ = self._sides
        insides = (points[points < left] / left, (points[points >= left] - left) / (1 - left))
        for (cut, share, piece), inside in zip(self._sides, insides, strict=True):
            if len(inside):
                for path, part, times in piece.leaves(inside):
                    yield (cut, *path), share * part, times

    def _cut(self) -> None:
        """Cut it, if it is large enough and was not cut before; the records are left to its sides."""
        Z, self._Z = self._Z, None
        cut = None if Z is None else next_cut(Z, self._most, self._least)
        if Z is None or cut is None:
            return
        attribute, threshold = cut
        is_left = Z[:, attribute] <= threshold
        left = float(is_left.mean())
        for goes_left, share in ((True, left), (False, 1 - left)):
            side = Piece(Z[is_left == goes_left], self._most, self._least)
            self._sides.append((Cut(attribute, threshold, goes_left), share, side))
