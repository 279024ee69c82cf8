"""Nights of a ledger that published nothing: their numbers count, and nobody's history does."""

from __future__ import annotations

from dataclasses import replace

from microagg_core.release.manifest import Manifest
from microagg_core.series.atoms import FIRST_NUMBER, no_atoms
from microagg_core.series.generations import Frozen, FrozenColumn, Generation, UnitCounts
from microagg_core.series.ledger import Ledger
from microagg_core.series.nights.beginning import key_of, unit_form_of
from microagg_core.series.nights.taking_back import is_published
from microagg_core.series.ranges import empty_range
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.objects import Store


def fill_nights(ledger: Ledger, spec: ReleaseSpec, output: Store, manifest: Manifest, night: int) -> None:
    """Commit nights without a release until the next one is ``night``.

    Args:
        ledger: of the series.
        spec: says which key it has.
        output: where the series is published.
        manifest: of the release of ``night``, for a series whose first nights published nothing.
        night: the number that the next night is to have.

    Raises:
        StorageError: another night was committed meanwhile, or the ledger is damaged.
    """
    while (number := _next_number(ledger)) < night:
        ledger.commit(_void(ledger, spec, output, manifest, number))


def _next_number(ledger: Ledger) -> int:
    return len(ledger.nights())


def _void(ledger: Ledger, spec: ReleaseSpec, output: Store, manifest: Manifest, number: int) -> Generation:
    head = ledger.head()
    if head is not None and head.kind == "night" and not is_published(ledger, output, head):
        head = ledger.linked(head.night - 1) if head.night else None
    if head is None:
        return _nobodys(ledger, spec, output, manifest, number)
    # Without a digest it takes no release back: the number alone was used.
    return replace(head, night=number, kind="void", run_key="", manifest_sha256="", parent=ledger.parent_of(number))


def _nobodys(ledger: Ledger, spec: ReleaseSpec, output: Store, manifest: Manifest, number: int) -> Generation:
    """A night before the first release."""
    frozen = _frozen(spec, manifest)
    watched = [c for c in frozen.columns if c.role == "confidential" and frozen.guarantee != "trace"]
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
        ranges=((ledger.write_range(number, 0, empty_range(len(watched))),),),
        atoms=(ledger.write_atoms(number, 0, no_atoms()),),
        next_number=FIRST_NUMBER,
        frozen=frozen,
        counts=UnitCounts(),
        smallest_trace=None,
    )


def _frozen(spec: ReleaseSpec, manifest: Manifest) -> Frozen:
    """What the first release of a series froze."""
    roles = {"quasi_identifier": "quasi_identifiers"}
    series = manifest.series
    return Frozen(
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
