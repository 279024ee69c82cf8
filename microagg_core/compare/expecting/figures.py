"""Figures: what is looked at, grouped by a cell's settings, and what that loses, gives away and takes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Floats, Ints
from microagg_core.compare.expecting.drafts import CellLook, LookAhead
from microagg_core.compare.expecting.grouping import GroupedUnits, RowsOfUnits, group_units
from microagg_core.compare.expecting.limits import broken_limits
from microagg_core.compare.expecting.rows import load_drafts, load_looks, rows_name
from microagg_core.compiling import compile_parts
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import DataError, MicroaggError, sanitized
from microagg_core.group.bounds import gap_percent
from microagg_core.group.metrics.losses import percent
from microagg_core.group.metrics.statistics import losses_of, significant
from microagg_core.inspect.candidates import Candidates
from microagg_core.inspect.contract import share
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.exposure import Exposure, asking_share, expose
from microagg_core.inspect.risk.inference import Inference
from microagg_core.inspect.risk.labels import label_lines
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.plain import PlainFloats, from_json, to_json
from microagg_core.release.steps.demands import protection_of
from microagg_core.release.steps.measuring import proved_figures
from microagg_core.release.steps.pieces import Pieces
from microagg_core.release.steps.routing import Planned, load_planned
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.store.layout import RunLayout

#: Digits of seconds: more of them differ from one time to the next.
_DIGITS_OF_TIME = 3


@dataclass(frozen=True)
class ColumnExpected:
    """Of one confidential column: records whose value would be certain, and as many by chance."""

    records_certain: float
    by_chance: float | None


@dataclass(frozen=True)
class Expected:
    """What a release with these settings would lose, in percent, and give away, in shares; for the operator alone."""

    k: int
    algorithm: str
    parameters: dict[str, float | str]
    refine: str | float
    #: Released by a plan with this k, and not.
    records: int
    withheld: int
    #: What this is known from: all that would be released, or some of it.
    is_whole: bool
    drawn_records: int
    drawn_blocks: int
    l_sse: float
    #: By so much the loss is off, mostly, as it is of some blocks; a standard error.
    l_sse_error: float | None
    #: Losses with other seeds, where those would make other groups.
    l_sse_of_seeds: tuple[float, ...]
    #: No groups lose less than this sum of squared errors (of all that would be released); and the share of the loss
    #: that could be avoided at most, in percent. None where nobody had the time to prove it.
    lower_bound: float | None
    gap: float | None
    #: Of what was looked at.
    groups: int
    smallest: int
    largest: int
    #: CPU seconds of what was looked at, compiling aside; and of a whole release, by the models at the pace seen here.
    seconds: float
    whole_seconds: float
    pace: float
    own_nearest: float | None
    expected_correct: float | None
    by_chance: float | None
    unique_before: float | None
    certain: dict[str, ColumnExpected]
    #: Limits of protect: that a release would not keep to, in words.
    broken: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """What came of one look: figures, or why there are none."""

    expected: Expected | None
    reason: str = ""
    draft: int = 0
    #: Unit by unit, where these are some of all blocks: what each stands for, loses, and could lose.
    weights: PlainFloats = dataclasses.field(default_factory=lambda: np.zeros(0))
    lost: PlainFloats = dataclasses.field(default_factory=lambda: np.zeros(0))
    squares: PlainFloats = dataclasses.field(default_factory=lambda: np.zeros(0))

    def error_of_difference(self, other: Trial) -> float:
        """By how much the difference of two losses is off, as both are of some blocks: the same ones, or others."""
        mine, others = self.expected, other.expected
        if mine is None or others is None or mine.is_whole:
            return 0.0
        if self.draft == other.draft:
            return standard_error(self.weights, self.lost - other.lost, self.squares) or 0.0
        return float(np.hypot(mine.l_sse_error or 0.0, others.l_sse_error or 0.0))


def expect(task: Task) -> Receipt:
    """Group what is looked at by one cell's settings, and measure."""
    plan, look = load_planned(task), load_looks(task)[task.number]
    compile_parts(look.cell.parts(look.proves, bool(protection_of(plan.context).of_groups)))
    draft = load_drafts(task)[look.draft]
    try:
        trial = _tried(plan, look, draft, RowsOfUnits.of(task, plan, draft, look.draft))
    except DataError as error:
        trial = Trial(None, error.message)
    except MicroaggError:
        raise
    except Exception as error:  # a release with these settings would end with it; others need not
        trial = Trial(None, sanitized(error, "grouping with these settings").message)
    piece = task.put(_figures_name(task.layout, task.number), to_json(trial))
    return Receipt(task.step, task.number, trial.expected.drawn_records if trial.expected else 0, (piece,))


def read_expected(pieces: Pieces, layout: RunLayout, n_looks: int) -> tuple[Trial, ...]:
    """What came of each look."""
    data = pieces.read_all(_figures_name(layout, j) for j in range(n_looks))
    return tuple(from_json(Trial, of_look) for of_look in data)


def written_names(layout: RunLayout, n_looks: int, n_drafts: int, n_parts: int) -> list[str]:
    """All that workers may write of so many looks and drafts, of which nothing is to stay."""
    rows = [rows_name(layout, j, part) for j in range(n_drafts) for part in range(n_parts)]
    return [*rows, *(_figures_name(layout, j) for j in range(n_looks))]


def _figures_name(layout: RunLayout, look: int) -> str:
    return layout.plan_file(f"expected-{look}.json")


def _tried(plan: Planned, look: CellLook, draft: LookAhead, rows: RowsOfUnits) -> Trial:
    """All figures of one cell."""
    scale = rows.scale(plan, draft)
    grouped = group_units(plan, look, draft, rows, scale)
    squares = np.add.reduceat(np.sum(~rows.missing & (np.array(scale.deviations) > 0), axis=1), rows.first)
    weighed = _Weighed.of(draft, rows)
    exposure = _exposed(plan, draft, rows, grouped.released)
    cell = look.cell
    settings: dict[str, Any] = {
        "k": draft.k,
        "algorithm": cell.algorithm,
        "parameters": cell.parameters,
        "refine": cell.refine,
    }
    expected = Expected(
        **settings,
        records=draft.records,
        withheld=draft.withheld,
        is_whole=draft.is_whole,
        drawn_records=len(rows.unit),
        drawn_blocks=len(rows.places),
        **_losses(draft, look, weighed, grouped, squares),
        groups=len(exposure.sizes),
        smallest=int(exposure.sizes.min()),
        largest=int(exposure.sizes.max()),
        **_times(draft, look, grouped),
        **_risks(plan, draft, rows, weighed, exposure),
    )
    if draft.is_whole:
        return Trial(expected, draft=look.draft)
    weights = weighed.of_row[rows.first]
    return Trial(expected, "", look.draft, weights, grouped.lost, squares.astype(np.float64))


@dataclass(frozen=True)
class _Weighed:
    """What a sum over a unit's records counts in the mean over all records that would be released."""

    of_row: Floats
    first: Ints

    @classmethod
    def of(cls, draft: LookAhead, rows: RowsOfUnits) -> _Weighed:
        """All records alike where everything is looked at; else units by what they stand for."""
        if draft.is_whole:
            return cls(np.full(len(rows.unit), 1.0 / len(rows.unit)), rows.first)
        weights = np.array([draft.units[place].weight for place in rows.places.tolist()])
        return cls(np.repeat(weights / weights.sum() / rows.sizes, rows.sizes), rows.first)

    def mean(self, sums: NDArray[Any], rows: Ints | None = None) -> float:
        """The mean of what was summed over some records that count alike, one row of each; else over each unit."""
        return float(np.sum(sums * self.of_row[self.first if rows is None else rows]))


def _losses(
    draft: LookAhead, look: CellLook, weighed: _Weighed, grouped: GroupedUnits, squares: Ints
) -> dict[str, Any]:
    """What is lost, of how much; as a release's figures where everything is looked at."""
    if draft.is_whole:
        total = reduce(add, grouped.statistics)
        losses, proved = losses_of(total), proved_figures(total, pa.Table.from_pylist(grouped.lines))
        bound = {"lower_bound": proved.lower_bound, "gap": proved.gap}
        of_seeds = [percent(float(np.sum(lost)), losses.sst) for lost in grouped.lost_otherwise]
        loss = {"l_sse": significant(losses.l_sse), "l_sse_error": None}
    else:
        lost, whole = weighed.mean(grouped.lost), weighed.mean(squares)
        least = weighed.mean(np.array([line["lower_bound"] for line in grouped.lines]))
        bound = {"lower_bound": None, "gap": significant(gap_percent(lost, least))}
        of_seeds = [percent(weighed.mean(of_seed), whole) for of_seed in grouped.lost_otherwise]
        error = standard_error(weighed.of_row[weighed.first], grouped.lost, squares)
        loss = {"l_sse": significant(percent(lost, whole)), "l_sse_error": error and significant(error, 2)}
    proof = bound if look.proves else dict.fromkeys(bound)
    return {**loss, **proof, "l_sse_of_seeds": tuple(map(significant, of_seeds))}


def _times(draft: LookAhead, look: CellLook, grouped: GroupedUnits) -> dict[str, Any]:
    """What was looked at took, and what a release would."""
    pace = grouped.seconds / grouped.model_seconds if grouped.model_seconds > 0 else 1.0
    is_all = draft.is_whole and look.proves
    whole = grouped.seconds if is_all else look.model_seconds * pace
    times = {"seconds": grouped.seconds, "whole_seconds": whole, "pace": pace}
    return {name: significant(value, _DIGITS_OF_TIME) for name, value in times.items()}


def _risks(plan: Planned, draft: LookAhead, rows: RowsOfUnits, weighed: _Weighed, exposure: Exposure) -> dict[str, Any]:
    """What is given away."""
    lines = label_lines(exposure)
    of_line = np.asarray(lines["row"])
    asked = weighed.mean(np.asarray(lines["asked"]), of_line)
    links = {
        name: share(weighed.mean(np.asarray(lines[name]), of_line), asked)
        for name in ("own_nearest", "expected_correct")
    }
    inference = Inference()
    by_chance = inference.figures(inference.measure(exposure), exposure.names)
    certain = {
        column.name: ColumnExpected(
            significant(weighed.mean(np.asarray(lines[f"certain_{j}"]), of_line)), by_chance[column.name]["by_chance"]
        )
        for j, column in enumerate(plan.context.schema.confidential)
    }
    alone = weighed.mean(_alone(exposure).astype(np.float64), np.arange(len(rows.unit)))
    inferred = {name: column.records_certain for name, column in certain.items()}
    is_protected = plan.context.spec.protect is not None
    all_links = _all_links(plan, rows, weighed, exposure) if is_protected else 0.0
    return {
        **links,
        "by_chance": _by_chance(exposure) if draft.is_whole else None,
        "unique_before": share(alone, 1.0),
        "certain": certain,
        "broken": broken_limits(plan.context, exposure, inferred, all_links) if is_protected else (),
    }


def _by_chance(exposure: Exposure) -> float | None:
    """What somebody links rightly who takes any record of the label that misses the same values."""
    own = exposure.sought.own
    return share(float(exposure.sought.candidates.by_chance(own).sum()), len(own)) if len(own) else None


def _all_links(plan: Planned, rows: RowsOfUnits, weighed: _Weighed, exposure: Exposure) -> float:
    """The share of records that are expected to be linked rightly, every record asked, as the gate does."""
    candidates = Candidates(exposure.means, exposure.missing, exposure.labels, exposure.sizes)
    values = plan.encoding.standardize(plan.encoding.offsets_of(rows.ticks), rows.missing)
    return weighed.mean(candidates.link(values, exposure.groups).correct, np.arange(len(rows.unit)))


def _exposed(plan: Planned, draft: LookAhead, rows: RowsOfUnits, released: list[NDArray[Any]]) -> Exposure:
    """What a reader of these records would see; of some blocks, each is a label of its own."""
    spec, kinds = plan.context.spec, plan.encoding.kinds
    names = [c.name for c in plan.context.schema.confidential]
    labels = np.array([unit.label for unit in draft.units])[rows.unit]
    columns: dict[str, Any] = {
        kind.name: kind.to_arrow(ticks, rows.missing[:, j])
        for j, (kind, ticks) in enumerate(zip(kinds, released, strict=True))
    }
    columns |= {name: rows.table[f"c{j}"] for j, name in enumerate(names)}
    # Longer than the name of any column, and so none of them.
    of_label = "label of " + " ".join(columns)
    table = pa.table({**columns, of_label: pa.array(labels)})
    confidential = {name: Distribution.of(table[name]) for name in names}
    origins = [rows.table[f"q{j}"] for j in range(len(kinds))]
    # Of a whole release those are asked who are asked of it; of some blocks, all are.
    asking = asking_share(spec.risk, len(rows.unit), len(kinds)) if draft.is_whole else 1.0
    records = np.asarray(rows.table[RECORD])
    return expose(plan.encoding, table, (of_label,), confidential, records, origins, asking=asking, seed=spec.seed)


def standard_error(weights: Floats, lost: Floats, squares: Floats | Ints) -> float | None:
    """By how much a loss is off, mostly, that is known from some units, in percent; None of one unit."""
    n, whole = len(weights), float(np.sum(weights * squares))
    if n < 2 or not whole:
        return None
    off = weights * (lost - squares * (np.sum(weights * lost) / whole))
    return 100.0 * float(np.sqrt(np.sum(off * off) * n / (n - 1))) / whole


def _alone(exposure: Exposure) -> NDArray[np.bool_]:
    """Which records stand alone with their label and quasi-identifiers before masking."""
    keys = mix_words(exposure.labels[exposure.groups].astype(np.uint64))
    for hashes in exposure.originals or ():
        keys = mix_words(keys ^ hashes)
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    alone: NDArray[np.bool_] = (counts == 1)[places]
    return alone
