"""Nights that were committed and never published: nobody saw them, and the series goes on from before them."""

from __future__ import annotations

import datetime
from dataclasses import replace

from microagg_core.errors import StorageError
from microagg_core.release.manifest import Manifest
from microagg_core.release.revisions import Tombstone, put_up, read_manifest, withdraw
from microagg_core.release.steps.cleaning import is_under_way
from microagg_core.release.steps.work import Run
from microagg_core.series.atoms import FIRST_NUMBER, no_atoms
from microagg_core.series.generations import Generation, parts_digest
from microagg_core.series.ledger import Ledger
from microagg_core.series.ranges import empty_range
from microagg_core.store.layout import ReleaseLayout
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown


def is_published(ledger: Ledger, output: Store, generation: Generation) -> bool:
    """Whether the release of a generation was ever there for readers."""
    if ledger.is_published(generation.night):
        return True
    if not _is_at_output(output, generation):
        return False
    ledger.note_published(generation.night)
    return True


def _is_at_output(output: Store, generation: Generation) -> bool:
    """Whether the very release of a generation has its manifest at the output."""
    manifest = _manifest(output, generation)
    if manifest is None or generation.kind == "erasure":  # whose revision was drawn for it
        return manifest is not None
    return parts_digest(part.sha256 for part in manifest.parts) == generation.manifest_sha256


def _manifest(output: Store, generation: Generation) -> Manifest | None:
    """The manifest under the name of a generation's release, which may be somebody else's."""
    layout = ReleaseLayout(generation.release_id, generation.revision)
    return read_manifest(output, layout) if output.exists(layout.manifest()) else None


def manifest_of(output: Store, generation: Generation) -> Manifest:
    """Read the manifest of a release that the ledger says was published.

    Raises:
        StorageError: it is damaged, or gone with the output.
    """
    manifest = _manifest(output, generation)
    if manifest is None:
        raise StorageError(
            f"{shown(output.url)} has lost release {generation.release_id} {generation.revision}, which was published "
            "there and whose values are needed again; put the output back from a copy"
        )
    return manifest


def taken_back(
    ledger: Ledger, output: Store, head: Generation, work: Store, *, only_tell: bool = False
) -> Generation | None:
    """Take back a night that was committed and never published, once its run cannot go on any more.

    ``only_tell`` changes nothing, and gives the generation before it; None: there is none.
    """
    if is_under_way(Run(work, head.run_key)):
        raise StorageError(
            f"another run of the series {ledger.series} is about to publish release {head.release_id} in "
            f"{shown(output.url)}; run again when it is done, or an hour after it died"
        )
    if only_tell:
        return ledger.linked(head.night - 1) if head.night else None
    if _manifest(output, head) is not None:  # another release has that name, so this one never can
        return _void(ledger, head)
    layout = ReleaseLayout(head.release_id, head.revision)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    tombstone = Tombstone("never published", now, head.night)
    # First of all, so that this run cannot publish any more, should it only have stood still.
    put_up(output, layout, tombstone)
    if is_published(ledger, output, head):  # it went on at this very moment
        return head
    withdraw(output, layout, tombstone)
    return _void(ledger, head)


def _void(ledger: Ledger, head: Generation) -> Generation:
    """The generation that goes on from before a night which nobody ever saw."""
    night = head.night + 1
    base = ledger.linked(head.night - 1) if head.night else None
    watched = sum(column.role == "confidential" for column in head.frozen.columns)
    n_columns = watched if head.frozen.guarantee != "trace" else 0
    ranges = base.ranges if base else ((ledger.write_range(night, 0, empty_range(n_columns)),),)
    void = replace(
        head,
        night=night,
        kind="void",
        run_key="",
        parent=ledger.parent_of(night),
        n_ranges=len(ranges),
        ranges=ranges,
        atoms=base.atoms if base else (ledger.write_atoms(night, 0, no_atoms()),),
        next_number=base.next_number if base else FIRST_NUMBER,
        counts=base.counts if base else type(head.counts)(),
        frozen=base.frozen if base else head.frozen,
        smallest_trace=base.smallest_trace if base else None,
        past=ledger.past_of(base),
    )
    ledger.commit(void)
    return void
