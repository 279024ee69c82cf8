"""Clean: the staged rows of failed runs go when their time is up; the audit of releases stays."""

from __future__ import annotations

import datetime

from microagg_core.errors import MicroaggError
from microagg_core.spec import ReleaseSpec
from microagg_core.storage.layout import RUNS, RunLayout
from microagg_core.storage.objects import Store


def clean_work(spec: ReleaseSpec, everything: bool, now: datetime.datetime | None = None) -> tuple[int, int]:
    """Remove what failed runs left in the work area for longer than ``work.keep.failed_days``.

    Returns:
        How many runs were removed, and how many stay because their time is not up.
    """
    work = Store(spec.work.url, dict(spec.work.storage_options))
    now = now or datetime.datetime.now(datetime.UTC)
    due = now - datetime.timedelta(days=spec.work.keep.failed_days)
    removed = kept = 0
    for key in work.folders(RUNS):
        layout = RunLayout(key)
        if everything or _started(work, layout) <= due:
            work.delete_all(layout.folder)
            removed += 1
        else:
            kept += 1
    return removed, kept


def _started(work: Store, layout: RunLayout) -> datetime.datetime:
    """When the run was last started; a run without a readable start is as old as can be."""
    try:
        return datetime.datetime.fromisoformat(work.read_json(layout.started())["started"])
    except (MicroaggError, KeyError, TypeError, ValueError):
        return datetime.datetime.min.replace(tzinfo=datetime.UTC)
