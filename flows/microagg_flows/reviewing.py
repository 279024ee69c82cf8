"""``microagg report``: the operator's page again, or that of a release which is not published yet.

Where the audit lacks figures, the release is made again, apart, and measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from microagg_core.errors import SpecError
from microagg_core.pages.operator.inputs import EXPECTED, RUN, ReportInputs, read_inputs, refuse_other_release
from microagg_core.pages.operator.page import operator_page
from microagg_core.plain import to_plain
from microagg_core.release.audit import keep_document, write_audit, write_portrait, write_risk
from microagg_core.release.context import work_store
from microagg_core.release.facts import release_facts, staged_parts
from microagg_core.release.manifest import Manifest, PartEntry
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import ReleaseLayout, revision_name
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown
from microagg_flows.expecting import expect_release
from microagg_flows.pages import page_name, run_document
from microagg_flows.progress import Progress
from microagg_flows.release import Release
from microagg_flows.releasing import Order, Settled, now
from microagg_flows.remeasuring import can_be_made_again, made_again, made_aside, published_release


@dataclass(frozen=True)
class OperatorPage:
    """A page, and where the audit keeps it; a draft is kept nowhere."""

    manifest: Manifest
    html: bytes
    url: str | None


def page_of_release(spec_path: str, url: str | None, progress: Progress, settings: Sequence[str] = ()) -> OperatorPage:
    """The page of a published release of a spec; figures that the audit lacks are measured where that can be.

    Args:
        spec_path: path or URL of the release spec.
        url: of the release, as for verify; None: the newest one in the spec's output.
        progress: where the user looks.
        settings: fields of the spec that are set for once.

    Raises:
        SpecError: the release is none of this spec's.
        StorageError: there is no release, or nothing of it in the audit, or it comes out otherwise than published.
    """
    spec = load_spec(spec_path, settings)
    manifest = published_release(spec, url)
    work = work_store(spec)
    inputs = read_inputs(work, manifest)
    if inputs.lacking() and can_be_made_again(manifest):
        _measure_lacking(spec, manifest, inputs, progress)
        inputs = read_inputs(work, manifest)
    refuse_other_release(inputs)
    html = operator_page(inputs)
    work.put(page_name(manifest), html)
    return OperatorPage(manifest, html, shown(work.url_of(page_name(manifest))))


def _measure_lacking(spec: ReleaseSpec, manifest: Manifest, inputs: ReportInputs, progress: Progress) -> None:
    """Have the audit keep what it lacks; what it has stays."""
    work, lacking = work_store(spec), inputs.lacking()
    with made_again(spec, manifest, progress, risk="full" if "risk" in lacking else "off") as release:
        if "risk" in lacking:
            write_risk(work, manifest, release.measured.risk)
        if "portrait" in lacking:
            write_portrait(work, manifest, release.measured.portrait)
        if "expected" in lacking:
            keep_document(work, manifest, EXPECTED, expect_release(release).document())


def page_of_draft(order: Order, progress: Progress) -> OperatorPage:
    """The page of a release as it would be published; nothing is, and nothing of it stays.

    Raises:
        SpecError: it would be a night of a series, which depends on those before.
        MicroaggError: what stops a release up to its gate.
    """
    tonight = Settled.of(order, now())
    series = tonight.spec.series
    if series is not None and series.mode != "independent":
        raise SpecError("--draft: a night of a series depends on those before and cannot be tried by itself")
    with made_aside(tonight.spec, tonight.id, tonight.moment, progress) as release:
        manifest = _as_if_published(release)
        _keep_all(release, manifest, release.work)
        inputs = read_inputs(release.work, manifest, is_draft=True)
        return OperatorPage(manifest, operator_page(inputs), None)


def _as_if_published(release: Release) -> Manifest:
    """The manifest that the release would have, but for the names of its files."""
    facts = release_facts(release.planned, release.identity, now(), release.measured.figures, release.checks)
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


def _keep_all(release: Release, manifest: Manifest, work: Store) -> None:
    origin = release.origin
    if origin is None or release.plan_report is None:
        raise RuntimeError("the survey stage has not run")
    keep_document(work, manifest, EXPECTED, expect_release(release).document())
    keep_document(work, manifest, RUN, run_document(release))
    plan, measured = to_plain(release.plan_report), release.measured
    write_audit(work, manifest, origin=origin, plan=plan, measured=measured, checks=release.checks)
