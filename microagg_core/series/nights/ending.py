"""The end of a night: what the gate says of it, and the generation that remembers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa

from microagg_core.errors import InternalError
from microagg_core.inspect.check import Check
from microagg_core.plain import from_json
from microagg_core.release.steps.pieces import Pieces
from microagg_core.release.steps.routing import Planned
from microagg_core.release.steps.work import Receipt
from microagg_core.series.atoms import no_atoms
from microagg_core.series.census import Census
from microagg_core.series.generations import Generation, Past, UnitCounts, parts_digest
from microagg_core.series.joining import pairs_of
from microagg_core.series.night import Night
from microagg_core.series.nights.beginning import Beginning, frozen_facts
from microagg_core.series.nights.counting import TraceNotes
from microagg_core.series.nights.counts import GateCounts
from microagg_core.series.nights.telling import Looked
from microagg_core.series.nights.tracing import RangeNotes
from microagg_core.series.pairs import weakest_cut
from microagg_core.series.ranges import empty_range
from microagg_core.store.night_layout import NightLayout
from microagg_core.store.objects import Store

#: The pairwise test looks at graphs of at most so many edges.
_MOST_CUT = 20_000


@dataclass(frozen=True)
class NightNotes:
    """What the gate's workers noted of a night: of ranges of units, of ranges of atoms, and of candidate files."""

    ranges: tuple[RangeNotes, ...]
    atoms: tuple[TraceNotes, ...]
    looked: tuple[Looked, ...]

    @classmethod
    def read(cls, pieces: Pieces, night: Night, run_key: str, n_files: int) -> NightNotes:
        """All that was noted."""
        layout = NightLayout(run_key)
        return cls(
            tuple(from_json(RangeNotes, pieces.read(layout.range_notes(i))) for i in range(night.n_ranges)),
            tuple(from_json(TraceNotes, pieces.read(layout.trace_notes(i))) for i in range(night.n_atom_ranges)),
            looked_at(pieces, run_key, n_files),
        )

    @classmethod
    def of_nobody(cls, night: Night) -> NightNotes:
        """Of a release whose units nobody knows; the ledger gets empty files."""
        ledger, number = night.ledger, night.number
        units = ledger.write_range(number, 0, empty_range(len(night.columns)))
        file = ledger.write_atoms(number, 0, no_atoms())
        nothing = TraceNotes(file, UnitCounts(), None, 0, 0, (), 0, Census())
        return cls((RangeNotes((units,), UnitCounts(), GateCounts(), Census()),), (nothing,), ())

    @property
    def wrong(self) -> GateCounts:
        """All that should not be, counted."""
        return GateCounts.total(
            [
                *(one.wrong for one in self.ranges),
                *(one.wrong for one in self.looked),
                GateCounts(split=sum(one.split for one in self.atoms)),
            ]
        )

    @property
    def census(self) -> Census:
        """All units and atoms of the next state of the ledger, as they were read again."""
        return sum((one.census for one in self.atoms), sum((one.census for one in self.ranges), Census()))

    @property
    def n_numbers(self) -> int:
        """How many numbers tonight's new atoms need."""
        return sum(one.numbers for one in self.looked)

    @property
    def smallest(self) -> int | None:
        """How many units share the rarest trace of those that are new tonight; None where there are none."""
        return min((one.smallest for one in self.atoms if one.smallest is not None), default=None)


def looked_at(pieces: Pieces, run_key: str, n_files: int) -> tuple[Looked, ...]:
    """What was noted of the candidate files."""
    layout = NightLayout(run_key)
    return tuple(from_json(Looked, pieces.read(layout.looked(i))) for i in range(n_files))


def smallest_trace(night: Night, notes: NightNotes) -> int | None:
    """How many units share the rarest trace after tonight; None where no unit was ever released."""
    before = night.state.smallest_trace if night.state is not None else None
    return min((n for n in (before, notes.smallest) if n is not None), default=None)


def told_ghosts(night: Night, notes: NightNotes) -> int | None:
    """Count the ghosts in the files, if they are k or more, and k away from every number that was told before."""
    n = sum(one.ghosts for one in notes.atoms)
    before = night.state.ghosts_told if night.state is not None else ()
    return n if min([n, *(abs(n - told) for told in before)]) >= night.k else None


def night_checks(night: Night, notes: NightNotes, bundles: Callable[[], pa.Table]) -> list[Check]:
    """What the gate says of a night, besides what it says of every release.

    ``bundles`` gives the pairs of classes that matter, where there are thin ones.
    """
    traces = notes.atoms
    checks = [_ledger_check(notes.wrong)]
    if night.mode != "independent":
        below = sum(one.units_below for one in traces)
        right = f"every history of releases is shared by at least {night.k} units"
        detail = f"{below} units have a history of releases that fewer than k={night.k} units share"
        checks.append(Check("trace-k", not below, detail if below else right))
        checks.append(_pairs_check(night, traces, bundles))
    if night.columns:
        lone = [sum(one.lone_changes[j] for one in traces) for j in range(len(night.columns))]
        broken = [f"{n} classes of {name!r}" for name, n in zip(night.columns, lone, strict=True) if n]
        right = f"in no class did some, but fewer than {night.k}, units change in a column"
        detail = f"some units changed, but fewer than k={night.k}, in {', '.join(broken)}"
        checks.append(Check("change-k", not broken, detail if broken else right))
    if night.leavers == "ghosts" and night.n_carried:
        exposed = sum(one.exposed for one in traces)
        right = "beside somebody who left nobody has another value than in the last release"
        detail = f"{exposed} classes hold somebody who left, and somebody whose values changed"
        checks.append(Check("leavers", not exposed, detail if exposed else right))
    return checks


def _pairs_check(night: Night, traces: Sequence[TraceNotes], bundles: Callable[[], pa.Table]) -> Check:
    """The second opinion: no sum that this release and the last give together is about fewer than k units.

    Where each pair of classes has k units, of the k that both promised, there is no such sum. Else the cuts of the
    graph of classes tell, as long as it is small enough to be cut; where it is not, nobody can say, and that is no yes.
    """
    name, right = "pairs", f"no sum over this release and the last is about fewer than {night.least_k} units"
    if not any(one.thin_bundles for one in traces):
        return Check(name, True, right)
    pairs = bundles()
    n = np.minimum(np.asarray(pairs["n"]), night.least_k)
    if n.sum() > _MOST_CUT:
        return Check(name, False, "too many pairs of classes have fewer than k units for all sums to be looked at")
    before, after = (np.repeat(pairs_of(pairs, end), n, axis=0) for end in "bk")
    weakest = weakest_cut(before, after, night.least_k)
    detail = f"a sum over this release and the last is about {weakest} units, fewer than k={night.least_k}"
    return Check(name, weakest is None, right if weakest is None else detail)


def _ledger_check(wrong: GateCounts) -> Check:
    """Whether everybody is where the ledger has them."""
    problems = [
        (wrong.unknown, "released records are none of the input's units"),
        (wrong.again, "units are released that never may be again"),
        (wrong.moved, "units are not in the class in which they were released last"),
        (wrong.altered, "units have values that are neither tonight's nor those of their last release"),
        (wrong.split, "groups of earlier releases are released in part, or hold more units than they had"),
    ]
    said = "; ".join(f"{n} {what}" for n, what in problems if n)
    return Check("ledger", not said, said or "every unit is released as its earlier releases allow")


def generation_of(
    beginning: Beginning,
    plan: Planned,
    notes: NightNotes,
    *,
    identity: str,
    revision: str,
    output: Store,
    checked: Sequence[Receipt],
    run_key: str,
) -> Generation:
    """What the ledger is to remember of tonight: the same for the same run, however often it is started."""
    night = beginning.night
    begun = night.state.frozen if night.state is not None else None
    rounding = {kind.name: kind.applied_rule for kind in plan.encoding.kinds}
    frozen = frozen_facts(beginning.spec, plan.context.schema, rounding, night.unit_form)
    past = Past((frozen.mode,), int(frozen.mode != "disjoint"), frozen.k)
    ghosts = told_ghosts(night, notes)
    if begun is not None and frozen.mode != "independent" and frozen.rounding != begun.rounding:
        raise InternalError("a bug: means are rounded otherwise than on the first night; please report it")
    return Generation(
        night=night.number,
        kind="night",
        release_id=identity,
        revision=revision,
        output=output.url,
        manifest_sha256=parts_digest(part.pieces[0].sha256 for part in checked if part.rows or len(checked) == 1),
        date=beginning.date,
        run_key=run_key,
        parent=night.ledger.parent_of(night.number),
        key_fingerprint=beginning.key.fingerprint,
        n_ranges=night.n_ranges,
        ranges=tuple(one.files for one in notes.ranges),
        atoms=tuple(one.file for one in notes.atoms),
        next_number=night.next_number + notes.n_numbers,
        frozen=frozen,
        counts=_counts(night, notes),
        smallest_trace=smallest_trace(night, notes) if night.unit else None,
        past=past if night.past is None else night.past + past,
        ghosts_told=(*(night.state.ghosts_told if night.state else ()), *([ghosts] if ghosts else [])),
    )


def _counts(night: Night, notes: NightNotes) -> UnitCounts:
    """How many units are in which state: who is live is counted with the atoms, of others what changed is told."""
    before = replace(night.state.counts, released=0, withheld=0) if night.state is not None else UnitCounts()
    told = [*(one.counts for one in notes.ranges), *(one.counts for one in notes.atoms)]
    return reduce(add, told, before)
