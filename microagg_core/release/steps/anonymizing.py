"""Anonymize: the algorithm on every block of a partition, group means rounded to the released type, and its figures.

The released rows leave as slices for the files they belong to; block by block, sizes and losses go to the audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.compiling import PROTECTION, compile_parts, ensure_compiled
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.hashing import hash_rows
from microagg_core.data.tables.slices import RECORD, Slices, to_bytes, write_slices
from microagg_core.group.algorithms import algorithms
from microagg_core.group.algorithms.trying import best
from microagg_core.group.grouping.bounds import Bound
from microagg_core.group.grouping.headway import working_on
from microagg_core.group.metrics.certificate import NOTHING, Certificate
from microagg_core.group.metrics.means import Groups
from microagg_core.group.metrics.statistics import LossStatistics, loss_statistics
from microagg_core.group.refine.certifying import refine_with_bound
from microagg_core.inspect.protect.block import BlockDemands
from microagg_core.inspect.protect.protecting import protected_groups
from microagg_core.kernels.tools.threads import cpu_seconds
from microagg_core.plain import to_json
from microagg_core.release.steps.demands import PartitionDemands
from microagg_core.release.steps.routing import Planned, load_blocks, load_planned
from microagg_core.release.steps.scattering import gather_partition, load_measure_scale
from microagg_core.release.steps.work import Receipt, Task

#: So many blocks' figures are added up at once: it takes a tenth of adding one by one, and no more of them are held.
_BLOCKS_AT_ONCE = 16


class AlgorithmByName(Protocol):
    """An algorithm of the registry, and its parameters."""

    @property
    def name(self) -> str:
        """In the registry."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """By name; the rest have their defaults."""


class GroupingRules(Protocol):
    """What makes the groups of a block: a spec has these, among others."""

    @property
    def k(self) -> int:
        """The least number of records of a group."""

    @property
    def seed(self) -> int:
        """With the block's number it makes the block's own seed."""

    @property
    def effort(self) -> str | float:
        """The refinement by name, or its seconds."""

    @property
    def algorithm(self) -> AlgorithmByName:
        """What makes the groups, before refinement."""


@dataclass(frozen=True)
class Proposal:
    """The groups as an algorithm made them, before refinement.

    ``tried`` names all that were run where the spec leaves the choice to the block; ``certificate`` is what the
    algorithm proved, if it proves anything, on the scale of refinement.
    """

    labels: Ints
    algorithm: str
    tried: tuple[str, ...]
    certificate: Certificate | None


@dataclass(frozen=True)
class BlockOutcome:
    """What the algorithm made of one block: a group for each record, and the groups' released ticks."""

    labels: Ints
    #: Of each quasi-identifier, the groups' ticks.
    representatives: list[NDArray[Any]]
    seconds: float
    #: No groups of at least k lose less than this sum of squared errors, on the scale of refinement.
    lower_bound: float
    #: Whether refinement made the groups better.
    improved: bool
    #: What made the groups.
    proposal: Proposal

    @property
    def released(self) -> list[NDArray[Any]]:
        """Of each quasi-identifier, the records' ticks."""
        return [ticks[self.labels] for ticks in self.representatives]


def run_block(
    spec: GroupingRules,
    encoding: Encoding,
    scale: Encoding,
    ticks: list[NDArray[Any]],
    missing: Bools,
    block: int,
    demands: BlockDemands | None = None,
    *,
    proving: bool = True,
) -> BlockOutcome:
    """Partition one block, refine its groups and average them.

    The algorithm runs on the whole file's standardization; refinement and the lower bound are about the loss, and so
    on a scale near that of the released records. Rounding can turn a small gain into a loss: the refined groups
    are kept only if, rounded, they lose less than the algorithm's do.

    Args:
        spec: gives k, the algorithm with its parameters, the refinement, and the seed.
        encoding: the whole file's standardization.
        scale: the standardization for refinement, steady, so that it does not tell how the file was cut into parts.
        ticks: each quasi-identifier's exact ticks, records in input order.
        missing: which of them are missing; the same for all records of a block.
        block: the block's number, which with the spec's seed makes the block's own seed.
        demands: what its groups have to hold besides k.
        proving: whether to prove how little any groups could lose; without that, the same groups come sooner.
    """
    start = cpu_seconds()
    info = algorithms()[spec.algorithm.name]
    if missing[0].all():  # nothing to average: the pattern in which every quasi-identifier is missing
        labels = np.zeros(len(missing), dtype=np.int64)
        proposal = Proposal(labels, info.name, (), NOTHING if info.certified else None)
        return BlockOutcome(labels, _representatives(encoding, ticks, labels), 0.0, 0.0, False, proposal)
    there, offsets = ~missing[0], encoding.offsets_of(ticks)
    Z = np.ascontiguousarray(encoding.standardize(offsets, missing)[:, there])
    measured = np.ascontiguousarray(scale.standardize(offsets, missing)[:, there])
    seed = int(np.random.SeedSequence([spec.seed, block]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with working_on(len(missing), block):
        proposal = _grouped(spec, Z, measured, seed)
        if not proving and proposal.certificate is None:
            proposal = replace(proposal, certificate=NOTHING)
        labels, refined, bound = _improved(spec, measured, proposal, seed, demands)
    outcome = BlockOutcome(labels, _representatives(encoding, ticks, labels), 0.0, bound.sse, False, proposal)
    if refined is not labels:
        again = replace(
            outcome, labels=refined, representatives=_representatives(encoding, ticks, refined), improved=True
        )
        lost, before = (squares_lost(encoding, scale, offsets, one.released, missing) for one in (again, outcome))
        outcome = again if lost < before else outcome
    return replace(outcome, seconds=cpu_seconds() - start)


def _improved(
    spec: GroupingRules, measured: Floats, proposal: Proposal, seed: int, demands: BlockDemands | None
) -> tuple[Ints, Ints, Bound]:
    """The groups before and after refinement, the same array where nothing was gained; and what any groups lose."""
    labels = proposal.labels
    if demands is None:
        refined, bound = refine_with_bound(measured, labels, spec.k, spec.effort, seed, proposal.certificate)
        return labels, refined, bound
    _, bound = refine_with_bound(measured, labels, spec.k, "off", seed, proposal.certificate)
    protected = protected_groups(measured, labels, spec.k, demands, spec.effort, seed)
    return protected.plain, protected.refined, bound


def _grouped(spec: GroupingRules, Z: Floats, measured: Floats, seed: int) -> Proposal:
    """The groups of the spec's algorithm; of "best", those of the one that was."""
    info = algorithms()[spec.algorithm.name]
    if info.name == "best":
        choice = best(Z, spec.k, seed=seed)
        return Proposal(choice.labels, choice.chosen, tuple(sorted({one.algorithm for one in choice.tried})), None)
    labels, certificate = info.run_certified(Z, spec.k, measured=measured, seed=seed, **spec.algorithm.parameters)
    return Proposal(labels, info.name, (), certificate)


def _representatives(encoding: Encoding, ticks: list[NDArray[Any]], labels: Ints) -> list[NDArray[Any]]:
    """The groups' means, rounded, for each attribute."""
    groups = Groups.of(labels)
    return [kind.representatives(values, groups) for kind, values in zip(encoding.kinds, ticks, strict=True)]


def squares_lost(
    encoding: Encoding, scale: Encoding, offsets: Floats, released: list[NDArray[Any]], missing: Bools
) -> float:
    """The sum of squared errors of what would be released."""
    after = _released_offsets(encoding, released)
    difference = scale.standardize(offsets, missing) - scale.standardize(after, missing)
    return float(np.sum(difference * difference))


@dataclass
class _Partition:
    """The rows of a partition, by block and record number."""

    table: pa.Table
    records: Ints
    block: Ints
    ticks: list[NDArray[Any]]
    missing: Bools


@dataclass
class _Released:
    """What is released of the blocks so far: the groups' representatives, and which group each record is of."""

    groups: list[Ints] = field(default_factory=list)
    representatives: list[list[NDArray[Any]]] = field(default_factory=list)
    n_groups: int = 0

    def add(self, outcome: BlockOutcome) -> None:
        """The next block's."""
        self.groups.append(outcome.labels + self.n_groups)
        self.representatives.append(outcome.representatives)
        self.n_groups += len(outcome.representatives[0])

    def joined(self) -> tuple[Ints, list[NDArray[Any]]]:
        """The group of each record, and the ticks of each group, by quasi-identifier."""
        return np.concatenate(self.groups), [np.concatenate(ticks) for ticks in zip(*self.representatives, strict=True)]


def _gathered(task: Task, planned: Planned) -> _Partition:
    table = gather_partition(task, planned)
    block = np.asarray(table["block"]).astype(np.int64)
    ticks, missing = planned.encoding.ticks([table[f"q{j}"] for j in range(len(planned.encoding.kinds))])
    return _Partition(table, np.asarray(table[RECORD]), block, ticks, missing)


def anonymize_partition(task: Task) -> Receipt:
    """Anonymize the blocks of one partition."""
    planned = load_planned(task)
    spec = planned.context.spec
    ensure_compiled(spec.algorithm.name, spec.effort, spec.k)
    scale = load_measure_scale(task, planned.encoding)
    steady = scale.steadied()
    rows = _gathered(task, planned)
    demands = PartitionDemands.of(task, planned.context, rows.table)
    if demands:
        compile_parts((PROTECTION,))
    released, statistics, blocks, kernel = _Released(), list[LossStatistics](), [], 0.0
    numbers, first = np.unique(rows.block, return_index=True)
    for number, start, end in zip(numbers.tolist(), first, [*first[1:], len(rows.block)], strict=True):
        ticks, missing = [values[start:end] for values in rows.ticks], rows.missing[start:end]
        of_block = demands.of_block(start, end) if demands else None
        outcome = run_block(spec, planned.encoding, steady, ticks, missing, number, of_block)
        kernel += outcome.seconds
        released.add(outcome)
        figures = block_statistics(planned.encoding, scale, ticks, outcome, missing)
        statistics = _with_next(statistics, figures)
        blocks.append(audit_row(number, outcome, figures, steady.least_stretch(scale)))
    # What is grouped is not needed any more, and would be held beside what is written.
    rows.ticks.clear()
    rows.table = rows.table.drop_columns([RECORD, "block"])
    data, slices = _released_rows(task, planned, rows, released)
    return _write(task, data, slices, statistics, blocks, len(rows.records), kernel)


def _with_next(statistics: list[LossStatistics], figures: LossStatistics) -> list[LossStatistics]:
    """The blocks' figures so far, and those of the next one."""
    more = [*statistics, figures]
    return more if len(more) < _BLOCKS_AT_ONCE else [LossStatistics.sum_of(more)]


def _write(
    task: Task,
    data: bytes,
    slices: Slices,
    statistics: list[LossStatistics],
    blocks: list[dict[str, Any]],
    n_rows: int,
    kernel: float,
) -> Receipt:
    layout, number = task.layout, task.number
    total = to_json(LossStatistics.sum_of(statistics))
    pieces = (
        task.put(layout.anonymized(number), data),
        task.put(layout.loss_statistics(number), total),
        task.put(layout.block_results(number), to_bytes(pa.Table.from_pylist(blocks))),
    )
    return Receipt(task.step, number, n_rows, pieces, slices, kernel_seconds=kernel)


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
    return loss_statistics(before, after, missing, outcome.labels)


def _released_offsets(encoding: Encoding, released: list[NDArray[Any]]) -> Floats:
    """Released ticks as offsets from the encoding's origins."""
    columns = zip(encoding.kinds, released, encoding.origins, strict=True)
    return np.column_stack([kind.released_offsets(ticks, origin) for kind, ticks, origin in columns])


def audit_row(number: int, outcome: BlockOutcome, figures: LossStatistics, stretch: float) -> dict[str, Any]:
    """A line of the audit; ``stretch`` takes the bound to the scale of losses."""
    certificate, sizes = outcome.proposal.certificate, np.bincount(outcome.labels)
    return {
        "block": number,
        "records": len(outcome.labels),
        "sse": float(figures.sse.sum()),
        "lower_bound": outcome.lower_bound * stretch,
        "improved": outcome.improved,
        **({} if certificate is None else {"weight": certificate.weight, "bound": certificate.bound * stretch}),
        "algorithm": outcome.proposal.algorithm,
        "tried": ",".join(outcome.proposal.tried),
        "groups": len(sizes),
        "least": int(sizes.min()),
        "most": int(sizes.max()),
    }


def _released_rows(task: Task, planned: Planned, rows: _Partition, released: _Released) -> tuple[bytes, Slices]:
    """The partition's rows as released, the private record number before and what came in behind, cut by file."""
    blocks, schema = load_blocks(task, planned), planned.context.schema
    group, ticks = released.joined()
    # What the records of a group have in common is made once for each group.
    of_group = np.empty(released.n_groups, dtype=np.int64)
    of_group[group] = np.arange(len(group))
    block, missing = rows.block[of_group], rows.missing[of_group]
    labels = blocks.labels(block)
    shared: dict[str, Any] = {c.name: labels[f"b{j}"] for j, c in enumerate(schema.blocking)}
    for j, column in enumerate(schema.quasi_identifiers):
        shared[column.name] = planned.encoding.kinds[j].to_arrow(ticks[j], missing[:, j])
    # Equal combinations go to the same file: the hash is of what a reader sees.
    first, count = blocks.files(block)
    spread = hash_rows(shared.values(), len(of_group), seed=0) % count.astype(np.uint64)
    destination = (first + spread.astype(np.int64))[group]
    taken = pa.array(group)
    source = {name: column.take(taken) for name, column in shared.items()}
    source |= {column.name: rows.table[f"c{j}"] for j, column in enumerate(schema.confidential)}
    came = [f"q{j}" for j in range(len(schema.quasi_identifiers))]
    columns = [pa.array(rows.records), *(source[c.name] for c in schema.released), *(rows.table[q] for q in came)]
    names = [RECORD, *(f"x{j}" for j in range(len(schema.released))), *came]
    return write_slices(pa.Table.from_arrays(columns, names=names), destination, task.number)
