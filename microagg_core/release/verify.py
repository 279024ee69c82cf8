"""Rechecking a release from its files alone: checksums, rows, columns, types and k, and what a receiver demands.

Whoever holds a release can run this; it needs neither the spec nor the work area. The manifest's promises are held
against the files, and the receiver's demands against both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.data.formats.writing import released_format
from microagg_core.errors import EXIT_DONE, GateError, StorageError
from microagg_core.inspect.check import Check
from microagg_core.inspect.demand import Demand
from microagg_core.inspect.distributions import MOST_VALUES_OF_PROTECTED, Distribution, ValueCounts, codes_of
from microagg_core.inspect.edits import RuleCount, count_of
from microagg_core.inspect.kanonymity import CombinationCounter
from microagg_core.inspect.notes import added
from microagg_core.plain import to_plain
from microagg_core.release.demands import Demands
from microagg_core.release.manifest import Manifest, PageEntry, PartEntry
from microagg_core.release.publish import is_whole
from microagg_core.release.revisions import ReleaseAtHand, part_batches, read_release
from microagg_core.release.signature import signature_check
from microagg_core.spec.columns import refuse_types
from microagg_core.spec.edits import comparison_of
from microagg_core.store.layout import MANIFEST, SIGNATURE
from microagg_core.store.objects import Standing, Store, linked_folders, standing_of
from microagg_core.store.urls import shown

#: More records than there can be: every combination stays below it, and so is counted.
_MORE_THAN_ANY = 2**62


@dataclass
class Findings:
    """What is wrong with the parts, by name; and what was counted."""

    missing: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    #: Files that have another name too.
    shared: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    #: Parts with the content of another.
    repeated: list[str] = field(default_factory=list)
    #: What files carry besides the released values, by part.
    besides: dict[str, str] = field(default_factory=dict)
    total_rows: int = 0
    #: Pages that are not there, or not where they were written; and those that are not what the manifest says.
    missing_pages: list[str] = field(default_factory=list)
    wrong_pages: list[str] = field(default_factory=list)

    @property
    def uncounted(self) -> int:
        return len(self.missing) + len(self.links) + len(self.unreadable) + len(self.columns)


class Look:
    """One look at all parts of a revision; a part with the content of another is not counted again."""

    def __init__(self, folder: Store, manifest: Manifest, counters: Sequence[CombinationCounter]) -> None:
        self._folder = folder
        self._manifest = manifest
        self._counters = counters
        self._contents: set[str] = set()
        self._blocking = {column.name for column in manifest.columns if column.role == "blocking"}
        self.findings = Findings()

    def look(self) -> Findings:
        for part in self._manifest.parts:
            if self._is_there(part):
                with self._folder.local_copy(part.name) as path:
                    self._look_at_file(path, part)
        for page in self._manifest.pages:
            for name in (page.name, page.written):
                self._look_at_page(name, page)
        return self.findings

    def _look_at_page(self, name: str, page: PageEntry) -> None:
        standing = standing_of(self._folder, name)
        if standing is Standing.MISSING:
            self.findings.missing_pages.append(name)
        elif standing not in (Standing.FILE, Standing.SHARED) or not is_whole(self._folder, name, page):
            self.findings.wrong_pages.append(name)
        elif standing is Standing.SHARED:
            self.findings.shared.append(name)

    def _is_there(self, part: PartEntry) -> bool:
        standing = standing_of(self._folder, part.name)
        places = {
            Standing.MISSING: self.findings.missing,
            Standing.LINK: self.findings.links,
            Standing.SPECIAL: self.findings.links,
            Standing.SHARED: self.findings.shared,
        }
        if standing in places:
            places[standing].append(part.name)
        return standing in (Standing.FILE, Standing.SHARED)

    def _look_at_file(self, path: Path, part: PartEntry) -> None:
        sha256 = _sha256_of(path)
        if path.stat().st_size != part.bytes or sha256 != part.sha256:
            self.findings.damaged.append(part.name)
        is_repeated = sha256 in self._contents
        self._contents.add(sha256)
        try:
            self._look_at_content(path, part, is_repeated)
        except (pa.ArrowException, OSError, ValueError):  # the library's message may quote what it stumbled over
            self.findings.unreadable.append(part.name)

    def _look_at_content(self, path: Path, part: PartEntry, is_repeated: bool) -> None:
        manifest, findings = self._manifest, self.findings
        schema, batches = part_batches(path, manifest)
        declared = [(column.name, column.type) for column in manifest.columns]
        if [(entry.name, str(entry.type)) for entry in schema] != declared:
            findings.columns.append(part.name)
            return
        rows_read = [0]
        if is_repeated:
            for _ in _counted(batches, rows_read):
                pass
            if rows_read[0] and not self._is_of_one_combination(path):
                findings.repeated.append(part.name)
        else:
            self._count(path, _counted(batches, rows_read))
        if extras := released_format(manifest).besides(path, self._blocking):
            findings.besides[part.name] = extras
        findings.total_rows += rows_read[0]
        if rows_read[0] != part.rows:
            findings.rows.append(part.name)

    def _count(self, path: Path, batches: Iterator[pa.Table]) -> None:
        if not self._counters:
            for _ in batches:
                pass
        for number, counter in enumerate(self._counters):
            counter.add_batches(part_batches(path, self._manifest)[1] if number else batches)

    def _is_of_one_combination(self, path: Path) -> bool:
        """Say whether all records of a part are alike: then a large block may have been cut into equal files."""
        keys = self._manifest.key_columns
        if not keys:
            return False
        counter = CombinationCounter(keys, _MORE_THAN_ANY)
        counter.add_batches(part_batches(path, self._manifest)[1])
        return counter.failing() == 1


def recounted(folder: Store, manifest: Manifest, counter: CombinationCounter) -> tuple[int, int]:
    """Count again, exactly, how many combinations have fewer than k records, and how many the smallest has.

    Each content is read once, as it was counted once.
    """
    recount = counter.recount()
    seen: set[str] = set()
    for part in manifest.parts:
        if standing_of(folder, part.name) not in (Standing.FILE, Standing.SHARED):
            raise StorageError(f"{part.name} changed while it was verified; verify again")
        with folder.local_copy(part.name) as path:
            if (sha256 := _sha256_of(path)) not in seen:
                seen.add(sha256)
                recount.add_batches(part_batches(path, manifest)[1])
    return recount.failing(), recount.smallest()


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _counted(batches: Iterator[pa.Table], rows_read: list[int]) -> Iterator[pa.Table]:
    for batch in batches:
        rows_read[0] += batch.num_rows
        yield batch


def protection_checks(
    folder: Store, manifest: Manifest, uncounted: int, demanded: Sequence[Demand] = ()
) -> tuple[Check, ...]:
    """Check every column of which something is promised or demanded.

    All records of a combination are in one file. Where a file says otherwise, its share of a combination has to hold
    what is promised by itself: then all of them together do.

    Combinations are those of the manifest's key columns. Over fewer columns, combinations are some of these together,
    and no worse than the worst of them.
    ``uncounted`` parts cannot be read, and fail other checks.
    """
    demands = {f"protection of {name!r}": Demand.of(name, entry) for name, entry in manifest.protect.items()}
    demands |= {f"protection of {demand.column!r} demanded": demand for demand in demanded}
    role_of = {column.name: column.role for column in manifest.columns}
    failed = {
        name: f"not certain: {uncounted} parts could not be counted"
        if uncounted
        else f"{demand.column!r} is not a confidential column of the release"
        for name, demand in demands.items()
        if uncounted or role_of.get(demand.column) != "confidential"
    }
    counted = {name: demand for name, demand in demands.items() if name not in failed}
    wholes = _distributions(folder, manifest, [demand for demand in counted.values() if demand.t is not None])
    broken = dict.fromkeys(counted, 0)
    for table in _tables(folder, manifest) if counted else ():
        labels = _combinations([table[name] for name in manifest.key_columns], table.num_rows)
        for name, demand in counted.items() if table.num_rows else ():
            whole, column = wholes.get(demand.column), table[demand.column]
            broken[name] += int(np.sum(demand.broken(demand.codes(column, whole), labels, whole)))
    return tuple(
        Check(name, False, failed[name]) if name in failed else _protection_check(name, demand, broken[name], wholes)
        for name, demand in demands.items()
    )


def edit_checks(folder: Store, manifest: Manifest, uncounted: int) -> Iterator[Check]:
    """Count again how many records break the manifest's rules between columns."""
    if not manifest.edits:
        return
    if uncounted:
        yield Check("edits", False, f"not certain: {uncounted} parts could not be counted")
        return
    rules, counts = [comparison_of(edit.rule) for edit in manifest.edits], [RuleCount()] * len(manifest.edits)
    for table in _tables(folder, manifest):
        types = {field.name: field.type for field in table.schema}
        try:
            for rule in rules:
                refuse_types(rule, types)
        except ValueError as error:
            yield Check("edits", False, f"a rule cannot be counted: {error}")
            return
        columns = {name: table[name] for name in table.column_names}
        counts = [added(count, count_of(rule, columns)) for count, rule in zip(counts, rules, strict=True)]
    wrong = [
        f"{count.broken} of {count.compared} records break {edit.rule!r}, not {edit.broken} of {edit.compared}"
        for edit, count in zip(manifest.edits, counts, strict=True)
        if (count.compared, count.broken) != (edit.compared, edit.broken)
    ]
    right = f"{len(rules)} rules between columns are broken as often as the manifest says"
    yield Check("edits", not wrong, "; ".join(wrong) or right)


def _combinations(columns: Sequence[pa.ChunkedArray], n_rows: int) -> Ints:
    """Number rows, equal ones the same: by values, as whoever forges a release may choose some with equal hashes."""
    labels = np.zeros(n_rows, dtype=np.int64)
    for column in columns:
        codes = codes_of(column)
        labels = np.unique(labels * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return labels


def _protection_check(name: str, demand: Demand, broken: int, wholes: Mapping[str, Distribution]) -> Check:
    words = [f"at least {demand.distinct} distinct values"] if demand.distinct > 1 else []
    if demand.t is not None:
        words.append(f"a distribution, and a share of missing values, within t = {demand.t:g} of the whole's")
    promise, is_counted = " and ".join(words), demand.column in wholes
    if demand.t is not None and not is_counted:
        return Check(name, False, f"not certain: the column has more than {MOST_VALUES_OF_PROTECTED} distinct values")
    if broken:
        return Check(name, False, f"{broken} combinations do not have {promise}")
    return Check(name, True, f"every combination has {promise}")


def _tables(folder: Store, manifest: Manifest) -> Iterator[pa.Table]:
    for part in manifest.parts:
        with folder.local_copy(part.name) as path:
            schema, batches = part_batches(path, manifest)
            tables = list(batches)
        yield pa.concat_tables(tables) if tables else schema.empty_table()


def _distributions(folder: Store, manifest: Manifest, demands: list[Demand]) -> dict[str, Distribution]:
    """Count how these demands' columns are distributed over all parts; without those of too many values."""
    types = {demand.column: ValueCounts(pa.null(), MOST_VALUES_OF_PROTECTED) for demand in demands}
    for table in _tables(folder, manifest) if demands else ():
        for name, counts in types.items():
            counts.add(table[name])
    wholes = {name: counts.distribution() for name, counts in types.items()}
    return {name: whole for name, whole in wholes.items() if whole is not None}


_KEYS, _DEMANDED = "k-anonymity", "k-anonymity demanded"
#: Checks of what is stored; the others are of what a release promises.
_OF_STORAGE = (
    "parts", "files", "checksums", "pages", "missing pages", "digest demanded", "signature", "unlisted files",
)  # fmt: skip


@dataclass(frozen=True)
class VerifyReport:
    """Result of rechecking a release; holds names and counts, never a value."""

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
        return all(check.passed for check in self.checks)

    @property
    def exit_code(self) -> int:
        """0, or 5 where files are not those that were published, or 4 where the release breaks a promise."""
        return max((_exit_code(check) for check in self.checks if not check.passed), default=EXIT_DONE)

    def document(self) -> dict[str, Any]:
        checks = [{**to_plain(check), "exit_code": _exit_code(check)} for check in self.checks]
        return {**to_plain(self), "checks": checks, "passed": self.passed}


def _exit_code(check: Check) -> int:
    return StorageError.exit_code if check.name in _OF_STORAGE else GateError.exit_code


def verify(
    release_url: str, storage_options: dict[str, Any] | None = None, demands: Demands | None = None
) -> VerifyReport:
    """Recheck a release; see :func:`~microagg_core.release.revisions.read_release` for what the URL may be."""
    demands = demands or Demands()
    release = read_release(release_url, storage_options, follow_links=False)
    manifest = release.manifest
    counters = _counters(manifest, demands)
    findings = Look(release.folder, manifest, list(counters.values())).look()
    remarks = list(_remarks(release, findings))
    checks = [
        *_checks_of_files(findings, manifest),
        *((Check(name, False, text) for name, text in remarks) if demands.is_strict else ()),
        *demands.checks(manifest, release.sha256),
        *(() if demands.public_key is None else [signature_check(release, demands.public_key)]),
        *_k_checks(release, findings, counters, demands),
        *_unit_checks(manifest),
        *protection_checks(release.folder, manifest, findings.uncounted, demands.protect),
        *edit_checks(release.folder, manifest, findings.uncounted),
    ]
    sentence, unlisted = _unlisted(release.folder, manifest)
    if unlisted and demands.is_strict:
        checks.insert(0, Check("unlisted files", False, sentence))
    warnings = [] if demands.is_strict else [text for _, text in remarks]
    if sentence and not (unlisted and demands.is_strict):
        warnings.append(sentence)
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
    """Count the release's key columns, and those of the receiver, where they are others.

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
    return counters | {_known_check(known): CombinationCounter(known, manifest.k) for known in manifest.known or ()}


def _known_check(columns: Sequence[str]) -> str:
    return f"k-anonymity of [{', '.join(columns)}]"


def _checks_of_files(findings: Findings, manifest: Manifest) -> Iterator[Check]:
    n, columns = len(manifest.parts), f"{len(manifest.columns)} columns with the declared names and types"

    def check(name: str, parts: list[str], bad: str, good: str) -> Check:
        return Check(name, not parts, f"{len(parts)} of {n} parts {bad}: {_some(parts)}" if parts else good)

    yield check("parts", findings.missing, "are missing", f"{n} of {n} are there")
    yield check("checksums", findings.damaged, "are not what was published", f"{n} of {n} parts are what was published")
    yield check("columns", findings.columns + findings.unreadable, f"do not hold the {columns}", columns)
    yield _rows_check(findings, manifest)
    yield check("files", findings.links, "are links or no files at all", "no part is a link")
    yield check("repeated parts", findings.repeated, "have the content of another", "none has the content of another")
    kinds = " and ".join(sorted(set(findings.besides.values())))
    yield check("nothing besides", list(findings.besides), f"carry {kinds}", "nothing but the released values")
    if manifest.pages:
        yield _pages_check(findings, manifest)
    yield _gate_check(manifest)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _pages_check(findings: Findings, manifest: Manifest) -> Check:
    """Check pages that are there; a missing one misleads nobody, and is a remark."""
    wrong, n = findings.wrong_pages, len(manifest.pages)
    detail = f"{len(wrong)} pages or copies of pages are not what was published: {_some(wrong)}"
    return Check("pages", not wrong, detail if wrong else f"what is there of {n} pages is what was published")


def _rows_check(findings: Findings, manifest: Manifest) -> Check:
    passed = findings.total_rows == manifest.rows and not findings.rows
    detail = f"{findings.total_rows} of {manifest.rows} records"
    if findings.rows:
        detail += f"; another number than declared in {_some(findings.rows)}"
    return Check("rows", passed, detail)


def _gate_check(manifest: Manifest) -> Check:
    failed = [check.name for check in manifest.checks if not check.passed]
    detail = f"{len(manifest.checks)} checks passed before it was published"
    if failed:
        detail = f"the manifest itself says that {len(failed)} of {len(manifest.checks)} checks failed: {_some(failed)}"
    return Check("gate", not failed, detail)


def _remarks(release: ReleaseAtHand, findings: Findings) -> Iterator[tuple[str, str]]:
    """Name and describe what may be right, and is refused where somebody demands anything."""
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
    for known in release.manifest.known or ():
        yield _k_check(_known_check(known), release, findings, counters[_known_check(known)])
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
    what = {_KEYS: "key columns", _DEMANDED: "columns that are demanded"}.get(name, "columns that may be known")
    columns = f"the {len(counter.columns)} {what}"
    return Check(name, True, f"every combination of {columns} has at least k={counter.k} records")


def _unit_checks(manifest: Manifest) -> Iterator[Check]:
    """Look for the gate's count of what units of several rows share, which no file tells."""
    if manifest.several is None:
        return
    wanted, shared = ("profiles", "all rows of each") if manifest.has_whole_units else ("ties", "each combination")
    passed = any(check.name == wanted and check.passed for check in manifest.checks)
    counted = "was counted before it was published" if passed else "was not counted before it was published"
    detail = f"that k={manifest.k} units share {shared} {counted}; the files cannot tell, as no row names its unit"
    yield Check("units", passed, detail)


def _unlisted(folder: Store, manifest: Manifest) -> tuple[str, int]:
    """Count files besides. Their names are not repeated: who put them there may have named them after data."""
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
