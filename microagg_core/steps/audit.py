"""The audit: what stays in the private work area about every release, and how a finished one is recognised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from microagg_core.errors import StorageError
from microagg_core.steps.gate import Check
from microagg_core.storage.layout import AuditLayout
from microagg_core.storage.manifest import Manifest
from microagg_core.storage.objects import Store
from microagg_core.storage.publish import Published, existing
from microagg_core.storage.urls import shown

FORMAT_VERSION = 1


def write_audit(
    work: Store,
    manifest: Manifest,
    *,
    digest: str,
    plan: dict[str, Any],
    risk: dict[str, Any],
    checks: Sequence[Check],
    blocks: pa.Table | None,
) -> None:
    """Keep plan, risks, checks, blocks and digest of a published release."""
    layout = AuditLayout(manifest.id, manifest.revision)
    work.put_json(layout.plan(), {"format_version": FORMAT_VERSION, **plan})
    work.put_json(layout.risk(), {"format_version": FORMAT_VERSION, **risk})
    work.put_json(layout.checks(), {"format_version": FORMAT_VERSION, "checks": [c.__dict__ for c in checks]})
    if blocks is not None:
        work.put_json(layout.blocks(), {"format_version": FORMAT_VERSION, "blocks": blocks.to_pydict()})
    # The digest comes last: its presence says that the audit is whole.
    work.put_json(layout.digests(), {"format_version": FORMAT_VERSION, "digest": digest})


def find_release(work: Store, output: Store, identity: str, digest: str, may_replace: bool) -> Published | None:
    """The newest revision of this id if it was made from the same digest; None where the id is free.

    Raises:
        StorageError: the id is taken by a release of another digest and may not be replaced.
    """
    committed = existing(output, identity)
    if not committed:
        return None
    revision, manifest = committed[-1]
    layout = AuditLayout(identity, revision)
    if not work.exists(layout.digests()):
        return None  # made elsewhere, or before the audit was written: publishing will compare the bytes
    if work.read_json(layout.digests())["digest"] == digest:
        return Published(manifest, output.url_of(manifest.layout.manifest()), True, None)
    if may_replace:
        return None
    raise StorageError(
        f"release {identity} is already published in {shown(output.url)} from other data, another spec or another "
        "version; use --replace to publish a new revision, or choose another id"
    )
