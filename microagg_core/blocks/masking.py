"""Mask blocks: group the records of each, refine the groups, average them, and compute what that loses.

A release does this for all blocks of a partition, a comparison for drawn blocks, the Python functions for the blocks of
a table. Blocks are grouped one by one, or many small ones together; all else is done for all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.blocks.units import UnitRows, group_units
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.group.algorithms import algorithms
from microagg_core.group.algorithms.best import best
from microagg_core.group.bounds import NOTHING, UNPROVED, Bound, Certificate
from microagg_core.group.headway import working_on
from microagg_core.group.metrics.moments import Groups, Moments
from microagg_core.group.metrics.statistics import LossStatistics, loss_statistics, squares_of_records
from microagg_core.group.points import Points
from microagg_core.group.refine.bounds import refine_with_bound
from microagg_core.group.refine.small_blocks import are_small, group_small_blocks
from microagg_core.kernels.tools.threads import cpu_seconds


class AlgorithmByName(Protocol):
    """An algorithm of the registry, and those of its parameters that are not the defaults."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...


class GroupingRules(Protocol):
    """Settings that make the groups of a block; a spec has these, among others."""

    @property
    def k(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def effort(self) -> str | float:
        """The refinement by name, or its seconds."""

    @property
    def algorithm(self) -> AlgorithmByName: ...


class Protect(Protocol):
    """Change groups until each holds what is demanded besides k; returns them so, and refined."""

    def __call__(self, X: Points, labels: Ints, k: int, *, effort: str | float, seed: int) -> tuple[Ints, Ints]: ...


class Mend(Protocol):
    """Change as few groups as it takes to hold a rule; returns the same array where all hold it."""

    def __call__(self, X: Points, labels: Ints, k: int, *, rows: Ints | None = None) -> Ints:
        """Take all records, or some ``rows`` of them, of which the rule is not asked where they cannot hold it."""


@dataclass(frozen=True)
class Demanded:
    """Demand of a block's groups what they have to hold besides k; of ``protect`` and ``mend`` at most one.

    Where units have several rows, which follow each other, groups are those of ``group_units``.
    """

    protect: Protect | None = None
    mend: Mend | None = None
    units: UnitRows | None = None


NO_DEMANDS = Demanded()


@dataclass(frozen=True, eq=False)
class Blocks:
    """Records of blocks, block after block: exact ticks by quasi-identifier, and which values are missing.

    The same ones are missing in all records of a block. ``numbers`` are those of the plan, from which, with the spec's,
    the seed of each block is made; ``starts`` has the first row of each, and the number of all rows.
    """

    numbers: Ints
    starts: Ints
    ticks: list[NDArray[Any]]
    missing: Bools

    @classmethod
    def of(cls, of_records: Ints, ticks: list[NDArray[Any]], missing: Bools) -> Blocks:
        """Find the blocks of records that stand by the number of theirs."""
        numbers, first = np.unique(of_records, return_index=True)
        return cls(numbers, np.append(first, len(of_records)), ticks, missing)

    def __iter__(self) -> Iterator[tuple[int, slice]]:
        """Yield the number of each block, and its rows."""
        rows = map(slice, self.starts[:-1].tolist(), self.starts[1:].tolist())
        return zip(self.numbers.tolist(), rows, strict=True)

    def sums(self, of_records: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.add.reduceat(of_records, self.starts[:-1]))


@dataclass(frozen=True)
class BlockOutcome:
    """Tell how the groups of one block came about."""

    #: No groups of at least k lose less than this sum of squared errors, on the scale of refinement; NaN where that is
    #: not known, as of units of several rows.
    lower_bound: float
    #: Whether refinement made the groups better.
    improved: bool
    #: What made the groups, and all that were run where the spec leaves the choice to the block.
    algorithm: str
    tried: tuple[str, ...]
    #: What the algorithm proved, if it proves anything, on the scale of refinement.
    certificate: Certificate | None


class _Made(NamedTuple):
    """Groups of a block, from 0: as they were made, and refined; the same array where nothing was gained."""

    labels: Ints
    refined: Ints
    outcome: BlockOutcome


@dataclass(frozen=True, eq=False)
class Masked:
    """Groups of blocks, and their released ticks by quasi-identifier; groups are numbered from block to block."""

    blocks: Blocks
    encoding: Encoding
    labels: Ints
    #: The first group of each block, and the number of all.
    first_groups: Ints
    representatives: list[NDArray[Any]]
    outcomes: list[BlockOutcome]
    seconds: float = 0.0

    @classmethod
    def by(cls, blocks: Blocks, encoding: Encoding, labels: Sequence[Ints], outcomes: list[BlockOutcome]) -> Masked:
        """Average the groups that the labels of each block say."""
        first = np.cumsum([0, *(int(own.max()) + 1 for own in labels)])
        joined = np.concatenate([own + before for own, before in zip(labels, first[:-1].tolist(), strict=True)])
        groups = Groups.of(joined, encoding.weights_of(blocks.ticks))
        columns = zip(encoding.kinds, blocks.ticks, strict=True)
        made = [kind.representatives(values, groups) for kind, values in columns]
        return cls(blocks, encoding, joined, first, made, outcomes)

    @property
    def released(self) -> list[NDArray[Any]]:
        """Expand the groups' ticks to the records'."""
        return [ticks[self.labels] for ticks in self.representatives]

    def _before_and_after(self, scale: Encoding) -> tuple[Floats, Floats]:
        """Standardize records as they came, and what groups are released as; missing values are 0."""
        came = scale.standardize(self.encoding.offsets_of(self.blocks.ticks), self.blocks.missing)
        columns = zip(self.encoding.kinds, self.representatives, self.encoding.origins, strict=True)
        return came, scale.standardize(
            np.column_stack([kind.released_offsets(ticks, origin) for kind, ticks, origin in columns])
        )

    def squares_lost(self, scale: Encoding) -> Floats:
        """Add up the squared errors of what would be released, block by block."""
        squares = squares_of_records(*self._before_and_after(scale), self.blocks.missing, self.labels, scale.categories)
        return self.blocks.sums(squares)

    def statistics(self, scale: Encoding) -> LossStatistics:
        """Loss figures of what is released, after rounding, on the released records' scale."""
        return loss_statistics(*self._before_and_after(scale), self.blocks.missing, self.labels, scale.categories)

    def audit(self, scale: Encoding, stretch: float) -> pa.Table:
        """Make the audit's lines, one a block; ``stretch`` takes bounds to the scale of losses."""
        sizes, first, outcomes = np.bincount(self.labels), self.first_groups[:-1], self.outcomes
        columns: dict[str, Any] = {
            "block": self.blocks.numbers,
            "records": np.diff(self.blocks.starts),
            "sse": self.squares_lost(scale),
            "lower_bound": np.array([outcome.lower_bound for outcome in outcomes]) * stretch,
            "improved": [outcome.improved for outcome in outcomes],
        }
        proved = [outcome.certificate for outcome in outcomes if outcome.certificate is not None]
        if proved:
            columns["weight"] = [certificate.weight for certificate in proved]
            columns["bound"] = [certificate.bound * stretch for certificate in proved]
        columns |= {
            "algorithm": [outcome.algorithm for outcome in outcomes],
            "tried": [",".join(outcome.tried) for outcome in outcomes],
            "groups": np.diff(self.first_groups),
            "least": np.minimum.reduceat(sizes, first),
            "most": np.maximum.reduceat(sizes, first),
        }
        return pa.table(columns | self._zeros_joined())

    def _zeros_joined(self) -> dict[str, Ints]:
        """Count the zeros that were to be grouped apart and are in a group with other values, block by block."""
        counts = {}
        for j in self.encoding.zeros_apart:
            zeros = np.bincount(self.labels, (self.blocks.ticks[j] == 0) & ~self.blocks.missing[:, j])
            joined = np.where(zeros < np.bincount(self.labels), zeros, 0).astype(np.int64)
            counts[f"{ZEROS_JOINED}{self.encoding.kinds[j].name}"] = np.add.reduceat(joined, self.first_groups[:-1])
        return counts


def mask_blocks(
    spec: GroupingRules,
    encoding: Encoding,
    scale: Encoding,
    blocks: Blocks,
    demanded: Callable[[slice], Demanded] = lambda rows: NO_DEMANDS,
    *,
    proving: bool = True,
) -> Masked:
    """Partition blocks, refine their groups and average them.

    The algorithm runs on the whole file's standardization; refinement and the lower bound are about the loss, and so
    on a scale near that of the released records. Rounding can turn a small gain into a loss: the refined groups of a
    block are kept only if, rounded, they lose less than the algorithm's do.

    Args:
        spec: gives k, the algorithm with its parameters, the refinement, and the seed.
        encoding: the whole file's standardization.
        scale: the standardization for refinement, steady, so that it does not tell how the file was cut into parts.
        blocks: of records in input order.
        demanded: gives what the groups of the block with these rows have to hold besides k.
        proving: whether to prove how little any groups could lose; without that, the same groups come sooner.
    """
    start = cpu_seconds()
    info, apart = algorithms()[spec.algorithm.name], encoding.zeros_apart
    offsets = encoding.offsets_of(blocks.ticks)
    # Groups are refined as they were made, on the scale of the spec; losses, and what is proved of them, are of values,
    # which all count alike.
    counts_alike = not any(encoding.scales) and all(kind.importance == 1.0 for kind in encoding.kinds)
    refined_on = scale if counts_alike else replace(scale, kinds=encoding.kinds, scales=encoding.scales)
    Z, measured = (on.points(offsets, blocks.missing) for on in (encoding, scale))
    compared = measured if counts_alike else refined_on.points(offsets, blocks.missing)
    asked = [demanded(rows) for _, rows in blocks]
    plainly = counts_alike and not apart and info.name == "mdav"
    small = _small_blocks(spec, Z, measured, blocks, asked, proving) if plainly else {}
    made = []
    for place, (number, rows) in enumerate(blocks):
        if place in small:
            made.append(small[place])
            continue
        n, missing = rows.stop - rows.start, blocks.missing[rows]
        has_values = ~missing[0]
        if not has_values.any():  # nothing to average: the pattern in which every quasi-identifier is missing
            certificate = NOTHING if info.certified else None
            together = np.zeros(n, dtype=np.int64)
            made.append(_Made(together, together, BlockOutcome(0.0, False, info.name, (), certificate)))
            continue
        own = measured.rows(rows).columns(has_values)
        scales = own, own if counts_alike else compared.rows(rows).columns(has_values)
        parts = parts_by_zeros(apart, [values[rows] for values in blocks.ticks], missing, spec.k)
        with working_on(n, number):
            own_Z = Z.rows(rows).columns(has_values)
            made.append(_made(spec, own_Z, scales, parts, number, asked[place], proving))
    return replace(_lightest(blocks, encoding, refined_on, made), seconds=cpu_seconds() - start)


def _small_blocks(
    spec: GroupingRules, Z: Points, measured: Points, blocks: Blocks, asked: list[Demanded], proving: bool
) -> dict[int, _Made]:
    """Make small blocks together that :func:`_made` would make the same, by their places."""
    sizes, made = np.diff(blocks.starts), dict[int, _Made]()
    is_plain = np.array([of is NO_DEMANDS for of in asked]) & are_small(sizes, measured, spec.k, spec.effort, proving)
    patterns, which = np.unique(blocks.missing[blocks.starts[:-1]], axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        places = np.flatnonzero(is_plain & (which.ravel() == number))
        if not len(places) or pattern.all():
            continue
        rows = np.flatnonzero(np.repeat(np.isin(np.arange(len(sizes)), places), sizes))
        starts = np.concatenate([[0], np.cumsum(sizes[places])])
        seeds = np.array([_seed(spec, number) for number in blocks.numbers[places].tolist()], dtype=np.uint64)
        made_on, on = (points.rows(rows).columns(~pattern) for points in (Z, measured))
        grouped = group_small_blocks(made_on, on, starts, spec.k, str(spec.effort), seeds, proving=proving)
        for place, of in zip(places.tolist(), grouped, strict=True):
            proved = BlockOutcome(of.lower_bound, False, spec.algorithm.name, (), None)
            made[place] = _Made(of.labels, of.refined, proved)
    return made


def _seed(spec: GroupingRules, number: int) -> int:
    return int(np.random.SeedSequence([spec.seed, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _made(
    spec: GroupingRules,
    Z: Points,
    scales: tuple[Points, Points],
    parts: list[Ints],
    number: int,
    demanded: Demanded,
    proving: bool,
) -> _Made:
    """Group one block, and refine its groups; the bound is of the first of two ``scales``, they of the other."""
    seed = _seed(spec, number)
    if demanded.units is not None and demanded.units.n > 1:
        return _made_of_units(spec, scales[1], demanded.units, seed)
    labels, algorithm, tried, certificate = _grouped_by_parts(spec, Z, scales[0], parts, seed)
    known = certificate if proving else UNPROVED
    labels, refined, bound = _improved(spec, scales, parts, labels, known, seed, demanded)
    return _Made(labels, refined, BlockOutcome(bound.sse, False, algorithm, tried, certificate))


def _lightest(blocks: Blocks, encoding: Encoding, refined_on: Encoding, made: list[_Made]) -> Masked:
    """Take a block's refined groups where they lose less, rounded as they are released."""
    outcomes = [of.outcome for of in made]
    masked = Masked.by(blocks, encoding, [of.labels for of in made], outcomes)
    gained = np.array([of.refined is not of.labels for of in made])
    if not gained.any():
        return masked
    refined, kept = Masked.by(blocks, encoding, [of.refined for of in made], outcomes), gained
    # What a mean is on another scale tells little of how alike records are on it.
    if not any(encoding.scales):
        kept = gained & (refined.squares_lost(refined_on) < masked.squares_lost(refined_on))
    outcomes = [replace(of, improved=True) if is_kept else of for of, is_kept in zip(outcomes, kept, strict=True)]
    if (kept == gained).all():
        return replace(refined, outcomes=outcomes)
    labels = [of.refined if is_kept else of.labels for of, is_kept in zip(made, kept, strict=True)]
    return Masked.by(blocks, encoding, labels, outcomes)


def _made_of_units(spec: GroupingRules, compared: Points, units: UnitRows, seed: int) -> _Made:
    """Group units of several rows, and refine their groups.

    Nothing is proved: a bound for rows alone is true, but so far below what groups of units can lose that it misleads.
    """
    used: dict[str, tuple[str, ...]] = {}

    def group(points: Points) -> Ints:
        labels, algorithm, tried, _ = _grouped(spec, points, points, seed)
        used[algorithm] = tried
        return refine_with_bound(points, labels, spec.k, spec.effort, seed, UNPROVED)[0]

    labels = group_units(compared, units.n, units.once, group)
    if units.protect is not None:
        labels = units.protect(compared, labels)
    algorithm, tried = next(iter(used.items()))
    certified = NOTHING if algorithms()[spec.algorithm.name].certified else None
    return _Made(labels, labels, BlockOutcome(math.nan, spec.effort != "off", algorithm, tried, certified))


def parts_by_zeros(apart: Sequence[int], ticks: Sequence[NDArray[Any]], missing: Bools, k: int) -> list[Ints]:
    """Cut a block, attribute by attribute, into records that have a zero and those that have none, k or more of each.

    >>> values, missing = np.array([0, 3, 0, 4, 0]), np.zeros((5, 1), dtype=bool)
    >>> [rows.tolist() for rows in parts_by_zeros([0], [values], missing, 2)]
    [[0, 2, 4], [1, 3]]
    >>> len(parts_by_zeros([0], [values], missing, 3))
    1
    """
    parts = [np.arange(len(missing))]
    for j in apart:
        if not missing[0, j]:
            halves = [(rows[ticks[j][rows] == 0], rows[ticks[j][rows] != 0]) for rows in parts]
            parts = [
                part
                for rows, sides in zip(parts, halves, strict=True)
                for part in (sides if min(map(len, sides)) >= k else (rows,))
            ]
    return parts


def _improved(
    spec: GroupingRules,
    scales: tuple[Points, Points],
    parts: list[Ints],
    labels: Ints,
    certificate: Certificate | None,
    seed: int,
    demanded: Demanded,
) -> tuple[Ints, Ints, Bound]:
    """Refine groups; returns them before and after, the same array where nothing was gained, and a bound of loss.

    The bound is of the first of two ``scales``, and groups are refined on the other.
    """
    measured, compared = scales
    protect, mend = demanded.protect, demanded.mend
    if protect is None and compared is measured and len(parts) == 1:
        refined, bound = refine_with_bound(measured, labels, spec.k, spec.effort, seed, certificate)
    else:
        _, bound = refine_with_bound(measured, labels, spec.k, "off", seed, certificate)
        if protect is not None:
            plain, refined = protect(compared, labels, spec.k, effort=spec.effort, seed=seed)
            return plain, refined, bound
        refined = _refined_by_parts(spec, compared, parts, labels, seed)
    if mend is None:
        return labels, refined, bound
    plain = _mended(mend, compared, labels, spec.k, parts)
    return plain, plain if refined is labels else _mended(mend, compared, refined, spec.k, parts), bound


def _mended(mend: Mend, compared: Points, labels: Ints, k: int, parts: list[Ints]) -> Ints:
    """Mend the groups of each part by themselves, and then all that is left."""
    if len(parts) > 1:
        own = (np.unique(labels[rows], return_inverse=True)[1] for rows in parts)
        labels = _joined(
            parts, [mend(compared.rows(rows), of, k, rows=rows) for rows, of in zip(parts, own, strict=True)]
        )
    return mend(compared, labels, k)


def _refined_by_parts(spec: GroupingRules, compared: Points, parts: list[Ints], labels: Ints, seed: int) -> Ints:
    """Refine the groups of each part by themselves; returns the same array where nothing was gained."""
    made = []
    for rows in parts:
        own = np.unique(labels[rows], return_inverse=True)[1]
        effort = spec.effort if isinstance(spec.effort, str) else spec.effort * len(rows) / len(labels)
        made.append((own, refine_with_bound(compared.rows(rows), own, spec.k, effort, seed, UNPROVED)[0]))
    if all(refined is own for own, refined in made):
        return labels
    return _joined(parts, [refined for _, refined in made])


def _joined(parts: list[Ints], labels: list[Ints]) -> Ints:
    """Number the groups of parts one after the other."""
    n_before = np.cumsum([0, *(own.max() + 1 for own in labels)])
    joined = np.empty(sum(map(len, parts)), dtype=np.int64)
    for rows, own, before in zip(parts, labels, n_before[:-1], strict=True):
        joined[rows] = own + before
    return joined


def _grouped_by_parts(
    spec: GroupingRules, Z: Points, measured: Points, parts: list[Ints], seed: int
) -> tuple[Ints, str, tuple[str, ...], Certificate | None]:
    """Group each part of a block by itself; what is proved of parts is not proved of other groups of the block."""
    if len(parts) == 1:
        return _grouped(spec, Z, measured, seed)
    made = [_grouped(spec, Z.rows(rows), measured.rows(rows), seed) for rows in parts]
    labels = _joined(parts, [own for own, _, _, _ in made])
    chosen = made[int(np.argmax([len(rows) for rows in parts]))][1]
    tried = tuple(sorted({name for _, _, tried, _ in made for name in tried}))
    return labels, chosen, tried, None if made[0][3] is None else NOTHING


def _grouped(
    spec: GroupingRules, Z: Points, measured: Points, seed: int
) -> tuple[Ints, str, tuple[str, ...], Certificate | None]:
    """Run the spec's algorithm, or the best: groups, what made them, all that were run, and what was proved."""
    info = algorithms()[spec.algorithm.name]
    if info.name == "best":
        labels, tried = best(Z, spec.k, seed=seed)
        chosen = min(tried, key=lambda run: run.refined_sse).algorithm
        return labels, chosen, tuple(sorted({run.algorithm for run in tried})), None
    info = info.start_of(spec.effort, *Z.shape, spec.k)
    labels, certificate = info.run_certified(Z, spec.k, measured=measured, seed=seed, **spec.algorithm.parameters)
    return labels, info.name, (), certificate


#: What stands before a column's name in a block's line of the audit: its zeros that are grouped with other values.
ZEROS_JOINED = "zeros joined: "


def loss_scale(encoding: Encoding, moments: Sequence[Moments]) -> Encoding:
    """Standardize losses by the moments of the released records; no attribute counts more than another."""
    return encoding.of_values.with_scale(moments)
