"""Rechecking a release from its files alone: checksums, rows, columns, types and k.

Whoever holds a release can run this; it needs neither the spec nor the work area, and trusts nothing but the
manifest's promises, each of which it holds against the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from microagg_core.errors import EXIT_DONE, GateError, StorageError
from microagg_core.plain import to_plain
from microagg_core.privacy.check import Check
from microagg_core.privacy.kanonymity import CombinationCounter, Recount
from microagg_core.releases.manifest import Manifest, PartEntry
from microagg_core.releases.protection import protection_checks
from microagg_core.releases.released import find_release, part_batches
from microagg_core.storage.layout import MANIFEST
from microagg_core.storage.objects import Store
from microagg_core.storage.urls import shown

_CHUNK = 4 * 2**20


#: Checks of what is stored; the others are of what a release promises.
_OF_STORAGE = ("parts", "checksums")


@dataclass(frozen=True)
class VerifyReport:
    """What rechecking a release found; holds names and counts, never a value."""

    url: str
    id: str
    revision: str
    k: int
    rows: int
    parts: int
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def exit_code(self) -> int:
        """0, or 5 where files are missing or damaged, or 4 where the release breaks a promise."""
        return max((_exit_code(check) for check in self.checks if not check.passed), default=EXIT_DONE)

    def document(self) -> dict[str, Any]:
        """As plain values, for programs."""
        checks = [{**to_plain(check), "exit_code": _exit_code(check)} for check in self.checks]
        return {**to_plain(self), "checks": checks, "passed": self.passed}


def _exit_code(check: Check) -> int:
    """What the failure of a check means."""
    return StorageError.exit_code if check.name in _OF_STORAGE else GateError.exit_code


@dataclass
class _Findings:
    """What is wrong with the parts, by name; and what was counted."""

    missing: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    total_rows: int = 0

    @property
    def uncounted(self) -> int:
        return len(self.missing) + len(self.unreadable) + len(self.columns)


def verify(release_url: str, storage_options: dict[str, Any] | None = None) -> VerifyReport:
    """Recheck a release; see :func:`~microagg_core.releases.released.find_release` for what the URL may be.

    Raises:
        StorageError: there is no release, its manifest is damaged, or the store cannot be read.
    """
    folder, manifest = find_release(release_url, storage_options)
    counter = CombinationCounter(manifest.key_columns, manifest.k) if manifest.key_columns else None
    findings = _Findings()
    for part in manifest.parts:
        _check_part(folder, manifest, part, findings, counter)
    checks = (
        _storage_check("parts", "parts are missing", findings.missing, manifest),
        _storage_check("checksums", "parts are not what was published", findings.damaged, manifest),
        _columns_check(findings, manifest),
        _rows_check(findings, manifest),
        _k_check(folder, manifest, findings, counter),
        *protection_checks(folder, manifest, findings.uncounted),
    )
    return VerifyReport(
        url=shown(folder.url_of(MANIFEST)),
        id=manifest.id,
        revision=manifest.revision,
        k=manifest.k,
        rows=findings.total_rows,
        parts=len(manifest.parts),
        checks=checks,
        warnings=_unlisted(folder, manifest),
    )


def _sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _check_part(
    folder: Store, manifest: Manifest, part: PartEntry, findings: _Findings, counter: CombinationCounter | None
) -> None:
    size = folder.size(part.name)
    if size is None:
        findings.missing.append(part.name)
        return
    with folder.local_copy(part.name) as path:
        if size != part.bytes or _sha256_of(path) != part.sha256:
            findings.damaged.append(part.name)
        _check_content(path, manifest, part, findings, counter)


def _check_content(
    path: Path, manifest: Manifest, part: PartEntry, findings: _Findings, counter: CombinationCounter | None
) -> None:
    rows_read = [0]
    try:
        schema, batches = part_batches(path, manifest)
        declared = [(column.name, column.type) for column in manifest.columns]
        if [(entry.name, str(entry.type)) for entry in schema] != declared:
            findings.columns.append(part.name)
            return
        counted = _counted(batches, rows_read)
        if counter is not None:
            counter.add_batches(counted)
        else:
            for _ in counted:
                pass
    except (pa.ArrowException, OSError, ValueError):  # the library's message may quote what it stumbled over
        findings.unreadable.append(part.name)
        return
    findings.total_rows += rows_read[0]
    if rows_read[0] != part.rows:
        findings.rows.append(part.name)


def _counted(batches: Iterator[pa.Table], rows_read: list[int]) -> Iterator[pa.Table]:
    for batch in batches:
        rows_read[0] += batch.num_rows
        yield batch


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _storage_check(name: str, trouble: str, names: list[str], manifest: Manifest) -> Check:
    of_all = f"{len(names)} of {len(manifest.parts)} {trouble}: {_some(names)}"
    detail = of_all if names else f"all {len(manifest.parts)} parts"
    return Check(name, not names, detail)


def _columns_check(findings: _Findings, manifest: Manifest) -> Check:
    names = findings.columns + findings.unreadable
    detail = f"{len(manifest.columns)} columns with the declared names and types"
    if names:
        detail = f"{len(names)} of {len(manifest.parts)} parts do not hold the {detail}: {_some(names)}"
    return Check("columns", not names, detail)


def _rows_check(findings: _Findings, manifest: Manifest) -> Check:
    passed = findings.total_rows == manifest.rows and not findings.rows
    detail = f"{findings.total_rows} of {manifest.rows} records"
    if findings.rows:
        detail += f"; another number than declared in {_some(findings.rows)}"
    return Check("rows", passed, detail)


def _k_check(folder: Store, manifest: Manifest, findings: _Findings, counter: CombinationCounter | None) -> Check:
    name = "k-anonymity"
    if counter is None:
        return Check(name, False, "the manifest names no quasi-identifier and no blocking column")
    if findings.uncounted:
        return Check(name, False, f"not certain: {findings.uncounted} parts could not be counted")
    failing, smallest = counter.failing(), counter.smallest()
    if failing:
        recount = _recount(folder, manifest, counter.recount())
        failing, smallest = recount.failing(), recount.smallest()
    if failing:
        detail = f"{failing} combinations have fewer than k={manifest.k} records (the smallest has {smallest})"
        return Check(name, False, detail)
    n_columns = len(manifest.key_columns)
    detail = f"every combination of the {n_columns} key columns has at least k={manifest.k} records"
    return Check(name, True, detail)


def _recount(folder: Store, manifest: Manifest, recount: Recount) -> Recount:
    for part in manifest.parts:
        with folder.local_copy(part.name) as path:
            recount.add_batches(part_batches(path, manifest)[1])
    return recount


def _unlisted(folder: Store, manifest: Manifest) -> tuple[str, ...]:
    """Files beside the parts. Their names are not repeated: who put them there may have named them after data."""
    listed = {part.name for part in manifest.parts} | {MANIFEST}
    try:
        n_unlisted = len([name for name in folder.list() if name not in listed])
    except StorageError:  # readers may often read but not list
        return (f"{shown(folder.url)} could not be listed; files beside the release, if any, were not looked for",)
    if not n_unlisted:
        return ()
    return (f"{n_unlisted} files in {shown(folder.url)} are not part of the release; readers should not use them",)
