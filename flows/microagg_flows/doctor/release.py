"""The release itself: the input and its columns, the series and its key, the id."""

from __future__ import annotations

from collections.abc import Iterator

from microagg_core.data.formats.reading import list_input
from microagg_core.data.formats.writing import released_format
from microagg_core.release.revisions import committed_manifests, unnamed_files
from microagg_core.release.signature import read_signing_key
from microagg_core.series.keys import key_of, refuse_other_key
from microagg_core.series.ledger import ledger_of
from microagg_core.spec.columns import resolve_schema
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown
from microagg_flows.doctor import Finding, Patient, looked, strange, well


def look(patient: Patient) -> Iterator[Finding]:
    yield from looked("input", lambda: _input(patient))
    yield from looked("series", lambda: _series(patient))
    yield from looked("output", lambda: _output(patient))


def _input(patient: Patient) -> Iterator[Finding]:
    spec = patient.spec
    listing = list_input(spec.input)
    schema = resolve_schema(spec, listing.schema)
    released_format(spec.output).refuse_types(schema.released_schema)
    parts = len(listing.parts)
    yield well("input", f"{parts} part{'' if parts == 1 else 's'} in {shown(spec.input.url)}, with the spec's columns")


def _series(patient: Patient) -> Iterator[Finding]:
    series = patient.spec.series
    if series is None:
        return
    ledger = ledger_of(patient.spec)
    head = ledger.head()
    if head is None and series.mode == "independent" and not series.key_file:
        # Its key is drawn, and written, by the first night.
        yield well("series", "its ledger has no night yet")
        return
    key = key_of(patient.spec, ledger)
    if head is None:
        yield well("series", "its ledger has no night yet, and its key is there")
        return
    refuse_other_key(head, key, ledger)
    yield well("series", f"its ledger has {head.night + 1} nights, and its key is theirs")


def _output(patient: Patient) -> Iterator[Finding]:
    output = Store(patient.spec.output.url, dict(patient.spec.output.storage_options))
    if patient.spec.output.sign is not None:
        key = read_signing_key(patient.spec.output.sign)
        yield well("output", f"releases are signed with the key {key.public.name}")
    if unnamed := list(unnamed_files(output)):
        yield strange(
            "output",
            f"{len(unnamed)} files of {output} are named by no manifest; microagg clean removes what runs left",
        )
    committed = committed_manifests(output, patient.id)
    if not committed:
        yield well("output", f"{output} is in reach, and {patient.id} is not taken")
        return
    revision = committed[-1].revision
    yield strange(
        "output", f"{patient.id} is there already, as {revision}; other data or another spec would be refused"
    )
