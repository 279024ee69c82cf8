"""Drawing: for each k the blocks that a plan with it would have, and those of them that are looked at.

What is tried on them are cells: algorithms and refinements, each with the blocks that a release by it would have. Cells
whose blocks are cut alike look at the same ones, so that chance has no part in how they differ.

Blocks are drawn with chances like the roots of their sizes, as a small block costs little to look at and its records
lose much: by points at equal distances along all blocks in the order of their size, so that large and small ones are
met. What is met stands for the more records the smaller its chances were; what is met twice counts twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats, Ints
from microagg_core.blocks.cuts import next_cut
from microagg_core.blocks.holding import Holding
from microagg_core.blocks.strata import StrataRules, plan_strata
from microagg_core.compare.expecting.cells import Cell, CellCosts, cells_by_k
from microagg_core.compare.expecting.drafts import CellLook, Drafts, DrawnBlock, Frugality, LookAhead, Step
from microagg_core.compiling import grouping_parts, needed_parts
from microagg_core.errors import DataError
from microagg_core.release.context import Context
from microagg_core.release.steps.cuts import surveyed_samples
from microagg_core.release.steps.sampling import uniform
from microagg_core.release.steps.survey import Survey
from microagg_core.release.wiring import StepsDone
from microagg_core.spec.release import ReleaseSpec

#: Records that are grouped for one k: enough blocks for a loss that is off by some percent. Smaller inputs are whole.
MOST_ROWS = 60_000
#: What grouping them for all k takes on one core, by the algorithm's own model.
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
#: With more blocking keys, planning for another k takes as long as the plan itself; then only the k asked is looked at.
_MOST_KEYS = 500_000


def neighbours(k: int) -> tuple[int, ...]:
    """The k asked between a smaller and a larger one.

    >>> neighbours(5), neighbours(3), neighbours(2)
    ((2, 5, 10), (2, 3, 6), (2, 4))
    """
    return tuple(sorted({max(2, k // 2), k, 2 * k}))


def only_asked(keys: pa.Table, asked: int) -> str | None:
    """Why no other k is looked at, or None.

    >>> only_asked(pa.table({"hash": [1, 2, 3]}), 5) is None
    True
    """
    if keys.num_rows <= _MOST_KEYS:
        return None
    return f"only k={asked} is looked at, as there are more than {_MOST_KEYS:,} blocking keys"


def draw_blocks(
    context: Context,
    survey: Survey,
    keys: pa.Table,
    done: StepsDone,
    cells: Sequence[Cell],
    frugality: Frugality,
    hold: Holding | None = None,
) -> Drafts:
    """What is looked at for these cells; the same whoever asks, and wherever.

    ``hold`` says which records of a first night wait for more.
    """
    drafts: list[tuple[LookAhead, pa.Table]] = []
    looks: list[CellLook] = []
    left_out: list[tuple[Cell, str]] = []
    for k, of_k in cells_by_k(cells).items():
        try:
            drawing = _Drawing(context, survey, keys, done, k, frugality, hold)
        except DataError as error:
            left_out += [(cell, error.message) for cell in of_k]
            continue
        for cell in of_k:
            try:
                looks.append(drawing.look(cell, len(drafts)))
            except DataError as error:
                left_out.append((cell, error.message))
        drafts += drawing.drafts()
    return Drafts(
        tuple(draft for draft, _ in drafts), tuple(routes for _, routes in drafts), tuple(looks), tuple(left_out)
    )


def _refuse_compiling(spec: ReleaseSpec, cell: Cell) -> None:
    """Stop where a cell needs code that the release does not."""
    more = set(grouping_parts(cell.algorithm, cell.refine, cell.k))
    if more - set(needed_parts(spec.algorithm.name, spec.effort, spec.k)):
        raise DataError(f"would need kernels that k={spec.k} does not, and nothing is compiled for a look ahead")


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Blocks, and about how many records each has."""

    units: tuple[DrawnBlock, ...]
    rows: Floats
    is_whole: bool

    @classmethod
    def of(cls, met: Sequence[tuple[DrawnBlock, float]], is_whole: bool) -> _Drawn:
        """Put together.

        Raises:
            DataError: there are none.
        """
        if not met:
            raise DataError("no record would be released")
        return cls(tuple(unit for unit, _ in met), np.array([rows for _, rows in met]), is_whole)


class _Drawing:
    """What is known when blocks are drawn for one k, and what was drawn."""

    def __init__(
        self,
        context: Context,
        survey: Survey,
        keys: pa.Table,
        done: StepsDone,
        k: int,
        frugality: Frugality,
        hold: Holding | None,
    ) -> None:
        spec, schema = context.spec, context.schema
        released = {c.name: t for c, t in zip(schema.released, schema.released_types, strict=True)}
        rules = StrataRules(k, spec.blocks.undersized, spec.blocks.labels, spec.blocks.totals_known)
        self._strata = plan_strata(keys, rules, [released[c.name] for c in schema.blocking], hold)
        self._context, self._survey, self._done = context, survey, done
        self._k, self._frugality = k, frugality
        self._whole: dict[int | None, _Drawn | None] = {}
        self._some_drawn: dict[object, _Drawn] = {}
        self._used: list[_Drawn] = []
        self._known: dict[bytes, dict[int, Floats]] = {}

    def look(self, cell: Cell, first: int) -> CellLook:
        """What a cell is tried on; ``first`` is the number of drafts of other k.

        Raises:
            DataError: why it is left out.
        """
        spec, few = self._context.spec, self._frugality
        if not few.compiles:
            _refuse_compiling(spec, cell)
        costs = CellCosts(cell, len(self._context.kinds))
        limit = costs.limit(spec, self._survey.row_bytes, int(self._strata.rows.max(initial=0)))
        drawn = self._looked_at(costs, limit)
        proves, n_seeds = self._affordable(costs, drawn)
        seconds = self._seconds_of(costs, drawn.rows if drawn.is_whole else self._blocks(limit))
        if drawn not in self._used:
            self._used.append(drawn)
        place = first + self._used.index(drawn)
        return CellLook(cell, place, cell.seeds(spec.seed, n_seeds), proves, seconds)

    def drafts(self) -> list[tuple[LookAhead, pa.Table]]:
        """What is looked at by some cell, and the routes of its keys."""
        strata, made = self._strata, []
        for drawn in self._used:
            n_released = int(strata.rows.sum())
            of = (self._k, strata.hash_seed, n_released, strata.suppressed_rows, drawn.is_whole, drawn.units)
            mine = np.isin(strata.stratum_of_hash, [unit.stratum for unit in drawn.units])
            columns = {"hash": strata.key_hashes[mine], "stratum": strata.stratum_of_hash[mine]}
            made.append((LookAhead(*of), pa.table(columns)))
        return made

    # --- What it takes ---

    def _affordable(self, costs: CellCosts, drawn: _Drawn) -> tuple[bool, int]:
        """Whether there is time for proofs, and for how many seeds.

        Raises:
            DataError: not even for one.
        """
        few, cell = self._frugality, costs.cell
        if few.shrinks or cell.algorithm in few.patient_with:
            return few.proves, few.seeds
        grouping = self._seconds_of(costs, drawn.rows, proving=False)
        if grouping > few.seconds:
            raise DataError(f"would take about {grouping:,.0f} s; name it under --algorithms to run it all the same")
        proving = self._seconds_of(costs, drawn.rows)
        proves = few.proves and proving <= few.seconds
        left = few.seconds - (proving if proves else grouping)
        return proves, min(few.seeds, 1 + int(left / max(grouping, few.seconds / few.seeds / 10)))

    def _seconds_of(self, costs: CellCosts, rows: Floats, proving: bool = True) -> float:
        """What blocks of so many records take."""
        sizes, times = np.unique(rows.astype(np.int64), return_counts=True)
        seconds = costs.seconds if proving else costs.grouping_seconds
        return float(sum(n * seconds(size) for size, n in zip(sizes.tolist(), times.tolist(), strict=True)))

    def _blocks(self, limit: int) -> Floats:
        """About how many records each block of a release would have: what is too large is halved, and again."""
        rows = self._strata.rows
        pieces = 2 ** np.maximum(0, np.ceil(np.log2(np.maximum(1, rows) / limit))).astype(np.int64)
        return np.repeat(rows / pieces, pieces)

    # --- What is drawn ---

    def _looked_at(self, costs: CellCosts, limit: int) -> _Drawn:
        """All blocks, where they are few enough; else some."""
        rows, few = self._strata.rows, self._frugality
        if int(rows.sum()) <= few.rows:
            is_cut = bool((rows > limit).any())
            cut = limit if is_cut else None
            if cut not in self._whole:
                self._whole[cut] = self._everything(limit)
            whole = self._whole[cut]
            if whole is not None and (not few.shrinks or self._seconds_of(costs, whole.rows) <= few.seconds):
                return whole
        most = self._piece_rows(costs, limit)
        # Where less is looked at for what takes long, each cell looks at something else.
        name = ("some", most, costs.cell.algorithm if few.shrinks else "")
        if name not in self._some_drawn:
            self._some_drawn[name] = self._some(costs, most)
        return self._some_drawn[name]

    def _samples(self, strata: Ints) -> dict[int, Floats]:
        """What the survey drew of these strata."""
        if not len(strata):
            return {}
        name = strata.tobytes()
        if name not in self._known:
            self._known[name] = surveyed_samples(self._context, self._strata, self._survey, strata, self._done)[1]
        return self._known[name]

    # --- All of it ---

    def _everything(self, limit: int) -> _Drawn | None:
        """All blocks of a plan, numbered as there; None where the survey's sample lacks some of what is cut."""
        rows = self._strata.rows
        oversize = np.flatnonzero(rows > limit)
        samples = self._samples(oversize)
        if any(len(samples.get(stratum, ())) < rows[stratum] for stratum in oversize.tolist()):
            return None
        met: list[tuple[DrawnBlock, float]] = []
        for stratum, n in enumerate(rows.tolist()):
            ways = [((), float(n))] if n <= limit else self._ways(samples[stratum], n, limit)
            for path, of_way in ways:
                label = int(self._strata.label[stratum])
                met.append((DrawnBlock(stratum, path, len(met), label, 1.0), of_way))
        return _Drawn.of(met, is_whole=True)

    def _ways(self, Z: Floats, rows: int, limit: int) -> list[tuple[tuple[Step, ...], float]]:
        """The ways to all leaves, as the plan would cut them, and their records."""
        every = np.arange(len(Z)) / max(1, len(Z))
        leaves = _leaves_met(Z, limit * len(Z) / rows, self._k, every)
        return [(path, share * rows) for path, share, _ in leaves]

    # --- Some of it ---

    def _some(self, costs: CellCosts, most: int) -> _Drawn:
        """Blocks and pieces, as many as records, and where it shrinks time, allow."""
        rows, few = self._strata.rows, self._frugality
        order = np.lexsort((self._of_keys(), -rows))
        sizes = np.minimum(rows, most)
        mean = float(np.sum(rows * np.sqrt(sizes)) / np.sum(rows / np.sqrt(sizes)))
        points = min(_MOST_POINTS, math.ceil(4 * few.rows / mean))
        samples = self._samples(np.flatnonzero(rows > most))
        while True:
            drawn = _Drawn.of(list(self._met(order, points, most, samples)), is_whole=False)
            is_quick = not few.shrinks or self._seconds_of(costs, drawn.rows) <= few.seconds
            if (drawn.rows.sum() <= few.rows and is_quick) or points == 1:
                return drawn
            points = max(1, int(points * _FEWER))

    def _piece_rows(self, costs: CellCosts, limit: int) -> int:
        """The most records of a piece: few enough that several can be looked at."""
        few = self._frugality
        wanted = _PIECE_ROWS if few.shrinks else min(_PIECE_ROWS, few.rows // _PIECES)
        most = min(limit, max(wanted, _PIECE_GROUPS * self._k))
        while few.shrinks and most > 4 * self._k and costs.seconds(most) > few.seconds / 4:
            most //= 2
        return min(most, costs.info.max_records or most)

    def _of_keys(self) -> Floats:
        """A number for each stratum by which ties are broken, the same for another k that leaves its keys together."""
        first = np.full(len(self._strata.rows), np.iinfo(np.uint64).max, dtype=np.uint64)
        there = self._strata.stratum_of_hash >= 0
        np.minimum.at(first, self._strata.stratum_of_hash[there], self._strata.key_hashes[there])
        return uniform((first >> np.uint64(1)).astype(np.int64), self._context.spec.seed)

    def _met(
        self, order: Ints, points: int, most: int, samples: dict[int, Floats]
    ) -> Iterator[tuple[DrawnBlock, float]]:
        """What is met by so many points at equal distances; and about how many records that has."""
        rows = self._strata.rows[order]
        sizes = np.minimum(rows, most)
        lengths = rows / np.sqrt(sizes)  # of a block, the root of its size; of one in pieces, those of its pieces
        ends = np.cumsum(lengths)
        start = float(uniform(np.zeros(1, dtype=np.int64), self._context.spec.seed)[0])
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
        Z: records, as :func:`microagg_core.blocks.cuts.grow` takes them.
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
