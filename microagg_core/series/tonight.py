"""Tonight's run of a series: whether it may begin, what was counted of it, and the generation that remembers it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from microagg_core.blocks.packing import rows_per_file
from microagg_core.data.formats.reading import count_rows
from microagg_core.data.kinds.contract import CATEGORY_RULES
from microagg_core.errors import GateError, InternalError, SpecError, StorageError
from microagg_core.release.cleaning import is_under_way
from microagg_core.release.manifest import SeriesEntry
from microagg_core.release.planned import Planned
from microagg_core.release.revisions import newest, read_manifest
from microagg_core.release.step import Pieces, Receipt, Run
from microagg_core.release.steps.candidate import CANDIDATE
from microagg_core.series.atoms import MOST_RANGES, no_atoms
from microagg_core.series.candidates import LOOKED, GateCounts
from microagg_core.series.digests import SeriesKey, UnitForm
from microagg_core.series.generations import Frozen, FrozenColumn, Generation, Past, UnitCounts, parts_digest
from microagg_core.series.invariants import Census
from microagg_core.series.keys import key_of, refuse_other_key, unit_form_of
from microagg_core.series.ledger import Ledger, ledger_of
from microagg_core.series.match import MatchCounts
from microagg_core.series.night import Night
from microagg_core.series.publications import erasure_key, is_published, sweep_output, taken_back
from microagg_core.series.survivors import FateCounts
from microagg_core.series.traces import RANGE_NOTES, TRACE_NOTES, RangeNotes, TraceNotes
from microagg_core.series.units import empty_range, n_ranges_for
from microagg_core.spec.columns import FileSchema
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import ReleaseLayout
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown

#: Survivors of one range fill about so much of a released file, and are carried in one piece.
_SHARE_OF_FILE = 4
_ADVICE = (
    "write series: {mode: atoms} (or disjoint) under the spec to release them safely, or series: {mode: independent, "
    "acknowledge: overlapping_releases} if it is meant that several releases together may give people away"
)
_ADVICE_OF_SEVERAL = (
    "write series: {mode: atoms} (or disjoint) under the spec to release them safely, and under unit.row, from the "
    "first release on, what tells the rows of a unit apart"
)
_RESTORE = "restore the ledger as the last release left it, or make it again with microagg series rebuild"


@dataclass
class Tonight:
    """A run's record of its night."""

    night: Night
    key: SeriesKey
    #: With the rounding of the series' first night.
    spec: ReleaseSpec
    #: The day that it is meant for: that of the call that began it.
    date: str
    #: Why it may not be, unless it proves to be the very release that is there already; empty where it may.
    objection: str = ""
    matched: MatchCounts = field(default_factory=MatchCounts)
    fates: FateCounts = field(default_factory=FateCounts)
    #: Units of the input.
    n_units: int = 0
    #: What the gate noted of ranges of units, of ranges of atoms, and of candidate files; empty before.
    ranges: tuple[RangeNotes, ...] = ()
    atoms: tuple[TraceNotes, ...] = ()
    looked: tuple[GateCounts, ...] = ()

    @property
    def has_units(self) -> bool:
        return bool(self.night.unit)

    def read_notes(self, pieces: Pieces, n_files: int) -> None:
        """Read what the gate noted of every range and file; notes that are missing would hide what is wrong."""
        self.ranges, self.atoms = tuple(pieces.read_all(RANGE_NOTES)), tuple(pieces.read_all(TRACE_NOTES))
        self.looked = tuple(pieces.read_all(LOOKED))
        expected = self.night.n_ranges, self.night.n_atom_ranges, n_files
        if (len(self.ranges), len(self.atoms), len(self.looked)) != expected:
            raise InternalError("a bug: the gate noted nothing of a part of the night; please report it")

    def note_nobody(self) -> None:
        """Give the ledger empty files, as of a release whose units nobody knows."""
        ledger, number = self.night.ledger, self.night.number
        units = ledger.write_range(number, 0, empty_range(len(self.night.columns)))
        file = ledger.write_atoms(number, 0, no_atoms())
        self.ranges = (RangeNotes((units,), UnitCounts(), GateCounts(), Census()),)
        self.atoms = (TraceNotes(file, UnitCounts(), None, 0, 0, (), 0, Census()),)

    @property
    def wrong(self) -> GateCounts:
        noted = [*(notes.wrong for notes in self.ranges), *self.looked]
        return sum(noted, GateCounts(split=sum(notes.split for notes in self.atoms)))

    @property
    def census(self) -> Census:
        of_units = sum((notes.census for notes in self.ranges), Census())
        return sum((notes.census for notes in self.atoms), of_units)

    @property
    def smallest_trace(self) -> int | None:
        """Units that share the rarest trace after tonight; None where no unit was ever released."""
        before = self.night.state.smallest_trace if self.night.state is not None else None
        return min((n for n in (before, *(notes.smallest for notes in self.atoms)) if n is not None), default=None)

    @property
    def ghosts_to_publish(self) -> int | None:
        """Ghosts in the files, if they are k or more, and k away from every number that was published before."""
        n = sum(notes.ghosts for notes in self.atoms)
        before = self.night.state.ghosts_told if self.night.state is not None else ()
        return n if min([n, *(abs(n - published) for published in before)]) >= self.night.k else None

    def in_words(self) -> str:
        if not self.night.n_carried:
            return ""
        fates = self.fates
        others = (
            (fates.ghosts, "ghosts"),
            (fates.withheld, "withheld"),
            (fates.vanished, "vanish"),
            (fates.held_back, "changes held back"),
        )
        return ", ".join([f"{fates.carried} survivors", *(f"{n} {kind}" for n, kind in others if n)])

    def entry(self) -> SeriesEntry | None:
        night = self.night
        if self.spec.series is None:
            return None
        is_independent = night.mode == "independent"
        return SeriesEntry(
            mode=night.mode,
            guarantee=None if is_independent else night.guarantee,
            night=night.number,
            smallest_trace=self.smallest_trace if is_independent and self.has_units else None,
            ghosts=(self.ghosts_to_publish or "not told") if night.leavers == "ghosts" and night.n_carried else None,
        )

    def generation(
        self, plan: Planned, checked: Sequence[Receipt], identity: str, revision: str, output: Store, run_key: str
    ) -> Generation:
        """Describe tonight for the ledger: the same for the same run, however often it is started."""
        night, before = self.night, self.night.state
        rounding = {kind.name: kind.applied_rule for kind in plan.encoding.kinds}
        frozen = frozen_facts(self.spec, plan.context.schema, rounding, night.unit_form)
        if before is not None and frozen.mode != "independent" and frozen.rounding != before.frozen.rounding:
            raise InternalError("a bug: means are rounded otherwise than on the first night; please report it")
        past, ghosts = Past((frozen.mode,), int(frozen.mode != "disjoint"), frozen.k), self.ghosts_to_publish
        # Live units are counted with the atoms, of others what changed is noted.
        counts = replace(before.counts, released=0, withheld=0) if before is not None else UnitCounts()
        counts = sum((notes.counts for notes in self.ranges), counts)
        return Generation(
            night=night.number,
            kind="night",
            release_id=identity,
            revision=revision,
            output=output.url,
            manifest_sha256=parts_digest(
                part.piece(CANDIDATE).sha256 for part in checked if part.rows or len(checked) == 1
            ),
            date=self.date,
            run_key=run_key,
            parent=night.ledger.parent_of(night.number),
            key_fingerprint=self.key.fingerprint,
            n_ranges=night.n_ranges,
            ranges=tuple(notes.files for notes in self.ranges),
            atoms=tuple(notes.file for notes in self.atoms),
            next_number=night.next_number + sum(notes.numbers for notes in self.looked),
            frozen=frozen,
            counts=sum((notes.counts for notes in self.atoms), counts),
            smallest_trace=self.smallest_trace if self.has_units else None,
            past=past if night.past is None else night.past + past,
            ghosts_told=(*(before.ghosts_told if before else ()), *([ghosts] if ghosts else [])),
        )


def begin_night(
    spec: ReleaseSpec,
    schema_of: Callable[[ReleaseSpec], FileSchema],
    output: Store,
    run: Run,
    today: datetime.date,
    *,
    rebuilding: bool = False,
) -> Tonight:
    """Settle tonight, or stop where it may not begin."""
    ledger = ledger_of(spec)
    state = _state(ledger, output, run)
    sweep_output(ledger, output, run.work, run.key)
    head = ledger.head()
    # A run that committed its night before it was stopped keeps its day, be it another day by now.
    date = head.date if head is not None and head.run_key == run.key else today.isoformat()
    objection = "" if rebuilding else _objection(spec, ledger, state, output)
    if objection and spec.series is not None:
        raise GateError(objection)
    key = key_of(spec, ledger)
    if state is not None:
        refuse_other_key(state, key, ledger)
        if state.frozen.unit_form == "normal" and unit_form_of(spec) == "spelled":
            raise SpecError(
                f"acknowledge.spelling_of_units: was not there when {spec.name!r} began, so its ledger takes ids that "
                "differ only in spelling for one unit; take it out, and give units whose ids do so ids that differ in "
                "more"
            )
        spec = _as_begun(spec, schema_of(spec), state, ledger.past_of(state))
    return Tonight(_night(spec, schema_of(spec), ledger, state, date), key, spec, date, objection)


def _state(ledger: Ledger, output: Store, run: Run) -> Generation | None:
    """Find the generation that this run goes on from; not its own, if it committed that and was stopped then."""
    head = ledger.head()
    if head is None:
        return None
    if head.run_key == run.key:
        return ledger.linked(head.night - 1) if head.night else None
    if head.kind == "erasure" and not ledger.is_published(head.night):
        _refuse_unfinished(ledger, run.work, head.night)
    if head.kind == "night" and not is_published(ledger, output, head):
        return taken_back(ledger, output, head, run.work)
    return head


def _refuse_unfinished(ledger: Ledger, work: Store, night: int) -> None:
    if is_under_way(Run(work, erasure_key(night))):
        raise StorageError(f"an erasure of the series {ledger.series} is under way; run again when it is done")
    raise StorageError(
        f"an erasure of the series {ledger.series} was begun and is not finished; run microagg forget with --yes "
        "again, which finishes it"
    )


def _objection(spec: ReleaseSpec, ledger: Ledger, state: Generation | None, output: Store) -> str:
    """Say why an earlier release may hold the same units, and nobody can know; "" where that is not so."""
    if spec.series is not None and spec.series.acknowledge is not None:
        return ""
    latest = newest(output)
    if latest is not None and _is_unknown(spec, ledger, output, latest):
        return (
            f"{shown(output.url)} holds releases that the ledger of {spec.name!r} knows nothing of, and two releases "
            "of the same units together can give their exact values away; publish to an output of this series' own, "
            f"or {_advice(spec) if spec.series is None else _RESTORE}"
        )
    last = ledger.newest_release(state) if spec.series is None else None
    unit = spec.unit_columns
    rows = spec.several.row if spec.several else None
    if last is not None and (not unit or (last.frozen.unit, last.frozen.rows) != (unit, rows)):
        why = "as no stable unit is named (unit: row)" if not unit else "its units were named by other columns (unit)"
        return (
            f"release {last.release_id} of {spec.name!r} was made before, and {why}, so nobody can know whether it "
            "holds the same people, whose exact values two releases together can give away; "
            f"name the columns of the unit under unit, the same ones for every release, and {_advice(spec)}"
        )
    return ""


def _is_unknown(spec: ReleaseSpec, ledger: Ledger, output: Store, latest: ReleaseLayout) -> bool:
    """The output's newest release is none of the ledger's nights, be it that a ledger was put back too old."""
    if read_manifest(output, latest).name != spec.name:
        return True
    night = max(ledger.nights(), default=-1)
    while night >= 0:
        generation = ledger.generation(night)
        if generation.kind != "void" and generation.layout == latest:
            return False
        night = generation.goes_on_from
    return True


def refuse_overlap(tonight: Tonight) -> None:
    """Stop where units were released before, or may have been, and the spec says nothing of a series.

    This waits for the survey, which tells whether the very same release is there already: then nothing is released.
    """
    if tonight.objection:
        raise GateError(tonight.objection)
    if tonight.matched.released_before and tonight.spec.series is None:
        what = "units" if tonight.spec.several is None else "records"
        raise GateError(
            f"{tonight.matched.released_before} of {tonight.n_units} {what} were released before in the series "
            f"{tonight.spec.name!r}, and two releases of the same units in other groups can give their exact values "
            f"away; {_advice(tonight.spec)}"
        )


def _advice(spec: ReleaseSpec) -> str:
    return _ADVICE if spec.several is None else _ADVICE_OF_SEVERAL


def frozen_facts(
    spec: ReleaseSpec, schema: FileSchema, rounding: Mapping[str, str | float], unit_form: UnitForm | None = None
) -> Frozen:
    series = spec.series
    return Frozen(
        k=spec.k,
        unit=spec.unit_columns,
        columns=tuple(
            FrozenColumn(c.name, str(t), c.role)
            for c, t in zip(schema.released, schema.released_schema.types, strict=True)
        ),
        rounding=dict(rounding),
        traits={},
        missing=spec.missing,
        mode=series.mode if series else "independent",
        guarantee=(series.guarantee if series else None) or "trace",
        unit_form=unit_form or unit_form_of(spec),
        rows=spec.several.row if spec.several else None,
    )


def _refuse_other_mode(asked: Frozen, state: Generation, past: Past) -> None:
    """Stop where what the asked mode promises is not true of the nights before, or breaks what these promised."""
    begun, counts, smallest = state.frozen.mode, state.counts, state.smallest_trace
    why = ""
    if asked.mode != "independent" and "independent" in past.modes and (smallest or asked.k) < asked.k:
        why = f"its releases were grouped afresh, and {smallest} units share the rarest history, fewer than k={asked.k}"
    elif asked.mode == "independent" and begun != "independent":
        why = "its releases promise that all nights together protect everybody, which nights grouped afresh would break"
    elif asked.mode == "disjoint" and begun != "disjoint":
        is_once = past.repeating <= 1 and "disjoint" not in past.modes
        if not is_once or counts.vanished or counts.forgotten:
            why = "units may have been in several of its releases, or have vanished from them"
    if why:
        raise SpecError(
            f"series.mode: {asked.mode} cannot follow {begun} here: {why}; set mode back to {begun}, or begin a new "
            "series of other people"
        )


def _as_begun(spec: ReleaseSpec, schema: FileSchema, state: Generation, past: Past | None) -> ReleaseSpec:
    """Give the spec the rounding of the first night; stop where something else than k differs, or k falls."""
    begun = state.frozen
    asked = frozen_facts(spec, schema, begun.rounding)
    if past is not None:
        _refuse_other_mode(asked, state, past)
    if asked.mode == "independent":
        return spec
    problems = [
        f"{name} was {getattr(begun, name)!r} and is {getattr(asked, name)!r}"
        for name in ("missing", "guarantee")
        if getattr(begun, name) != getattr(asked, name)
    ]
    if (begun.unit, begun.rows) != (asked.unit, asked.rows):
        problems.append("unit names other columns")
    if begun.columns != asked.columns:
        problems.append("the released columns, their types or roles are others")
    if asked.k < begun.k:
        problems.append(f"k was {begun.k} and is {asked.k}; it may rise and never fall")
    problems += [
        f"rounding of {name!r} was {begun.rounding[name]!r} and is {rule!r}"
        for name, rule in spec.rounding.items()
        if name in begun.rounding and begun.rounding[name] != rule
    ]
    categories = {kind.name: kind.applied_rule for kind in schema.kinds if kind.applied_rule in CATEGORY_RULES}
    was = {name: rule if rule in CATEGORY_RULES else "mean" for name, rule in begun.rounding.items()}
    problems += [
        f"groups got the {rule} of {name!r} and would get its {categories.get(name, 'mean')}"
        for name, rule in was.items()
        if rule != categories.get(name, "mean")
    ]
    if problems:
        raise SpecError(
            f"series: {spec.name!r} was begun otherwise ({'; '.join(problems)}), and what changes from night to night "
            "tells of single people; set it back, or begin a new series of other people"
        )
    # Neither means of weights nor what stands for categories have a rounding that a spec could ask for.
    unrounded = {spec.roles.weight, *categories}
    rounding = {name: rule for name, rule in begun.rounding.items() if name not in unrounded}
    return spec.model_copy(update={"rounding": rounding})


def _night(spec: ReleaseSpec, schema: FileSchema, ledger: Ledger, state: Generation | None, date: str) -> Night:
    frozen, series, past = frozen_facts(spec, schema, {}), spec.series, ledger.past_of(state)
    # About how many units the ledger will have; where many arrive, its ranges are cut smaller a night later.
    units = 0 if spec.unit == "row" else count_rows(spec.input) if state is None else state.counts.units
    carried_together = max(1, rows_per_file(schema.released_schema) // _SHARE_OF_FILE)
    n_atom_ranges = n_ranges_for(units, len(state.atoms) if state else 1, most=carried_together)
    previous = ledger.newest_release(state)
    return Night(
        ledger=ledger,
        number=0 if state is None else state.night + 1,
        mode=series.mode if series else "independent",
        guarantee=(series.guarantee if series else None) or "trace",
        leavers=(series.leavers if series else None) or "withhold",
        k=spec.k,
        least_k=min(spec.k, past.least_k) if past else spec.k,
        past=past,
        nights=series.nights if series else None,
        unit=frozen.unit,
        unit_form=state.frozen.unit_form if state else frozen.unit_form,
        state=state,
        previous=previous.night if previous else -1,
        waited=_waited(spec, ledger, state, date),
        n_ranges=n_ranges_for(units, state.n_ranges if state else 1),
        n_atom_ranges=min(n_atom_ranges, MOST_RANGES),
        columns=tuple(c.name for c in schema.confidential) if frozen.guarantee == "trace+changes" else (),
        several=spec.several is not None,
    )


def _waited(spec: ReleaseSpec, ledger: Ledger, state: Generation | None, date: str) -> int:
    """Find the last night whose arrivals have waited for as many days as any has to; -1 where there is none."""
    if state is None or spec.series is None or spec.series.hold is None:
        return -1
    latest = (datetime.date.fromisoformat(date) - datetime.timedelta(days=spec.series.hold.days)).isoformat()
    generation = state
    while generation.date > latest:
        if generation.night == 0:
            return -1
        generation = ledger.generation(generation.night - 1)
    return generation.night
