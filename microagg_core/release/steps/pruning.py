"""Pruning: what the audit keeps goes when ``work.keep.audit_days`` are over, but for what a release still needs.

Of a release that readers find everything stays from which its operator page, its risk and its origin are told; the
page itself goes, as ``microagg report`` makes it again. Of a withdrawn one its origin stays: its id is taken by that.
Outcomes and lineage of calls go, but for the newest, beside which the next run puts its figures.
"""

from __future__ import annotations

import datetime
import re

from microagg_core.release.steps.work import work_store
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import (
    AUDIT,
    LINEAGE,
    MANIFEST,
    RUNS,
    AuditLayout,
    ReleaseLayout,
    is_release_id,
    newest_results,
    revision_number,
)
from microagg_core.store.objects import Store

#: Outcomes that stay however old they are; a run compares itself with one of these.
_NEWEST = 8


def prune_audit(spec: ReleaseSpec, now: datetime.datetime | None = None) -> int:
    """Remove what is older than ``work.keep.audit_days`` and not needed; return how many files.

    Raises:
        StorageError: work area or output cannot be read or written.
    """
    days = spec.work.keep.audit_days
    if days is None:
        return 0
    due = (now or datetime.datetime.now(datetime.UTC)) - datetime.timedelta(days=days)
    work, output = work_store(spec), Store(spec.output.url, dict(spec.output.storage_options))
    kept = frozenset(work.list(AUDIT))
    old = _old_calls(kept, due) | _old_of_releases(work, kept, frozenset(output.list()), due)
    work.delete_many(sorted(old))
    return len(old)


def _old_calls(kept: frozenset[str], due: datetime.datetime) -> set[str]:
    """Outcomes and lineage of calls that were made before a moment."""
    outcomes = {name for name in kept if name.startswith(f"{AUDIT}/{RUNS}/")}
    calls = outcomes | {name for name in kept if name.startswith(f"{AUDIT}/{LINEAGE}/")}
    old = {name for name in calls if (moment := _moment_of_call(name)) and moment < due}
    return old - set(newest_results(outcomes, _NEWEST))


def _moment_of_call(name: str) -> datetime.datetime | None:
    """When the call began of which an object of the audit tells; None where its name does not say."""
    match = re.search(r"-(\d{8}T\d{6})\d*Z-[0-9a-f]+(?:-[a-z]+)?\.json$", name)
    return datetime.datetime.strptime(f"{match[1]}+0000", "%Y%m%dT%H%M%S%z") if match else None


def _old_of_releases(work: Store, kept: frozenset[str], published: frozenset[str], due: datetime.datetime) -> set[str]:
    """What the audit has of releases beyond what is needed of them, where none of it was written since a moment."""
    old = set()
    for name in published:
        release_id, _, rest = name.partition("/")
        revision, _, last = rest.partition("/")
        if last != MANIFEST or not is_release_id(release_id) or revision_number(revision) is None:
            continue
        audit = AuditLayout(release_id, revision)
        lost = {audit.page()} & kept
        if ReleaseLayout(release_id, revision).withdrawn() in published:
            lost = {name for name in kept if name.startswith(f"{audit.folder}/")} - {audit.digests()}
        changed = work.last_change(audit.folder) if lost else None
        if changed is not None and datetime.datetime.fromtimestamp(changed, datetime.UTC) < due:
            old |= lost
    return old
