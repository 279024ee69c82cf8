"""Annealing of one set of records: in one piece, or in regions by as many threads as are free, with the same groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from microagg_core.arrays import Floats, Ints, ShortInts, UInt64s
from microagg_core.group.costs import region_count
from microagg_core.group.headway import Progress
from microagg_core.group.metrics.losses import sse_of_labels
from microagg_core.group.points import Points
from microagg_core.group.refine.packing import packed
from microagg_core.kernels.refinement.annealing import anneal, descend
from microagg_core.kernels.refinement.changes import GroupDraft, Grouping, total_sse
from microagg_core.kernels.refinement.nearest_lists import nearest_within
from microagg_core.kernels.refinement.small_blocks import new_draft, new_grouping
from microagg_core.kernels.tools.random_draws import exponential_quantiles, random_state
from microagg_core.kernels.tools.sums import column_means
from microagg_core.kernels.tools.threads import each

#: An attribute may be cut across whose middle half of groups is so wide, beside that of the widest; so many tell.
_WIDE, _SAMPLE = 0.5, 500
#: By which part of the groups a border is moved when the same attribute comes again.
_SHIFTS = (0.0, -0.05, 0.05)
#: Beside its middle half, an attribute is so wide in all only where tails are long. The few groups there lose much, and
#: a cut across any other attribute parts them: so every other time the outer groups are cut off from the inner ones.
_LONG_TAILS = 8.0


@dataclass(frozen=True)
class Spread:
    """Groups of records: each record's group, and of each group its size (0: unused number) and its centre."""

    label: Ints
    size: Ints
    centre: Floats
    #: A code of a member in each column of codes.
    code: Floats


@dataclass(frozen=True)
class Regions:
    """Records by region.

    Of each group, ``number`` is what it is called within its region. ``records`` has those of the regions one after the
    other, in their order within each, ``position`` says where each record stands there. Region i's are those from
    ``starts[i]`` to ``starts[i + 1]``, and its groups get numbers from ``slots[i]`` to ``slots[i + 1]``.
    """

    number: Ints
    records: Ints
    position: ShortInts
    starts: Ints
    slots: Ints

    @classmethod
    def of(cls, groups: Spread, count: int, k: int, turn: int) -> Regions:
        number, region = np.zeros(len(groups.size), dtype=np.int64), np.zeros(len(groups.size), dtype=np.int16)
        for i, rows in enumerate(_drawn(groups, np.flatnonzero(groups.size), count, turn)):
            number[rows], region[rows] = np.arange(len(rows)), i
        of_records = region[groups.label]
        records = np.argsort(of_records, kind="stable")
        position = np.empty(len(records), dtype=np.int32)
        position[records] = np.arange(len(records), dtype=np.int32)
        sizes = np.bincount(of_records, minlength=count)
        # Groups of so many records need a number more while records are on their way, and one to spare.
        return cls(number, records, position, _from_0(sizes), _from_0(sizes // k + 2))


def _from_0(sizes: Ints) -> Ints:
    """Place sizes one after another: where each starts, and where the last ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def _drawn(groups: Spread, rows: Ints, count: int, turn: int) -> list[Ints]:
    """Divide groups into so many regions of about as many groups each."""
    if count == 1:
        return [rows]
    n = count // 2
    first, others = _parts(groups, rows, n / count, turn)
    return [*_drawn(groups, first, n, turn + 1), *_drawn(groups, others, count - n, turn + 1)]


def _parts(groups: Spread, rows: Ints, share: float, turn: int) -> tuple[Ints, Ints]:
    """Cut off about the share of groups that comes first along an attribute or outwards; elsewhere each turn.

    Values are only compared, and of equal ones the first rows come first: every machine cuts alike. Along codes it is
    cut where there are no numbers to speak of.
    """
    centre = groups.centre if np.ptp(groups.centre) > 0 or not groups.code.shape[1] else groups.code
    sample = np.sort(centre[rows[:: 1 + len(rows) // _SAMPLE]], axis=0)
    width = sample[3 * len(sample) // 4] - sample[len(sample) // 4]
    wide = [int(j) for j in np.argsort(-width, kind="stable") if width[j] >= _WIDE * width.max()]
    if turn % 2 and (sample[-1] - sample[0] > _LONG_TAILS * width).any():
        values = _squared_distances(centre[rows], sample[len(sample) // 2])
    else:
        values = centre[rows, wide[turn % len(wide)]]
    n_first = int((share + _SHIFTS[turn // len(wide) % len(_SHIFTS)]) * len(rows))
    border = np.partition(values, n_first)[n_first]
    is_first = values < border
    is_first[np.flatnonzero(values == border)[: n_first - np.count_nonzero(is_first)]] = True
    return rows[is_first], rows[~is_first]


def _squared_distances(points: Floats, centre: Floats) -> Floats:
    """Add up squared differences attribute by attribute, in one order on all machines."""
    total = np.zeros(len(points))
    for j in range(points.shape[1]):
        total += (points[:, j] - centre[j]) ** 2
    return total


#: Sweeps before regions are drawn anew, and the most times that they are in a long annealing: drawing takes as long as
#: a sixth of a sweep.
_SWEEPS, _MOST_TIMES = 3, 100

#: Improves the groups of a region, whose records have these neighbours.
Improvement = Callable[[Grouping, ShortInts, UInt64s], None]


@dataclass
class RegionalAnnealing:
    """Annealing in regions.

    A region's records know only each other as neighbours. So that no border stays for long, regions are drawn anew
    after a few sweeps, across other attributes and elsewhere.
    """

    whole: Annealing
    seed: int
    #: How often regions were drawn.
    turn: int = 0

    def anneal(self, groups: Spread, sweeps: int, heat: float, power: int) -> Spread:
        """Anneal for so many sweeps in all, the first of them at the heat."""
        stretch, progress = max(_SWEEPS, -(-sweeps // _MOST_TIMES)), Progress("annealing", self.whole.points)
        for start in range(0, sweeps, stretch):
            way = (start, min(start + stretch, sweeps), sweeps, heat, power)
            groups = self._improved(groups, partial(self._anneal_region, way))
            progress.report(partial(self._sse, groups), share=way[1] / sweeps)
        return groups

    def _sse(self, groups: Spread) -> float:
        return sse_of_labels(self.whole.points, np.unique(groups.label, return_inverse=True)[1])

    def _anneal_region(
        self, way: tuple[int, int, int, float, int], g: Grouping, near: ShortInts, random: UInt64s
    ) -> None:
        every, none_kept = self.whole.every, (g.label[:0], -np.inf)
        anneal(g, self.whole.draft(g), near, self.whole.k, *way, every, QUANTILES, random, *none_kept)

    def descend(self, groups: Spread, most: int, tolerance: float) -> Spread:
        """Go downhill for so many sweeps at most, half of them in other regions."""
        for sweeps in (-(-most // 2), most // 2):
            if sweeps:
                groups = self._improved(groups, partial(self._descend_region, sweeps, tolerance))
        return groups

    def _descend_region(self, most: int, tolerance: float, g: Grouping, near: ShortInts, _random: UInt64s) -> None:
        descend(g, near, self.whole.k, most, tolerance)

    def _improved(self, groups: Spread, improve: Improvement) -> Spread:
        regions = Regions.of(groups, self.whole.regions, self.whole.k, self.turn)
        slots, width = int(regions.slots[-1]), groups.centre.shape[1]
        label, size, centre = np.empty_like(groups.label), np.zeros(slots, np.int64), np.zeros((slots, width))
        code = np.zeros((slots, groups.code.shape[1]))
        turn, self.turn = self.turn, self.turn + 1

        def improve_region(i: int) -> None:
            start, first, last = int(regions.starts[i]), regions.slots[i], regions.slots[i + 1]
            records = regions.records[start : regions.starts[i + 1]]
            near = nearest_within(self.whole.near, records, regions.position, start)
            X, words = self.whole.X.take(records, axis=0), self.whole.words.take(records, axis=0)
            g = new_grouping(X, words, self.whole.worth, regions.number[groups.label[records]], self.whole.k)
            drawn = np.random.SeedSequence([self.seed, turn, i]).generate_state(1, np.uint64)
            improve(g, near, random_state(int(drawn[0])))
            label[records], size[first:last], centre[first:last] = g.label + first, g.size, g.centre
            code[first:last] = self.whole.codes.take(records, axis=0)[g.members[:, 0]]

        each(improve_region, range(self.whole.regions))
        return Spread(label, size, centre, code)


#: One step in so many makes groups anew; above _LARGEST_K none does, since it costs k squared.
_EVERY = 4
_LARGEST_K = 24


def rebuild_every(k: int) -> int:
    return _EVERY if k <= _LARGEST_K else 0


QUANTILES = exponential_quantiles(1024)
#: When, as shares of a run, the search looks at where it stands.
_SNAPSHOTS = (0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.84, 0.88, 0.92, 0.96, 1.0)
#: Changes that the kernel tries before the loop around it may say where it stands: about a second's.
_STEPS_AT_ONCE = 2_000_000


def padded(points: Points) -> Floats:
    """Take the numbers of points, with columns of zeros up to a multiple of four."""
    numbers = np.zeros((len(points), -(-points.n_numbers // 4) * 4))
    numbers[:, : points.n_numbers] = points.X[:, ~points.is_code]
    return numbers


class Annealing:
    def __init__(self, points: Points, near: ShortInts, k: int, seed: int) -> None:
        self.points, self.near, self.k = points, np.ascontiguousarray(near), k
        self.X = padded(points)
        # Around 0, so that centres lose no digits to what all records have in common.
        self.X -= column_means(self.X)
        self.codes = points.X[:, points.is_code]
        self.words, self.worth = packed(points)
        self.random = random_state(seed)
        self.every = rebuild_every(k)
        #: In how many regions a run goes; a long list of snapshots is for few records.
        self.regions = region_count(len(points), k)

    def grouping(self, labels: Ints) -> Grouping:
        return new_grouping(self.X, self.words, self.worth, labels, self.k)

    def draft(self, grouping: Grouping) -> GroupDraft:
        return new_draft(grouping, self.k, self.every > 0)

    def run(self, labels: Ints, sweeps: int, hottest: float, power: int, downhill: int) -> Ints:
        """Anneal from the labels, ``hottest`` in units of the mean squared error there, then go downhill."""
        g = self.grouping(labels)
        start = total_sse(g)
        heat = hottest * start / len(labels)
        if self.regions > 1:
            spread = Spread(g.label, g.size, g.centre, self.codes[g.members[:, 0]])
            return self._run_in_regions(spread, sweeps, heat, power, downhill)
        d, best = self.draft(g), g.label.copy()
        way = (sweeps, heat, power)
        self._anneal(g, d, 0, sweeps, way, best, start)
        return self.downhill(best, downhill)

    def _anneal(
        self, g: Grouping, d: GroupDraft, start: int, stop: int, way: tuple[int, float, int], best: Ints, least: float
    ) -> float:
        """Anneal for these sweeps, some at a time, as the arrays hold all that is needed; returns the least total."""
        at_once, progress = max(1, _STEPS_AT_ONCE // len(best)), Progress("annealing", self.points)
        for first in range(start, stop, at_once):
            last = min(first + at_once, stop)
            arguments = (*way, self.every, QUANTILES, self.random, best, least)
            least = anneal(g, d, self.near, self.k, first, last, *arguments)
            progress.report(least, share=last / way[0])
        return least

    def _run_in_regions(self, groups: Spread, sweeps: int, heat: float, power: int, downhill: int) -> Ints:
        """Anneal in regions; groups may lose more at the end, so the caller compares them with those at the start."""
        self.random = random_state(int(self.random[0]))
        regional = RegionalAnnealing(self, int(self.random[0]))
        annealed = regional.anneal(groups, sweeps, heat, power)
        lowest = regional.descend(annealed, downhill, 1e-12 * heat)
        labels: Ints = np.unique(lowest.label, return_inverse=True)[1]
        return labels

    def snapshots(self, labels: Ints, sweeps: int, hottest: float, power: int, downhill: int) -> Iterator[Ints]:
        """Run in parts: yield partitions on the way down, each with its way downhill, and the last one."""
        g = self.grouping(labels)
        d = self.draft(g)
        start = total_sse(g)
        heat = hottest * start / len(labels)
        best, least, done = g.label.copy(), start, 0
        for share in _SNAPSHOTS:
            until = int(share * sweeps)
            least = self._anneal(g, d, done, until, (sweeps, heat, power), best, least)
            done = until
            yield self.downhill(g.label, downhill)
        yield self.downhill(best, downhill)

    def downhill(self, labels: Ints, most: int) -> Ints:
        """Go downhill for at most so many sweeps; returns labels 0 to g-1."""
        numbered: Ints = np.unique(labels, return_inverse=True)[1]
        if most > 0:
            g = self.grouping(numbered)
            descend(g, self.near, self.k, most, 1e-12 * total_sse(g) / len(labels))
            numbered = np.unique(g.label, return_inverse=True)[1]
        return numbered
