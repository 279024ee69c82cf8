"""Strata that are too large for one block: a sample of each is cut at medians.

The survey has drawn a sample of all records. Where it has enough of a stratum, it is cut by that and the records of its
leaves are estimated; a leaf has at least k sampled ones, and so at least k. Where it has too few, another sample is
drawn in one more pass over the input; if that was not the whole, one pass more counts every leaf exactly, and leaves
below k go back to their siblings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Floats, Ints
from microagg_core.blocks.cuts import (
    Tree,
    count_leaves,
    give_back_small,
    grow,
    route,
    tree_from_plain,
    tree_to_plain,
    with_record_numbers,
)
from microagg_core.blocks.routes import Routes
from microagg_core.blocks.strata import Strata
from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.plain import from_plain, to_plain
from microagg_core.release.steps.pieces import Piece, Pieces
from microagg_core.release.steps.reading import PartBatch, records_of_part
from microagg_core.release.steps.routing import route_batch
from microagg_core.release.steps.sampling import Drawn, sample_name, uniform
from microagg_core.release.steps.survey import Survey
from microagg_core.release.steps.work import Context, Receipt, Run, Task, load_context
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import RunLayout

#: Records of one stratum that its cuts are grown on in a pass of their own, and of all strata together.
_SAMPLE_ROWS, _ALL_SAMPLES = 200_000, 4_000_000
#: A sampled leaf aims below the limit, so that the exact count rarely exceeds it.
_SAMPLE_MARGIN = 0.9
#: The survey's sample is enough if a full block has so many of its records: halves of it then are off by a deviation of
#: 1.8 %, and the margin is five of these.
_ENOUGH = 3_000
#: Samples of parts, of a megabyte or so, that are read at once.
_PARTS_AT_ONCE = 32

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
    #: What the survey has written.
    surveyed: Pieces
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


# --- The flow's half: by the survey's sample ---------------------------------------------------------------------


def cut_strata(
    context: Context, strata: Strata, survey: Survey, oversize: Ints, limit: int, passes: Passes
) -> tuple[dict[int, Tree], dict[int, Ints]]:
    """Cuts of these strata, and the records of their leaves: exact where the sample was the whole stratum."""
    spec, trees, leaf_rows = context.spec, dict[int, Tree](), dict[int, Ints]()
    rate, samples = surveyed_samples(context, strata, survey, oversize, read_samples(passes))
    for number in oversize.tolist():
        rows, Z = int(strata.rows[number]), samples.get(number)
        if Z is not None and (rate == 1.0 or len(Z) * limit >= _ENOUGH * rows):
            trees[number], leaf_rows[number] = _sampled_cut(Z, rows, limit, spec.k)
    rest = np.array([number for number in oversize.tolist() if number not in trees], dtype=np.int64)
    if len(rest):
        more_trees, more_rows = _cut_by_passes(spec, strata, survey, rest, limit, passes)
        trees, leaf_rows = trees | more_trees, leaf_rows | more_rows
    return trees, leaf_rows


def _sampled_cut(Z: Floats, rows: int, limit: int, k: int) -> tuple[Tree, Ints]:
    """The cuts of a stratum of so many records by a sample of it, and the records of its leaves."""
    whole = len(Z) == rows
    most = limit if whole else limit * len(Z) / rows * _SAMPLE_MARGIN
    tree = grow(Z, most, k)
    return tree, _shared_out(np.bincount(route(tree, Z), minlength=count_leaves(tree)), rows)


def _shared_out(sampled: Ints, rows: int) -> Ints:
    """So many records in the proportions of a sample, whole numbers that add up.

    >>> _shared_out(np.array([1, 1, 1]), 10).tolist()
    [3, 3, 4]
    """
    ends = np.cumsum(sampled) * rows // int(sampled.sum())
    return np.diff(ends, prepend=0)


def surveyed_samples(
    context: Context, strata: Strata, survey: Survey, oversize: Ints, parts: Iterable[tuple[int, Drawn]]
) -> tuple[float, dict[int, Floats]]:
    """Find the rate at which the survey drew, and what it drew of each of these strata, in the order of records."""
    encoding, routes = survey.encoding(context.kinds), _routes_to(strata, oversize)
    drawn: list[tuple[Floats, Ints, Floats]] = []
    rate = 1.0
    for part, sample in parts:
        rate = min(rate, sample.limit)
        records = PartBatch(sample.table, 0)
        routed = route_batch(context, encoding, routes, strata.hash_seed, records, all_known=False)
        mine = (routed.stratum >= 0) & (sample.draws < rate)
        numbers = survey.first_record(part) + sample.positions[mine]
        drawn.append((sample.draws[mine], routed.stratum[mine], with_record_numbers(routed.points[mine], numbers)))
    if not drawn:
        return rate, {}
    draws, stratum, Z = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
    kept = np.flatnonzero(draws < rate)
    kept = kept[np.argsort(stratum[kept], kind="stable")]
    numbers, starts = np.unique(stratum[kept], return_index=True)
    return rate, dict(zip(numbers.tolist(), np.split(Z[kept], starts[1:]), strict=True)) if len(kept) else {}


def read_samples(passes: Passes) -> Iterator[tuple[int, Drawn]]:
    """Read the survey's samples of all parts that have one, some at a time."""
    names = [(part, sample_name(passes.layout, part)) for part in range(passes.n_parts)]
    there = [(part, name) for part, name in names if passes.surveyed.has(name)]
    for first in range(0, len(there), _PARTS_AT_ONCE):
        some = there[first : first + _PARTS_AT_ONCE]
        for (part, _), data in zip(some, passes.surveyed.read_all(name for _, name in some), strict=True):
            yield part, Drawn.read(data)


# --- The flow's half: by passes of their own ---------------------------------------------------------------------


def _cut_by_passes(
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
    encoding = oversize.survey.encoding(context.kinds)
    most = max(oversize.rates, default=0) + 2
    rates = np.zeros(most)
    rates[list(oversize.rates)] = list(oversize.rates.values())
    first, strata, values = oversize.survey.first_record(task.number), [], []
    for batch in records_of_part(task, context, task.number, first, context.schema.travelling):
        routed = route_batch(context, encoding, oversize.routes, oversize.hash_seed, batch, all_known=False)
        rate = rates[np.where((routed.stratum >= 0) & (routed.stratum < most), routed.stratum, most - 1)]
        drawn = uniform(routed.records, context.spec.seed) < rate
        strata.append(routed.stratum[drawn])
        values.append(with_record_numbers(routed.points[drawn], routed.records[drawn]))
    Z = np.concatenate(values) if values else np.empty((0, len(context.kinds) + 1))
    columns: dict[str, NDArray[Any]] = {"stratum": np.concatenate(strata) if strata else np.empty(0, dtype=np.int64)}
    columns |= {f"z{j}": Z[:, j] for j in range(Z.shape[1])}
    piece = task.put(task.layout.plan_file(_sample_file(task.number)), to_bytes(pa.table(columns)))
    return Receipt(task.step, task.number, len(Z), (piece,))


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
    encoding = oversize.survey.encoding(context.kinds)
    counts: dict[int, Ints] = {s: np.zeros(count_leaves(tree), dtype=np.int64) for s, tree in oversize.trees.items()}
    first, rows = oversize.survey.first_record(part), 0
    for batch in records_of_part(task, context, part, first, context.schema.travelling):
        routed = route_batch(context, encoding, oversize.routes, oversize.hash_seed, batch, all_known=False)
        rows += batch.table.num_rows
        for number, tree in oversize.trees.items():
            mine = routed.stratum == number
            if mine.any():
                leaf = route(tree, with_record_numbers(routed.points[mine], routed.records[mine]))
                counts[number] += np.bincount(leaf, minlength=len(counts[number]))
    value = {str(s): c.tolist() for s, c in counts.items()}
    piece = task.put(task.layout.plan_file(_counts_file(task.number)), json.dumps(value).encode())
    return Receipt(task.step, task.number, rows, (piece,))


def _read_counts(counted: Pieces, passes: Passes, round_number: int, trees: dict[int, Tree]) -> dict[int, Ints]:
    names = (passes.layout.plan_file(_counts_file(number)) for number in passes.numbers(round_number))
    parts = [json.loads(data) for data in counted.read_all(names)]
    return {s: np.sum([np.array(p[str(s)]) for p in parts], axis=0) for s in trees}
