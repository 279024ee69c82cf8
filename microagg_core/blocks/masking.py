"""Mask one block: group its records, refine the groups, average them, and compute what that loses.

A release does this for every block, a comparison for drawn blocks, the Python functions for the blocks of a table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.blocks.units import UnitRows, group_units
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.group.algorithms import algorithms
from microagg_core.group.algorithms.best import best
from microagg_core.group.bounds import NOTHING, Bound, Certificate
from microagg_core.group.headway import working_on
from microagg_core.group.metrics.moments import Groups, Moments
from microagg_core.group.metrics.statistics import LossStatistics, loss_statistics
from microagg_core.group.points import Points
from microagg_core.group.refine.bounds import refine_with_bound
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
class BlockOutcome:
    """Groups of one block: a group for each record, and the groups' released ticks."""

    labels: Ints
    #: Of each quasi-identifier, the groups' ticks.
    representatives: list[NDArray[Any]]
    seconds: float
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

    @property
    def released(self) -> list[NDArray[Any]]:
        """Expand the groups' ticks to the records'."""
        return [ticks[self.labels] for ticks in self.representatives]


def run_block(
    spec: GroupingRules,
    encoding: Encoding,
    scale: Encoding,
    ticks: list[NDArray[Any]],
    missing: Bools,
    block: int,
    protect: Protect | None = None,
    *,
    mend: Mend | None = None,
    proving: bool = True,
    units: UnitRows | None = None,
) -> BlockOutcome:
    """Partition one block, refine its groups and average them.

    The algorithm runs on the whole file's standardization; refinement and the lower bound are about the loss, and so
    on a scale near that of the released records. Rounding can turn a small gain into a loss: the refined groups
    are kept only if, rounded, they lose less than the algorithm's do.

    Args:
        spec: gives k, the algorithm with its parameters, the refinement, and the seed.
        encoding: the whole file's standardization.
        scale: the standardization for refinement, steady, so that it does not tell how the file was cut into parts.
        ticks: of records in input order.
        missing: the same for all records of a block.
        block: its number makes the block's own seed, with the spec's.
        protect, mend: make groups hold what is demanded besides k, as they are refined or once they are; not both.
        proving: whether to prove how little any groups could lose; without that, the same groups come sooner.
        units: where units have several rows, which follow each other: groups are then those of ``group_units``.
    """
    start = cpu_seconds()
    info = algorithms()[spec.algorithm.name]
    if missing[0].all():  # nothing to average: the pattern in which every quasi-identifier is missing
        labels = np.zeros(len(missing), dtype=np.int64)
        certificate = NOTHING if info.certified or not proving else None
        return BlockOutcome(labels, _representatives(encoding, ticks, labels), 0, 0, False, info.name, (), certificate)
    there, offsets = ~missing[0], encoding.offsets_of(ticks)
    Z = encoding.points(offsets, missing).columns(there)
    measured = scale.points(offsets, missing).columns(there)
    # Groups are refined as they were made, on the scale of the spec; losses, and what is proved of them, are of values,
    # which all count alike.
    counts_alike = not any(encoding.scales) and all(kind.importance == 1.0 for kind in encoding.kinds)
    refined_on = scale if counts_alike else replace(scale, kinds=encoding.kinds, scales=encoding.scales)
    compared = measured if counts_alike else refined_on.points(offsets, missing).columns(there)
    parts = parts_by_zeros(encoding.zeros_apart, ticks, missing, spec.k)
    seed = int(np.random.SeedSequence([spec.seed, block]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with working_on(len(missing), block):
        if units is not None and units.n > 1:
            outcome = _grouped_units(spec, compared, units, seed)
            made = _representatives(encoding, ticks, outcome.labels)
            return replace(outcome, representatives=made, seconds=cpu_seconds() - start)
        labels, algorithm, tried, certificate = _grouped_by_parts(spec, Z, measured, parts, seed)
        if not proving and certificate is None:
            certificate = NOTHING
        labels, refined, bound = _improved(spec, (measured, compared), parts, labels, certificate, seed, protect, mend)
    representatives = _representatives(encoding, ticks, labels)
    outcome = BlockOutcome(labels, representatives, 0.0, bound.sse, False, algorithm, tried, certificate)
    if refined is not labels:
        outcome = _lighter(outcome, refined, encoding, refined_on, ticks, missing)
    return replace(outcome, seconds=cpu_seconds() - start)


def _lighter(
    outcome: BlockOutcome, refined: Ints, encoding: Encoding, scale: Encoding, ticks: list[NDArray[Any]], missing: Bools
) -> BlockOutcome:
    """Take the refined groups where they lose less, rounded as they are released."""
    made = _representatives(encoding, ticks, refined)
    again = replace(outcome, labels=refined, representatives=made, improved=True)
    lost, before = (squares_lost(encoding, scale, ticks, of, missing) for of in (again, outcome))
    # What a mean is on another scale tells little of how alike records are on it.
    return again if lost < before or any(encoding.scales) else outcome


def _grouped_units(spec: GroupingRules, compared: Points, units: UnitRows, seed: int) -> BlockOutcome:
    """Group units of several rows, and refine their groups.

    Nothing is proved: a bound for rows alone is true, but so far below what groups of units can lose that it misleads.
    """
    used: dict[str, tuple[str, ...]] = {}

    def group(points: Points) -> Ints:
        labels, algorithm, tried, _ = _grouped(spec, points, points, seed)
        used[algorithm] = tried
        return refine_with_bound(points, labels, spec.k, spec.effort, seed, NOTHING)[0]

    labels = group_units(compared, units.n, units.once, group)
    if units.protect is not None:
        labels = units.protect(compared, labels)
    algorithm, tried = next(iter(used.items()))
    certified = NOTHING if algorithms()[spec.algorithm.name].certified else None
    return BlockOutcome(labels, [], 0.0, math.nan, spec.effort != "off", algorithm, tried, certified)


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


def zeros_joined(encoding: Encoding, ticks: Sequence[NDArray[Any]], missing: Bools, labels: Ints) -> dict[str, int]:
    """Count, for the audit, the zeros that were to be grouped apart and are in a group with other values."""
    counts = {}
    for j in encoding.zeros_apart:
        zeros = np.bincount(labels, (ticks[j] == 0) & ~missing[:, j])
        counts[f"{ZEROS_JOINED}{encoding.kinds[j].name}"] = int(zeros[zeros < np.bincount(labels)].sum())
    return counts


def _improved(
    spec: GroupingRules,
    scales: tuple[Points, Points],
    parts: list[Ints],
    labels: Ints,
    certificate: Certificate | None,
    seed: int,
    protect: Protect | None,
    mend: Mend | None,
) -> tuple[Ints, Ints, Bound]:
    """Refine groups; returns them before and after, the same array where nothing was gained, and a bound of loss.

    The bound is of the first of two ``scales``, and groups are refined on the other.
    """
    measured, compared = scales
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
        made.append((own, refine_with_bound(compared.rows(rows), own, spec.k, effort, seed, NOTHING)[0]))
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
    labels, certificate = info.run_certified(Z, spec.k, measured=measured, seed=seed, **spec.algorithm.parameters)
    return labels, info.name, (), certificate


def _representatives(encoding: Encoding, ticks: list[NDArray[Any]], labels: Ints) -> list[NDArray[Any]]:
    groups = Groups.of(labels, encoding.weights_of(ticks))
    return [kind.representatives(values, groups) for kind, values in zip(encoding.kinds, ticks, strict=True)]


def squares_lost(
    encoding: Encoding, scale: Encoding, ticks: list[NDArray[Any]], outcome: BlockOutcome, missing: Bools
) -> float:
    """Sum the squared errors of what would be released."""
    if scale.categories is not None:
        return float(block_statistics(encoding, scale, ticks, outcome, missing).squares[0].sum())
    after = _released_offsets(encoding, outcome.released)
    difference = scale.standardize(encoding.offsets_of(ticks), missing) - scale.standardize(after, missing)
    return float(np.sum(difference * difference))


def block_statistics(
    encoding: Encoding,
    scale: Encoding,
    ticks: list[NDArray[Any]],
    outcome: BlockOutcome,
    missing: Bools,
) -> LossStatistics:
    """Loss figures of what is released, after rounding, on the released records' scale."""
    before = scale.standardize(encoding.offsets_of(ticks), missing)
    after = scale.standardize(_released_offsets(encoding, outcome.representatives))
    return loss_statistics(before, after, missing, outcome.labels, scale.categories)


def _released_offsets(encoding: Encoding, released: list[NDArray[Any]]) -> Floats:
    columns = zip(encoding.kinds, released, encoding.origins, strict=True)
    return np.column_stack([kind.released_offsets(ticks, origin) for kind, ticks, origin in columns])


def audit_row(number: int, outcome: BlockOutcome, figures: LossStatistics, stretch: float) -> dict[str, Any]:
    """Make a line of the audit; ``stretch`` takes the bound to the scale of losses."""
    certificate, sizes = outcome.certificate, np.bincount(outcome.labels)
    return {
        "block": number,
        "records": len(outcome.labels),
        "sse": float(figures.squares[0].sum()),
        "lower_bound": outcome.lower_bound * stretch,
        "improved": outcome.improved,
        **({} if certificate is None else {"weight": certificate.weight, "bound": certificate.bound * stretch}),
        "algorithm": outcome.algorithm,
        "tried": ",".join(outcome.tried),
        "groups": len(sizes),
        "least": int(sizes.min()),
        "most": int(sizes.max()),
    }


#: What stands before a column's name in a block's line of the audit: its zeros that are grouped with other values.
ZEROS_JOINED = "zeros joined: "


def loss_scale(encoding: Encoding, moments: Sequence[Moments]) -> Encoding:
    """Standardize losses by the moments of the released records; no attribute counts more than another."""
    return encoding.of_values.with_scale(moments)
