"""A night that was taken back: who stood still meanwhile cannot publish it, and its revision is never used again."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from inputs.people import people
from microagg_core.errors import StorageError
from microagg_core.release.manifest import Manifest
from microagg_core.release.publish import publish
from microagg_core.release.revisions import Tombstone, newest, withdraw
from microagg_core.series.ledger import ledger_of
from microagg_core.series.publications import is_published
from microagg_core.spec.loading import load_spec
from microagg_core.store.layout import ReleaseLayout
from microagg_core.store.objects import Store
from releasing.parts import facts_for, publish_tables, safe_tables, stage_parts
from releasing.runs import NOW, run_stages, start, write_series
from seasons.deaths import Died, dying

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


def test_a_run_that_goes_on_the_next_day_publishes_the_night_that_it_committed(tmp_path: Path) -> None:
    path = write_series(tmp_path, [people(60)])
    with pytest.raises(Died), dying(before="manifest.json"):
        run_stages(start(path, identity="one"))
    ledger = ledger_of(load_spec(str(path)))
    committed = ledger.head()
    assert committed is not None and not ledger.is_published(0)
    release = run_stages(start(path, identity="one", now=NOW + datetime.timedelta(days=1)))
    assert release.published is not None and not release.published.already
    assert ledger.head() == committed and ledger.is_published(0)


def test_the_release_of_a_rival_is_not_taken_for_the_night_that_lost_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ledgers, one output: the manifest under the night's name is the other's."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
        (folder / "output").symlink_to(tmp_path / "output")
    (tmp_path / "output").mkdir()
    path = write_series(ours, [people(60)])
    rival = start(write_series(theirs, [people(90)]), identity="one")
    release = start(path, identity="one")
    run_stages(release, "survey", "plan", "scatter", "anonymize", "validate", "measure")
    run_stages(rival)
    committed = ledger_of(load_spec(str(path)))
    monkeypatch.setattr("microagg_core.release.publish.committed_manifests", lambda output, identity: [])
    with pytest.raises(StorageError, match="another run published"):
        run_stages(release, "publish")
    head = committed.head()
    assert head is not None and not is_published(committed, release.output, head)
