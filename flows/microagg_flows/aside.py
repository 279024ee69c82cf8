"""Make releases aside, for ``microagg compare``, ``risk`` and ``report``: in work areas of which nothing stays.

The same spec, data and seed make the same bytes: so a published release can be made again, up to the gate, and measured
in full. That happens in a folder below the runs of the work area, with a ledger of its own, so that nothing of the
series is touched; what a killed call leaves there is cleaned as a failed run is.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from microagg_core.compare.choice import ReleaseComparison
from microagg_core.compare.drawing import PAGE_ROWS, only_asked
from microagg_core.compare.grid import Grid, Setting
from microagg_core.compare.trial import Trial
from microagg_core.compiling import compile_parts
from microagg_core.errors import DataError, SpecError, StorageError, sanitized
from microagg_core.pages.operator.inputs import EXPECTED, RUN, ReportInputs, read_inputs, refuse_other_release
from microagg_core.pages.operator.page import operator_page
from microagg_core.pages.risk_report import is_complete
from microagg_core.plain import to_plain
from microagg_core.release.audit import keep_document, read_risk, write_audit, write_portrait, write_risk
from microagg_core.release.context import work_store
from microagg_core.release.facts import meant_moment, release_facts, settled_spec, staged_parts
from microagg_core.release.manifest import Manifest, PartEntry, SeriesEntry
from microagg_core.release.publish import new_attempt
from microagg_core.release.revisions import read_release
from microagg_core.release.steps.keys import KEYS, counted_keys
from microagg_core.spec.release import Algorithm, ReleaseSpec
from microagg_core.spec.series import Series
from microagg_core.store.layout import RUNS, ReleaseLayout, revision_name
from microagg_core.store.urls import join_url, shown
from microagg_flows.clusters import cluster_for, executor_for, kind_of
from microagg_flows.pages import page_name, run_document
from microagg_flows.progress import Progress, awaited
from microagg_flows.release import Release, new_release
from microagg_flows.releasing import Order, Settled, now
from microagg_flows.stages import run_until
from microagg_flows.trials import LeftOut, drawn_blocks, expect_release, full_budget, try_blocks


@contextmanager
def _made_aside(
    spec: ReleaseSpec, identity: str, moment: datetime.datetime, progress: Progress, *, until: str, purpose: str
) -> Iterator[Release]:
    """Make a release up to a stage in a work area of its own, which goes at the end of the block."""
    folder = f"{RUNS}/{purpose}-{new_attempt()}"
    work = spec.work.model_copy(update={"url": join_url(spec.work.url, folder)})
    aside = spec.model_copy(update={"work": work})
    try:
        with executor_for(aside, progress) as workers:
            release = new_release(aside, workers, identity, True, moment)
            release.ignore_published = release.rebuilding = True
            run_until(until, release)
            yield release
    finally:
        work_store(spec).delete_all(folder)


def compare_release(order: Order, grid: Grid, progress: Progress) -> tuple[ReleaseSpec, ReleaseComparison]:
    """Try a grid of settings on what a release would be made of.

    What blocks a release would have depends on what is tried: the plan that is made first is only there for what
    workers know of the input.
    """
    grid.refuse_unknown()
    tonight = Settled.of(order, now())
    spec = tonight.spec
    if spec.several is not None:
        raise SpecError(
            "unit.rows: what is compared are single records, so units of several rows cannot be compared yet; see what "
            "other settings lose with microagg report --draft and --set, such as --set k=5"
        )
    if spec.series is not None and not _stands_alone(spec.series):
        raise SpecError(
            f"series: a night with mode: {spec.series.mode} groups arrivals alone, beside others whose "
            "groups stay as they are; compare what a first night would be made of, with --set series=null"
        )
    # With an algorithm that takes whatever there is.
    plain = {"algorithm": Algorithm(), "refine": "off", "series": None, "schedule": None}
    surveyed = spec.model_copy(update=plain)
    with _made_aside(surveyed, tonight.id, tonight.moment, progress, until="plan", purpose="compare") as release:
        made, left_out = _grid_tried(release, spec, grid)
    comparison = ReleaseComparison(Setting.of(spec), made, left_out, spec.protect is not None)
    if not comparison.expected:
        raise DataError(f"nothing of what was asked for suits: {'; '.join(dict.fromkeys(why for _, why in left_out))}")
    return spec, comparison


def _stands_alone(series: Series | SeriesEntry | None) -> bool:
    """Tell whether a release is what its spec makes of its input, and of no nights before."""
    return series is None or series.mode == "independent"


def _grid_tried(release: Release, spec: ReleaseSpec, grid: Grid) -> tuple[tuple[Trial, ...], tuple[LeftOut, ...]]:
    keys, settings, left_out = counted_keys(release.written(KEYS)), grid.settings(spec), list[LeftOut]()
    if alone := only_asked(keys, spec.k):
        left_out = [(setting, alone) for setting in settings if setting.k != spec.k]
        settings = [setting for setting in settings if setting.k == spec.k]
    try:
        if kind_of(cluster_for(spec)).on_this_machine:  # workers elsewhere compile for themselves
            parts = [part for setting in settings for part in setting.parts(True, spec.protect is not None)]
            compile_parts(tuple(dict.fromkeys(parts)), say=release.progress.say)
        with awaited(release.progress, "what is to be compared"):
            drawn = drawn_blocks(release, keys, settings, grid.budget())
            share = min(1.0, grid.records / release.planned.survey.arrivals)
            release.workers.expect(sum(share * len(trial.seeds) * trial.model_seconds for trial in drawn.trials))
            made, without = try_blocks(release, drawn)
    except Exception as error:
        raise sanitized(error, "comparing") from None
    return made, (*left_out, *without)


def _published_release(spec: ReleaseSpec, url: str | None) -> Manifest:
    """Find the manifest of a release of a spec: that at a URL, or the newest."""
    manifest = read_release(url or spec.output.url, dict(spec.output.storage_options)).manifest
    if manifest.name != spec.name:
        raise SpecError(
            f"--release: is a release of {manifest.name!r}, and the spec is that of {spec.name!r}; name another"
        )
    return manifest


@contextmanager
def _made_again(spec: ReleaseSpec, manifest: Manifest, progress: Progress, *, risk: str) -> Iterator[Release]:
    """Make a published release again, up to what is measured of it; its rows are there while the block lasts.

    Raises:
        StorageError: it comes out otherwise than it was published.
    """
    made = datetime.datetime.fromisoformat(manifest.created)
    settled = settled_spec(spec, manifest.id, made)
    settled = settled.model_copy(update={"k": manifest.k, "seed": manifest.seed, "risk": risk})
    moment = meant_moment(spec, manifest.id, made)
    with _made_aside(settled, manifest.id, moment, progress, until="measure", purpose="risk") as release:
        again = sorted(part.sha256 for part in staged_parts(release.work, release.checked))
        if again != sorted(part.sha256 for part in manifest.parts):
            raise StorageError(
                f"release {manifest.id} {manifest.revision} comes out otherwise than it was published, so it cannot "
                "be measured again; its input, the spec or the software has changed since"
            )
        yield release


def risk_of_release(spec: ReleaseSpec, url: str | None, progress: Progress) -> tuple[Manifest, dict[str, Any]]:
    """Measure the risk of a published release, the newest or that at a URL; every record is asked where that can be."""
    manifest, work = _published_release(spec, url), work_store(spec)
    kept, stands_alone = read_risk(work, manifest), _stands_alone(manifest.series)
    if kept is not None and (is_complete(kept) or not stands_alone):
        return manifest, kept
    if not stands_alone:
        raise StorageError(
            f"the audit has no risk of release {manifest.id} {manifest.revision}, and a night of a series cannot be "
            "made again by itself; restore the audit"
        )
    with _made_again(spec, manifest, progress, risk="full") as release:
        write_risk(work, manifest, release.measured.risk)
        return manifest, read_risk(work, manifest) or release.measured.risk.figures


def page_of_release(spec: ReleaseSpec, url: str | None, progress: Progress) -> tuple[bytes, str]:
    """Make the operator's page of a published release, and where the audit keeps it.

    Figures that the audit lacks are measured, where that can be.
    """
    manifest, work = _published_release(spec, url), work_store(spec)
    inputs = read_inputs(work, manifest)
    if inputs.lacking() and _stands_alone(manifest.series):
        _measure_lacking(spec, manifest, inputs, progress)
        inputs = read_inputs(work, manifest)
    refuse_other_release(inputs)
    html = operator_page(inputs)
    work.put(page_name(manifest), html)
    return html, shown(work.url_of(page_name(manifest)))


def _measure_lacking(spec: ReleaseSpec, manifest: Manifest, inputs: ReportInputs, progress: Progress) -> None:
    """Have the audit keep what it lacks; what it has stays."""
    work, lacking = work_store(spec), inputs.lacking()
    with _made_again(spec, manifest, progress, risk="full" if "risk" in lacking else "off") as release:
        if "risk" in lacking:
            write_risk(work, manifest, release.measured.risk)
        if "portrait" in lacking:
            write_portrait(work, manifest, release.measured.portrait)
        if "expected" in lacking:
            keep_document(work, manifest, EXPECTED, expect_release(release, full_budget(PAGE_ROWS, spec.k)).document())


def page_of_draft(order: Order, progress: Progress) -> bytes:
    """Make the page of a release as it would be published; nothing is, and nothing of it stays."""
    tonight = Settled.of(order, now())
    spec = tonight.spec
    if not _stands_alone(spec.series):
        raise SpecError("--draft: a night of a series depends on those before and cannot be tried by itself")
    with _made_aside(spec, tonight.id, tonight.moment, progress, until="measure", purpose="risk") as release:
        manifest, work, origin = _as_if_published(release), release.work, release.origin
        if origin is None:
            raise RuntimeError("the survey stage has not run")
        keep_document(work, manifest, EXPECTED, expect_release(release, full_budget(PAGE_ROWS, spec.k)).document())
        keep_document(work, manifest, RUN, run_document(release))
        plan = to_plain(release.plan_report)
        write_audit(work, manifest, origin=origin, plan=plan, measured=release.measured, checks=release.checks)
        return operator_page(read_inputs(work, manifest, is_draft=True))


def _as_if_published(release: Release) -> Manifest:
    """Write the manifest that the release would have, but for the names of its files."""
    figures, files = release.measured.figures, release.inspected
    facts = release_facts(release.planned, release.identity, now(), figures, release.checks, files)
    layout, ending = ReleaseLayout(release.identity, revision_name(1)), facts.format
    parts = tuple(
        PartEntry(
            name=layout.relative(layout.part(i, part.sha256, "0" * 12, ending)),
            rows=part.rows,
            bytes=part.bytes,
            sha256=part.sha256,
        )
        for i, part in enumerate(staged_parts(release.work, release.checked))
    )
    return Manifest.of(facts, revision_name(1), parts)
