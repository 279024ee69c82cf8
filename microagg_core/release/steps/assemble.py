"""Assemble: released rows gathered into the files that would be published, in an order of their content alone."""

from __future__ import annotations

from microagg_core.release.planned import PLANNED, load_planned
from microagg_core.release.step import Step, Work
from microagg_core.release.steps.anonymize import ANONYMIZED
from microagg_core.release.steps.candidate import CANDIDATE, ORIGINS, no_rows, write_candidate


def assemble_file(work: Work) -> int:
    """Write one file of arrivals, and what lies beside it."""
    planned, gathered = load_planned(work), work.gather(ANONYMIZED)
    if gathered is None:  # combinations are spread by their hash: a file may receive none
        gathered = no_rows(planned.context.schema, with_origins=True)
    write_candidate(work, planned, gathered)
    return int(gathered.num_rows)


ASSEMBLE = Step(
    name="assemble",
    stage="anonymize",
    per="file",
    does=assemble_file,
    knows=PLANNED,
    receives=(ANONYMIZED,),
    writes=(CANDIDATE, ORIGINS),
)
