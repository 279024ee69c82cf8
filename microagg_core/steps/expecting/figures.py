"""Figures: the blocks that are looked at, grouped as a release would group them, and what that loses and gives away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Floats, Ints
from microagg_core.compiling import compile_parts, grouping_parts
from microagg_core.errors import DataError
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.kinds.encoding import Encoding
from microagg_core.metrics.losses import percent
from microagg_core.metrics.moments import Moments
from microagg_core.metrics.statistics import significant
from microagg_core.plain import from_json, to_json
from microagg_core.privacy.distributions import Distribution
from microagg_core.privacy.risk.contract import Exposure, share
from microagg_core.privacy.risk.exposing import OtherColumns, expose
from microagg_core.privacy.risk.inference import Inference
from microagg_core.privacy.risk.tables import label_lines
from microagg_core.steps.anonymizing import run_block, squares_lost
from microagg_core.steps.expecting.drawing import LookAhead
from microagg_core.steps.expecting.rows import UNIT, load_drafts, rows_name
from microagg_core.steps.pieces import Pieces
from microagg_core.steps.routing import Planned, load_planned
from microagg_core.steps.work import Receipt, Task
from microagg_core.storage.layout import RunLayout
from microagg_core.tables.slices import RECORD, read_slice


@dataclass(frozen=True)
class ColumnExpected:
    """Of one confidential column: records whose value would be certain, and as many by chance."""

    records_certain: float
    by_chance: float | None


@dataclass(frozen=True)
class Expected:
    """What a release with this k would lose, in percent, and give away, in shares; for the operator alone."""

    k: int
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
    own_nearest: float | None
    expected_correct: float | None
    unique_before: float | None
    certain: dict[str, ColumnExpected]


def expect(task: Task) -> Receipt:
    """Group what is looked at for one k, and measure."""
    plan, draft = load_planned(task), load_drafts(task)[task.number]
    spec = plan.context.spec
    compile_parts(grouping_parts(spec.algorithm.name, spec.effort, draft.k))
    rows = _Rows.of(task, plan, draft)
    expected = _expected(plan, draft, rows)
    piece = task.put(_figures_name(task.layout, task.number), to_json(expected))
    return Receipt(task.step, task.number, expected.drawn_records, (piece,))


def read_expected(pieces: Pieces, layout: RunLayout, n_drafts: int) -> tuple[Expected, ...]:
    """What was expected for each k."""
    data = pieces.read_all(_figures_name(layout, j) for j in range(n_drafts))
    return tuple(from_json(Expected, of_draft) for of_draft in data)


def written_names(layout: RunLayout, n_drafts: int, n_parts: int) -> list[str]:
    """All that workers may write of so many drafts, of which nothing is to stay."""
    rows = [rows_name(layout, j, part) for j in range(n_drafts) for part in range(n_parts)]
    return [*rows, *(_figures_name(layout, j) for j in range(n_drafts))]


def _figures_name(layout: RunLayout, draft: int) -> str:
    return layout.plan_file(f"expected-{draft}.json")


@dataclass(frozen=True)
class _Rows:
    """The rows of a draft by unit, units that have at least k of them."""

    table: pa.Table
    #: The place of each row's unit in the draft.
    unit: Ints
    ticks: list[NDArray[Any]]
    missing: NDArray[np.bool_]

    @classmethod
    def of(cls, task: Task, plan: Planned, draft: LookAhead) -> _Rows:
        """Gather them, of all parts."""
        pieces = task.pieces
        names = [rows_name(task.layout, task.number, part) for part in range(len(plan.context.parts))]
        data = pieces.read_all(name for name in names if pieces.has(name))
        if not data:
            raise DataError("none of the records that were looked at is there; the input changed, plan again")
        table = pa.concat_tables([read_slice(of_part) for of_part in data])
        unit = np.asarray(table[UNIT])
        # The size of a piece is known from a sample: it may have fewer records than were thought.
        enough = np.bincount(unit, minlength=len(draft.units))[unit] >= draft.k
        order = np.flatnonzero(enough)
        order = order[np.argsort(unit[order], kind="stable")]
        if not len(order):
            raise DataError(f"no block that was looked at has k={draft.k} records; leave it with --no-expected")
        table = table.take(pa.array(order)).combine_chunks()
        ticks, missing = plan.encoding.ticks([table[f"q{j}"] for j in range(len(plan.encoding.kinds))])
        return cls(table, unit[order], ticks, missing)

    def scale(self, plan: Planned, draft: LookAhead) -> Encoding:
        """The standardization of losses: that of the records that are released, as far as it is known."""
        encoding = plan.encoding
        moments: Sequence[Moments] = plan.survey.moments
        if draft.is_whole:
            columns = zip(encoding.kinds, self.ticks, self.missing.T, strict=True)
            moments = [kind.moments(ticks[~missing]) for kind, ticks, missing in columns]
        means = tuple(m.mean_from(o) if m.n else 0.0 for m, o in zip(moments, encoding.origins, strict=True))
        return Encoding(encoding.kinds, encoding.origins, means, tuple(m.deviation for m in moments))


def _expected(plan: Planned, draft: LookAhead, rows: _Rows) -> Expected:
    """All figures of one k."""
    places, first = np.unique(rows.unit, return_index=True)
    scale = rows.scale(plan, draft)
    lost, released = _grouped(plan, draft, rows, scale, places, first)
    squares = np.add.reduceat(np.sum(~rows.missing & (np.array(scale.deviations) > 0), axis=1), first)
    weighed = _Weighed.of(draft, rows.unit, places, first)
    exposure = _exposed(plan, draft, rows, released)
    lines = label_lines(exposure)
    of_line = np.asarray(lines["row"])
    asked = {name: weighed.mean(np.asarray(lines[name]), of_line) for name in ("own_nearest", "expected_correct")}
    inference = Inference()
    by_chance = inference.of_release(inference.of_piece(exposure), exposure.names)
    columns = plan.context.schema.confidential
    certain = {
        column.name: ColumnExpected(
            significant(weighed.mean(np.asarray(lines[f"certain_{j}"]), of_line)), by_chance[column.name]["by_chance"]
        )
        for j, column in enumerate(columns)
    }
    return Expected(
        k=draft.k,
        records=draft.records,
        withheld=draft.withheld,
        is_whole=draft.is_whole,
        drawn_records=len(rows.unit),
        drawn_blocks=len(places),
        l_sse=significant(percent(weighed.mean(lost, first), weighed.mean(squares, first))),
        l_sse_error=None if draft.is_whole else _error(weighed.of_row[first], lost, squares),
        own_nearest=share(asked["own_nearest"], 1.0),
        expected_correct=share(asked["expected_correct"], 1.0),
        unique_before=share(weighed.mean(_alone(exposure).astype(np.float64), np.arange(len(rows.unit))), 1.0),
        certain=certain,
    )


@dataclass(frozen=True)
class _Weighed:
    """What a sum over a unit's records counts in the mean over all records that would be released."""

    of_row: Floats

    @classmethod
    def of(cls, draft: LookAhead, unit: Ints, places: Ints, first: Ints) -> _Weighed:
        """All records alike where everything is looked at; else units by what they stand for."""
        if draft.is_whole:
            return cls(np.full(len(unit), 1.0 / len(unit)))
        sizes = np.diff(np.append(first, len(unit)))
        weights = np.array([draft.units[place].weight for place in places.tolist()])
        return cls(np.repeat(weights / weights.sum() / sizes, sizes))

    def mean(self, sums: NDArray[Any], rows: Ints) -> float:
        """The mean of what was summed over some records that count alike, one row of each."""
        return float(np.sum(sums * self.of_row[rows]))


def _grouped(
    plan: Planned, draft: LookAhead, rows: _Rows, scale: Encoding, places: Ints, first: Ints
) -> tuple[Floats, list[NDArray[Any]]]:
    """What each unit loses, and the released ticks of all quasi-identifiers."""
    spec = plan.context.spec.model_copy(update={"k": draft.k})
    encoding, steady = plan.encoding, scale.steadied()
    lost: list[float] = []
    blocks: list[list[NDArray[Any]]] = []
    for place, start, end in zip(places.tolist(), first, [*first[1:], len(rows.unit)], strict=True):
        ticks, missing = [values[start:end] for values in rows.ticks], rows.missing[start:end]
        outcome = run_block(spec, encoding, steady, ticks, missing, draft.units[place].block, proving=False)
        lost.append(squares_lost(encoding, scale, encoding.offsets_of(ticks), outcome.released, missing))
        blocks.append(outcome.released)
    return np.array(lost), [np.concatenate(column) for column in zip(*blocks, strict=True)]


def _exposed(plan: Planned, draft: LookAhead, rows: _Rows, released: list[NDArray[Any]]) -> Exposure:
    """What a reader of these records would see; of some blocks, each is a label of its own."""
    kinds, names = plan.encoding.kinds, [c.name for c in plan.context.schema.confidential]
    labels = np.array([unit.label for unit in draft.units])[rows.unit]
    columns: dict[str, Any] = {
        kind.name: kind.to_arrow(ticks, rows.missing[:, j])
        for j, (kind, ticks) in enumerate(zip(kinds, released, strict=True))
    }
    columns |= {name: rows.table[f"c{j}"] for j, name in enumerate(names)}
    # Longer than the name of any column, and so none of them.
    of_label = "label of " + " ".join(columns)
    table = pa.table({**columns, of_label: pa.array(labels)})
    confidential = tuple((name, Distribution.of(table[name])) for name in names)
    others, records = OtherColumns((of_label,), confidential), np.asarray(rows.table[RECORD])
    origins = [rows.table[f"q{j}"] for j in range(len(kinds))]
    return expose(plan.encoding, table, others, records, origins, seed=plan.context.spec.seed)


def _error(weights: Floats, lost: Floats, squares: Ints) -> float | None:
    """The standard error of a loss that is known from some units, in percent; None of one unit."""
    n, whole = len(weights), float(np.sum(weights * squares))
    if n < 2 or not whole:
        return None
    off = weights * (lost - squares * (np.sum(weights * lost) / whole))
    return significant(100.0 * float(np.sqrt(np.sum(off * off) * n / (n - 1))) / whole, 2)


def _alone(exposure: Exposure) -> NDArray[np.bool_]:
    """Which records stand alone with their label and quasi-identifiers before masking."""
    keys = mix_words(exposure.labels[exposure.groups].astype(np.uint64))
    for hashes in exposure.originals or ():
        keys = mix_words(keys ^ hashes)
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    alone: NDArray[np.bool_] = (counts == 1)[places]
    return alone
