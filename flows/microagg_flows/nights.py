"""The tasks of a night: who does what between the input and the ledger, besides what every release does.

Each function belongs to a stage and is called by it; where no ledger knows units, it does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from microagg_core.blocks.plan import BlockPlan
from microagg_core.errors import DataError
from microagg_core.inspect.check import Check
from microagg_core.pages.plan_report import NightPlan, price_of_haste
from microagg_core.release.manifest import Manifest
from microagg_core.release.records import MARKS
from microagg_core.release.revisions import committed_manifests
from microagg_core.release.step import Receipt
from microagg_core.release.steps.checking import CarriedFiles
from microagg_core.release.steps.units import repeated_units
from microagg_core.series.candidates import CHECK_SURVIVORS, JOIN, LOOKED, NUMBERING
from microagg_core.series.generations import parts_digest
from microagg_core.series.ledger import clear_unnamed, ledger_of
from microagg_core.series.match import (
    GREATEST_WORD,
    IDENTIFY,
    MARK,
    MATCH,
    MATCHED,
    WORDS,
    MatchCounts,
    likeness_of,
    refuse_renamed,
)
from microagg_core.series.night import NIGHT, NIGHT_KEY
from microagg_core.series.publications import Attempt, manifest_of, note_attempt, sweep_published
from microagg_core.series.survivors import (
    ALL_WHOLE,
    CARRY,
    DECIDE,
    FATES,
    RECALL,
    RECALL_FILES,
    WHOLE,
    FateCounts,
    RecalledPart,
)
from microagg_core.series.together import BRING, PUT_TOGETHER, UNITS_FOUND, BroughtTogether, refuse_units
from microagg_core.series.tonight import Tonight, begin_night, refuse_overlap
from microagg_core.series.traces import BUNDLES, COUNT_TRACES, RANGE_NOTES, TRACE, TRACE_NOTES
from microagg_core.series.verdict import night_checks
from microagg_core.spec.columns import FileSchema, resolve_schema
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import ReleaseLayout, revision_name, revision_number
from microagg_flows.release import Release

#: Times k: arrivals in a block of which the loss of tonight's is told, where the spec does not say.
_USUAL_BLOCK = 20


def begin(release: Release) -> FileSchema:
    """Settle tonight; returns the columns as the series has them."""

    def of_spec(spec: ReleaseSpec) -> FileSchema:
        return resolve_schema(spec, release.listed.schema)

    today, again = release.now.date(), release.rebuilding
    release.tonight = begin_night(release.spec, of_spec, release.output, release.run, today, rebuilding=again)
    release.spec = release.tonight.spec
    return of_spec(release.spec)


def identify(release: Release) -> BroughtTogether:
    """Find out who is who, before anything is counted; and what units of several rows are like."""
    tonight = release.tonight
    night = tonight.night
    if not tonight.has_units:
        return BroughtTogether()
    release.know(NIGHT, night)
    release.know(NIGHT_KEY, tonight.key)
    release.counts |= {"range of units": night.n_ranges, "range of atoms": night.n_atom_ranges}
    found = _brought_together(release) if release.spec.several is not None else BroughtTogether()
    release.do(IDENTIFY)
    tonight.n_units = sum(receipt.rows for receipt in release.do(MATCH))
    tonight.matched = sum(release.written(MATCHED).read_all(MATCHED), MatchCounts())
    if tonight.matched.repeated:
        raise DataError(repeated_units(release.spec, tuple(night.unit), tonight.matched.repeated))
    release.do(MARK)
    series = release.spec.series
    until = series.until_units(night.k) if series and night.is_known_to_readers else None
    release.hold_until = until
    if night.n_carried:
        _decide(release, tonight)
    return found


def _brought_together(release: Release) -> BroughtTogether:
    release.do(BRING)
    release.do(PUT_TOGETHER)
    found = refuse_units(release.spec, release.written(UNITS_FOUND))
    release.drop_slices(BRING)
    more = f"; {found.left_out} beyond the limit are left out" if found.left_out else ""
    release.progress.say(f"{found.rows} records of {found.units} units{more}")
    return found


def refuse_overlaps(release: Release) -> None:
    """Stop where units are to be released once more and nothing is known to protect them."""
    tonight = release.tonight
    refuse_overlap(tonight)
    night = tonight.night
    if not tonight.has_units or night.state is None or release.rebuilding:
        return
    words = release.written(WORDS).read_all(WORDS)
    likeness = likeness_of(words, tonight.matched.released, tonight.matched.alone, GREATEST_WORD)
    if warning := refuse_renamed(release.spec, likeness):
        release.progress.say(warning)


def fingerprints(release: Release, surveyed: Sequence[str]) -> list[str]:
    """Identify tonight's rows: arrivals by content, others by the state of their files.

    Two nights without an arrival would be the same release otherwise.
    """
    return [*surveyed, *(str(file) for file in (release.listed.state if release.has(MARKS) else ()))]


def _decide(release: Release, tonight: Tonight) -> None:
    release.do(DECIDE)
    tonight.fates = sum(release.written(FATES).read_all(FATES), FateCounts())
    release.know(ALL_WHOLE, pa.concat_tables(release.written(WHOLE).read_all(WHOLE)))
    recalled, output = list[RecalledPart](), release.output
    for number in sorted(set(tonight.fates.nights)):
        manifest = manifest_of(output, tonight.night.ledger.generation(number))
        folder, options = output.url_of(manifest.layout.folder), dict(output.storage_options)
        recalled += [RecalledPart(number, folder, options, part) for part in manifest.parts]
    release.know(RECALL, recalled)
    release.counts[RECALL_FILES.per] = len(recalled)


def plan_of_night(release: Release, made: BlockPlan) -> NightPlan | None:
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
        price=price_of_haste(made.block_units, until, len(release.planned.context.kinds)) if night.number else None,
        until=until,
    )


def carry(release: Release) -> None:
    if release.tonight.night.n_carried:
        release.do(RECALL_FILES)
        release.do(CARRY)


def check_survivors(release: Release) -> list[Receipt]:
    return release.do(CHECK_SURVIVORS) if release.tonight.night.n_carried else []


def carried_files(release: Release) -> CarriedFiles | None:
    """Count the files of survivors; None where all records are grouped tonight."""
    tonight = release.tonight
    if not tonight.night.hides:
        return None
    return CarriedFiles(tonight.night.n_carried, tonight.fates.carried + tonight.fates.ghosts)


def trace(release: Release) -> list[Check]:
    tonight, n_files = release.tonight, release.planned.outline.n_files
    if not tonight.has_units:
        return []
    # The number from which the new atoms of each file of arrivals are numbered.
    firsts, first = [], tonight.night.next_number
    for looked in release.written(LOOKED).read_all(LOOKED)[:n_files]:
        firsts.append(first)
        first += looked.numbers
    release.know(NUMBERING, firsts)
    for step in (JOIN, TRACE, COUNT_TRACES):
        release.do(step)
    tonight.read_notes(release.written(RANGE_NOTES, TRACE_NOTES, LOOKED), n_files + tonight.night.n_carried)

    def bundles() -> pa.Table:
        return pa.concat_tables(release.written(BUNDLES).read_all(BUNDLES))

    return night_checks(tonight, bundles)


def commit(release: Release, manifest: Manifest) -> None:
    """Commit tonight to the ledger, before the manifest makes the release readable."""
    tonight = release.tonight
    if not tonight.has_units:
        tonight.note_nobody()
    generation = tonight.generation(
        release.planned, release.checked, manifest.id, manifest.revision, release.output, release.key
    )
    tonight.night.ledger.commit(generation, tonight.census)


def note_upload(release: Release, layout: ReleaseLayout, attempt: str) -> None:
    record = Attempt(attempt, layout.id, layout.revision, release.output.url, release.key)
    note_attempt(release.tonight.night.ledger.store, record)


def settle(release: Release, manifest: Manifest) -> None:
    """Note in the ledger that the release is there, and remove what it needs no more."""
    night = release.tonight.night
    night.ledger.note_published(night.number)
    sweep_published(night.ledger, release.output, release.work, manifest)
    clear_unnamed(night.ledger)


def warnings_of(release: Release, manifest: Manifest) -> tuple[str, ...]:
    number = revision_number(manifest.revision) or 1
    if number == 1 or not release.by_this_run:
        return ()
    before = revision_name(number - 1)
    return (
        f"{before} stays readable beside {manifest.revision}, and what was read cannot be unread: both count as nights "
        "of the series",
    )


def published_before_others(release: Release) -> Manifest | None:
    """Find the release that this very run published before later nights, and was stopped before its audit was there.

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
        if generation.layout == manifest.layout:
            is_ours = generation.run_key == release.key and generation.manifest_sha256 == files
            return manifest if is_ours else None
    return None
