"""Show a plan to its operator: blocks by number, reasons, sizes, time and memory, never a label; and a forecast."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.blocks.cuts import count_leaves
from microagg_core.blocks.plan import BlockPlan
from microagg_core.blocks.strata import Strata
from microagg_core.data.kinds.contract import CATEGORY_RULES, Claim, Kind
from microagg_core.data.kinds.metric import metric_words
from microagg_core.data.kinds.nominal import NominalKind
from microagg_core.group.algorithms import algorithms
from microagg_core.group.metrics.statistics import significant
from microagg_core.pages.words import duration, size_in_words
from microagg_core.release.pages.promises import pooling_words
from microagg_core.release.pages.words import TEXT_TYPES
from microagg_core.release.planned import Planned
from microagg_core.release.planning import codes_questions, most_rows, task_bytes
from microagg_core.release.sizing.forecast import Forecast
from microagg_core.release.sizing.tasks import planned_seconds
from microagg_core.release.steps.survey import Dominated
from microagg_core.spec.release import ReleaseSpec

#: Blocks that are named one by one.
_LARGEST, _CHANGED = 5, 1000
#: Share of records whose category fewer than k have, from which on it is said.
_MOST_RARE = 0.02
#: Withheld patterns of missing values that are said, and columns that one of them lacks.
_PATTERNS, _LACKING = 5, 6


@dataclass(frozen=True)
class BlockLine:
    """A block that is not just one blocking key, or is among the largest."""

    block: int
    records: int
    seconds: float
    reason: str


@dataclass(frozen=True)
class NightPlan:
    """Count what becomes of units in a night of a series; for the operator alone."""

    mode: str
    night: int
    arrivals: int
    #: Arrivals that wait for a later night.
    held: int
    survivors: int
    ghosts: int
    #: Survivors whose atoms are not whole, and units that are never released again.
    withheld: int
    vanished: int
    #: Changes that are not released, because too few of their class changed, or because it holds a ghost.
    held_back: int
    #: How many times the loss of blocks of ``until`` arrivals tonight's have, by their sizes; None without blocks.
    price: float | None
    until: int

    def rows(self) -> list[tuple[str, str]]:
        rows = [
            ("series", f"{self.mode}, night {self.night}"),
            ("arrivals", f"{self.arrivals:,}" + (f", of which {self.held:,} wait" if self.held else "")),
        ]
        if self.night and self.mode in ("atoms", "rotation"):
            rows.append(("survivors", f"{self.survivors:,} released as before, {self.ghosts:,} ghosts of who left"))
            rows.append(("not released", f"{self.withheld:,} withheld with their atoms, {self.vanished:,} vanish"))
        if self.held_back:
            rows.append(("held back", f"{self.held_back:,} changes, of too few to be told or beside ghosts"))
        if self.price is not None and self.price > 1.05:
            rows.append(
                ("price of haste", f"about {self.price:.1f} times the loss of blocks of {self.until:,} arrivals")
            )
        return rows


def price_of_haste(block_rows: Ints, until: int, n_attributes: int) -> float | None:
    """Estimate how many times the loss of blocks of ``until`` records these blocks have, by the law of growing density.

    In p attributes groups of k among n records have radii that shrink as n^(-1/p), and so losses as n^(-2/p).

    >>> price_of_haste(np.array([25, 100]), 100, 2)
    1.6
    >>> price_of_haste(np.array([], dtype=np.int64), 100, 2) is None
    True
    """
    if not len(block_rows):
        return None
    small = np.minimum(block_rows, until)
    times = (until / small) ** (2 / n_attributes)
    return round(float((times * block_rows).sum() / block_rows.sum()), 3)


@dataclass(frozen=True)
class UnitCounts:
    """Count units of several rows, and what is not released of them; for the operator alone."""

    units: int
    #: Withheld with all their rows, or held for a later night.
    withheld: int
    #: Rows beyond the most that are released of a unit, and the units that have such.
    left_out: int
    cut: int

    def rows(self) -> list[tuple[str, str]]:
        gone = f" ({self.withheld:,} withheld)" if self.withheld else ""
        rows = [("units", f"{self.units:,}{gone}")]
        return [*rows, ("left out", f"{self.left_out:,} rows of {self.cut:,} units")] if self.left_out else rows


@dataclass(frozen=True)
class PlanReport:
    records: int
    withheld: int
    #: How many of these only so that the others cannot be computed from totals; and all that is said of them, in words.
    added: int
    withheld_words: tuple[str, ...]
    #: Records that wait for a later night of a series.
    held: int
    keys: int
    undersized_keys: int
    blocks: int
    merged_blocks: int
    #: Released labels, and how many of them are lists, which tell that a key with fewer than k records exists.
    labels: int
    listing_labels: int
    split_blocks: int
    partitions: int
    files: int
    max_records: int
    seconds: float
    task_bytes: int
    largest: tuple[BlockLine, ...]
    #: The first of those that are not just one blocking key, and how many of them there are.
    changed: tuple[BlockLine, ...]
    n_changed: int
    rounding: tuple[str, ...]
    #: How quasi-identifiers count when groups are made, where not by their values.
    metric: tuple[str, ...]
    #: What members of a group can compute of each other.
    pooling: str
    unwise: tuple[str, ...]
    #: What becomes of units, in a series.
    night: NightPlan | None = None
    #: Of the rows that are anonymized, in memory.
    row_bytes: int = 0
    #: How many times as long as the cost model says blocks were seen to take; None where none was grouped.
    pace: float | None = None
    #: For each blocking column the records whose value of it is released joined with others.
    joined_values: dict[str, int] = field(default_factory=dict)
    #: Records in blocks that are pieces of what lies under one label.
    split_rows: int = 0
    #: Of quasi-identifiers that are missing, where cells are blanked: how often one is, and how many are blanked.
    blanked: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Where units have several rows.
    units: UnitCounts | None = None
    #: CPU seconds that a run is planned to take in all, and who does its tasks.
    cpu_seconds: float = 0.0
    workers: str = ""

    def sentence(self) -> str:
        keys = "blocking keys" if self.units is None else "keys of blocking values and rows of a unit"
        parts = [f"{self.keys} {keys} make {self.blocks} blocks in {self.partitions} partitions"]
        if self.undersized_keys:
            parts.append(f"{self.undersized_keys} keys below k")
        if self.merged_blocks:
            parts.append(f"{self.merged_blocks} blocks merged")
        if self.listing_labels:
            parts.append(f"{self.listing_labels} labels tell of keys below k")
        if self.split_blocks:
            parts.append(f"{self.split_blocks} blocks from splits")
        if self.withheld:
            company = f" ({self.added} of them for company)" if self.added else ""
            of_units = f" of {self.units.withheld} units" if self.units else ""
            parts.append(f"{self.withheld} records{of_units} withheld{company}")
        if cells := sum(blanked for _, blanked in self.blanked.values()):
            parts.append(f"{cells} cells blanked")
        if self.held:
            parts.append(f"{self.held} records held for a later night")
        return ", ".join(parts)

    def blanked_rows(self) -> list[tuple[str, ...]]:
        """Tabulate what is missing and what is blanked, the header first; empty, where nothing may be."""
        rows = [(name, f"{missing:,}", f"{blanked:,}") for name, (missing, blanked) in self.blanked.items()]
        return [("quasi-identifier", "missing", "blanked"), *rows] if rows else []

    def at_pace(self, pace: float) -> PlanReport:
        """Scale the times by how many times as long kernels were seen to take as the cost model says."""
        largest, changed = (
            tuple(replace(line, seconds=round(line.seconds * pace, 3)) for line in lines)
            for lines in (self.largest, self.changed)
        )
        seconds = significant(self.seconds * pace, 3)
        cpu_seconds = significant(self.cpu_seconds + seconds - self.seconds, 3)
        return replace(self, seconds=seconds, cpu_seconds=cpu_seconds, pace=pace, largest=largest, changed=changed)


def report_plan(planned: Planned, plan: BlockPlan) -> PlanReport:
    strata, spec, survey = plan.strata, planned.context.spec, planned.survey
    several = spec.several is not None
    info = algorithms()[spec.algorithm.name].with_refinement(spec.effort)
    largest = np.lexsort((np.arange(plan.n_blocks), -plan.block_rows))[:_LARGEST]
    stratum = plan.block_stratum
    is_changed = (strata.n_keys[stratum] > 1) | np.isin(stratum, list(plan.trees)) | (strata.pattern[stratum] != 0)
    changed = np.flatnonzero(is_changed)
    weighed = ", or one with more than half of their weight" if spec.roles.weight else ""
    few = f"fewer than k={spec.k} {'units' if several else 'records'}{weighed}"
    return PlanReport(
        records=survey.arrivals,
        withheld=strata.suppressed_rows,
        added=strata.added_rows,
        withheld_words=_withheld_words([kind.name for kind in planned.context.kinds], spec.k, strata),
        units=UnitCounts(survey.units, survey.units - int(strata.units.sum()), survey.left_out, survey.cut_units)
        if spec.has_whole_units
        else None,
        held=strata.held_rows,
        keys=len(strata.key_hashes),
        undersized_keys=strata.undersized_keys,
        blocks=plan.n_blocks,
        merged_blocks=int(np.sum(strata.n_keys > 1)),
        labels=strata.labels.num_rows,
        listing_labels=_listing_labels(spec, strata),
        split_blocks=sum(count_leaves(tree) for tree in plan.trees.values()),
        partitions=plan.n_partitions,
        files=plan.n_files,
        max_records=plan.max_records,
        seconds=significant(float(plan.block_seconds.sum())),
        task_bytes=task_bytes(plan, info, len(planned.context.kinds), spec.k, survey.row_bytes),
        largest=_lines(plan, few, largest),
        changed=_lines(plan, few, changed[:_CHANGED]),
        n_changed=len(changed),
        rounding=tuple(_rounding(kind, planned.context.schema.weight) for kind in planned.encoding.kinds),
        metric=tuple(
            f"{column.name!r}: {words}"
            for column in spec.roles.quasi_identifiers
            if (words := metric_words(column.scale, column.top_words, column.zeros))
        ),
        pooling=pooling_words(spec.k, several=several)
        if any(Claim.MEAN_KEPT in kind.claims for kind in planned.context.kinds)
        else "",
        unwise=plan_warnings(planned, plan),
        row_bytes=int(strata.rows.sum() * survey.row_bytes),
        joined_values=joined_values([column.name for column in planned.context.schema.blocking], strata),
        blanked=blanked_cells([kind.name for kind in planned.context.kinds], strata),
        split_rows=int(sum(strata.rows[number] for number in plan.trees)),
        cpu_seconds=significant(
            planned_seconds(spec, survey.arrivals, float(plan.block_seconds.sum()), plan.n_blocks), 3
        ),
    )


def _listing_labels(spec: ReleaseSpec, strata: Strata) -> int:
    """Count labels that list what was merged; where all that was merged has a hierarchy, there is a parent instead."""
    lists = [spec.hierarchies.get(name) is None for name in spec.roles.blocking]
    is_listing = np.array([spec.blocks.labels == "list" and any(lists[depth:]) for depth in range(len(lists) + 1)])
    return len(np.unique(strata.label[(strata.n_keys > 1) & is_listing[strata.depth]]))


def joined_values(names: list[str], strata: Strata) -> dict[str, int]:
    """Count, for each blocking column, records whose value is released joined with others, for want of k records."""
    is_merged = strata.n_keys > 1
    return {name: int(strata.rows[is_merged & (strata.depth <= j)].sum()) for j, name in enumerate(names)}


def blanked_cells(names: list[str], strata: Strata) -> dict[str, tuple[int, int]]:
    """Count, for each quasi-identifier that is missing, how often it is, and how many cells are blanked besides."""
    cells = zip(names, strata.missing_cells or (), strata.blanked_cells or (), strict=False)
    return {name: (missing, blanked) for name, missing, blanked in cells if missing or blanked}


def _withheld_words(names: list[str], k: int, strata: Strata) -> tuple[str, ...]:
    """Say why records are withheld, where it is not for their blocking values; or units, where these have several."""
    several = strata.sizes is not None
    words = [
        _withheld_units(pattern, n, k)
        if several
        else f"{n} of them lack just {_quoted(names, pattern)}, and fewer than k={k} in their block do"
        for pattern, n in strata.withheld_patterns[:_PATTERNS]
    ]
    if len(strata.withheld_patterns) > _PATTERNS:
        what = "numbers of rows" if several else "patterns of missing values"
        words.append(f"and {len(strata.withheld_patterns) - _PATTERNS} more {what}")
    words += _limit_words(strata, k)
    if strata.added_rows:
        whom = "more records" if several else "of them"
        words.append(f"{strata.added_rows} {whom} so that totals known elsewhere do not tell of the others")
    return tuple(words)


def _withheld_units(size: int, n: int, k: int) -> str:
    """Say that units are withheld whose number of rows too few have.

    >>> _withheld_units(9, 1, 3)
    'one unit has 9 rows, and fewer than k=3 in its block have as many'
    """
    who, its = ("one unit has", "its") if n == 1 else (f"{n} units have", "their")
    return f"{who} {_rows(size)}{'' if n == 1 else ' each'}, and fewer than k={k} in {its} block have as many"


def _limit_words(strata: Strata, k: int) -> list[str]:
    """Name the limit of rows under which every unit has as many rows as k others, at least in the whole file."""
    few = strata.withheld_patterns
    if strata.sizes is None or not few:
        return []
    sizes, units = np.array([*zip(strata.sizes, strata.units, strict=True), *few]).T
    most = most_rows(sizes, units, k)
    if most >= max(rows for rows, _ in few):
        return []
    return [f"unit: {{rows: {{at_most: {most}}}}} would release {_rows(most)} of each unit that has more"]


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n} rows"


def _quoted(names: list[str], pattern: int) -> str:
    lacking = [name for j, name in enumerate(names) if pattern >> j & 1]
    more = f" and {len(lacking) - _LACKING} more" if len(lacking) > _LACKING else ""
    return ", ".join(map(repr, lacking[:_LACKING])) + more


def _lines(plan: BlockPlan, few: str, blocks: Ints) -> tuple[BlockLine, ...]:
    return tuple(
        BlockLine(b, int(plan.block_rows[b]), round(float(plan.block_seconds[b]), 3), _reason(plan, few, b))
        for b in blocks.tolist()
    )


def _reason(plan: BlockPlan, few: str, block: int) -> str:
    strata, stratum = plan.strata, int(plan.block_stratum[block])
    words = [] if strata.sizes is None else [f"units of {_rows(int(strata.sizes[stratum]))}"]
    if strata.n_keys[stratum] > 1:
        words.append(
            f"merged from {int(strata.n_keys[stratum])} keys, the first {int(strata.depth[stratum])} blocking "
            f"columns kept, because a key had {few}"
        )
    if stratum in plan.trees:
        words.append(
            f"one of {count_leaves(plan.trees[stratum])} pieces of {int(strata.rows[stratum])} records, "
            f"which are above max_records={plan.max_records}"
        )
    if strata.pattern[stratum]:
        words.append(f"records with {int(strata.pattern[stratum]).bit_count()} quasi-identifiers missing")
    return "; ".join(words) or "one blocking key"


def plan_warnings(planned: Planned, plan: BlockPlan) -> tuple[str, ...]:
    """List what a careful operator would look at before running."""
    survey, spec = planned.survey, planned.context.spec
    words = [*(one.sentence() for one in survey.disclosures), *survey.remarks, *codes_questions(spec, survey)]
    words += [
        f"quasi-identifier {kind.name!r} is constant and could be dropped"
        for kind, m in zip(planned.context.kinds, survey.moments, strict=True)
        if m.n and m.deviation == 0
    ]
    words += [
        f"quasi-identifier {kind.name!r} has {len(kind.counts):,} categories, and {rare:.1%} of records have one that "
        f"fewer than k={spec.k} have: groups lose most of these; put rare ones together, or give it another role"
        for kind in planned.encoding.kinds
        if isinstance(kind, NominalKind) and (rare := kind.share_below(spec.k)) > _MOST_RARE
    ]
    scaled = {column.name for column in spec.roles.quasi_identifiers if column.metric is not None}
    words += [_dominance_words(column) for column in survey.dominated if column.column not in scaled]
    output, released = spec.output, planned.context.schema.released_schema
    has_text = any(str(kind) in TEXT_TYPES for kind in released.types)
    if output.format == "csv" and output.csv.formulas != "escape" and has_text:
        words.append(
            "text cells that begin with = + - @, a tab or a carriage return are released as they are; a spreadsheet "
            "may run them as formulas; output: {csv: {formulas: escape}} puts an apostrophe before them"
        )
    strata = plan.strata
    if strata.suppressed_rows > 0.05 * survey.arrivals:
        cure = " or lower unit.rows.at_most" if spec.has_whole_units else ""
        words.append(
            f"{strata.suppressed_rows} records are withheld, more than 5 % of the input; coarsen blocking columns{cure}"
        )
    if survey.left_out > 0.05 * (survey.arrivals + survey.left_out):
        words.append(
            f"{survey.left_out} rows beyond unit.rows.at_most are left out, more than 5 % of the input; figures of the "
            "release are of the others"
        )
    merged = int(strata.rows[strata.n_keys > 1].sum())
    if merged > 0.1 * survey.arrivals:
        words.append(f"{merged} records lose a blocking value to merging, more than 10 %; use coarser blocking columns")
    small = int(np.sum(plan.block_units < 2 * spec.k))
    if small > 0.5 * plan.n_blocks and plan.n_blocks > 1:
        words.append(
            f"{small} blocks are too small for two groups, so they become one group each; if a blocking column names "
            "people, households or firms, give it another role, as its values are released as labels"
        )
    return tuple(words)


def _rounding(kind: Kind, weight: str | None) -> str:
    is_by_weight = weight is not None and kind.applied_rule in CATEGORY_RULES
    return f"{kind.rounding_in_words()}{', by weight' if is_by_weight else ''}"


def _dominance_words(column: Dominated) -> str:
    """Say that a handful of records makes much of a column's variance, and what helps.

    >>> _dominance_words(Dominated("wind", 1, 0.566)).partition(", so")[0]
    "one record makes 57 % of the variance of quasi-identifier 'wind'"
    """
    who = "one record makes" if column.records == 1 else f"{column.records} records make"
    return (
        f"{who} {100 * column.share:.0f} % of the variance of quasi-identifier {column.column!r}, so differences of "
        "all others count little when groups are made; where it is no mistake, top: '99.5%' beside its name in roles, "
        "scale: robust or, for amounts, scale: log1p makes them count"
    )


#: What the losses are called.
_LOSSES = {
    "computing": "computing",
    "store": "waiting for the store",
    "flow": "the flow alone at work, between tasks",
    "handing_out": "starting, and waiting to be handed a task",
    "tails": "waiting for the last tasks of a step",
    "failures": "lost with workers that failed",
}


def forecast_rows(one: Forecast) -> list[tuple[str, str]]:
    """List what is planned, and what it takes in all."""
    d, traffic = one.description, one.traffic
    enough = "enough" if d.memory >= one.worker_bytes else "TOO LITTLE"
    return [
        ("records", f"{d.rows:,} in {one.parts:,} parts, {d.columns} columns, {one.keys:,} blocking keys"),
        ("plan", f"{one.blocks:,} blocks in {one.partitions:,} partitions, {one.files:,} released files"),
        ("method", f"{d.algorithm}, k={d.k}, refine {d.refine}, {d.quasi_identifiers} quasi-identifiers"),
        ("workers", f"{d.workers:,} of {d.threads} threads"),
        ("wall time", f"{duration(one.seconds)}, {one.losses['computing']:.0%} of it computing"),
        ("CPU", f"{one.all_cpu_seconds / 3600:,.2f} hours, {one.kernel_seconds / one.all_cpu_seconds:.0%} in kernels; "
                f"the flow {duration(one.flow_cpu_seconds)}"),
        ("memory of a worker", f"{size_in_words(one.worker_bytes)}; {size_in_words(d.memory)} are {enough}"),
        ("memory of the flow", size_in_words(one.flow_bytes)),
        ("objects", f"{traffic['objects']:,.0f} in the work area, {one.files:,} at the output"),
        ("requests", f"{traffic['gets']:,.0f} that read, {traffic['puts']:,.0f} that write"),
        ("bytes", f"{size_in_words(traffic['input_bytes'])} of input, {size_in_words(traffic['work_bytes'])} written "
                  f"to the work area, {size_in_words(traffic['output_bytes'])} released"),
        ("cost", ", ".join(f"{name} {value:,.2f}" for name, value in one.costs.items())
                 + f"; together {sum(one.costs.values()):,.2f}"),
        ("output a month", f"{one.output_month:,.2f}"),
    ]  # fmt: skip


def forecast_stages(one: Forecast) -> list[tuple[str, ...]]:
    """Tabulate what each stage takes, the header first."""
    rows = [
        (
            stage.name,
            duration(stage.seconds),
            f"{sum(step.tasks for step in stage.steps):,}",
            duration(sum(one.cpu_seconds[step.step] for step in stage.steps)),
            duration(stage.flow_seconds),
            f"{stage.seconds / one.seconds:.1%}",
        )
        for stage in one.stages
    ]
    return [("stage", "wall", "tasks", "CPU", "flow alone", "of all worker time"), *rows]


def loss_rows(one: Forecast) -> list[tuple[str, str]]:
    """List where the workers' time goes, what is next to nothing left out."""
    shares = sorted(one.losses.items(), key=lambda pair: -pair[1])
    return [(f"{share:6.1%}", _LOSSES[name]) for name, share in shares if share >= 0.0005]
