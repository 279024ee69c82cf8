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
from microagg_core.compare.expecting.figures import EXPECT, EXPECTED_OF_CELL, Expected, Trial
from microagg_core.compare.expecting.rows import DRAFT_ROUTES, DRAFTS, DRAW_ROWS, LOOKS, know_drafts
from microagg_core.errors import sanitized
from microagg_core.group.metrics.statistics import significant
from microagg_core.pages.expected_report import Expectation
from microagg_core.release.records import MARKS
from microagg_core.release.steps.keys import KEYS, counted_keys
from microagg_flows.progress import awaited
from microagg_flows.release import Release

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
            expected, left_out = ((), (_NIGHT,)) if release.has(MARKS) else _of_plan(release)
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
    return counted_keys(release.written(KEYS))


def try_cells(release: Release, keys: pa.Table, cells: Sequence[Cell], frugality: Frugality) -> Tried:
    """Have workers group some of a planned release's blocks, or all, by each cell's settings."""
    plan = release.planned
    drawn = drawing.draw_blocks(plan.context, plan.survey, keys, release, cells, frugality, release.hold)
    trials = _trials(release, drawn) if drawn.looks else ()
    pairs = zip(drawn.looks, trials, strict=True)
    without = [(look.cell, trial.reason) for look, trial in pairs if trial.expected is None]
    return Tried(tuple(trial for trial in trials if trial.expected), (*drawn.left_out, *without))


def _trials(release: Release, drawn: Drafts) -> tuple[Trial, ...]:
    written = [output.name for output in (DRAFTS, LOOKS, DRAFT_ROUTES)] + [DRAW_ROWS.name, EXPECT.name]
    try:
        know_drafts(release, drawn)
        release.do(DRAW_ROWS)
        release.do(EXPECT, n=len(drawn.looks))
        return tuple(release.written(EXPECTED_OF_CELL).read_all(EXPECTED_OF_CELL))
    finally:
        for name in written:
            release.work.delete_all(release.layout.objects(name))
        release.forget_steps(DRAW_ROWS, EXPECT)
