"""Rechecking a release from its files alone: checksums, rows, columns, types and k, and what a receiver demands.

Whoever holds a release can run this; it needs neither the spec nor the work area. The manifest's promises are held
against the files, and the receiver's demands against both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from microagg_core.errors import EXIT_DONE, GateError, StorageError
from microagg_core.inspect.check import Check
from microagg_core.inspect.kanonymity import CombinationCounter
from microagg_core.plain import to_plain
from microagg_core.release.demands import Demands
from microagg_core.release.looking import Findings, Look, recounted
from microagg_core.release.manifest import Manifest
from microagg_core.release.protection import protection_checks
from microagg_core.release.released import ReleaseAtHand, read_release
from microagg_core.release.signature import signature_check
from microagg_core.store.layout import MANIFEST, SIGNATURE
from microagg_core.store.objects import Store
from microagg_core.store.standing import Standing, linked_folders, standing_of
from microagg_core.store.urls import shown

_KEYS, _DEMANDED = "k-anonymity", "k-anonymity demanded"
#: Checks of what is stored; the others are of what a release promises.
_OF_STORAGE = (
    "parts", "files", "checksums", "pages", "missing pages", "digest demanded", "signature", "unlisted files",
)  # fmt: skip


@dataclass(frozen=True)
class VerifyReport:
    """What rechecking a release found; holds names and counts, never a value."""

    url: str
    name: str
    id: str
    revision: str
    #: The manifest's digest.
    sha256: str
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
        """0, or 5 where files are not those that were published, or 4 where the release breaks a promise."""
        return max((_exit_code(check) for check in self.checks if not check.passed), default=EXIT_DONE)

    def document(self) -> dict[str, Any]:
        """As plain values, for programs."""
        checks = [{**to_plain(check), "exit_code": _exit_code(check)} for check in self.checks]
        return {**to_plain(self), "checks": checks, "passed": self.passed}


def _exit_code(check: Check) -> int:
    """What the failure of a check means."""
    return StorageError.exit_code if check.name in _OF_STORAGE else GateError.exit_code


def verify(
    release_url: str, storage_options: dict[str, Any] | None = None, demands: Demands | None = None
) -> VerifyReport:
    """Recheck a release; see :func:`~microagg_core.release.released.read_release` for what the URL may be.

    Raises:
        StorageError: there is no release, its manifest is damaged, or the store cannot be read.
        SpecError: a signature is demanded, and the package that checks it is missing.
    """
    wanted = demands or Demands()
    release = read_release(release_url, storage_options, follow_links=False)
    manifest = release.manifest
    counters = _counters(manifest, wanted)
    findings = Look(release.folder, manifest, list(counters.values())).at_all()
    remarks = list(_remarks(release, findings))
    checks = [
        *_checks_of_files(findings, manifest),
        *((Check(name, False, text) for name, text in remarks) if wanted.is_strict else ()),
        *wanted.checks(manifest, release.sha256),
        *(() if wanted.public_key is None else [signature_check(release, wanted.public_key)]),
        *_k_checks(release, findings, counters, wanted),
        *protection_checks(release.folder, manifest, findings.uncounted, wanted.protect),
    ]
    said, unlisted = _unlisted(release.folder, manifest)
    if unlisted and wanted.is_strict:
        checks.insert(0, Check("unlisted files", False, said))
    warnings = [] if wanted.is_strict else [text for _, text in remarks]
    if said and not (unlisted and wanted.is_strict):
        warnings.append(said)
    return VerifyReport(
        url=shown(release.folder.url_of(MANIFEST)),
        name=manifest.name,
        id=manifest.id,
        revision=manifest.revision,
        sha256=release.sha256,
        k=manifest.k,
        rows=findings.total_rows,
        parts=len(manifest.parts),
        checks=tuple(checks),
        warnings=tuple(warnings),
    )


def _counters(manifest: Manifest, demands: Demands) -> dict[str, CombinationCounter]:
    """What is counted: the release's key columns, and those of the receiver, where they are others.

    Both, for either may be the one that tells: the receiver may know that a column which the release takes for
    confidential is known to others, and the release may have a key column of which the receiver has not thought.
    """
    counters, k = {}, demands.k_of(manifest)
    if manifest.key_columns:
        counters[_KEYS] = CombinationCounter(manifest.key_columns, k)
    columns = demands.columns
    names = {column.name for column in manifest.columns}
    if columns and set(columns) <= names and set(columns) != set(manifest.key_columns):
        counters[_DEMANDED] = CombinationCounter(columns, k)
    return counters


def _checks_of_files(findings: Findings, manifest: Manifest) -> Iterator[Check]:
    n = len(manifest.parts)
    yield _parts_check("parts", f"{n} of {n} are there", "parts are missing", findings.missing, n)
    yield _parts_check(
        "checksums", f"{n} of {n} parts are what was published", "parts are not what was published", findings.damaged, n
    )
    yield _columns_check(findings, manifest)
    yield _rows_check(findings, manifest)
    yield _parts_check("files", "no part is a link", "parts are links or no files at all", findings.links, n)
    yield _parts_check(
        "repeated parts", "none has the content of another", "parts have the content of another", findings.repeated, n
    )
    yield _footers_check(findings, manifest)
    if manifest.pages:
        yield _pages_check(findings, manifest)
    yield _gate_check(manifest)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _parts_check(name: str, well: str, trouble: str, names: list[str], n_parts: int) -> Check:
    return Check(name, not names, f"{len(names)} of {n_parts} {trouble}: {_some(names)}" if names else well)


def _pages_check(findings: Findings, manifest: Manifest) -> Check:
    """Pages that are there are what the manifest says; a missing one misleads nobody, and is told elsewhere."""
    wrong, n = findings.wrong_pages, len(manifest.pages)
    detail = f"{len(wrong)} pages or copies of pages are not what was published: {_some(wrong)}"
    return Check("pages", not wrong, detail if wrong else f"what is there of {n} pages is what was published")


def _columns_check(findings: Findings, manifest: Manifest) -> Check:
    names = findings.columns + findings.unreadable
    detail = f"{len(manifest.columns)} columns with the declared names and types"
    if names:
        detail = f"{len(names)} of {len(manifest.parts)} parts do not hold the {detail}: {_some(names)}"
    return Check("columns", not names, detail)


def _rows_check(findings: Findings, manifest: Manifest) -> Check:
    passed = findings.total_rows == manifest.rows and not findings.rows
    detail = f"{findings.total_rows} of {manifest.rows} records"
    if findings.rows:
        detail += f"; another number than declared in {_some(findings.rows)}"
    return Check("rows", passed, detail)


def _footers_check(findings: Findings, manifest: Manifest) -> Check:
    names, kinds = list(findings.besides), sorted(set(findings.besides.values()))
    detail = "nothing but the released values"
    if names:
        detail = f"{len(names)} of {len(manifest.parts)} parts carry {' and '.join(kinds)}: {_some(names)}"
    return Check("nothing besides", not names, detail)


def _gate_check(manifest: Manifest) -> Check:
    """What the manifest itself tells of the checks before publication."""
    failed = [check.name for check in manifest.checks if not check.passed]
    detail = f"{len(manifest.checks)} checks passed before it was published"
    if failed:
        detail = f"the manifest itself says that {len(failed)} of {len(manifest.checks)} checks failed: {_some(failed)}"
    return Check("gate", not failed, detail)


def _remarks(release: ReleaseAtHand, findings: Findings) -> Iterator[tuple[str, str]]:
    """What may be right, and is refused where somebody demands anything: the name of the check, and a sentence."""
    manifest = release.manifest
    shared = list(findings.shared)
    if standing_of(release.folder, MANIFEST) is Standing.SHARED:
        shared.append(MANIFEST)
    if shared:
        yield "hard links", f"{len(shared)} files have another name, by which they may be changed: {_some(shared)}"
    if missing := findings.missing_pages:
        text = f"{len(missing)} pages, or copies of pages, are not there: {_some(missing)}"
        yield "missing pages", f"{text}; the next run of the release's id puts them back"
    if not manifest.rows:
        yield "records", "the release holds no record"
    if not manifest.checks:
        yield "gate's checks", "the manifest names no check that was made before it was published"
    if unknown := manifest.unknown():
        yield "fields", f"the manifest says {unknown} things that this version of microagg does not know"


def _k_checks(
    release: ReleaseAtHand, findings: Findings, counters: dict[str, CombinationCounter], demands: Demands
) -> Iterator[Check]:
    if demands.columns and _DEMANDED not in counters:
        names = {column.name for column in release.manifest.columns}
        if not set(demands.columns) <= names:
            yield Check(_DEMANDED, False, "not counted, as the release does not have all columns that are demanded")
    if _DEMANDED in counters:
        yield _k_check(_DEMANDED, release, findings, counters[_DEMANDED])
    if _KEYS not in counters:
        yield Check(_KEYS, False, "the manifest names no quasi-identifier and no blocking column")
    else:
        yield _k_check(_KEYS, release, findings, counters[_KEYS])


def _k_check(name: str, release: ReleaseAtHand, findings: Findings, counter: CombinationCounter) -> Check:
    if findings.uncounted:
        return Check(name, False, f"not certain: {findings.uncounted} parts could not be counted")
    failing, smallest = counter.failing(), counter.smallest()
    if failing:
        failing, smallest = recounted(release.folder, release.manifest, counter)
    if failing:
        detail = f"{failing} combinations have fewer than k={counter.k} records (the smallest has {smallest})"
        return Check(name, False, detail)
    columns = f"the {len(counter.columns)} {'key columns' if name == _KEYS else 'columns that are demanded'}"
    return Check(name, True, f"every combination of {columns} has at least k={counter.k} records")


def _unlisted(folder: Store, manifest: Manifest) -> tuple[str, int]:
    """Files besides. Their names are not repeated: who put them there may have named them after data."""
    listed = {part.name for part in manifest.parts} | {MANIFEST, SIGNATURE}
    listed |= {name for page in manifest.pages for name in (page.name, page.written)}
    try:
        n_unlisted = sum(name not in listed for name in folder.list(unfinished=True)) + linked_folders(folder)
    except StorageError:  # readers may often read but not list
        text = f"{shown(folder.url)} could not be listed; files beside the release, if any, were not looked for"
        return text, 0
    if not n_unlisted:
        return "", 0
    text = f"{n_unlisted} files in {shown(folder.url)} are not part of the release; readers should not use them"
    return text, n_unlisted
