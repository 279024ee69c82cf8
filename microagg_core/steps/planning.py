"""Plan: strata from keys, cuts for blocks that are too large, partitions; and what looks unwise.

Where a stratum is above ``max_records``, a sample of it is drawn in one more pass over the input and cut at medians; if
the sample was not the whole, another pass counts every leaf exactly, and leaves below k go back to their siblings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.algorithms import algorithms
from microagg_core.blocking.cuts import (
    Tree,
    count_leaves,
    give_back_small,
    grow,
    route,
    tree_from_plain,
    tree_to_plain,
    with_record_numbers,
)
from microagg_core.blocking.holding import Holding
from microagg_core.blocking.plan import BlockPlan, default_max_records, plan_blocks
from microagg_core.blocking.routes import Routes
from microagg_core.blocking.strata import Strata, plan_strata
from microagg_core.errors import DataError
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.kinds.encoding import Encoding
from microagg_core.plain import from_plain, to_plain
from microagg_core.spec.release import ReleaseSpec
from microagg_core.steps.pieces import Piece, Pieces
from microagg_core.steps.reading import records_of_part
from microagg_core.steps.routing import route_batch
from microagg_core.steps.survey import Survey
from microagg_core.steps.work import Context, Receipt, Run, Task, load_context
from microagg_core.storage.layout import RunLayout
from microagg_core.tables.slices import read_slice, to_bytes

Ints = NDArray[np.int64]

#: Records of one stratum that its cuts are grown on, and of all strata together.
_SAMPLE_ROWS, _ALL_SAMPLES = 200_000, 4_000_000
#: A sampled leaf aims below the limit, so that the exact count rarely exceeds it.
_SAMPLE_MARGIN = 0.9

RunTasks = Callable[[Sequence[Task]], Sequence[Receipt]]


@dataclass(frozen=True)
class Passes:
    """Extra passes over the input: in which run, who does the tasks, and what every worker of the run needs.

    A pass has a task for each part; those of round r are numbered from r times the number of parts.
    """

    run: Run
    run_tasks: RunTasks
    reads: tuple[Piece, ...]
    n_parts: int
    #: For each part, what its records are in a series; empty where all take part.
    marks: tuple[Piece, ...] = ()

    @property
    def layout(self) -> RunLayout:
        """Names of the run's objects."""
        return self.run.layout

    def numbers(self, round_number: int) -> range:
        """The numbers of a round's tasks."""
        return range(round_number * self.n_parts, (round_number + 1) * self.n_parts)

    def do(self, step: str, oversize: Oversize, round_number: int) -> Pieces:
        """One pass; what its tasks wrote."""
        reads = (*self.reads, *_save_oversize(self.run, oversize, round_number))
        marks = [self.marks[part : part + 1] for part in range(self.n_parts)]
        numbered = zip(self.numbers(round_number), marks, strict=True)
        tasks = [Task(step, number, self.run, reads=(*reads, *of_part)) for number, of_part in numbered]
        return self.run.pieces(piece for receipt in self.run_tasks(tasks) for piece in receipt.pieces)


@dataclass(frozen=True)
class Oversize:
    """The strata to be cut, as every worker of the sampling and counting passes needs them."""

    hash_seed: int
    #: Of their keys alone.
    routes: Routes
    survey: Survey
    rates: dict[int, float]
    trees: dict[int, Tree]


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
        trees, leaf_rows = _cut(spec, strata, survey, oversize, limit, passes)
    return plan_blocks(
        strata, trees, leaf_rows, info, p, spec.k, survey.row_bytes, limit, context.schema.released_schema
    )


def _cut(
    spec: ReleaseSpec,
    strata: Strata,
    survey: Survey,
    oversize: Ints,
    limit: int,
    passes: Passes,
) -> tuple[dict[int, Tree], dict[int, Ints]]:
    budget = min(_SAMPLE_ROWS, max(1000, _ALL_SAMPLES // len(oversize)))
    rates = {int(s): min(1.0, budget / int(strata.rows[s])) for s in oversize}
    routes = _routes_to(strata, oversize)
    drawn = passes.do("sample", Oversize(strata.hash_seed, routes, survey, rates, {}), 0)
    samples = _read_samples(drawn, passes, rates)
    trees: dict[int, Tree] = {}
    leaf_rows: dict[int, Ints] = {}
    for number, Z in samples.items():
        rate = len(Z) / int(strata.rows[number])
        margin = 1.0 if rates[number] == 1.0 else _SAMPLE_MARGIN
        trees[number] = grow(Z, limit * rate * margin, max(1, int(np.ceil(spec.k * rate))))
        if rates[number] == 1.0:
            leaf_rows[number] = np.bincount(route(trees[number], Z), minlength=count_leaves(trees[number]))
    return _exact_leaves(spec.k, Oversize(strata.hash_seed, routes, survey, rates, trees), leaf_rows, passes)


def _routes_to(strata: Strata, oversize: Ints) -> Routes:
    """The keys that go to these strata."""
    mine = np.isin(strata.stratum_of_hash, oversize)
    stratum = strata.stratum_of_hash[mine]
    return Routes(strata.key_hashes[mine], stratum, np.zeros_like(stratum), pa.table({}))


def _exact_leaves(
    k: int,
    oversize: Oversize,
    leaf_rows: dict[int, Ints],
    passes: Passes,
) -> tuple[dict[int, Tree], dict[int, Ints]]:
    """Count the leaves of sampled trees over all records, until none is below k."""
    trees, round_number = dict(oversize.trees), 0
    while any(s not in leaf_rows for s in trees):
        round_number += 1
        uncounted = {s: tree for s, tree in trees.items() if s not in leaf_rows}
        counting = replace(oversize, rates={}, trees=uncounted)
        counts = _read_counts(passes.do("count", counting, round_number), passes, round_number, uncounted)
        for number, rows in counts.items():
            if rows.min() >= k or count_leaves(trees[number]) == 1:
                leaf_rows[number] = rows
            else:
                trees[number] = give_back_small(trees[number], rows, k)
    return trees, leaf_rows


def _save_oversize(run: Run, oversize: Oversize, round_number: int) -> tuple[Piece, ...]:
    """Write what the workers of a sampling or counting pass need."""
    layout = run.layout
    value = {
        "hash_seed": oversize.hash_seed,
        "survey": to_plain(oversize.survey),
        "rates": {str(s): rate for s, rate in oversize.rates.items()},
        "trees": {str(s): tree_to_plain(tree) for s, tree in oversize.trees.items()},
    }
    objects = {
        f"keys-{round_number}.arrows": to_bytes(oversize.routes.to_table()),
        f"oversize-{round_number}.json": json.dumps(value).encode(),
    }
    return tuple(run.put(layout.plan_file(name), data, "oversize", round_number) for name, data in objects.items())


def _load_oversize(task: Task, round_number: int) -> Oversize:
    value = json.loads(task.pieces.read(task.layout.plan_file(f"oversize-{round_number}.json")))
    keys = read_slice(task.pieces.read(task.layout.plan_file(f"keys-{round_number}.arrows")))
    trees = {int(s): tree_from_plain(tree) for s, tree in value["trees"].items()}
    rates = {int(s): float(rate) for s, rate in value["rates"].items()}
    survey = from_plain(Survey, value["survey"])
    return Oversize(value["hash_seed"], Routes.from_table(keys), survey, rates, trees)


def sample_part(task: Task) -> Receipt:
    """Draw the sample of the strata to be cut from one input part; the draw is a hash of the record number."""
    context = load_context(task.run, task.reads)
    oversize = _load_oversize(task, 0)
    encoding = Encoding.steady(context.kinds, oversize.survey.moments)
    most = max(oversize.rates, default=0) + 2
    rates = np.zeros(most)
    rates[list(oversize.rates)] = list(oversize.rates.values())
    first, strata, values = oversize.survey.first_record(task.number), [], []
    for batch in records_of_part(task, context, task.number, first, context.schema.travelling):
        routed = route_batch(context, encoding, oversize.routes, oversize.hash_seed, batch, all_known=False)
        rate = rates[np.where((routed.stratum >= 0) & (routed.stratum < most), routed.stratum, most - 1)]
        drawn = _uniform(routed.records, context.spec.seed) < rate
        strata.append(routed.stratum[drawn])
        values.append(with_record_numbers(routed.Z[drawn], routed.records[drawn]))
    Z = np.concatenate(values) if values else np.empty((0, len(context.kinds) + 1))
    columns: dict[str, NDArray[Any]] = {"stratum": np.concatenate(strata) if strata else np.empty(0, dtype=np.int64)}
    columns |= {f"z{j}": Z[:, j] for j in range(Z.shape[1])}
    piece = task.put(task.layout.plan_file(_sample_file(task.number)), to_bytes(pa.table(columns)))
    return Receipt(task.step, task.number, len(Z), (piece,))


def _uniform(records: Ints, seed: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each record, fixed by the record number and the seed."""
    salted = records.astype(np.uint64) ^ np.uint64((seed * 0x9E3779B97F4A7C15 + 1) % 2**63)
    return (mix_words(salted) >> np.uint64(11)).astype(np.float64) / 2.0**53


def _sample_file(number: int) -> str:
    return f"sample-{number:05d}.arrows"


def _counts_file(number: int) -> str:
    return f"count-{number:05d}.json"


def _read_samples(drawn: Pieces, passes: Passes, rates: dict[int, float]) -> dict[int, NDArray[np.float64]]:
    names = (passes.layout.plan_file(_sample_file(number)) for number in passes.numbers(0))
    tables = [read_slice(data) for data in drawn.read_all(names)]
    table = pa.concat_tables(tables)
    stratum = np.asarray(table["stratum"])
    Z = np.column_stack([np.asarray(c) for c in table.columns[1:]])
    order = np.argsort(stratum, kind="stable")
    bounds = np.searchsorted(stratum[order], [[s, s + 1] for s in rates])
    return {s: Z[order[a:b]] for s, (a, b) in zip(rates, bounds.tolist(), strict=True)}


def count_part(task: Task) -> Receipt:
    """Count the records of every leaf of the trees in one input part."""
    context = load_context(task.run, task.reads)
    round_number, part = divmod(task.number, len(context.parts))
    oversize = _load_oversize(task, round_number)
    encoding = Encoding.steady(context.kinds, oversize.survey.moments)
    counts: dict[int, Ints] = {s: np.zeros(count_leaves(tree), dtype=np.int64) for s, tree in oversize.trees.items()}
    first, rows = oversize.survey.first_record(part), 0
    for batch in records_of_part(task, context, part, first, context.schema.travelling):
        routed = route_batch(context, encoding, oversize.routes, oversize.hash_seed, batch, all_known=False)
        rows += batch.table.num_rows
        for number, tree in oversize.trees.items():
            mine = routed.stratum == number
            if mine.any():
                leaf = route(tree, with_record_numbers(routed.Z[mine], routed.records[mine]))
                counts[number] += np.bincount(leaf, minlength=len(counts[number]))
    value = {str(s): c.tolist() for s, c in counts.items()}
    piece = task.put(task.layout.plan_file(_counts_file(task.number)), json.dumps(value).encode())
    return Receipt(task.step, task.number, rows, (piece,))


def _read_counts(counted: Pieces, passes: Passes, round_number: int, trees: dict[int, Tree]) -> dict[int, Ints]:
    names = (passes.layout.plan_file(_counts_file(number)) for number in passes.numbers(round_number))
    parts = [json.loads(data) for data in counted.read_all(names)]
    return {s: np.sum([np.array(p[str(s)]) for p in parts], axis=0) for s in trees}
