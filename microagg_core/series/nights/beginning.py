"""The beginning of a night: which one it is, what it goes on from, and whether it may be at all."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from microagg_core.blocks.packing import rows_per_file
from microagg_core.data.formats.reading import count_rows
from microagg_core.errors import GateError, SpecError, StorageError
from microagg_core.release.revisions import newest, read_manifest
from microagg_core.release.steps.cleaning import is_under_way
from microagg_core.release.steps.work import Run
from microagg_core.series.atoms import most_ranges
from microagg_core.series.attempts import erasure_key
from microagg_core.series.digests import SeriesKey, UnitForm
from microagg_core.series.generations import Frozen, FrozenColumn, Generation, Past
from microagg_core.series.keys import read_key
from microagg_core.series.ledger import Ledger, ledger_of, local_key
from microagg_core.series.night import Night
from microagg_core.series.nights.sweeping import sweep_output
from microagg_core.series.nights.taking_back import is_published, taken_back
from microagg_core.series.ranges import n_ranges_for
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


def key_of(spec: ReleaseSpec, ledger: Ledger, environ: Mapping[str, str] = os.environ) -> SeriesKey:
    """The key of a series: the spec's or the environment's, or the one that is kept with the ledger.

    Raises:
        SpecError: there is none.
        StorageError: the one with the ledger is damaged or gone.
    """
    if spec.series is not None and (spec.series.mode != "independent" or spec.series.key_file):
        return read_key(spec.series, environ)
    # As text, so that a spec may name the file as its key_file later.
    return SeriesKey(local_key(ledger.store).hex().encode())


def refuse_other_key(state: Generation, key: SeriesKey, ledger: Ledger) -> None:
    """Stop where the ledger was begun with another key.

    Raises:
        SpecError: it was.
    """
    if state.key_fingerprint != key.fingerprint:
        raise SpecError(
            f"series: the ledger in {ledger.store} was begun with another key, under which its units are known; give "
            "that one (a series that was begun without a key has it in the file key there)"
        )


def unit_form_of(spec: ReleaseSpec) -> UnitForm:
    """Compare ids in normal form, or as they are spelled where the spec says that this tells units apart."""
    meant = spec.unit != "row" and set(spec.acknowledge.spelling_of_units).issuperset(spec.unit)
    return "spelled" if meant else "normal"


def _refuse_other_form(state: Generation, spec: ReleaseSpec) -> None:
    """Stop where ids that the ledger takes for one unit are meant to be several."""
    if state.frozen.unit_form == "normal" and unit_form_of(spec) == "spelled":
        raise SpecError(
            f"acknowledge.spelling_of_units: was not there when {spec.name!r} began, so its ledger takes ids that "
            "differ only in spelling for one unit; take it out, and give units whose ids do so ids that differ in more"
        )


# --- What it goes on from --------------------------------------------------------------------------------------


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


# --- Whether it may be -----------------------------------------------------------------------------------------


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


# --- What it is ------------------------------------------------------------------------------------------------


def _night(
    spec: ReleaseSpec, schema: FileSchema, ledger: Ledger, state: Generation | None, number: int, date: str
) -> Night:
    series = spec.series
    mode = series.mode if series else "independent"
    guarantee = (series.guarantee if series else None) or "trace"
    units, past = _units(spec, state), ledger.past_of(state)
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


def _units(spec: ReleaseSpec, state: Generation | None) -> int:
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
