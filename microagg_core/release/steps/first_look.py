"""A look at rows in memory, by the survey's and the plan's own code: for what a plan of them would be refused."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from microagg_core.data.formats.reading import BATCH_ROWS, InputPart
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.errors import DataError
from microagg_core.inspect.disclosures import Disclosure
from microagg_core.release.steps.keys import merge_keys
from microagg_core.release.steps.planning import strata_of
from microagg_core.release.steps.reading import PartBatch
from microagg_core.release.steps.survey import PartSurvey, disclosures_of
from microagg_core.release.steps.work import Context, usable_moments
from microagg_core.spec.columns import resolve_schema
from microagg_core.spec.release import ReleaseSpec


@dataclass(frozen=True)
class FirstLook:
    """For what a plan would be refused."""

    disclosures: tuple[Disclosure, ...]
    #: Of patterns of missing values and blocking keys that too few records have; empty, if of none.
    few: str


def look_at(spec: ReleaseSpec, table: pa.Table) -> FirstLook:
    """Survey some rows and plan their strata; nothing is written.

    Raises:
        SpecError: the spec's roles do not fit the columns.
        DataError: a column cannot have its role.
    """
    schema = resolve_schema(spec, table.schema)
    rough = Encoding.from_moments(schema.kinds, tuple(usable_moments(schema, table.slice(0, BATCH_ROWS))))
    context = Context(spec, schema, (InputPart(0, ()),), rough)
    survey = PartSurvey(context)
    for start in range(0, table.num_rows, BATCH_ROWS):
        survey.add(PartBatch(table.slice(start, BATCH_ROWS), start))
    gathered = survey.confidential.gathered()
    looked = disclosures_of(context, gathered, survey.confidential.text_bytes, survey.rows) if gathered else ()
    refused = tuple(disclosure for disclosure in looked if disclosure.is_refused)
    try:
        strata_of(spec, schema, merge_keys(survey.keys))
    except DataError as error:
        return FirstLook(refused, error.message)
    return FirstLook(refused, "")
