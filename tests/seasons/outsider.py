"""An outsider who knows the truth: from the published files of all nights alone, what of the promises is broken.

Nothing here is imported from the product. Released rows are read as anybody reads them; their tags tell whose they are.
"""

from __future__ import annotations

import json
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

from seasons.population import CONFIDENTIAL, KEYS, TAG

#: A released combination, to the byte.
Class = tuple[bytes, ...]
#: Confidential values as text.
Row = tuple[str, ...]


@dataclass(frozen=True)
class Promise:
    """What a series promises."""

    mode: str
    k: int
    leavers: str = "withhold"
    changes: bool = False
    nights: int | None = None


@dataclass(frozen=True)
class Seen:
    """One published release: each tag's class and confidential values, and who was in the input that night."""

    folder: Path
    classes: Mapping[int, Class]
    rows: Mapping[int, Row]
    truth: Mapping[int, Row]


@dataclass
class Outsider:
    """Looks at release after release, revisions included, in the order in which they were published."""

    promise: Promise
    seen: list[Seen] = field(default_factory=list)
    _first: dict[int, Class] = field(default_factory=dict)
    _last: dict[int, tuple[Class, Row]] = field(default_factory=dict)
    _nights: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    #: Traces by number: 0 is that of who was never released.
    _trace: dict[int, int] = field(default_factory=dict)
    _n_traces: int = 0

    def look(self, folder: Path, truth: Mapping[int, Row]) -> list[str]:
        """Read a release that has just been published; what is wrong, a sentence each."""
        classes, rows, wrong = read_release(folder)
        night = Seen(folder, classes, rows, truth)
        wrong += self._too_few_in_a_class(night)
        wrong += self._moved(night) + self._false_values(night) + self._lone_changes(night)
        self.seen.append(night)
        for tag in classes:
            self._nights[tag].append(len(self.seen) - 1)
            self._first.setdefault(tag, classes[tag])
            self._last[tag] = (classes[tag], rows[tag])
        wrong += self._rare_traces(night) + self._out_of_turn(night)
        return [f"{folder.parent.name}/{folder.name}: {sentence}" for sentence in wrong]

    def _too_few_in_a_class(self, night: Seen) -> list[str]:
        rare = [n for n in Counter(night.classes.values()).values() if n < self.promise.k]
        return [f"{len(rare)} classes of fewer than {self.promise.k}"] if rare else []

    def _rare_traces(self, night: Seen) -> list[str]:
        """(a) Sequences of classes, absence included, that fewer than k of those ever released share."""
        numbers: dict[tuple[int, Class | None], int] = {}
        for tag in self._nights:
            step = (self._trace.get(tag, -1), night.classes.get(tag))
            self._trace[tag] = numbers.setdefault(step, len(numbers))
        counts = Counter(self._trace.values())
        rare = sum(n for n in counts.values() if n < self.promise.k)
        if self.promise.mode == "independent" or not rare:
            return []
        return [f"(a) {rare} units have a trace that fewer than {self.promise.k} share"]

    def _moved(self, night: Seen) -> list[str]:
        """(c) Survivors' quasi-identifiers and blocking values are those of their first release."""
        if self.promise.mode == "independent":
            return []
        moved = sum(self._first.get(tag, of) != of for tag, of in night.classes.items())
        return [f"(c) {moved} units have other quasi-identifiers than at first"] if moved else []

    def _false_values(self, night: Seen) -> list[str]:
        """(d) Confidential values are tonight's, or those of the last release: of ghosts, and where that is promised.

        In a class with a ghost everybody is released as last, so that nobody can tell who left.
        """
        haunted = {of for tag, of in night.classes.items() if tag not in night.truth}
        ghosts = altered = exposed = 0
        for tag, row in night.rows.items():
            now, last = night.truth.get(tag), self._last.get(tag, (None, None))[1]
            ghosts += now is None
            if night.classes[tag] in haunted and (now is None or last is not None):
                exposed += row != last
            elif now is not None and row != now:
                allowed = self.promise.changes and last is not None
                altered += not allowed or any(
                    v not in options for v, options in zip(row, zip(now, last or now, strict=True), strict=True)
                )
        wrong = [f"(d) {altered} units have values that are neither tonight's nor their last"] if altered else []
        wrong += [f"(d) {exposed} units changed beside a ghost, or are one that did"] if exposed else []
        may_haunt = self.promise.leavers == "ghosts" and self.promise.mode in ("atoms", "rotation")
        return wrong + ([f"(d) {ghosts} units are released that are not there"] if ghosts and not may_haunt else [])

    def _lone_changes(self, night: Seen) -> list[str]:
        """(b) Where a class is published again, none or at least k of its units changed in a column."""
        if not self.promise.changes:
            return []
        changed: Counter[tuple[Class, int]] = Counter()
        for tag, of in night.classes.items():
            before = self._last.get(tag)
            if before is not None and before[0] == of:
                pairs = enumerate(zip(night.rows[tag], before[1], strict=True))
                changed.update((of, j) for j, (now, last) in pairs if now != last)
        lone = sum(n < self.promise.k for n in changed.values())
        return [f"(b) in {lone} classes and columns fewer than {self.promise.k} units changed"] if lone else []

    def _out_of_turn(self, night: Seen) -> list[str]:
        """(e) Nobody is released twice, after his time, or again once he vanished."""
        promise, tonight = self.promise, len(self.seen) - 1
        mine = [self._nights[tag] for tag in night.classes]
        wrong = []
        if promise.mode == "disjoint" and (twice := sum(len(nights) > 1 for nights in mine)):
            wrong.append(f"(e) {twice} units are released twice")
        if promise.mode == "rotation" and promise.nights is not None:
            late = sum(tonight - nights[0] >= promise.nights for nights in mine)
            wrong += [f"(e) {late} units are released after their time"] if late else []
        if promise.mode in ("atoms", "rotation") and promise.leavers != "withhold":
            again = sum(nights[-1] - nights[0] + 1 != len(nights) for nights in mine)
            wrong += [f"(e) {again} units came back after they had vanished"] if again else []
        return wrong


def read_release(folder: Path) -> tuple[dict[int, Class], dict[int, Row], list[str]]:
    """Classes and confidential values of a revision, by tag; and tags that are released twice."""
    manifest = json.loads((folder / "manifest.json").read_text())
    classes: dict[int, Class] = {}
    rows: dict[int, Row] = {}
    n_rows = 0
    for part in manifest["parts"]:
        table = _read(folder / part["name"], manifest)
        keys = list(zip(*(_exact(table[name].to_pylist()) for name in KEYS), strict=True))
        texts = list(zip(*(map(str, table[name].to_pylist()) for name in CONFIDENTIAL), strict=True))
        tags = [int(tag) for tag in table[TAG].to_pylist()]
        classes.update(zip(tags, keys, strict=True))
        rows.update(zip(tags, texts, strict=True))
        n_rows += table.num_rows
    wrong = [f"{n_rows - len(classes)} units have two rows"] if n_rows != len(classes) else []
    return classes, rows, wrong + ([] if n_rows == manifest["rows"] else ["the manifest counts other rows"])


def _read(path: Path, manifest: Mapping[str, Any]) -> pa.Table:
    form = manifest["format"]
    if form == "parquet":
        return pq.read_table(path)
    if form == "arrow":
        return pa.feather.read_table(path)
    data = path.read_bytes()
    header = data.split(b"\n", 1)[0].decode().replace('"', "").strip().split(",")
    types = {name: pa.string() for name in header}
    return pa.csv.read_csv(pa.BufferReader(data), convert_options=pa.csv.ConvertOptions(column_types=types))


def _exact(values: Iterable[Any]) -> list[bytes]:
    """Values as bytes: two floats are one value if all their bits are."""
    return [struct.pack("<d", v) if isinstance(v, float) else repr(v).encode() for v in values]
