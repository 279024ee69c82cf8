"""Looking at a release: what stands in the place of parts and pages, what is in them, how often combinations occur."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from microagg_core.data.formats.writing import released_format
from microagg_core.errors import StorageError
from microagg_core.inspect.kanonymity import CombinationCounter
from microagg_core.release.manifest import Manifest, PageEntry, PartEntry
from microagg_core.release.parts import is_whole
from microagg_core.release.released import part_batches
from microagg_core.store.objects import Store
from microagg_core.store.standing import Standing, standing_of

_CHUNK = 4 * 2**20
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
        """Parts of which the records are not known."""
        return len(self.missing) + len(self.links) + len(self.unreadable) + len(self.columns)


class Look:
    """One look at all parts.

    Args:
        folder: the folder of the revision.
        manifest: what it is to hold.
        counters: what counts the records; a part with the content of another is not counted again.
    """

    def __init__(self, folder: Store, manifest: Manifest, counters: Sequence[CombinationCounter]) -> None:
        self._folder = folder
        self._manifest = manifest
        self._counters = counters
        self._contents: set[str] = set()
        self._blocking = {column.name for column in manifest.columns if column.role == "blocking"}
        self.findings = Findings()

    def at_all(self) -> Findings:
        """Look at every part, and at every page under both of its names."""
        for part in self._manifest.parts:
            if self._is_there(part):
                with self._folder.local_copy(part.name) as path:
                    self._at_file(path, part)
        for page in self._manifest.pages:
            for name in (page.name, page.written):
                self._at_page(name, page)
        return self.findings

    def _at_page(self, name: str, page: PageEntry) -> None:
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

    def _at_file(self, path: Path, part: PartEntry) -> None:
        sha256 = _sha256_of(path)
        if path.stat().st_size != part.bytes or sha256 != part.sha256:
            self.findings.damaged.append(part.name)
        is_repeated = sha256 in self._contents
        self._contents.add(sha256)
        try:
            self._at_content(path, part, is_repeated)
        except (pa.ArrowException, OSError, ValueError):  # the library's message may quote what it stumbled over
            self.findings.unreadable.append(part.name)

    def _at_content(self, path: Path, part: PartEntry, is_repeated: bool) -> None:
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
        if said := released_format(manifest).besides(path, self._blocking):
            findings.besides[part.name] = said
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
        """Whether all records of a part are alike to others: then a large block may have been cut into equal files."""
        keys = self._manifest.key_columns
        if not keys:
            return False
        counter = CombinationCounter(keys, _MORE_THAN_ANY)
        counter.add_batches(part_batches(path, self._manifest)[1])
        return counter.failing() == 1


def recounted(folder: Store, manifest: Manifest, counter: CombinationCounter) -> tuple[int, int]:
    """How many combinations have fewer than k records, and how many the smallest has; exact, by a second pass.

    Each content is read once, as it was counted once.

    Raises:
        StorageError: a part cannot be read any more.
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
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _counted(batches: Iterator[pa.Table], rows_read: list[int]) -> Iterator[pa.Table]:
    for batch in batches:
        rows_read[0] += batch.num_rows
        yield batch
