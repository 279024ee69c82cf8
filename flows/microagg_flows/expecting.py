"""What a release would lose and give away before it is made: for ``microagg plan``, and for ``microagg compare``.

The figures stay with who asked, and what is written for them is removed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from microagg_core.compare.expecting import drawing
from microagg_core.compare.expecting.cells import Cell
from microagg_core.compare.expecting.drafts import Drafts, Frugality
from microagg_core.compare.expecting.figures import Expected, Trial, read_expected, written_names
from microagg_core.compare.expecting.rows import save_drafts
from microagg_core.errors import sanitized
from microagg_core.group.metrics.statistics import significant
from microagg_core.pages.expected_report import Expectation
from microagg_core.release.steps.keys import read_keys
from microagg_core.release.steps.oversize import Passes
from microagg_flows.progress import awaited
from microagg_flows.release import Release
from microagg_flows.run_work import PLANNED

_NIGHT = "of a night of a series nothing is expected, as its survivors are not grouped again"


@dataclass(frozen=True)
class Tried:
    """What came of some cells, and why of others nothing did."""

    trials: tuple[Trial, ...]
    left_out: tuple[tuple[Cell, str], ...]


def expect_release(release: Release) -> Expectation:
    """Group some of what was planned, for several k, and measure it.

    Raises:
        MicroaggError: always one of ours.
    """
    try:
        with awaited(release.progress, "what is to be expected"):
            expected, left_out = ((), (_NIGHT,)) if release.marks else _of_plan(release)
    except Exception as error:
        raise sanitized(error, "what is to be expected of the plan") from None
    plan, spec = release.planned, release.spec
    return Expectation(
        spec.k,
        plan.outline.n_blocks,
        expected,
        left_out,
        plan.survey.disclosures,
        spec.protect is not None,
    )


def _of_plan(release: Release) -> tuple[tuple[Expected, ...], tuple[str, ...]]:
    """The figures of the k asked and its neighbours, and why some k have none."""
    spec, keys = release.spec, blocking_keys(release)
    alone = drawing.only_asked(keys, spec.k)
    wanted = (spec.k,) if alone else drawing.neighbours(spec.k)
    frugality = Frugality(drawing.MOST_ROWS, drawing.SECONDS / len(wanted))
    tried = try_cells(release, keys, [Cell.of(spec, k) for k in wanted], frugality)
    left_out = (*filter(None, [alone]), *(f"k={cell.k}: {reason}" for cell, reason in tried.left_out))
    return tuple(_as_planned(release, trial.expected) for trial in tried.trials if trial.expected), left_out


def _as_planned(release: Release, expected: Expected) -> Expected:
    """The time of the k asked is that of the plan's own blocks, at the pace that was seen."""
    report = release.plan_report
    if report is None or expected.k != release.spec.k:
        return expected
    return dataclasses.replace(expected, whole_seconds=significant(report.seconds * expected.pace, 3))


def blocking_keys(release: Release) -> pa.Table:
    """The keys that were counted, of all input parts."""
    counted = release.pieces("keys")
    return read_keys(counted.read_all(piece.name for piece in counted.pieces))


def try_cells(release: Release, keys: pa.Table, cells: Sequence[Cell], frugality: Frugality) -> Tried:
    """Have workers group some of a planned release's blocks, or all, by each cell's settings."""
    plan, n_parts = release.planned, len(release.planned.context.parts)
    passes = Passes(release.run, release.do, release.reads("context"), n_parts, release.pieces("survey"))
    drawn = drawing.draw_blocks(plan.context, plan.survey, keys, passes, cells, frugality, release.hold)
    trials = _trials(release, drawn, n_parts) if drawn.looks else ()
    pairs = zip(drawn.looks, trials, strict=True)
    without = [(look.cell, trial.reason) for look, trial in pairs if trial.expected is None]
    return Tried(tuple(trial for trial in trials if trial.expected), (*drawn.left_out, *without))


def _trials(release: Release, drawn: Drafts, n_parts: int) -> tuple[Trial, ...]:
    knowing, layout, n_looks = (*PLANNED, "drafts"), release.layout, len(drawn.looks)
    release.known["drafts"] = drafts = save_drafts(release.run, drawn)
    try:
        read = release.do(release.with_keys(release.tasks("draw-rows", n_parts, knowing)))
        rows = tuple(piece for receipt in read for piece in receipt.pieces)
        release.do([task.reading(rows) for task in release.tasks("expect", n_looks, knowing)])
        return read_expected(release.pieces("expect"), layout, n_looks)
    finally:
        written = written_names(layout, n_looks, len(drawn.drafts), n_parts)
        release.work.delete_many([*written, *(piece.name for piece in drafts)])
