"""The audit: what stays in the private work area about every release, and how a finished one is recognised.

What it keeps goes when ``work.keep.audit_days`` are over, but for what a release still needs: of a release that readers
find everything stays from which its operator page, its risk and its origin are told; the page itself goes, as
``microagg report`` makes it again. Of a withdrawn one its origin stays: its id is taken by that. Outcomes and lineage
of calls go, but for the newest, beside which the next run puts its figures.
"""

from __future__ import annotations

import datetime
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from microagg_core.errors import StorageError
from microagg_core.inspect.check import Check
from microagg_core.inspect.portrait.contract import Portrait
from microagg_core.plain import from_json, from_plain, to_plain
from microagg_core.release.context import work_store
from microagg_core.release.manifest import Manifest
from microagg_core.release.pieces import Digest
from microagg_core.release.revisions import committed_manifests, read_tombstone
from microagg_core.release.steps.measuring import RISK_FORMAT_VERSION, Measured, Risk
from microagg_core.software import software
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
from microagg_core.store.objects import Store, sha256_hex
from microagg_core.store.urls import shown

#: 1: one digest of spec, data and a version number, which tells nothing about what differs.
FORMAT_VERSION = 2

_RISK, _PORTRAIT = "risk.json", "portrait.json"
#: Of documents with versions of their own.
_VERSIONS = {_RISK: RISK_FORMAT_VERSION, _PORTRAIT: 1}

#: Whether two releases were made from the same data; None where only their rows could tell.
SameData = Literal[True, False, None]


@dataclass(frozen=True)
class Origin:
    """What a release is made from, in digests that can be compared one by one; its bytes are a function of them."""

    spec: str
    software: dict[str, str]
    #: Names, sizes and versions of the input's files; empty where the store tells no versions.
    listing: str
    #: The rows themselves; empty before the survey has read them.
    data: str = ""

    @classmethod
    def of(cls, canonical_spec: str, listing: Sequence[tuple[str, str]]) -> Origin:
        """Take what is known before a row is read."""
        versioned = all(not state.endswith("/None") for _, state in listing)
        return cls(Digest().add(canonical_spec).hex(), software(), Digest().add(listing).hex() if versioned else "")

    def of_rows(self, fingerprints: Sequence[str]) -> Origin:
        """Add the rows that came in."""
        return replace(self, data=Digest().add(fingerprints).hex())

    def same_data(self, other: Origin) -> SameData:
        """Compare the data: by the rows, or by the files where the rows are not known."""
        if self.data and other.data:
            return self.data == other.data
        return True if self.listing and self.listing == other.listing else None

    def differences(self, other: Origin) -> list[str]:
        """Say what is known to differ."""
        names = sorted(set(self.software) | set(other.software))
        changed = [name for name in names if self.software.get(name) != other.software.get(name)]
        others = ["other data"] if self.same_data(other) is False else []
        others += ["another spec"] if self.spec != other.spec else []
        return others + ([f"other software ({', '.join(changed)})"] if changed else [])

    def agreements(self, other: Origin) -> list[str]:
        """Say what is known to be the same."""
        same = ["data"] if self.same_data(other) else []
        same += ["spec"] if self.spec == other.spec else []
        return same + (["software"] if self.software == other.software else [])


def write_audit(
    work: Store,
    manifest: Manifest,
    *,
    origin: Origin,
    plan: dict[str, Any],
    measured: Measured,
    checks: Sequence[Check],
) -> None:
    """Keep plan, risks, portrait, checks, blocks and origin of a published release."""
    layout = AuditLayout(manifest.id, manifest.revision)
    work.put_json(layout.plan(), {"format_version": FORMAT_VERSION, **plan})
    write_risk(work, manifest, measured.risk)
    write_portrait(work, manifest, measured.portrait)
    work.put_json(layout.checks(), {"format_version": FORMAT_VERSION, "checks": to_plain(list(checks))})
    work.put(layout.blocks(), _as_parquet(measured.blocks))
    # The digests come last: their presence says that the audit is whole.
    work.put_json(layout.digests(), {"format_version": FORMAT_VERSION, **to_plain(origin)})


def write_risk(work: Store, manifest: Manifest, risk: Risk) -> None:
    """Keep the risk of a published release: lines first, so that figures are never there without them."""
    # As Parquet, for there may be millions of labels.
    work.put(AuditLayout(manifest.id, manifest.revision).file("risk-labels.parquet"), _as_parquet(risk.labels))
    keep_document(work, manifest, _RISK, risk.figures)


def read_risk(work: Store, manifest: Manifest) -> dict[str, Any] | None:
    """Read the figures of risk of this very release; None where the audit has none."""
    return read_document(work, manifest, _RISK)


def write_portrait(work: Store, manifest: Manifest, portrait: Portrait) -> None:
    """Keep the portrait of a published release, without which its audit is whole too."""
    document = {**_belongs(_PORTRAIT, manifest), "portrait": to_plain(portrait)}
    # On one line: with 200 columns there are 80,000 correlations.
    data = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    work.put(AuditLayout(manifest.id, manifest.revision).file(_PORTRAIT), data.encode())


def read_portrait(work: Store, manifest: Manifest) -> Portrait | None:
    """Read the portrait of this very release; None where the audit has none."""
    document = read_document(work, manifest, _PORTRAIT)
    try:
        return None if document is None else from_plain(Portrait, document.get("portrait"))
    except ValueError:  # damaged, which is as if it were not there
        return None


def keep_document(work: Store, manifest: Manifest, name: str, document: dict[str, Any]) -> None:
    """Keep something about a published release, under a name of its own."""
    layout = AuditLayout(manifest.id, manifest.revision)
    work.put_json(layout.file(name), {**_belongs(name, manifest), **document})


def read_document(work: Store, manifest: Manifest, name: str) -> dict[str, Any] | None:
    """Read what was kept about this very release under a name; None where nothing was."""
    try:
        document = json.loads(work.read_if_there(AuditLayout(manifest.id, manifest.revision).file(name)) or b"")
    except ValueError:
        return None
    is_ours = isinstance(document, dict) and _belongs(name, manifest).items() <= document.items()
    return document if is_ours else None


def _belongs(name: str, manifest: Manifest) -> dict[str, Any]:
    """Mark a document as that of a release."""
    return {"format_version": _VERSIONS.get(name, FORMAT_VERSION), "manifest": sha256_hex(manifest.to_bytes())}


def _as_parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"format_version": str(FORMAT_VERSION)}), sink, compression="zstd")
    return sink.getvalue()


def read_origin(work: Store, manifest: Manifest) -> Origin | None:
    """Read what a published release was made from; None where the audit does not say, as one of format 1 does not."""
    name = AuditLayout(manifest.id, manifest.revision).digests()
    if not work.exists(name):
        return None
    try:
        return from_json(Origin, work.read(name))
    except ValueError:  # damaged, which is as if it were not there
        return None


def find_published(work: Store, output: Store, origin: Origin, identity: str, may_replace: bool) -> Manifest | None:
    """The newest revision of this id if it was made from the same; None where that is not certain, or the id is free.

    Before the survey, ``origin`` knows the input's files alone: other files may hold the same rows, so they decide
    nothing. What was made elsewhere, or before its audit was written, is recognised by its bytes when it is published.
    """
    committed = committed_manifests(output, identity)
    if not committed:
        return None
    manifest = committed[-1]
    if tombstone := read_tombstone(output, manifest.layout.folder):
        if may_replace:
            return None
        words = tombstone.in_words(manifest.layout.folder)
        raise StorageError(f"{words}, use --replace to publish a new revision, or choose another id")
    kept = read_origin(work, manifest)
    if kept is None:
        return None
    differences = origin.differences(kept)
    if not differences:
        return manifest if origin.same_data(kept) else None
    if may_replace:
        return None
    raise StorageError(
        f"release {identity} is already published in {shown(output.url)} and was made from "
        f"{_listed(differences)}{_same(origin.agreements(kept))}; "
        "use --replace to publish a new revision, or choose another id"
    )


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _same(words: list[str]) -> str:
    return f" ({_listed(words)} {'is' if words in (['spec'], ['software']) else 'are'} the same)" if words else ""


#: Outcomes that stay however old they are; a run compares itself with one of these.
_NEWEST = 8


def prune_audit(spec: ReleaseSpec, now: datetime.datetime | None = None) -> int:
    """Remove what is older than ``work.keep.audit_days`` and not needed; return how many files."""
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
    """Read from an object's name when the call began that it tells of; None where it does not say."""
    match = re.search(r"-(\d{8}T\d{6})\d*Z-[0-9a-f]+(?:-[a-z]+)?\.json$", name)
    return datetime.datetime.strptime(f"{match[1]}+0000", "%Y%m%dT%H%M%S%z") if match else None


def _old_of_releases(work: Store, kept: frozenset[str], published: frozenset[str], due: datetime.datetime) -> set[str]:
    """List what the audit has of releases beyond what they need, where none of it was written since a moment."""
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
