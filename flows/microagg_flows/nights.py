"""The tasks of a night: who does what between the input and the ledger, besides what every release does.

Each function belongs to a stage and is called by it; where no ledger knows units, it does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from microagg_core.blocks.holding import Holding
from microagg_core.blocks.plan import BlockPlan
from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.errors import DataError
from microagg_core.inspect.check import Check
from microagg_core.pages.plan_report import NightPlan, price_of_haste
from microagg_core.plain import from_json, to_json
from microagg_core.release.manifest import Manifest
from microagg_core.release.revisions import committed_manifests
from microagg_core.release.steps.checking import CarriedFiles
from microagg_core.release.steps.units import repeated_units
from microagg_core.release.steps.work import Receipt, Task
from microagg_core.series.candidates import ATOMS, ROWS
from microagg_core.series.generations import parts_digest
from microagg_core.series.ledger import clear_unnamed, ledger_of
from microagg_core.series.matching import (
    ABSENT,
    ALTERED,
    GREATEST_WORD,
    MARKS,
    MatchCounts,
    likeness_of,
    refuse_renamed,
)
from microagg_core.series.night import save_night
from microagg_core.series.publications import Attempt, manifest_of, note_attempt, sweep_published
from microagg_core.series.survivors import FateCounts, Recall, RecalledPart, slices_for_the_gate
from microagg_core.series.tonight import Tonight, begin_night, looked_at, refuse_overlap
from microagg_core.series.verdict import night_checks
from microagg_core.spec.columns import FileSchema, resolve_schema
from microagg_core.store.layout import ReleaseLayout, revision_name, revision_number
from microagg_core.store.night_layout import NightLayout
from microagg_flows.release import Release

#: What every task of a night knows once there is a plan.
_PLANNED = ("context", "survey", "plan", "night")

#: Times k: arrivals in a block of which the loss of tonight's is told, where the spec does not say.
_USUAL_BLOCK = 20


def begin(release: Release, schema: FileSchema) -> FileSchema:
    """Settle tonight; the columns as the series has them."""
    listed = release.listed

    def of_spec(spec: object) -> FileSchema:
        return resolve_schema(spec, listed.schema)  # type: ignore[arg-type]

    today, again = release.now.date(), release.rebuilding
    release.tonight = begin_night(release.spec, of_spec, release.output, release.run, today, rebuilding=again)
    release.spec = release.tonight.spec
    return resolve_schema(release.spec, listed.schema)


def identify(release: Release, n_parts: int) -> None:
    """Find out who is who, before anything is counted.

    Raises:
        DataError: a unit has more than one record.
    """
    tonight = release.tonight
    night = tonight.night
    release.known["night"] = save_night(release.run, night, tonight.key)
    if not tonight.has_units:
        return
    told = release.do(release.tasks("identify", n_parts, ("context", "night")))
    tonight.match = release.do(release.receiving("match", night.n_ranges, told, ("night",)))
    layout, pieces = NightLayout(release.key), release.pieces("match")
    counts = [from_json(MatchCounts, pieces.read(layout.matched(i))) for i in range(night.n_ranges)]
    tonight.matched = sum(counts, MatchCounts())
    if tonight.matched.repeated:
        raise DataError(repeated_units(release.spec, tuple(night.unit), tonight.matched.repeated))
    marked = release.do(release.receiving("mark", n_parts, _only(tonight.match, MARKS), ("night",)))
    if night.hides:
        release.marks = tuple(receipt.pieces[0] for receipt in marked)
    series = release.spec.series
    until = series.until_units(night.k) if series and night.is_known_to_readers else None
    release.hold = None if until is None else Holding(until)
    if night.n_carried:
        release.atoms_of_parts = tuple(receipt.pieces[1] for receipt in marked)
        _decide(release, tonight)


def refuse_overlaps(release: Release) -> None:
    """Stop where units are to be released once more and nothing is known to protect them.

    Raises:
        GateError: they are, and the spec names no series; or most arrivals look like them under other ids.
    """
    tonight = release.tonight
    n_units = sum(receipt.rows for receipt in tonight.match)
    refuse_overlap(tonight, n_units)
    night = tonight.night
    if not tonight.has_units or night.state is None or release.rebuilding:
        return
    layout, pieces = NightLayout(release.key), release.pieces("match")
    words = [read_slice(pieces.read(layout.words(i))) for i in range(night.n_ranges)]
    likeness = likeness_of(words, tonight.matched.released, tonight.matched.alone, GREATEST_WORD)
    if warning := refuse_renamed(release.spec, likeness):
        release.progress.say(warning)


def fingerprints(release: Release, surveyed: Sequence[str]) -> list[str]:
    """What tells tonight's rows from others; where the survey sees arrivals alone, the others are known by their files.

    Two nights without an arrival would be the same release otherwise.
    """
    return [*surveyed, *(str(file) for file in (release.listed.state if release.marks else ()))]


def _decide(release: Release, tonight: Tonight) -> None:
    """What becomes of the atoms."""
    n = tonight.night.n_carried
    release.do(release.receiving("fates", n, _only(tonight.match, ABSENT, ALTERED), ("night",)))
    layout, pieces = NightLayout(release.key), release.pieces("fates")
    tonight.fates = sum((from_json(FateCounts, pieces.read(layout.fates(i))) for i in range(n)), FateCounts())
    whole = pa.concat_tables([read_slice(pieces.read(layout.whole(i))) for i in range(n)])
    release.known["whole"] = (release.run.put(layout.all_whole(), to_bytes(whole), "whole"),)
    recall = Recall(tuple(part for number in sorted(set(tonight.fates.nights)) for part in _parts_of(release, number)))
    release.known["recall"] = (release.run.put(layout.recall(), to_json(recall), "recall"),)


def _parts_of(release: Release, number: int) -> list[RecalledPart]:
    """The files of the release of an earlier night."""
    generation = release.tonight.night.ledger.generation(number)
    output = release.output
    manifest = manifest_of(output, generation)
    folder = output.url_of(manifest.layout.folder)
    return [RecalledPart(number, folder, dict(output.storage_options), part) for part in manifest.parts]


def _only(receipts: Sequence[Receipt], *objects: int) -> list[Receipt]:
    """The receipts with the slices of some of their objects."""
    return [replace(receipt, slices=receipt.slices.of_objects(*objects)) for receipt in receipts]


def plan_of_night(release: Release, made: BlockPlan) -> NightPlan | None:
    """What the plan says of the series; None where the spec names none."""
    tonight, series = release.tonight, release.spec.series
    if series is None or not tonight.has_units:
        return None
    night, fates = tonight.night, tonight.fates
    until = series.until_units(night.k) or _USUAL_BLOCK * night.k
    return NightPlan(
        mode=night.mode,
        night=night.number,
        arrivals=tonight.matched.arrivals,
        held=made.strata.held_rows,
        survivors=fates.carried,
        ghosts=fates.ghosts,
        withheld=fates.withheld,
        vanished=fates.vanished,
        held_back=fates.held_back,
        price=price_of_haste(made.block_rows, until, len(release.planned.context.kinds)) if night.number else None,
        until=until,
    )


# --- Survivors -------------------------------------------------------------------------------------------------


def split_scattered(release: Release, tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """The tasks for arrivals, and those for survivors, which come after them."""
    n = release.planned.outline.n_partitions
    return list(tasks[:n]), [replace(task, step="carry", number=task.number - n) for task in tasks[n:]]


def carry(release: Release, tasks: Sequence[Task]) -> list[Receipt]:
    """Make the files of survivors."""
    if not tasks:
        return []
    layout = NightLayout(release.key)
    recall = from_json(Recall, release.run.pieces(release.known["recall"]).read(layout.recall()))
    recalled = release.do(release.tasks("recall", len(recall.parts), (*_PLANNED, "recall", "whole")))
    tasks = release.also_receiving(tasks, "recall", recalled)
    tasks = release.also_receiving(tasks, "match", _only(release.tonight.match, ABSENT, ALTERED))
    knowing = [task.reading(release.reads("night")) for task in tasks]
    return release.do(release.also_reading("fates", knowing))


def digests_of_survivors(release: Release) -> list[Receipt]:
    """What the parts of the input tell the gate of survivors, for the files in which these should be."""
    plan, n_carried = release.planned, release.tonight.night.n_carried
    return [replace(one, slices=slices_for_the_gate(one.slices, plan, n_carried)) for one in release.scattered]


def checking(release: Release, tasks: Sequence[Task], n_files: int) -> list[Task]:
    """The tasks that check the candidate files: those for survivors' files are told who is absent."""
    arrivals, carried = list(tasks[:n_files]), list(tasks[n_files:])
    matched = _only(release.tonight.match, ABSENT)
    knowing = release.also_receiving(
        [replace(task, number=task.number - n_files) for task in carried], "match", matched
    )
    carried = [replace(task, number=task.number + n_files) for task in release.also_reading("carry", knowing)]
    return release.also_reading("assemble", arrivals) + carried


def carried_files(release: Release) -> CarriedFiles | None:
    """The files of survivors; None on a first night, and where nobody is carried."""
    tonight = release.tonight
    if not tonight.night.hides:
        return None
    return CarriedFiles(tonight.night.n_carried, tonight.fates.carried + tonight.fates.ghosts)


# --- The gate --------------------------------------------------------------------------------------------------


def trace(release: Release) -> list[Check]:
    """Make the next state of the ledger from the files, and say what is wrong with it."""
    tonight = release.tonight
    if not tonight.has_units:
        return []
    night, layout = tonight.night, NightLayout(release.key)
    n_files = release.planned.outline.n_files
    _number_atoms(release, n_files)
    traced = release.do(release.also_reading("match", _tracing(release)))
    counts = release.receiving("traces", night.n_atom_ranges, traced, ("night", "numbering"))
    counts = release.also_receiving(counts, "check-files", _only(release.checked[:n_files], ATOMS))
    if night.n_carried:
        files = release.made["check-files"]
        seen = [
            [piece for piece in files[n_files + i] if piece.name == layout.seen(n_files + i)]
            for i in range(len(counts))
        ]
        counts = [task.reading(tuple(pieces)) for task, pieces in zip(counts, seen, strict=True)]
    release.do(counts)
    pieces = release.pieces("trace", "traces", "check-files")
    tonight.read_notes(pieces, release.key, n_files + night.n_carried)

    def bundles() -> pa.Table:
        return pa.concat_tables([read_slice(pieces.read(layout.bundles(i))) for i in range(night.n_atom_ranges)])

    return night_checks(tonight, bundles)


def _number_atoms(release: Release, n_files: int) -> None:
    """Settle from which number the new atoms of each file of arrivals are numbered."""
    looked = looked_at(release.pieces("check-files"), release.key, n_files)
    firsts, first = [], release.tonight.night.next_number
    for one in looked:
        firsts.append(first)
        first += one.numbers
    name = NightLayout(release.key).numbering()
    release.known["numbering"] = (release.run.put(name, to_json(firsts), "numbering"),)


def _tracing(release: Release) -> list[Task]:
    """Whose the rows of the candidate files are, and then the tasks that tell what the ledger has to hear of them."""
    night, n_parts = release.tonight.night, len(release.planned.context.parts)
    told = _only(release.checked, ROWS)
    joins = release.receiving("join", n_parts + night.n_ranges, told, (*_PLANNED, "numbering"))
    parts = release.also_reading("mark", joins[:n_parts])
    return release.receiving("trace", night.n_ranges, release.do(parts + joins[n_parts:]), ("night",))


# --- The ledger ------------------------------------------------------------------------------------------------


def commit(release: Release, manifest: Manifest) -> None:
    """Have the ledger remember tonight, before the manifest makes the release readable.

    Raises:
        StorageError: another night was committed meanwhile.
    """
    tonight = release.tonight
    if not tonight.has_units:
        tonight.note_nobody()
    generation = tonight.generation(
        release.planned, release.checked, manifest.id, manifest.revision, release.output, release.key
    )
    tonight.night.ledger.commit(generation, tonight.census)


def note_upload(release: Release, layout: ReleaseLayout, attempt: str) -> None:
    """Write an attempt down before its first object can be read, so that whoever comes next knows of it."""
    record = Attempt(attempt, layout.id, layout.revision, release.output.url, release.key)
    note_attempt(release.tonight.night.ledger.store, record)


def settle(release: Release, manifest: Manifest) -> None:
    """After the release is there: the ledger knows that it is, and forgets what it needs no more.

    Raises:
        GateError: the output holds what no manifest names.
    """
    night = release.tonight.night
    night.ledger.note_published(night.number)
    sweep_published(night.ledger, release.output, release.work, manifest)
    clear_unnamed(night.ledger)


def warnings_of(release: Release, manifest: Manifest) -> tuple[str, ...]:
    """What is to be said of a release that took another's place."""
    number = revision_number(manifest.revision) or 1
    if number == 1 or not release.by_this_run:
        return ()
    before = revision_name(number - 1)
    return (
        f"{before} stays readable beside {manifest.revision}, and what was read cannot be unread: both count as nights "
        "of the series",
    )


def published_before_others(release: Release) -> Manifest | None:
    """The release that this very run published before later nights, where it was stopped before its audit was there.

    As the newest night it is found, and its audit made, by going through the stages again; behind others it cannot be.
    Where the id has a newer revision, it was replaced since, and a run that asks for it again makes one more.
    """
    ledger = ledger_of(release.spec)
    earlier = ledger.nights()[:-1]
    committed = committed_manifests(release.output, release.identity) if earlier else []
    if not committed:
        return None
    manifest = committed[-1]
    files = parts_digest(part.sha256 for part in manifest.parts)
    for night in reversed(earlier):
        generation = ledger.generation(night)
        if (generation.release_id, generation.revision) == (release.identity, manifest.revision):
            is_ours = generation.run_key == release.key and generation.manifest_sha256 == files
            return manifest if is_ours else None
    return None
