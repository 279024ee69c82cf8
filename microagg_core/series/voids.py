"""Nights that published nothing: the series goes on from before them, and only their numbers count."""

from __future__ import annotations

import datetime
from dataclasses import replace

from microagg_core.errors import StorageError
from microagg_core.release.cleaning import is_under_way
from microagg_core.release.manifest import Manifest
from microagg_core.release.revisions import Tombstone, put_up, withdraw
from microagg_core.release.step import Run
from microagg_core.series.atoms import FIRST_NUMBER, no_atoms
from microagg_core.series.generations import Frozen, FrozenColumn, Generation, RangeFile, UnitCounts
from microagg_core.series.keys import key_of, unit_form_of
from microagg_core.series.ledger import Ledger
from microagg_core.series.publications import is_published, manifest_at
from microagg_core.series.units import empty_range
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown


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
        return _before(ledger, head)
    if manifest_at(output, head) is not None:  # another release has that name, so this one never can
        return _void(ledger, head)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    tombstone = Tombstone("never published", now, head.night)
    # First of all, so that this run cannot publish any more, should it only have stood still.
    put_up(output, head.layout, tombstone)
    if is_published(ledger, output, head):  # it went on at this very moment
        return head
    withdraw(output, head.layout, tombstone)
    return _void(ledger, head)


def _before(ledger: Ledger, head: Generation) -> Generation | None:
    return ledger.linked(head.night - 1) if head.night else None


def _void(ledger: Ledger, head: Generation) -> Generation:
    """Commit the generation that goes on from before a night which nobody ever saw."""
    night, base = head.night + 1, _before(ledger, head)
    ranges, atoms = (base.ranges, base.atoms) if base else _empty_files(ledger, night, head.frozen)
    void = replace(
        head,
        night=night,
        kind="void",
        run_key="",
        parent=ledger.parent_of(night),
        n_ranges=len(ranges),
        ranges=ranges,
        atoms=atoms,
        next_number=base.next_number if base else FIRST_NUMBER,
        counts=base.counts if base else UnitCounts(),
        frozen=base.frozen if base else head.frozen,
        smallest_trace=base.smallest_trace if base else None,
        past=ledger.past_of(base),
    )
    ledger.commit(void)
    return void


def _empty_files(
    ledger: Ledger, night: int, frozen: Frozen
) -> tuple[tuple[tuple[RangeFile, ...], ...], tuple[RangeFile, ...]]:
    watched = sum(c.role == "confidential" for c in frozen.columns) if frozen.guarantee != "trace" else 0
    return ((ledger.write_range(night, 0, empty_range(watched)),),), (ledger.write_atoms(night, 0, no_atoms()),)


def fill_nights(ledger: Ledger, spec: ReleaseSpec, output: Store, manifest: Manifest, night: int) -> None:
    """Commit nights without a release until the next one is ``night``.

    Raises:
        StorageError: another night was committed meanwhile, or the ledger is damaged.
    """
    while (number := len(ledger.nights())) < night:
        head = ledger.head()
        if head is not None and head.kind == "night" and not is_published(ledger, output, head):
            head = _before(ledger, head)
        if head is None:
            void = _first_void(ledger, spec, output, manifest, number)
        else:
            # Without a digest it takes no release back: the number alone was used.
            parent = ledger.parent_of(number)
            void = replace(head, night=number, kind="void", run_key="", manifest_sha256="", parent=parent)
        ledger.commit(void)


def _first_void(ledger: Ledger, spec: ReleaseSpec, output: Store, manifest: Manifest, number: int) -> Generation:
    """Describe a night before the first release, whose manifest says what it froze."""
    series, roles = manifest.series, {"quasi_identifier": "quasi_identifiers"}
    frozen = Frozen(
        k=manifest.k,
        unit=() if spec.unit == "row" else tuple(spec.unit),
        columns=tuple(FrozenColumn(c.name, c.type, roles.get(c.role, c.role)) for c in manifest.columns),
        rounding=dict(manifest.rounding),
        traits={},
        missing=manifest.missing,
        mode=series.mode if series else "independent",
        guarantee=(series.guarantee if series else None) or "trace",
        unit_form=unit_form_of(spec),
    )
    ranges, atoms = _empty_files(ledger, number, frozen)
    return Generation(
        night=number,
        kind="void",
        release_id=manifest.id,
        revision=manifest.revision,
        output=output.url,
        manifest_sha256="",
        date=manifest.created[:10],
        run_key="",
        parent=ledger.parent_of(number),
        key_fingerprint=key_of(spec, ledger).fingerprint,
        n_ranges=1,
        ranges=ranges,
        atoms=atoms,
        next_number=FIRST_NUMBER,
        frozen=frozen,
        counts=UnitCounts(),
        smallest_trace=None,
    )
