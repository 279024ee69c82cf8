"""Hold all that can be read at an output against what the series promises, knowing the truth.

Nothing here is imported from the product. Every file is read as anybody reads it, whether a manifest names it or not;
people's tags tell whose rows they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from seasons.histories import n_below, n_solved
from seasons.population import CONFIDENTIAL, KEYS, TAG
from seasons.readable import Class, Columns, Objects, Output, Publication, Row
from soak.places import Folder

COLUMNS = Columns(KEYS, CONFIDENTIAL, TAG)


@dataclass(frozen=True)
class Promise:
    """What a series promises."""

    mode: str
    k: int
    leavers: str = "withhold"
    changes: bool = False
    nights: int | None = None
    #: k people share every history; never where each night is grouped afresh.
    traces: bool = True


@dataclass(frozen=True)
class Seen:
    """One publication: each tag's class and confidential values, and who was in the input that night."""

    name: str
    is_named: bool
    classes: Mapping[int, Class]
    rows: Mapping[int, Row]
    truth: Mapping[int, Row]


@dataclass
class Outsider:
    """Looks again and again, and forgets nothing that was ever readable when a command had ended well."""

    promise: Promise
    place: Objects
    seen: list[Seen] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)
    #: Everybody who was erased.
    forgotten: set[int] = field(default_factory=set)
    _first: dict[int, Class] = field(default_factory=dict)
    _last: dict[int, tuple[Class, Row]] = field(default_factory=dict)
    _nights: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    #: The newest publication in which a confidential value of a person was another than before.
    _moved_at: dict[int, int] = field(default_factory=dict)
    _left_at: dict[int, int] = field(default_factory=dict)
    #: What is published now is an erasure's: everybody else once more.
    is_erasure: bool = False
    #: The first publication under the promise of now.
    _since: int = 0
    #: Traces by number: 0 is that of who was never released.
    _trace: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.output = Output(self.place, COLUMNS)

    @classmethod
    def at(cls, folder: Path, promise: Promise) -> Outsider:
        return cls(promise, Folder(folder))

    def look(self, truth: Callable[[str], Mapping[int, Row]], is_tidy: bool = True) -> list[str]:
        """Read all that is new, knowing who is in the input of a publication; a sentence for each thing that is wrong.

        ``is_tidy``: a command has ended well, so what no manifest names is wrong now, and counts as published for ever.
        """
        wrong, now = [], self.output.publications()
        for publication in now:
            is_known = any(p.name == publication.name and publication.content <= p.content for p in self.publications)
            if not is_known and (is_tidy or publication.manifest is not None):
                wrong += [
                    f"{publication.name}: {sentence}" for sentence in self._take(publication, truth(publication.name))
                ]
        if is_tidy and (unnamed := self.output.unnamed()):
            wrong.append(f"(u) {len(unnamed)} objects that no manifest names, such as {unnamed[0]}")
        if is_tidy and (left := self.forgotten & {tag for publication in now for tag in publication.classes}):
            wrong.append(f"(v) {len(left)} of {len(self.forgotten)} who were erased can be read")
        return wrong

    def _take(self, publication: Publication, truth: Mapping[int, Row]) -> list[str]:
        night = Seen(publication.name, publication.manifest is not None, publication.classes, publication.rows, truth)
        wrong = self._too_few_in_a_class(night)
        if publication.n_rows != len(night.classes):
            wrong.append(f"{publication.n_rows - len(night.classes)} units have two rows")
        if publication.manifest is not None and publication.manifest["rows"] != publication.n_rows:
            wrong.append(f"the manifest counts {publication.manifest['rows']} rows, the files {publication.n_rows}")
        if night.is_named:
            wrong += self._moved(night) + self._false_values(night) + self._lone_changes(night)
        self.seen.append(night)
        self.publications.append(publication)
        tonight = len(self.seen) - 1
        for tag in night.classes:
            if tag in self._last and self._last[tag][1] != night.rows[tag]:
                self._moved_at[tag] = tonight
            if tag in truth:
                self._left_at.pop(tag, None)
            else:
                self._left_at.setdefault(tag, tonight)
            self._nights[tag].append(tonight)
            self._first.setdefault(tag, night.classes[tag])
            self._last[tag] = (night.classes[tag], night.rows[tag])
        wrong += self._rare_traces(night)
        return wrong + (self._out_of_turn(night) + self._ghosts_told_apart(night) if night.is_named else [])

    def traces(self) -> Mapping[int, int]:
        """Number the histories of all who were ever readable."""
        return self._trace

    def first_released(self) -> dict[int, Class]:
        """Tell the class of everybody's first release, of those who came under the promise of now."""
        return {tag: of for tag, of in self._first.items() if self._nights[tag][0] >= self._since}

    def atoms_of(self, tags: set[int]) -> set[int]:
        """Find all who were first released in a class with some of these."""
        first = {self._first[tag] for tag in tags if tag in self._first}
        return {tag for tag, of in self._first.items() if of in first}

    def change(self, promise: Promise) -> None:
        """Expect something else of the nights to come; a series that was once independent never promises traces."""
        was_independent = "independent" in (self.promise.mode, promise.mode)
        self.promise = replace(promise, traces=self.promise.traces and not was_independent)
        self._since = len(self.seen)

    def n_below(self) -> int:
        """Count people whose history over everything that was ever readable fewer than k share."""
        return n_below(self.publications, self.promise.k)

    def n_solved(self) -> int:
        """Count people whose quasi-identifiers follow from everything that was ever readable."""
        return n_solved(self.publications)

    def _too_few_in_a_class(self, night: Seen) -> list[str]:
        rare = [n for n in Counter(night.classes.values()).values() if n < self.promise.k]
        return [f"{len(rare)} classes of fewer than {self.promise.k}"] if rare else []

    def _rare_traces(self, night: Seen) -> list[str]:
        """(a) Sequences of classes, absence included, that fewer than k of those ever released share."""
        numbers: dict[tuple[int, Class | None], int] = {}
        for tag in self._trace.keys() | night.classes.keys():
            step = (self._trace.get(tag, -1), night.classes.get(tag))
            self._trace[tag] = numbers.setdefault(step, len(numbers))
        counts = Counter(self._trace.values())
        rare = sum(n for n in counts.values() if n < self.promise.k)
        if self.promise.mode == "independent" or not self.promise.traces or not rare:
            return []
        return [f"(a) {rare} units have a trace that fewer than {self.promise.k} share"]

    def _moved(self, night: Seen) -> list[str]:
        """(c) Survivors' quasi-identifiers and blocking values are those of their first release."""
        if self.promise.mode == "independent" or not self.promise.traces:
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
        if self.is_erasure:
            return []
        promise, tonight = self.promise, len(self.seen) - 1
        wrong = []
        if promise.mode == "disjoint" and (twice := sum(len(self._nights[tag]) > 1 for tag in night.classes)):
            wrong.append(f"(e) {twice} units are released twice")
        mine = [[number for number in self._nights[tag] if number >= self._since] for tag in night.classes]
        if promise.mode == "rotation" and promise.nights is not None:
            late = sum(tonight - nights[0] >= promise.nights for nights in mine)
            wrong += [f"(e) {late} units are released after their time"] if late else []
        if promise.mode in ("atoms", "rotation") and promise.leavers != "withhold":
            again = sum(nights[-1] - nights[0] + 1 != len(nights) for nights in mine)
            wrong += [f"(e) {again} units came back after they had vanished"] if again else []
        return wrong

    def _ghosts_told_apart(self, night: Seen) -> list[str]:
        """(i) Of a ghost's class at least k stood still since he left: else he is the one who did."""
        by_class: dict[Class, list[int]] = defaultdict(list)
        for tag, of in night.classes.items():
            by_class[of].append(tag)
        told_apart = 0
        for tag in night.classes.keys() - night.truth.keys():
            since = self._left_at[tag]
            still = sum(self._moved_at.get(other, -1) < since for other in by_class[night.classes[tag]])
            told_apart += still < self.promise.k
        if not told_apart or self.promise.mode == "independent":
            return []
        return [f"(i) {told_apart} who left are told apart from those who changed since"]
