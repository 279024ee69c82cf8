"""One night of a series: what is settled before its first record is read, for all who work on it."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, ShortInts, UInt64s
from microagg_core.blocks.packing import rows_per_file
from microagg_core.data.formats.reading import count_rows
from microagg_core.data.formats.writing import released_format
from microagg_core.errors import GateError, InternalError, SpecError, StorageError
from microagg_core.plain import from_json, to_json
from microagg_core.release.revisions import newest, read_manifest
from microagg_core.release.steps.cleaning import is_under_way
from microagg_core.release.steps.pieces import Piece, sealed, unsealed
from microagg_core.release.steps.work import Context, Run, Task
from microagg_core.series.atoms import FIRST_NUMBER, most_ranges, no_atoms
from microagg_core.series.digests import SeriesKey, UnitForm, rows_of, values_of
from microagg_core.series.fates import Guarantee, Leavers, Policy, SeriesMode
from microagg_core.series.generations import Frozen, FrozenColumn, Generation, Past
from microagg_core.series.keys import key_of, refuse_other_key, unit_form_of
from microagg_core.series.ledger import Ledger, ledger_of
from microagg_core.series.publications import erasure_key, is_published, sweep_output
from microagg_core.series.units import empty_range, n_ranges_for
from microagg_core.series.voids import taken_back
from microagg_core.spec.columns import FileSchema
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import ReleaseLayout
from microagg_core.store.night_layout import NightLayout
from microagg_core.store.objects import Store
from microagg_core.store.urls import shown

#: Modes in which units that were released before are released again with their atoms.
CARRYING = ("atoms", "rotation")
#: The last digit of the number under which the row of a ghost travels, which no record of the input has.
GHOSTS_FROM = 2**48


@dataclass(frozen=True)
class Night:
    """Tonight: its number, its rules, and the state that the nights before have left.

    Attributes:
        number: 0 for the first release.
        least_k: the smallest k of all nights so far.
        past: of all nights before; None on the first.
        unit: the columns that name a unit; none where a unit is a row.
        unit_form: how ids are compared, as the ledger began.
        state: the generation that tonight goes on from; None before the first release.
        previous: the night of the release before tonight's; -1 where there is none.
        waited: arrivals that were first seen in this night or before have waited as long as any has to; -1: none.
        n_ranges: ranges of units in tonight's ledger.
        n_atom_ranges: ranges of atoms in tonight's ledger, by which survivors are carried.
        columns: the confidential columns whose changes are looked at.
    """

    series: str
    number: int
    mode: SeriesMode
    guarantee: Guarantee
    leavers: Leavers
    k: int
    least_k: int
    past: Past | None
    nights: int | None
    unit: tuple[str, ...]
    unit_form: UnitForm
    ledger_url: str
    ledger_options: dict[str, Any]
    state: Generation | None
    previous: int
    waited: int
    n_ranges: int
    n_atom_ranges: int
    columns: tuple[str, ...]

    @property
    def carries(self) -> bool:
        """Whether units that were released before come again with their atoms."""
        return self.mode in CARRYING

    @property
    def n_carried(self) -> int:
        """How many ranges of atoms are carried: all, or none."""
        return self.n_atom_ranges if self.carries and self.state is not None else 0

    @property
    def compared(self) -> tuple[str, ...]:
        """The digests that tell who changed: of each watched column; or of whole rows, where ghosts may be beside."""
        if self.columns:
            return tuple(f"d{j}" for j in range(len(self.columns)))
        return ("row",) if self.leavers == "ghosts" else ()

    @property
    def least_changed(self) -> int:
        """How many units of an atom have to change in a column for any of them to be released so."""
        return self.k if self.columns else 1

    def may_vanish(self, since: ShortInts) -> Bools:
        """Which survivors may be closed tonight though they are there, by the night of their first release."""
        if not self.n_carried:
            return np.zeros(len(since), dtype=np.bool_)
        if self.leavers == "decoys" or self.k > self.least_k:
            return np.ones(len(since), dtype=np.bool_)
        return self.policy.is_due(since)

    @property
    def next_number(self) -> int:
        """The number from which tonight's new atoms are numbered."""
        return FIRST_NUMBER if self.state is None else self.state.next_number

    @property
    def hides(self) -> bool:
        """Whether some records of the input are not grouped tonight."""
        if self.state is None:
            return False
        # Who was erased is left out whatever the series promises.
        return self.mode != "independent" or self.state.counts.forgotten > 0

    @property
    def is_known_to_readers(self) -> bool:
        """Whether some night before released anybody; nobody waits before that."""
        return self.state is not None and self.state.counts.units > self.state.counts.held

    @property
    def policy(self) -> Policy:
        """The rules for survivors and leavers."""
        if self.mode == "disjoint" or self.mode == "independent":
            raise InternalError("a bug: nobody is carried in this series; please report it")
        return Policy(self.mode, self.guarantee, self.leavers, self.k, self.nights, self.number)

    @property
    def ledger(self) -> Ledger:
        """The ledger, wherever this runs."""
        return Ledger(Store(self.ledger_url, self.ledger_options, private=True), self.series)

    def read_units(self, number: int) -> pa.Table:
        """The units of a range as the nights before have left them."""
        if self.state is None:
            return empty_range(len(self.columns))
        return self.ledger.read_range(self.state, number, self.n_ranges)

    def read_atoms(self, number: int) -> pa.Table:
        """The atoms of a range as the nights before have left them; those that may never come again count no more."""
        if self.state is None or (self.state.frozen.mode == "disjoint" and self.mode != "disjoint"):
            return no_atoms()
        return self.ledger.read_atoms(self.state, number, self.n_atom_ranges)


def save_night(run: Run, night: Night, key: SeriesKey) -> tuple[Piece, ...]:
    """Write both where workers of the run find them; they go with the run's folder."""
    layout = NightLayout(run.key)
    return (
        run.put(layout.night(), to_json(night), "night"),
        run.put(layout.key(), sealed(key.secret), "night"),
    )


def has_night(task: Task) -> bool:
    """Whether the task belongs to a night whose ledger is kept."""
    name = NightLayout(task.run.key).night()
    return any(piece.name == name for piece in task.reads)


def load_night(task: Task) -> tuple[Night, SeriesKey]:
    """Night and key, read once a process."""
    layout, pieces = NightLayout(task.run.key), task.pieces
    return _read_night(task.run, pieces.piece(layout.night()), pieces.piece(layout.key()))


@lru_cache(maxsize=4)
def _read_night(run: Run, night: Piece, key: Piece) -> tuple[Night, SeriesKey]:
    pieces = run.pieces((night, key))
    secret = unsealed(pieces.read(key.name))
    return from_json(Night, pieces.read(night.name)), SeriesKey(secret or b"")


def layout_of(task: Task) -> NightLayout:
    """Names of the night's objects."""
    return NightLayout(task.run.key)


def confidential_digests(
    context: Context, night: Night, key: SeriesKey, table: pa.Table
) -> tuple[UInt64s, list[NDArray[np.uint32]]]:
    """Digests of what is confidential, as a released file has it: of whole rows, and of each column that is watched."""
    names = [column.name for column in context.schema.confidential]
    released = released_format(context.spec.output).released_form(table.select(names))
    return rows_of(released, names, key), [values_of(released[name], key) for name in night.columns]


#: Survivors of one range fill about so much of a released file, and are carried in one piece.
_SHARE_OF_FILE = 4
_ADVICE = (
    "write series: {mode: atoms} (or disjoint) under the spec to release them safely, or series: {mode: independent, "
    "acknowledge: overlapping_releases} if it is meant that several releases together may give people away"
)
_RESTORE = "restore the ledger as the last release left it, or make it again with microagg series rebuild"


@dataclass(frozen=True)
class Beginning:
    """A night that may begin: what it is, its key, and the spec as its series has it."""

    night: Night
    key: SeriesKey
    spec: ReleaseSpec
    #: The day that it is meant for: that of the call that began it.
    date: str
    #: Why it may not be, unless it proves to be the very release that is there already; empty where it may.
    objection: str = ""

    @property
    def is_later(self) -> bool:
        """Whether another night was before it."""
        return self.night.state is not None


def begin_night(
    spec: ReleaseSpec,
    schema_of: Callable[[ReleaseSpec], FileSchema],
    output: Store,
    run: Run,
    today: datetime.date,
    environ: Mapping[str, str] = os.environ,
    *,
    rebuilding: bool = False,
) -> Beginning:
    """Settle tonight.

    Args:
        spec: of the release.
        schema_of: the columns of the input by a spec.
        output: where releases are published.
        run: this run; its key tells a night of its own from another's.
        today: the day that the release is meant for.
        environ: may hold the key.
        rebuilding: whether the ledger is being made again, from releases that it does not know yet.

    Raises:
        SpecError: there is no key, or the series was begun otherwise than the spec has it.
        GateError: there were releases before, and the spec does not say that there may be.
        StorageError: the ledger is damaged, or another run is publishing.
    """
    ledger = ledger_of(spec)
    state = _state(ledger, output, run)
    sweep_output(ledger, output, run.work, run.key)
    date = _date(ledger, run) or today.isoformat()
    objection = "" if rebuilding else _objection(spec, ledger, state, output)
    if objection and spec.series is not None:
        raise GateError(objection)
    key = key_of(spec, ledger, environ)
    if state is not None:
        refuse_other_key(state, key, ledger)
        _refuse_other_form(state, spec)
        spec = _as_begun(spec, schema_of(spec), state, ledger.past_of(state))
    number = 0 if state is None else state.night + 1
    return Beginning(_night(spec, schema_of(spec), ledger, state, number, date), key, spec, date, objection)


def _refuse_other_form(state: Generation, spec: ReleaseSpec) -> None:
    """Stop where ids that the ledger takes for one unit are meant to be several."""
    if state.frozen.unit_form == "normal" and unit_form_of(spec) == "spelled":
        raise SpecError(
            f"acknowledge.spelling_of_units: was not there when {spec.name!r} began, so its ledger takes ids that "
            "differ only in spelling for one unit; take it out, and give units whose ids do so ids that differ in more"
        )


def _state(ledger: Ledger, output: Store, run: Run) -> Generation | None:
    """The generation that this run goes on from; not its own, if it committed that and was stopped then."""
    head = ledger.head()
    if head is None:
        return None
    if head.run_key == run.key:
        return ledger.linked(head.night - 1) if head.night else None
    refuse_unfinished(ledger, head, run.work)
    if head.kind == "night" and not is_published(ledger, output, head):
        return taken_back(ledger, output, head, run.work)
    return head


def _date(ledger: Ledger, run: Run) -> str:
    """The day of this run's night where it committed that before it was stopped, be it another day by now."""
    head = ledger.head()
    return head.date if head is not None and head.run_key == run.key else ""


def refuse_unfinished(ledger: Ledger, head: Generation, work: Store) -> None:
    """Stop where an erasure was begun and is not finished: what it takes back may still be read.

    Raises:
        StorageError: it is so.
    """
    if head.kind != "erasure" or ledger.is_published(head.night):
        return
    if is_under_way(Run(work, erasure_key(head.night))):
        raise StorageError(f"an erasure of the series {ledger.series} is under way; run again when it is done")
    raise StorageError(
        f"an erasure of the series {ledger.series} was begun and is not finished; run microagg forget with --yes "
        "again, which finishes it"
    )


def _objection(spec: ReleaseSpec, ledger: Ledger, state: Generation | None, output: Store) -> str:
    """What is to be said where an earlier release may hold the same units, and nobody can know."""
    if spec.series is not None and spec.series.acknowledge is not None:
        return ""
    latest = newest(output)
    if latest is not None and _is_others(spec, ledger, output, latest):
        return (
            f"{shown(output.url)} holds releases that the ledger of {spec.name!r} knows nothing of, and two releases "
            "of the same units together can give their exact values away; publish to an output of this series' own, "
            f"or {_ADVICE if spec.series is None else _RESTORE}"
        )
    last = ledger.newest_release(state) if spec.series is None else None
    unit = () if spec.unit == "row" else tuple(spec.unit)
    if last is not None and (not unit or last.frozen.unit != unit):
        why = "as no stable unit is named (unit: row)" if not unit else "its units were named by other columns (unit)"
        return (
            f"release {last.release_id} of {spec.name!r} was made before, and {why}, so nobody can know whether it "
            "holds the same people, whose exact values two releases together can give away; "
            f"name the columns of the unit under unit, the same ones for every release, and {_ADVICE}"
        )
    return ""


def _is_others(spec: ReleaseSpec, ledger: Ledger, output: Store, latest: ReleaseLayout) -> bool:
    """Whether the output's newest release is none of the ledger's nights, be it that a ledger was put back too old."""
    if read_manifest(output, latest).name != spec.name:
        return True
    night = max(ledger.nights(), default=-1)
    while night >= 0:
        generation = ledger.generation(night)
        if generation.kind != "void" and ReleaseLayout(generation.release_id, generation.revision) == latest:
            return False
        night = generation.goes_on_from
    return True


def refuse_overlap(beginning: Beginning, released_before: int, n_units: int) -> None:
    """Stop where units were released before, or may have been, and the spec says nothing of a series.

    This waits for the survey, which tells whether the very same release is there already: then nothing is released.

    Raises:
        GateError: how many they are, and what to write.
    """
    if beginning.objection:
        raise GateError(beginning.objection)
    if not released_before or beginning.spec.series is not None:
        return
    raise GateError(
        f"{released_before} of {n_units} units were released before in the series {beginning.night.series!r}, and two "
        f"releases of the same units in other groups can give their exact values away; {_ADVICE}"
    )


def frozen_facts(
    spec: ReleaseSpec, schema: FileSchema, rounding: Mapping[str, str | float], unit_form: UnitForm | None = None
) -> Frozen:
    """What the nights of a series have in common."""
    series = spec.series
    return Frozen(
        k=spec.k,
        unit=() if spec.unit == "row" else tuple(spec.unit),
        columns=tuple(
            FrozenColumn(c.name, str(t), c.role) for c, t in zip(schema.released, schema.released_types, strict=True)
        ),
        rounding=dict(rounding),
        traits={},
        missing=spec.missing,
        mode=series.mode if series else "independent",
        guarantee=(series.guarantee if series else None) or "trace",
        unit_form=unit_form or unit_form_of(spec),
    )


def _refuse_other_mode(asked: Frozen, state: Generation, past: Past) -> None:
    """Stop where what the asked mode promises is not true of the nights before, or breaks what these promised.

    Raises:
        SpecError: why.
    """
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
    """The spec with the rounding of the first night.

    Raises:
        SpecError: something else than k differs, or k falls.
    """
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
    if begun.unit != asked.unit:
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
    if problems:
        raise SpecError(
            f"series: {spec.name!r} was begun otherwise ({'; '.join(problems)}), and what changes from night to night "
            "tells of single people; set it back, or begin a new series of other people"
        )
    return spec.model_copy(update={"rounding": dict(begun.rounding)})


def _night(
    spec: ReleaseSpec, schema: FileSchema, ledger: Ledger, state: Generation | None, number: int, date: str
) -> Night:
    series = spec.series
    mode = series.mode if series else "independent"
    guarantee = (series.guarantee if series else None) or "trace"
    units, past = _units_expected(spec, state), ledger.past_of(state)
    n_atom_ranges = n_ranges_for(units, len(state.atoms) if state else 1, most=_carried_together(schema))
    watched = tuple(c.name for c in schema.confidential) if guarantee == "trace+changes" else ()
    newest = ledger.newest_release(state)
    return Night(
        series=spec.name,
        number=number,
        mode=mode,
        guarantee=guarantee,
        leavers=(series.leavers if series else None) or "withhold",
        k=spec.k,
        least_k=min(spec.k, past.least_k) if past else spec.k,
        past=past,
        nights=series.nights if series else None,
        unit=() if spec.unit == "row" else tuple(spec.unit),
        unit_form=state.frozen.unit_form if state else unit_form_of(spec),
        ledger_url=ledger.store.url,
        ledger_options=dict(ledger.store.storage_options),
        state=state,
        previous=newest.night if newest else -1,
        waited=_waited(spec, ledger, state, date),
        n_ranges=n_ranges_for(units, state.n_ranges if state else 1),
        n_atom_ranges=min(n_atom_ranges, most_ranges()),
        columns=watched,
    )


def _carried_together(schema: FileSchema) -> int:
    """How many survivors are carried by one task, and released in one file."""
    return max(1, rows_per_file(schema.released_schema) // _SHARE_OF_FILE)


def _units_expected(spec: ReleaseSpec, state: Generation | None) -> int:
    """About how many units the ledger will have; where many arrive, its ranges are cut smaller a night later."""
    if spec.unit == "row":
        return 0
    return count_rows(spec.input) if state is None else state.counts.units


def _waited(spec: ReleaseSpec, ledger: Ledger, state: Generation | None, date: str) -> int:
    """The last night of which arrivals have waited for as many days as any has to; -1 where there is none."""
    if state is None or spec.series is None or spec.series.hold is None:
        return -1
    latest = (datetime.date.fromisoformat(date) - datetime.timedelta(days=spec.series.hold.days)).isoformat()
    generation = state
    while generation.date > latest:
        if generation.night == 0:
            return -1
        generation = ledger.generation(generation.night - 1)
    return generation.night


class Added:
    """Counts that add up field by field."""

    @classmethod
    def total(cls, counts: Iterable[Self]) -> Self:
        """All of them together."""
        rows = [[getattr(one, field.name) for field in fields(cls)] for one in counts]  # type: ignore[arg-type]
        return cls(*(sum(column) for column in zip(*rows, strict=True)))
