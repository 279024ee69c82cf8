"""Plan: strata from keys, cuts for blocks that are too large, partitions; and what looks unwise.

The same is found out of rows in memory, for what a plan of them would be refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Ints
from microagg_core.blocks.cuts import Tree
from microagg_core.blocks.plan import BlockPlan, default_max_records, plan_blocks
from microagg_core.blocks.strata import IDENTIFYING, LEAST_LABELLED, ROWS, Strata, StrataRules, plan_strata
from microagg_core.data.formats.reading import BATCH_ROWS, InputPart
from microagg_core.data.hierarchies import Hierarchy
from microagg_core.errors import DataError
from microagg_core.group.algorithms import AlgorithmInfo, algorithms
from microagg_core.inspect.disclosures import Disclosure, in_percent
from microagg_core.release.context import Context, usable_moments
from microagg_core.release.records import PartBatch
from microagg_core.release.step import Load
from microagg_core.release.steps.anonymize import ANONYMIZE
from microagg_core.release.steps.cuts import cut_strata
from microagg_core.release.steps.survey import PartSurvey, Survey, disclosures_of
from microagg_core.release.wiring import StepsDone
from microagg_core.spec.columns import FileSchema, resolve_schema
from microagg_core.spec.release import ReleaseSpec


def refuse_unwise(spec: ReleaseSpec, survey: Survey) -> None:
    """Stop for what looks unwise until the spec acknowledges it by name."""
    problems = [one.refusal() for one in survey.disclosures if one.is_refused and not is_acknowledged(spec, one)]
    if problems:
        raise DataError("\n".join(problems))


def is_acknowledged(spec: ReleaseSpec, one: Disclosure) -> bool:
    return one.is_acknowledged(getattr(spec.acknowledge, one.what))


def told(spec: ReleaseSpec, survey: Survey) -> tuple[str, ...]:
    """List warnings: what is not refused, and is said until the spec acknowledges it by name."""
    weak = [one for one in survey.disclosures if not one.is_refused and not is_acknowledged(spec, one)]
    return (*(one.refusal() for one in weak), *survey.remarks, *codes_questions(spec, survey))


#: Few numbers say nothing of what they are unless each is had by so many records, on average.
_RECORDS_OF_A_CODE = 10


def undeclared_codes(spec: ReleaseSpec, survey: Survey) -> dict[str, int]:
    """Count the distinct values of quasi-identifiers that may be codes, of which the spec says no kind.

    A night of a series is not asked: its arrivals are few, and the first night was.
    """
    if survey.arrivals < survey.rows:
        return {}
    undeclared = {quasi.name for quasi in spec.roles.quasi_identifiers if quasi.kind is None}
    most = survey.rows / _RECORDS_OF_A_CODE
    return {name: few for name, few in survey.few_numbers.items() if name in undeclared and 1 < few <= most}


def codes_questions(spec: ReleaseSpec, survey: Survey) -> list[str]:
    """Ask of few whole numbers what they are, unless the spec says it: codes have no mean."""
    return [
        f"quasi-identifier {name!r} has {few} distinct whole numbers: number, ordinal or nominal? It is averaged as a "
        f"number; say {{name: {name}, kind: nominal}} where they are codes, kind: ordinal where these "
        "have an order, or kind: number, and this is not asked again"
        for name, few in undeclared_codes(spec, survey).items()
    ]


def refuse_identifying_labels(schema: FileSchema, survey: Survey, keys: pa.Table) -> None:
    """Stop where a blocking column names records rather than what they have in common.

    Arrivals of a night are few, and may each be alone with their blocking value: nights are not looked at.
    """
    rows = survey.rows
    # No column has more values than there are keys.
    if survey.arrivals < rows or rows < LEAST_LABELLED or keys.num_rows <= IDENTIFYING * rows:
        return
    for i, column in enumerate(schema.blocking):
        counts = keys.group_by(f"b{i}").aggregate([(ROWS, "sum")])[f"{ROWS}_sum"]
        unique = int(pc.sum(pc.equal(counts, 1)).as_py() or 0)
        if unique > IDENTIFYING * rows:
            raise DataError(
                f"blocking column {column.name!r} looks like an identifier: {in_percent(unique / rows)} of the records "
                "have a value of their own in it, and blocking values are released as labels; give it another role"
            )


def strata_of(
    spec: ReleaseSpec, schema: FileSchema, keys: pa.Table, hold_until: int | None = None, k: int | None = None
) -> Strata:
    """Turn counted keys into strata, as the spec wants them, or with another k."""
    released = {field.name: field.type for field in schema.released_schema}
    blocks = spec.blocks
    names = [column.name for column in schema.blocking]
    hierarchies = tuple(spec.hierarchies.get(name) for name in names)
    _refuse_no_leaves(names, keys, hierarchies)
    rules = StrataRules(
        spec.k if k is None else k,
        blocks.undersized,
        blocks.labels,
        blocks.totals_known,
        spec.missing == "blank",
        hierarchies,
        spec.several is not None,
    )
    try:
        return plan_strata(keys, rules, [released[c.name] for c in schema.blocking], hold_until)
    except DataError as error:
        if spec.several is None:
            raise
        raise DataError(f"{error.message}; {_fewer_rows(keys, rules.k)}") from None


def _fewer_rows(keys: pa.Table, k: int) -> str:
    """Explain what records are where units have several rows, and advise fewer rows of each where that helps."""
    rows, units = np.asarray(keys["pattern"]).astype(np.int64), np.asarray(keys[ROWS])
    most = most_rows(rows, units, k)
    words = "here records are units, grouped with others of equally many rows"
    capped = np.minimum(rows, most)
    if np.bincount(capped, weights=units)[capped].min() < k:
        return words
    return f"{words}: with unit: {{rows: {{at_most: {most}}}}} at least k={k} units have each number of rows"


def most_rows(rows: Ints, units: Ints, k: int) -> int:
    """Find how many rows of each unit to release at most, so that as few as can be are left out.

    Left out are those beyond, and all rows of units of which fewer than k have as many; ``units`` is how many have so
    many ``rows``.

    >>> most_rows(np.array([1, 9, 2, 4, 8]), np.array([50, 1, 30, 2, 3]), 3)
    8
    """

    def left_out(most: int) -> int:
        capped = np.minimum(rows, most)
        few = np.bincount(capped, weights=units)[capped] < k
        return int((units * np.where(few, rows, rows - capped)).sum())

    candidates: list[int] = np.unique(rows)[::-1].tolist()
    return min(candidates, key=left_out)


def _refuse_no_leaves(names: Sequence[str], keys: pa.Table, hierarchies: Sequence[Hierarchy | None]) -> None:
    """Stop where a blocking column has values that its hierarchy does not have, or has as parents."""
    for j, (name, hierarchy) in enumerate(zip(names, hierarchies, strict=True)):
        if hierarchy is None:
            continue
        texts = keys[f"b{j}"].cast(pa.string())
        has_leaf = pc.or_(pc.is_in(texts, value_set=pa.array(hierarchy.leaves, pa.string())), texts.is_null())
        if n := pc.sum(keys.filter(pc.invert(has_leaf))[ROWS]).as_py():
            raise DataError(
                f"blocking column {name!r} has {n} values that are no leaves of its hierarchy; add or correct them"
            )


def make_plan(
    spec: ReleaseSpec,
    context: Context,
    survey: Survey,
    keys: pa.Table,
    done: StepsDone,
    hold_until: int | None = None,
) -> BlockPlan:
    """The block plan; ``done`` has the survey, and does more passes over the input where blocks have to be cut.

    A key of a night waits until it has ``hold_until`` arrivals.
    """
    strata = strata_of(spec, context.schema, keys, hold_until)
    chosen = algorithms()[spec.algorithm.name].with_costs_of(spec.algorithm.parameters)
    info, p = chosen.with_refinement(spec.effort), len(context.kinds)

    def most_units(rows: int) -> int:
        """The most units of so many rows that a block may hold."""
        if spec.blocks.max_records:
            return max(2 * spec.k, spec.blocks.max_records // rows)
        return default_max_records(info, p * rows, spec.k, survey.row_bytes * rows)

    unit_rows, which = np.unique(strata.rows_of_units(np.arange(len(strata.units))), return_inverse=True)
    most = np.array([most_units(rows) for rows in unit_rows.tolist()], dtype=np.int64)[which]
    oversize = np.flatnonzero(strata.units > most)
    trees: dict[int, Tree] = {}
    leaf_rows: dict[int, Ints] = {}
    if len(oversize):
        trees, leaf_rows = cut_strata(context, strata, survey, oversize, most, done)
    return plan_blocks(
        strata, trees, leaf_rows, info, p, spec.k, survey.row_bytes, most_units(1), context.schema.released_schema
    )


def task_bytes(plan: BlockPlan, info: AlgorithmInfo, p: int, k: int, row_bytes: float) -> int:
    """Estimate what the largest task of a plan needs for its rows."""
    rows = int(plan.rows_of_partitions().max(initial=0))
    load = Load(rows, row_bytes=row_bytes, block_bytes=plan.block_bytes(info, p, k))
    return max(ANONYMIZE.memory(load), plan.route_bytes())


def trial_survey(spec: ReleaseSpec, table: pa.Table) -> tuple[Disclosure, ...]:
    """Survey some rows, and find what a plan of them would be refused for; nothing is written."""
    schema = resolve_schema(spec, table.schema)
    rough = usable_moments(schema, table.slice(0, BATCH_ROWS))
    context = Context(spec, table.schema, (InputPart(0, ()),), rough)
    survey = PartSurvey(context)
    for start in range(0, table.num_rows, BATCH_ROWS):
        survey.add(PartBatch(table.slice(start, BATCH_ROWS), start))
    gathered = survey.confidential.gathered()
    looked = disclosures_of(context, gathered, survey.confidential.text_bytes, survey.looked_at) if gathered else ()
    return tuple(disclosure for disclosure in looked if disclosure.is_refused)
