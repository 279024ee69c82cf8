"""An erasure from a spec and a file of units: what it would do, in words, and doing it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from microagg_core.data.formats.reading import read_unit_list
from microagg_core.errors import SpecError, StorageError
from microagg_core.release.steps.cleaning import is_under_way
from microagg_core.release.steps.work import Run, work_store
from microagg_core.series.digests import SeriesKey, units_of
from microagg_core.series.eraser import Eraser
from microagg_core.series.erasure import Erasure, decide_erasure, refuse_unknown_releases, resumed_erasure
from microagg_core.series.generations import Generation
from microagg_core.series.keys import key_of, refuse_other_key
from microagg_core.series.ledger import Ledger, ledger_of
from microagg_core.series.publications import erasure_key, is_published, sweep_output, sweep_unknown
from microagg_core.series.voids import taken_back
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import ReleaseLayout
from microagg_core.store.objects import Store

_UNREAD = "what was read of these releases before cannot be unread"


@dataclass(frozen=True)
class ErasureReport:
    """What an erasure does, or would do: counts and names of releases, never a unit."""

    series: str
    listed: int
    named: int
    forgotten: int
    with_them: int
    #: By folder of the release: how many of the units it may hold, and whether it is published again without them.
    releases: tuple[tuple[str, int, bool], ...]
    done: bool
    #: An erasure that was stopped before was finished, or is to be.
    resumed: bool
    removed_files: int = 0

    def document(self) -> dict[str, Any]:
        """As plain values, for programs."""
        releases = [
            {"release": folder, "units": units, "published_again": again} for folder, units, again in self.releases
        ]
        names = ("series", "listed", "named", "forgotten", "with_them", "done", "resumed", "removed_files")
        return {**{name: getattr(self, name) for name in names}, "releases": releases}

    def sentences(self) -> list[str]:
        """For the operator, line by line."""
        lines = []
        if self.resumed:
            word = "was finished" if self.done else "is not finished; --yes finishes it first"
            lines.append(f"an erasure of the series {self.series} that was begun before {word}")
        before = self.named - self.forgotten
        already = f", {before} of them forgotten already" if before else ""
        lines.append(f"{self.named} of {self.listed} units are known to the series {self.series}{already}")
        if not self.forgotten and self.removed_files:
            lines.append(f"{self.removed_files} files that no release holds any more were removed")
        if not self.forgotten:
            return [*lines, "nothing else is to be done"] if self.resumed else [*lines, "nothing is to be done"]
        for folder, units, again in self.releases:
            what = "withdrawn, and published again without them" if again else "withdrawn"
            lines.append(f"{folder} may hold {units} of them: {what}")
        lines.append(f"{self.with_them} other units vanish with them, and are never released again")
        lines += [_UNREAD] if self.releases else []
        return [*lines, f"done; {self.removed_files} files removed" if self.done else _TO_DO]


_TO_DO = "nothing was changed; the same command with --yes does it"


def forget(
    spec_path: str, units_path: str, yes: bool, now: datetime.datetime, settings: Sequence[str] = ()
) -> ErasureReport:
    """Tell what it takes to erase units from a series, and with ``yes`` do it.

    Raises:
        SpecError: the spec names no units, or the file is none of units.
        DataError: the file cannot be read, or names nobody in a line.
        GateError: what would be left breaks a promise.
        StorageError: a release is being published, or something cannot be read or written.
    """
    spec = load_spec(spec_path, settings)
    if spec.unit == "row":
        raise SpecError(
            "unit: no columns name a unit, so nobody can be found in the releases; a row cannot be forgotten"
        )
    ledger, output = ledger_of(spec), Store(spec.output.url, dict(spec.output.storage_options))
    table = read_unit_list(units_path, spec.unit)
    head, work = ledger.head(), work_store(spec)
    pending = head is not None and head.kind == "erasure" and not ledger.is_published(head.night)
    if head is not None and pending and is_under_way(Run(work, erasure_key(head.night))):
        raise StorageError(f"another erasure of the series {spec.name} is under way; run again when it is done")
    refuse_unknown_releases(ledger, output, head)
    # Also where no night was committed yet: the first may have died.
    removed = sweep_output(ledger, output, work) + sweep_unknown(output) if yes and not pending else 0
    if head is None:
        return ErasureReport(spec.name, table.num_rows, 0, 0, 0, (), False, False, removed)
    key = key_of(spec, ledger)
    refuse_other_key(head, key, ledger)
    return _Forgetting(spec, ledger, output, key).forget(table, head, pending, yes, removed, now)


@dataclass(frozen=True)
class _Forgetting:
    spec: ReleaseSpec
    ledger: Ledger
    output: Store
    key: SeriesKey

    def forget(
        self, table: Any, head: Generation, pending: bool, yes: bool, removed: int, now: datetime.datetime
    ) -> ErasureReport:
        eraser = Eraser(self.spec, self.key, self.output)
        if pending and yes:
            removed += eraser.go_on(resumed_erasure(self.ledger, self.output, head), head, now)
        if head.kind == "night" and not is_published(self.ledger, self.output, head):
            # What its run may hold of them goes: the night is taken back, unless its run is alive.
            before = taken_back(self.ledger, self.output, head, work_store(self.spec), only_tell=not yes)
            if before is None:
                return ErasureReport(self.spec.name, table.num_rows, 0, 0, 0, (), False, False, removed)
            head = before
        listed = units_of([table[name] for name in self.spec.unit], self.key, head.frozen.unit_form)
        series = self.spec.series
        decoys = series is not None and series.leavers == "decoys"
        erasure = decide_erasure(self.ledger, self.output, head, listed, decoys)
        is_done = yes and len(erasure.forgotten) > 0
        if is_done:
            removed += eraser.carry_out(erasure, now)
        return _report(self.spec.name, erasure, is_done or (yes and pending), pending, removed)


def _report(name: str, erasure: Erasure, done: bool, resumed: bool, removed: int) -> ErasureReport:
    newest = erasure.newest.night if erasure.newest is not None else -1
    releases = tuple(
        (ReleaseLayout(one.release.release_id, one.release.revision).folder, one.units, one.release.night == newest)
        for one in erasure.holding
    )
    forgotten = len(erasure.forgotten)
    return ErasureReport(
        name, erasure.listed, erasure.named, forgotten, erasure.n_with_them, releases, done, resumed, removed
    )
