"""``microagg compare`` of a spec: what a release would lose and give away by other algorithms, k and refinements.

All of it happens in a folder of its own below the runs of the work area, so that nothing of the series is touched, and
none of it stays there; what a killed call leaves is cleaned as a failed run is. The input is surveyed as for a release.
What blocks a release would have depends on what is tried: the plan that is made first is only there for what workers
know of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from microagg_core.compare.choosing import ReleaseComparison
from microagg_core.compare.expecting import drawing
from microagg_core.compare.expecting.cells import Cell
from microagg_core.compare.grid import Grid
from microagg_core.compiling import compile_parts
from microagg_core.errors import DataError, SpecError, sanitized
from microagg_core.release.publish import new_attempt
from microagg_core.release.steps.work import work_store
from microagg_core.spec.release import Algorithm, ReleaseSpec
from microagg_core.store.layout import RUNS
from microagg_core.store.urls import join_url
from microagg_flows.clusters import cluster_for, executor_for, kind_of
from microagg_flows.expecting import Tried, blocking_keys, try_cells
from microagg_flows.progress import Progress, awaited
from microagg_flows.release import Release, new_release
from microagg_flows.releasing import Order, Settled, now
from microagg_flows.stages import run_until


@dataclass(frozen=True)
class Compared:
    """Which spec, and what came of it."""

    spec: ReleaseSpec
    comparison: ReleaseComparison


def compare_release(order: Order, grid: Grid, progress: Progress) -> Compared:
    """Try a grid of settings on what a release would be made of.

    Args:
        order: the release that would be made.
        grid: what is tried.
        progress: where the user looks.

    Raises:
        SpecError: what is asked for is not there, or the spec is that of a night of a series.
        DataError: a release would be refused whatever its settings, or nothing of the grid suits.
    """
    grid.refuse_unknown()
    tonight = Settled.of(order, now())
    spec = tonight.spec
    _refuse_nights(spec)
    folder = f"{RUNS}/compare-{new_attempt()}"
    aside = _aside(spec, folder)
    try:
        with executor_for(aside, progress) as workers:
            release = new_release(aside, workers, tonight.id, True, tonight.moment)
            release.ignore_published = release.rebuilding = True
            run_until("plan", release)
            tried = _tried(release, spec, grid)
    finally:
        work_store(spec).delete_all(folder)
    comparison = ReleaseComparison(Cell.of(spec), tried.trials, tried.left_out, spec.protect is not None)
    if not comparison.expected:
        reasons = dict.fromkeys(reason for _, reason in tried.left_out)
        raise DataError(f"nothing of what was asked for suits: {'; '.join(reasons)}")
    return Compared(spec, comparison)


def _refuse_nights(spec: ReleaseSpec) -> None:
    """Stop for a series whose releases are made of others.

    Raises:
        SpecError: saying what to compare instead.
    """
    if spec.series is not None and spec.series.mode != "independent":
        raise SpecError(
            f"series: a night with mode: {spec.series.mode} groups arrivals alone, beside others whose groups stay as "
            "they are; compare what a first night would be made of, with --set series=null"
        )


def _aside(spec: ReleaseSpec, folder: str) -> ReleaseSpec:
    """The spec in a work area of its own, with an algorithm that takes whatever there is."""
    work = spec.work.model_copy(update={"url": join_url(spec.work.url, folder)})
    plain = {"algorithm": Algorithm(), "refine": "off", "series": None, "schedule": None}
    return spec.model_copy(update={"work": work, **plain})


def _tried(release: Release, spec: ReleaseSpec, grid: Grid) -> Tried:
    """What came of the grid."""
    keys, cells, left_out = blocking_keys(release), grid.cells(spec), list[tuple[Cell, str]]()
    alone = drawing.only_asked(keys, spec.k)
    if alone:
        left_out = [(cell, alone) for cell in cells if cell.k != spec.k]
        cells = [cell for cell in cells if cell.k == spec.k]
    try:
        _compile(release, spec, cells)
        with awaited(release.progress, "what is to be compared"):
            tried = try_cells(release, keys, cells, grid.frugality())
    except Exception as error:
        raise sanitized(error, "comparing") from None
    return Tried(tried.trials, (*left_out, *tried.left_out))


def _compile(release: Release, spec: ReleaseSpec, cells: Sequence[Cell]) -> None:
    """Have this machine's workers find all kernels compiled; others compile for themselves."""
    if kind_of(cluster_for(spec)).on_this_machine:
        parts = [part for cell in cells for part in cell.parts(True, spec.protect is not None)]
        compile_parts(tuple(dict.fromkeys(parts)), say=release.progress.say)
