"""``microagg plan``: what the plan release would lose and give away; figures that stay with who asked."""

from __future__ import annotations

from microagg_core.errors import DataError, sanitized
from microagg_core.reporting.expected_report import Expectation
from microagg_core.steps.expecting.drawing import Drafts, draw_blocks
from microagg_core.steps.expecting.figures import Expected, read_expected, written_names
from microagg_core.steps.expecting.rows import save_drafts
from microagg_core.steps.keys import read_keys
from microagg_core.steps.oversize import Passes
from microagg_flows.progress import awaited
from microagg_flows.release import Release
from microagg_flows.run_work import PLANNED

_NIGHT = "of a night of a series nothing is expected, as its survivors are not grouped again"


def expect_release(release: Release) -> Expectation:
    """Group some of what was planned, and measure it; what is written for that is removed.

    Raises:
        MicroaggError: always one of ours.
    """
    try:
        with awaited(release.progress, "what is to be expected"):
            expected, left_out = ((), (_NIGHT,)) if release.marks else _looked_at(release)
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


def _looked_at(release: Release) -> tuple[tuple[Expected, ...], tuple[str, ...]]:
    """The figures of each k, and why some k have none."""
    plan, run, n_parts = release.planned, release.run, len(release.planned.context.parts)
    counted = release.pieces("keys")
    keys = read_keys(counted.read_all(piece.name for piece in counted.pieces))
    passes = Passes(run, release.do, release.reads("context"), n_parts, release.pieces("survey"))
    drawn = draw_blocks(plan.context, plan.survey, keys, passes, release.hold)
    if not drawn.drafts:
        return (), drawn.left_out
    return _figures(release, drawn, n_parts)


def _figures(release: Release, drawn: Drafts, n_parts: int) -> tuple[tuple[Expected, ...], tuple[str, ...]]:
    knowing, layout, n_drafts = (*PLANNED, "drafts"), release.layout, len(drawn.drafts)
    release.known["drafts"] = drafts = save_drafts(release.run, drawn)
    try:
        read = release.do(release.with_keys(release.tasks("draw-rows", n_parts, knowing)))
        rows = tuple(piece for receipt in read for piece in receipt.pieces)
        release.do([task.reading(rows) for task in release.tasks("expect", n_drafts, knowing)])
        return read_expected(release.pieces("expect"), layout, n_drafts), drawn.left_out
    except DataError as error:
        return (), (*drawn.left_out, error.message)
    finally:
        written = written_names(layout, n_drafts, n_parts)
        release.work.delete_many([*written, *(piece.name for piece in drafts)])
