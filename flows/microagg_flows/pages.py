"""The operator's page of a run: what the audit keeps for it, and the page; trouble with it stops no release."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from microagg_core.compare.grid import Budget
from microagg_core.errors import MicroaggError, sanitized
from microagg_core.pages.operator.inputs import EXPECTED, RUN, read_inputs
from microagg_core.plain import to_plain
from microagg_core.release.audit import keep_document, read_document
from microagg_core.release.manifest import Manifest
from microagg_core.release.records import MARKS
from microagg_core.release.steps.drawn_rows import know_drafts
from microagg_core.store.layout import AuditLayout
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown
from microagg_flows.release import Release
from microagg_flows.trials import draw_neighbours, expect_release, quick_budget

#: A variable of the environment: with "off" a run makes no page, but keeps what it is made of, a look ahead apart.
SWITCH = "MICROAGG_REPORT"


def write_page(release: Release) -> list[str]:
    """Have the audit hold the page of a release that is published; return what went wrong with it, in sentences.

    Call it before the run's rows go, of which some are looked at for other k.
    """
    if release.published is None or _is_off():
        return []
    manifest, work = release.published.manifest, release.work
    try:
        name = page_name(manifest)
        if not (release.published.already and work.exists(name)):  # else another run has made it
            if release.plan_report is not None:  # else what another run knew of it is not known here
                keep_look_ahead(release, manifest, work)
                keep_document(work, manifest, RUN, run_document(release))
            put_page(work, manifest)
        release.page = shown(work.url_of(name))
    except Exception as error:
        message = sanitized(error, "the operator's page").message
        return [f"the operator's page was not written: {message}; make it with microagg report"]
    return []


def draw_for_page(release: Release) -> None:
    """Draw the blocks that the page tries, so that scattering collects their rows."""
    release.drawn = None
    if (
        _is_off()
        or release.spec.several is not None
        or release.has(MARKS)
        or release.rebuilding
        or (budget := _budget(release)) is None
    ):
        return
    with suppress(MicroaggError):  # the page will say it
        drawn = draw_neighbours(release, budget)
        know_drafts(release, drawn[0].drafts, drawn[0].routes)
        release.drawn = drawn


def _is_off() -> bool:
    return os.environ.get(SWITCH, "").lower() == "off"


def _budget(release: Release) -> Budget | None:
    """Find what may be spent on other k now; None: nothing, as others do the tasks of a release made step by step."""
    return None if release.running.goes_on else quick_budget(release)


def page_name(manifest: Manifest) -> str:
    return AuditLayout(manifest.id, manifest.revision).page()


def put_page(work: Store, manifest: Manifest) -> None:
    """Write the page of what the audit has."""
    from microagg_core.pages.operator.page import operator_page

    work.put(page_name(manifest), operator_page(read_inputs(work, manifest)))


def keep_look_ahead(release: Release, manifest: Manifest, work: Store) -> None:
    """Keep what is expected of other k, where it is not kept yet and can be told now."""
    budget = _budget(release)
    if read_document(work, manifest, EXPECTED) is None and budget is not None:
        keep_document(work, manifest, EXPECTED, expect_release(release, budget).document())


def run_document(release: Release) -> dict[str, Any]:
    return {"stages": to_plain(release.outcomes), "compared": release.compared()}
