"""The parts of a release on their way from the work area to the output, and looking whether they are there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from microagg_core.errors import StorageError
from microagg_core.release.manifest import Manifest, PageEntry, PartEntry
from microagg_core.store.layout import ReleaseLayout
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown


@dataclass(frozen=True)
class StagedPart:
    """A part that the gate let pass: where it lies, and what it must hold."""

    source: Store
    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Upload:
    """One part on its way to the output; small, so that it can be sent to a worker."""

    part: StagedPart
    target: str
    entry: PartEntry


UploadAll = Callable[[Store, Sequence[Upload]], None]


def plan_uploads(
    layout: ReleaseLayout, extension: str, parts: Sequence[StagedPart], attempt: str
) -> tuple[Upload, ...]:
    """Where each part goes, in the order given."""
    uploads = []
    for number, part in enumerate(parts):
        target = layout.part(number, part.sha256, attempt, extension)
        entry = PartEntry(name=layout.relative(target), rows=part.rows, bytes=part.bytes, sha256=part.sha256)
        uploads.append(Upload(part, target, entry))
    return tuple(uploads)


def plan_repairs(manifest: Manifest, parts: Sequence[StagedPart]) -> tuple[Upload, ...]:
    """What could be put back of a committed release: each of its parts whose content is among these."""
    staged = {part.sha256: part for part in parts}
    layout = manifest.layout
    return tuple(
        Upload(staged[entry.sha256], layout.absolute(entry.name), entry)
        for entry in manifest.parts
        if entry.sha256 in staged
    )


def is_whole(output: Store, name: str, entry: PartEntry | PageEntry) -> bool:
    """Whether an object is there and holds what the manifest says; it is read, but for one of another size."""
    if output.size(name) != entry.bytes:
        return False
    digest = hashlib.sha256()
    for chunk in output.chunks(name):
        digest.update(chunk)
    return digest.hexdigest() == entry.sha256


def upload_part(output: Store, upload: Upload) -> None:
    """Copy one part to the output, unless it is there. May be repeated at will.

    Raises:
        StorageError: the part is not what the gate checked, or a store failed.
    """
    if is_whole(output, upload.target, upload.entry):
        return
    part = upload.part
    if not output.put_checked(upload.target, part.source.chunks(part.name), part.sha256, part.bytes):
        raise StorageError(
            f"{shown(part.source.url_of(part.name))} is not what the gate checked (its checksum differs); "
            "run the release again"
        )


def upload_in_turn(output: Store, uploads: Sequence[Upload]) -> None:
    """Copy all parts, one after the other."""
    for upload in uploads:
        upload_part(output, upload)
