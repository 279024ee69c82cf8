"""Try settings on a planned release's blocks: for what to expect of a plan, for a comparison, for the operator's page.

The figures stay with who asked, and what is written for them is removed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from microagg_core.compare.drawing import PAGE_ROWS, SECONDS, Drawn, Surveyed, draw_blocks, only_asked
from microagg_core.compare.grid import Budget, Setting, neighbours
from microagg_core.compare.trial import PLANNED_TRIALS, TRIALS, TRY, Expected, Trial
from microagg_core.errors import sanitized
from microagg_core.group.metrics.statistics import significant
from microagg_core.pages.comparison_report import Expectation
from microagg_core.release.records import MARKS
from microagg_core.release.steps.drawn_rows import DRAFT_ROUTES, DRAFTS, DRAW_ROWS, know_drafts
from microagg_core.release.steps.keys import KEYS, counted_keys
from microagg_flows.progress import awaited
from microagg_flows.release import Release

#: Part of a run's planned CPU that a look at other k may take unasked, and CPU seconds that it may take of any run.
SHARE, ANYWAY = 0.05, 0.3
#: Seconds of one core: for each row of the input, of which some are drawn; and for each record that is tried with a k,
#: beside its grouping. Fewer records than the least would say too little of many.
_OF_ROW, _OF_RECORD, _LEAST = 1e-6, 12e-6, 2_000
_TOO_LONG = (
    f"what other k would lose is not looked at, as that takes more than {100 * SHARE:.0f} % of a run's CPU; see it "
    "with microagg plan SPEC --expected, and other settings with microagg compare SPEC"
)
_NIGHT = "of a night of a series nothing is expected, as its survivors are not grouped again"
_SEVERAL = "of units of several rows nothing is expected, as blocks are tried with units of one row alone"


#: A setting of which nothing came, and why.
LeftOut = tuple[Setting, str]


def expect_release(release: Release, budget: Budget | None = None) -> Expectation:
    """Group some of what was planned, for the k asked and its neighbours, and measure it.

    Without a ``budget`` it takes what nobody waits for, or is not done.
    """
    try:
        with awaited(release.progress, "what is to be expected"):
            expected: tuple[Expected, ...]
            left_out: tuple[str, ...]
            why = _NIGHT if release.has(MARKS) else _SEVERAL if release.spec.several is not None else None
            budget = budget or quick_budget(release)
            if why or budget is None:
                expected, left_out = (), (why or _TOO_LONG,)
            else:
                expected, left_out = _neighbours_tried(release, budget)
    except Exception as error:
        raise sanitized(error, "what is to be expected of the plan") from None
    plan, spec = release.planned, release.spec
    return Expectation(
        spec.k, plan.outline.n_blocks, expected, left_out, plan.survey.disclosures, spec.protect is not None
    )


def quick_budget(release: Release) -> Budget | None:
    """Find how many records a look at other k can try that nobody waits for; None where too few."""
    report, arrivals, ks = release.plan_report, release.planned.survey.arrivals, neighbours(release.spec.k)
    if report is None:
        return None
    seconds = max(ANYWAY, SHARE * report.cpu_seconds)
    of_record = len(ks) * (_OF_RECORD + report.seconds / max(1, arrivals))
    records = int((seconds - _OF_ROW * arrivals) / of_record)
    return Budget(min(records, PAGE_ROWS), seconds / len(ks)) if records >= min(_LEAST, arrivals) else None


def full_budget(rows: int, k: int) -> Budget:
    """Try so many records of each k; of what would take too long by the cost model, fewer."""
    return Budget(rows, SECONDS / len(neighbours(k)))


def draw_neighbours(release: Release, budget: Budget) -> tuple[Drawn, tuple[str, ...]]:
    """Draw the blocks on which the k asked and its neighbours are tried; say why others are not, if they are not."""
    spec, keys = release.spec, counted_keys(release.written(KEYS))
    alone = only_asked(keys, spec.k)
    ks = (spec.k,) if alone else neighbours(spec.k)
    return drawn_blocks(release, keys, [Setting.of(spec, k) for k in ks], budget), tuple(filter(None, [alone]))


def _neighbours_tried(release: Release, budget: Budget) -> tuple[tuple[Expected, ...], tuple[str, ...]]:
    """Try the k asked and its neighbours; say why some k have no figures."""
    drawn, alone = release.drawn or draw_neighbours(release, budget)
    made, without = try_blocks(release, drawn)
    left_out = (*alone, *(f"k={setting.k}: {reason}" for setting, reason in without))
    return tuple(_as_planned(release, trial.expected) for trial in made if trial.expected), left_out


def _as_planned(release: Release, expected: Expected) -> Expected:
    """Take for the k asked the time of the plan's own blocks, at the pace that was seen."""
    report = release.plan_report
    if report is None or expected.k != release.spec.k:
        return expected
    return dataclasses.replace(expected, whole_seconds=significant(report.seconds * expected.pace, 3))


def drawn_blocks(release: Release, keys: pa.Table, settings: Sequence[Setting], budget: Budget) -> Drawn:
    """Draw blocks of a planned release, or take all, for each setting."""
    plan = release.planned
    return draw_blocks(Surveyed(plan.context, plan.survey, keys, release, release.hold_until), settings, budget)


def try_blocks(release: Release, drawn: Drawn) -> tuple[tuple[Trial, ...], tuple[LeftOut, ...]]:
    """Have workers group the blocks that were drawn; return what came of it, and why of some settings nothing did."""
    made = _made(release, drawn) if drawn.trials else ()
    pairs = zip(drawn.trials, made, strict=True)
    without = [(planned.setting, trial.reason) for planned, trial in pairs if trial.expected is None]
    return tuple(trial for trial in made if trial.expected), (*drawn.left_out, *without)


def _made(release: Release, drawn: Drawn) -> tuple[Trial, ...]:
    try:
        if release.drawn is None:
            know_drafts(release, drawn.drafts, drawn.routes)
            release.do(DRAW_ROWS)
        release.know(PLANNED_TRIALS, tuple(drawn.trials))
        release.counts[TRY.per] = len(drawn.trials)
        release.do(TRY)
        return tuple(release.written(TRIALS).read_all(TRIALS))
    finally:
        outputs = (output.name for output in (DRAFTS, DRAFT_ROUTES, PLANNED_TRIALS))
        release.run.remove_below(*outputs, DRAW_ROWS.name, TRY.name)
        release.forget_steps(DRAW_ROWS, TRY)
