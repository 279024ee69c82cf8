"""Checking: what workers read for the gate, and what the flow has it decide; the gate is :mod:`microagg_core.inspect`.

What the release should hold of an input part is noted when the part is read to be scattered, and proves to be what was
surveyed. A candidate file is read back with what lies beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from microagg_core.inspect.check import Check
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.gate import Notes, make_checks, note_carried_file, note_file
from microagg_core.release.planned import PLANNED, Planned, load_planned
from microagg_core.release.step import JsonOutput, Pieces, Step, TableOutput, Work
from microagg_core.release.steps.candidate import CANDIDATE, ORIGINS, Candidate, read_candidate
from microagg_core.release.steps.noting import EXPECTED, promise_of
from microagg_core.release.steps.portraying import DRAWN, PORTRAIT_SUMS, note_portrait
from microagg_core.release.steps.protecting import PROTECTION, note_protection
from microagg_core.release.steps.risks import RISK_LABELS, RISK_NOTES, note_risk
from microagg_core.release.steps.value_counts import DISTRIBUTIONS, ColumnCounts, check_distributions, combine_counts

#: What the gate notes of a candidate file, and the confidential values that it counts there.
NOTES, CHECKED_VALUES = JsonOutput("notes", Notes), TableOutput("checked-values")
#: All that is written of a candidate file.
FILE_NOTES = (NOTES, RISK_NOTES, RISK_LABELS, PORTRAIT_SUMS, DRAWN, PROTECTION)

# --- A worker's half -----------------------------------------------------------------------------------------


def check_file(work: Work) -> int:
    """Re-read one candidate file of arrivals and write what is noted of it."""
    planned = load_planned(work)
    candidate = read_candidate(work, planned)
    table = candidate.table
    notes = note_file(promise_of(planned), table, candidate.origins, planned.survey.parts_of(candidate.records))
    note_all(work, planned, candidate, notes, work.number)
    if notes.readable:
        values = ColumnCounts(planned.context)
        values.add_released(table, work.load(DISTRIBUTIONS))
        work.write(CHECKED_VALUES, values.to_table())
        for companion in work.companions(planned):
            companion.add(candidate)
            companion.end()
    return notes.rows


CHECK_FILES = Step(
    name="check-files",
    stage="validate",
    per="file",
    does=check_file,
    knows=(*PLANNED, DISTRIBUTIONS),
    same=(CANDIDATE, ORIGINS),
    writes=(*FILE_NOTES, CHECKED_VALUES),
    is_gate=True,
)


def check_carried_file(work: Work, planned: Planned) -> tuple[Candidate, Notes]:
    """Re-read one candidate file of survivors of a series and write what is noted of it."""
    candidate = read_candidate(work, planned)
    notes = note_carried_file(promise_of(planned), candidate.table, candidate.origins)
    note_all(work, planned, candidate, notes, planned.outline.n_files + work.number)
    return candidate, notes


def note_all(work: Work, planned: Planned, candidate: Candidate, notes: Notes, file: int) -> None:
    """Write what the gate noted of a file, and what all else that looks at it notes."""
    work.write(NOTES, notes)
    if notes.readable:
        note_risk(work, planned, candidate, file)
        note_portrait(work, planned, candidate)
        note_protection(work, planned, candidate)


# --- The flow's half -----------------------------------------------------------------------------------------


def run_checks(written: Pieces, planned: Planned, carried: CarriedFiles | None = None) -> list[Check]:
    """Have the gate compare what was noted of the files with what was noted of the input."""
    promise = promise_of(planned)
    if carried is not None:
        promise = replace(promise, carried=carried.rows, in_series=True)
    return make_checks(promise, written.read_all(NOTES), written.read_all(EXPECTED))


def run_value_checks(written: Pieces, used: Sequence[Distribution | None], plan: Planned) -> list[Check]:
    """Have the gate compare the files' confidential values with what the workers were told of them.

    None where a file could not be looked at, which another check says.
    """
    if len(written.of(CHECKED_VALUES)) < plan.outline.n_files:
        return []
    return [check_distributions(plan.context, used, combine_counts(plan.context, written, CHECKED_VALUES))]


@dataclass(frozen=True)
class CarriedFiles:
    """The files of survivors, which come after those of arrivals, and how many rows they should have in all."""

    n_files: int
    rows: int
