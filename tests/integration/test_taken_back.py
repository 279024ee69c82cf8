"""A night that was taken back: who stood still meanwhile cannot publish it, and its revision is never used again."""

from __future__ import annotations

from typing import Any

import pytest

from microagg_core.errors import StorageError
from microagg_core.releases.latest import newest
from microagg_core.releases.manifest import Manifest
from microagg_core.releases.publish import publish
from microagg_core.releases.withdrawal import Tombstone, withdraw
from microagg_core.storage.layout import ReleaseLayout
from microagg_core.storage.objects import Store
from releasing.parts import facts_for, publish_tables, safe_tables, stage_parts

_BACK = Tombstone("never published", "2026-11-19T02:00:00Z", 1)


def test_a_run_that_stood_still_between_ledger_and_manifest_does_not_publish(output: Store, work: Store) -> None:
    told: list[Any] = []

    def stands_still(manifest: Manifest) -> None:
        withdraw(output, manifest.layout, _BACK)

    tables = safe_tables()
    with pytest.raises(StorageError, match="was taken back while this run stood still"):
        publish(
            output,
            facts_for(tables),
            stage_parts(work, tables),
            before_commit=stands_still,
            on_commit=lambda *what: told.append(what),
        )
    assert not told
    assert newest(output) is None
    assert not [name for name in output.list() if "/data/" in name]


def test_the_next_release_of_the_id_is_another_revision(output: Store, work: Store) -> None:
    withdraw(output, publish_tables(output, work, safe_tables("a")).manifest.layout, _BACK)
    published = publish_tables(output, work, safe_tables("b"), replacing=True)
    assert published.manifest.revision == "r0002"
    assert published.latest == published.manifest.layout.manifest()


def test_a_revision_that_was_only_begun_is_not_used_again(output: Store, work: Store) -> None:
    withdraw(output, ReleaseLayout("2026-11-18", "r0001"), _BACK)
    assert publish_tables(output, work, safe_tables()).manifest.revision == "r0002"
