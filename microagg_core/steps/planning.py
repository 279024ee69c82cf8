"""Plan: strata from keys, cuts for blocks that are too large, partitions; and what looks unwise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from microagg_core.algorithms import algorithms
from microagg_core.arrays import Ints
from microagg_core.blocking.cuts import Tree
from microagg_core.blocking.holding import Holding
from microagg_core.blocking.plan import BlockPlan, default_max_records, plan_blocks
from microagg_core.blocking.strata import plan_strata
from microagg_core.errors import DataError
from microagg_core.spec.release import ReleaseSpec
from microagg_core.steps.oversize import Passes, cut_strata
from microagg_core.steps.survey import Survey
from microagg_core.steps.work import Context


def refuse_unwise(spec: ReleaseSpec, survey: Survey) -> None:
    """Stop for what looks unwise until the spec acknowledges it by name.

    Raises:
        DataError: a confidential column that is nearly unique or fixes a quasi-identifier.
    """
    problems = [
        f"confidential column {name!r} is nearly unique ({survey.distinct[name]} values in {survey.rows} records), "
        "so who knows a value finds the record; give it another role, coarsen it, or list it under "
        "acknowledge.nearly_unique"
        for name in survey.nearly_unique
        if name not in spec.acknowledge.nearly_unique
    ]
    problems += [
        f"confidential column {name!r} fixes the quasi-identifier {quasi!r}, so its exact value would be released "
        "after all; give it another role, or list it under acknowledge.fixes_quasi_identifier"
        for name, quasi in survey.fixes
        if name not in spec.acknowledge.fixes_quasi_identifier
    ]
    if problems:
        raise DataError("\n".join(problems))


def make_plan(
    spec: ReleaseSpec,
    context: Context,
    survey: Survey,
    keys: pa.Table,
    passes: Passes,
    hold: Holding | None = None,
) -> BlockPlan:
    """The block plan; ``passes`` does the extra passes over the input where blocks have to be cut.

    ``hold`` says which of a night's arrivals wait for more.
    """
    schema = context.schema
    released = {c.name: t for c, t in zip(schema.released, schema.released_types, strict=True)}
    strata = plan_strata(keys, spec.k, spec.blocks.undersized, [released[c.name] for c in schema.blocking], hold)
    chosen = algorithms()[spec.algorithm.name].with_costs_of(spec.algorithm.parameters)
    info, p = chosen.with_refinement(spec.effort), len(context.kinds)
    limit = spec.blocks.max_records or default_max_records(info, p, spec.k, survey.row_bytes)
    oversize = np.flatnonzero(strata.rows > limit)
    trees: dict[int, Tree] = {}
    leaf_rows: dict[int, Ints] = {}
    if len(oversize):
        trees, leaf_rows = cut_strata(context, strata, survey, oversize, limit, passes)
    return plan_blocks(
        strata, trees, leaf_rows, info, p, spec.k, survey.row_bytes, limit, context.schema.released_schema
    )
