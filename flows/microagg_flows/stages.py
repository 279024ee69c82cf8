"""The stages of a release, in their one order; the Prefect flow and ``--direct`` both run this list.

A stage is thin: it makes tasks, has workers do them, and combines what comes back. Whatever a later stage needs lies
in the work area, so a release that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from microagg_core.blocks.memory import WORKER_BASE_BYTES
from microagg_core.data.formats.reading import list_input
from microagg_core.data.formats.writing import released_format
from microagg_core.errors import ClusterError, DamagedWorkError, StorageError, TransientStorageError, sanitized
from microagg_core.inspect.gate import refuse_failed
from microagg_core.pages.plan_report import report_plan
from microagg_core.pages.words import duration
from microagg_core.plain import to_plain
from microagg_core.release.audit import Origin, find_published, write_audit
from microagg_core.release.cleaning import clean_due
from microagg_core.release.context import CONTEXT, Context, cut_input, rough_moments
from microagg_core.release.facts import release_facts, staged_parts
from microagg_core.release.manifest import Manifest
from microagg_core.release.pages.pages import public_pages
from microagg_core.release.pieces import Digest, Place
from microagg_core.release.planned import PLAN, SURVEY, Planned, write_plan
from microagg_core.release.planning import make_plan, refuse_identifying_labels, refuse_unwise, told
from microagg_core.release.publish import Upload, finish, publish
from microagg_core.release.records import MARKS
from microagg_core.release.revisions import committed_manifests
from microagg_core.release.step import Load
from microagg_core.release.steps.anonymize import ANONYMIZE
from microagg_core.release.steps.assemble import ASSEMBLE
from microagg_core.release.steps.checking import (
    CHECK_FILES,
    EXPECTED,
    NOTES,
    distributions_of,
    inspect_files,
    moments_of_released,
    notes_of_input,
    run_checks,
)
from microagg_core.release.steps.demands import DISTRIBUTIONS
from microagg_core.release.steps.keys import KEYS, MERGE_KEYS, counted_keys
from microagg_core.release.steps.measuring import measure_release
from microagg_core.release.steps.scatter import MEASURE_SCALE, SCATTER, refuse_lost
from microagg_core.release.steps.survey import SURVEY_PARTS, combine_survey
from microagg_core.release.steps.units import (
    REPEATED,
    SALT,
    UNITS,
    draw_salt,
    refuse_repeated_units,
    unit_checks,
)
from microagg_core.release.surroundings import try_work_area
from microagg_core.runner import run_look, run_scan, run_upload, steps
from microagg_core.series.together import parts_of_units
from microagg_core.spec.columns import resolve_schema
from microagg_core.spec.loading import canonical
from microagg_core.store.objects import Store
from microagg_flows import nights
from microagg_flows.pages import draw_for_page, write_page
from microagg_flows.progress import awaited
from microagg_flows.release import Release, StageOutcome


def survey(release: Release) -> str:
    """Count what is in the input, and refuse what cannot be released."""
    spec = release.spec = release.given  # where this is done again, it had the rounding of the series
    listing = release.listed = list_input(spec.input)
    schema = resolve_schema(spec, listing.schema)
    released_format(spec.output).refuse_types(schema.released_schema)
    if not release.rebuilding:
        _ = release.signing_key  # a key that is not there is said before the work, not after it
    # The id is part of it, so that two releases of one spec, made at the same time, do not share what they remove.
    origin = release.origin = Origin.of(canonical(spec), listing.state)
    release.key = Digest().add(origin.spec, origin.software, listing.state, release.identity).hex()[:20]
    release.begin_anew()  # a try before this one may have found another input
    if manifest := _find_published(release, release.replace):
        clean_due(spec, release.progress.say)
        return _ALREADY.format(rows=manifest.rows)
    if committed_manifests(release.output, release.identity) and not release.ignore_published:
        release.progress.say(f"{release.identity} is published already; whether from the same rows, the survey tells")
    run = release.run
    release.running.begin(run)  # what it goes on from is not due
    try_work_area(run.work)
    clean_due(spec, release.progress.say, release.key)
    schema = nights.begin(release)
    spec = release.spec
    listing = release.listed = cut_input(
        run, listing, spec.input, lambda stretches: release.workers.map(run_scan, stretches, "cut")
    )
    for remark in listing.remarks:
        release.progress.say(remark)
    rough = rough_moments(spec, listing, schema)
    _refuse_wide(release, len(schema.travelling), max((moments.n for moments in rough), default=0))
    parts = tuple(listing.parts) if spec.several is None else parts_of_units(listing.parts, spec.input)
    release.know(CONTEXT, Context(spec, listing.schema, parts, rough))
    release.know_piece(SALT, draw_salt(run))
    n_parts = release.counts["part"] = len(parts)
    found = nights.identify(release)
    release.do(SURVEY_PARTS)
    context = release.known(CONTEXT)
    release.do(UNITS)
    refuse_repeated_units(spec, unit_checks(spec, context.schema), release.written(REPEATED))
    combined = combine_survey(spec, release.written(*SURVEY_PARTS.writes), context)
    combined = dataclasses.replace(combined, left_out=found.left_out, cut_units=found.cut_units)
    release.know(SURVEY, combined)
    counted = release.do(MERGE_KEYS)
    release.drop_slices(SURVEY_PARTS)
    release.origin = origin.of_rows(nights.fingerprints(release, combined.fingerprints))
    if manifest := _find_published(release, release.replace):
        return _ALREADY.format(rows=manifest.rows)
    nights.refuse_overlaps(release)
    arrivals = f", {combined.arrivals} of them arrivals" if release.has(MARKS) else ""
    survivors = f", {said}" if (said := release.tonight.in_words()) else ""
    keys = "keys of blocking values and rows of a unit" if spec.has_whole_units else "blocking keys"
    return f"{combined.rows} records in {n_parts} parts{arrivals}{survivors}, {sum(r.rows for r in counted)} {keys}"


_ALREADY = "{rows} records; this release is published already"


def _find_published(release: Release, may_replace: bool) -> Manifest | None:
    """Find this very release published and whole, and finish it; a damaged one is made again, and mended so."""
    if release.ignore_published or release.origin is None:
        return None
    manifest = find_published(release.work, release.output, release.origin, release.identity, may_replace)
    manifest = manifest or nights.published_before_others(release)
    if manifest is None:
        return None
    folder = Store(release.output.url_of(manifest.layout.folder), dict(release.output.storage_options))
    whole = release.workers.map(run_look, [(folder, part) for part in manifest.parts], "look")
    if not all(whole):
        release.progress.say(f"{whole.count(False)} of {len(whole)} published files are missing or damaged")
        return None
    release.note_commit(manifest, by_this_run=False)
    again = not release.by_this_run
    release.published = finish(
        release.output, manifest, already=again, signing_key=release.signing_key, pages_of=public_pages
    )
    return manifest


def plan(release: Release) -> str:
    """Decide blocks, partitions and files; refuse what is unwise or does not fit."""
    spec, run = release.spec, release.run
    context, surveyed = release.known(CONTEXT), release.known(SURVEY)
    keys = counted_keys(release.written(KEYS))
    refuse_identifying_labels(context.schema, surveyed, keys)
    made = make_plan(spec, context, surveyed, keys, release, release.hold_until)
    file = write_plan(run, made)
    release.know(PLAN, file)
    release.planned = Planned(context, surveyed, file)
    release.counts |= {"partition": file.outline.n_partitions, "file": file.outline.n_files}
    report = report_plan(release.planned, made)
    report = release.plan_report = dataclasses.replace(report, night=nights.plan_of_night(release, made))
    refuse_unwise(spec, surveyed)
    report = release.plan_report = dataclasses.replace(report, workers=release.workers.expect(report.cpu_seconds))
    _refuse_too_little_memory(release, report.task_bytes)
    return f"{report.sentence()}; about {duration(report.cpu_seconds)} of CPU, {report.workers}"


def _refuse_wide(release: Release, n_columns: int, batch_rows: int) -> None:
    """Stop before the survey where its workers would die of the columns, by the rows that were read first."""
    largest = max((sum(stretch.size for stretch in part.stretches) for part in release.listed.parts), default=0)
    part_rows = max(batch_rows, largest // (8 * n_columns))  # a value is 8 bytes, more or less
    needed = SURVEY_PARTS.memory(Load(part_rows, n_columns, batch_rows=batch_rows))
    _refuse_too_little_memory(release, needed, f"the survey of {n_columns} columns", "give columns the role drop")


def _refuse_too_little_memory(
    release: Release, needed: int, task: str = "a task", cure: str = "lower blocks.max_records"
) -> None:
    there = release.workers.memory_per_task()
    if there is not None and there < needed:
        raise ClusterError(
            f"{task} needs about {needed // 2**20} MiB for its rows, and each worker thread has {there // 2**20} MiB "
            f"below Dask's threshold, once {WORKER_BASE_BYTES // 2**20} MiB are set aside for each worker itself; give "
            f"workers more memory or fewer threads, or {cure}"
        )


def scatter(release: Release) -> str:
    """Cut every part's rows by partition."""
    planned = release.planned
    draw_for_page(release)
    scattered = release.do(SCATTER)
    refuse_lost(planned.survey.arrivals - planned.outline.withheld_rows, scattered)
    noted = notes_of_input(release.written(EXPECTED))
    release.know(MEASURE_SCALE, moments_of_released(noted, len(planned.context.kinds)))
    release.know(DISTRIBUTIONS, distributions_of(planned, noted))
    return f"{sum(r.rows for r in scattered)} records in {planned.outline.n_partitions} partitions"


def anonymize(release: Release) -> str:
    """Run the algorithm on every block, and assemble the files that would be published."""
    outline, n_carried = release.planned.outline, release.tonight.night.n_carried
    release.do(ANONYMIZE, seconds=outline.seconds.tolist())
    nights.carry(release)
    release.do(ASSEMBLE)
    release.drop_slices(ANONYMIZE)
    return f"{outline.n_blocks} blocks anonymized, {outline.n_files + n_carried} files assembled"


def validate(release: Release) -> str:
    """Run the gate: re-read what would be published, and compare it with what was noted of the input."""
    release.checked = release.do(CHECK_FILES) + nights.check_survivors(release)
    files = release.inspected = inspect_files(release.written(NOTES), release.planned)
    noted, used = notes_of_input(release.written(EXPECTED)), release.known(DISTRIBUTIONS)
    carried = nights.carried_files(release)
    release.checks = run_checks(release.run, release.planned, files, noted, used, carried)
    refuse_failed(release.checks)
    release.checks += nights.trace(release)
    refuse_failed(release.checks)
    return f"{len(release.checks)} checks passed"


def measure(release: Release) -> str:
    """Combine losses and risks from the blocks."""
    release.drop_slices(SCATTER)
    written, carried = release.written(*ANONYMIZE.writes), nights.carried_files(release)
    came = release.known(MEASURE_SCALE)
    release.measured = measure_release(release.planned, written, release.inspected, came, carried)
    figures = release.measured.figures.of_grouped
    if not release.planned.outline.n_blocks:
        return "nobody arrived, so nothing was lost"
    if "l_sse" not in figures.model_fields_set:
        return "the loss is withheld, as it would tell of single records"
    avoidable = f", of which at most {figures.gap} % could be avoided" if figures.gap is not None else ""
    whose = f" of {figures.records} arrivals" if release.measured.figures.arrivals is not None else ""
    return f"information loss{whose} {figures.shown('l_sse')}{avoidable}"


def publish_release(release: Release) -> str:
    """Copy the checked files to the output, the manifest last; keep the audit."""
    planned = release.planned
    # A late run keeps the day it was meant for as its id, not as its hour of birth.
    now = datetime.datetime.now(datetime.UTC)
    if release.origin is None:
        raise RuntimeError("the survey stage has not run")

    def upload_all(output: Store, uploads: Sequence[Upload]) -> None:
        release.workers.map(run_upload, [(output, upload) for upload in uploads], "upload")

    series, carried = release.tonight.entry(), nights.carried_files(release)
    measured, files = release.measured, release.inspected
    facts = release_facts(planned, release.identity, now, measured.figures, release.checks, files, series, carried)
    published = publish(
        release.output,
        facts,
        staged_parts(release.work, release.checked),
        replace=release.replace,
        upload_all=upload_all,
        before_upload=lambda layout, attempt: nights.note_upload(release, layout, attempt),
        before_commit=lambda manifest: nights.commit(release, manifest),
        on_commit=release.note_commit,
        signing_key=release.signing_key,
        pages_of=public_pages,
    )
    nights.settle(release, published.manifest)
    write_audit(
        release.work,
        published.manifest,
        origin=release.origin,
        plan=to_plain(release.plan_report) if release.plan_report else {},
        measured=measured,
        checks=release.checks,
    )
    # Where this stage is tried again, what it finds published may be its own.
    warnings = (
        *published.warnings,
        *measured.troubles,
        *nights.warnings_of(release, published.manifest),
        *told(release.spec, planned.survey),
        *(count.in_words(rule) for rule, count in measured.portrait.edits.items() if count.is_worse),
        *_merged_wholly(release),
    )
    release.published = dataclasses.replace(published, already=not release.by_this_run, warnings=warnings)
    word = "published already" if release.published.already else "published"
    return f"{word} as {published.manifest.layout.folder}"


def _merged_wholly(release: Release) -> list[str]:
    """Say that blocking values tell nothing any more, where all keys were merged into one."""
    report = release.plan_report
    if report is None or not report.keys > 1 == report.blocks == report.merged_blocks:
        return []
    return [
        f"all {report.keys} blocking keys were merged into one, so that every record has the same labels: "
        f"k={release.spec.k} is more than they allow; lower k, or block by fewer columns"
    ]


def report(release: Release) -> str:
    """Make the operator's page, remove staged rows, keep the audit."""
    if release.published is None:
        raise RuntimeError("the publish stage has not run")
    troubles: list[str] = []
    try:
        troubles += write_page(release)
    finally:  # rows do not stay where somebody does not wait for the page
        troubles += _left_rows(release)
    warnings = (*release.published.warnings, *troubles)
    release.published = dataclasses.replace(release.published, warnings=warnings)
    return f"manifest at {release.published.manifest_url}"


def _left_rows(release: Release) -> list[str]:
    """Remove the run's staged rows; where that fails, what to do about it."""
    release.running.end()
    try:
        release.run.remove()
    except StorageError as error:
        return [f"staged rows are left in the work area: {error.message}; then remove them with microagg clean --all"]
    return []


@dataclass(frozen=True)
class Stage:
    """A stage: its name, what it does, and whether it is needed where the release is published already."""

    name: str
    work: Callable[[Release], str]
    always: bool = False


#: The one definition of the order.
STAGES = (
    Stage("survey", survey, always=True),
    Stage("plan", plan),
    Stage("scatter", scatter),
    Stage("anonymize", anonymize),
    Stage("validate", validate),
    Stage("measure", measure),
    Stage("publish", publish_release),
    Stage("report", report, always=True),
)


def run_stage(wanted: Stage, release: Release) -> StageOutcome | None:
    """Run one stage and account for it; None where the release is published already and nothing is to be done.

    Raises:
        MicroaggError: always one of ours.
    """
    if release.published is not None and not wanted.always:
        return None
    start, cpu_start = time.perf_counter(), time.process_time()
    try:
        with awaited(release.progress, f"the stage {wanted.name}"):
            says = wanted.work(release)
            _do_by_itself(wanted, release)
    except TransientStorageError:  # a store that does not answer cannot tell of another run either
        raise
    except StorageError:
        # An identical run may have been faster: it publishes the same release and removes the work that both shared.
        if _find_published(release, True):
            return None
        raise
    except Exception as error:
        raise sanitized(error, f"the stage {wanted.name}") from None
    receipts = release.take_receipts()
    outcome = StageOutcome(
        wanted.name,
        says,
        time.perf_counter() - start,
        sum(r.cpu_seconds for r in receipts),
        time.process_time() - cpu_start,
        sum(r.kernel_seconds for r in receipts),
        max((r.peak_bytes for r in receipts), default=0),
    )
    release.outcomes.append(outcome)
    release.progress.say(f"{wanted.name:<10} {outcome.seconds:7.1f} s  {says}")
    return outcome


def _do_by_itself(stage: Stage, release: Release) -> None:
    """Do the steps that a stage does at its end without asking for each."""
    for step in steps().values():
        if step.by_itself and step.stage == stage.name and release.published is None:
            release.do(step)
            if step.tells is not None:
                release.progress.say(step.tells(release.written(*step.writes)))


def run_until(last: str, release: Release, run: Callable[[Stage, Release], object] | None = None) -> None:
    """Run the stages up to and including ``last``, each by ``run``, or as it is."""
    wanted = STAGES[: [stage.name for stage in STAGES].index(last) + 1]
    run_healing(release, lambda: [(run or run_stage)(stage, release) for stage in wanted])


#: The same work may be found damaged so often in one run.
_MOST_DAMAGES = 3


def run_healing(release: Release, stages: Callable[[], object]) -> None:
    """Run the stages, with a sign of life while they last; from the first again where work is damaged.

    What is damaged is made again by those who made it, and what is not damaged is found done.

    Raises:
        StorageError: the same work is damaged each time it is made.
    """
    times: Counter[Place] = Counter()
    with release.running:
        while True:
            try:
                stages()
                return
            except DamagedWorkError as damage:
                places = damage.places or (("publish", 0),)
                times.update(places)
                if max(times[place] for place in places) > _MOST_DAMAGES:
                    raise StorageError(
                        f"{release.work}: what is written to the work area does not stay as it was written; check its "
                        "disk, or choose another work area, then run again"
                    ) from None
                release.forget(damage.places)
                release.progress.say(f"{len(places)} pieces of work were damaged or gone; they are made again")
