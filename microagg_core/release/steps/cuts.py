"""Strata that are too large for one block: a sample of each is cut at medians.

The survey has drawn a sample of all records. Where it has enough of a stratum, it is cut by that and the records of its
leaves are estimated; a leaf has at least k sampled ones, and so at least k. Where it has too few, another sample is
drawn in one more pass over the input; if that was not the whole, one pass more counts every leaf exactly, and leaves
below k go back to their siblings. So it is wherever rows of a unit may be in several leaves, as each needs k units.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
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
    with_record_numbers,
)
from microagg_core.blocks.routes import Routes
from microagg_core.blocks.strata import Strata
from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.plain import from_plain, to_plain
from microagg_core.release.context import CONTEXT, Context
from microagg_core.release.planned import Routed, route_batch
from microagg_core.release.records import MARKS, MEMBERS, TOGETHER, PartBatch, records_of_part
from microagg_core.release.step import JsonOutput, Output, Pieces, Step, TableOutput, Work
from microagg_core.release.steps.sampling import SAMPLE, Drawn, uniform
from microagg_core.release.steps.survey import Survey
from microagg_core.release.wiring import StepsDone

#: Records of one stratum that its cuts are grown on in a pass of their own, and of all strata together.
_SAMPLE_ROWS, _ALL_SAMPLES = 200_000, 4_000_000
#: A sampled leaf aims below the limit, so that the exact count rarely exceeds it.
_SAMPLE_MARGIN = 0.9
#: The survey's sample is enough if a full block has so many of its records: halves of it then are off by a deviation of
#: 1.8 %, and the margin is five of these.
_ENOUGH = 3_000


@dataclass(frozen=True)
class Oversize:
    """The strata to be cut, as every worker of the sampling and counting passes needs them."""

    hash_seed: int
    #: Of their keys alone.
    routes: Routes
    survey: Survey
    rates: dict[int, float]
    trees: dict[int, Tree]


def _encode(oversize: Oversize) -> bytes:
    value = {
        "hash_seed": oversize.hash_seed,
        "survey": to_plain(oversize.survey),
        "rates": {str(s): rate for s, rate in oversize.rates.items()},
        "trees": to_plain(oversize.trees, kind=dict[int, Tree]),
    }
    return json.dumps(value).encode() + b"\n" + to_bytes(oversize.routes.to_table())


def _decode(data: bytes) -> Oversize:
    line, _, routes = data.partition(b"\n")
    value = json.loads(line)
    trees = from_plain(dict[int, Tree], value["trees"])
    rates = {int(s): float(rate) for s, rate in value["rates"].items()}
    survey = from_plain(Survey, value["survey"])
    return Oversize(value["hash_seed"], Routes.from_table(read_slice(routes)), survey, rates, trees)


OVERSIZE = Output("oversize", _encode, _decode, "oversize")
#: The sample of the strata to be cut that an input part has; and how many of its records each leaf has, and of how many
#: units, which all lie in one part.
STRATA_SAMPLE, LEAF_COUNTS = TableOutput("strata-sample"), JsonOutput("leaf-counts", dict[str, list[list[int]]])


def cut_strata(
    context: Context, strata: Strata, survey: Survey, oversize: Ints, limits: Ints, done: StepsDone
) -> tuple[dict[int, Tree], dict[int, Ints]]:
    """Cuts of these strata to at most so many units each, and the units of their leaves: exact where all were drawn."""
    trees, leaf_rows, least = dict[int, Tree](), dict[int, Ints](), least_of_leaves(strata, context.spec.k)
    rate, samples = surveyed_samples(context, strata, survey, oversize, read_samples(done))
    for number in oversize.tolist():
        rows, limit, Z = int(strata.units[number]), int(limits[number]), samples.get(number)
        if Z is not None and (rate == 1.0 or len(Z) * limit >= _ENOUGH * rows):
            trees[number], leaf_rows[number] = _sampled_cut(Z, rows, limit, int(least[number]))
    rest = np.array([number for number in oversize.tolist() if number not in trees], dtype=np.int64)
    if len(rest):
        more_trees, more_rows = _cut_by_passes(context, least, strata, survey, rest, limits, done)
        trees, leaf_rows = trees | more_trees, leaf_rows | more_rows
    return trees, leaf_rows


def least_of_leaves(strata: Strata, k: int) -> Ints:
    """Find the least records of a leaf of each stratum: k, and those that move from its last leaf to other strata."""
    least = np.full(len(strata.units), k)
    for move in strata.moves:
        least[move.source] += move.rows
    return least


def _sampled_cut(Z: Floats, rows: int, limit: int, least: int) -> tuple[Tree, Ints]:
    """Cut a stratum of so many records by a sample of it; returns the records of its leaves, too."""
    whole = len(Z) == rows
    most = limit if whole else limit * len(Z) / rows * _SAMPLE_MARGIN
    tree = grow(Z, most, least)
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


def read_samples(done: StepsDone) -> Iterator[tuple[int, Drawn]]:
    """Read the survey's samples of all parts that have one, some at a time."""
    for piece, table in done.written(SAMPLE).each(SAMPLE):
        yield piece.number, Drawn.of(table)


def _cut_by_passes(
    context: Context, least: Ints, strata: Strata, survey: Survey, oversize: Ints, limits: Ints, done: StepsDone
) -> tuple[dict[int, Tree], dict[int, Ints]]:
    budget = min(_SAMPLE_ROWS, max(1000, _ALL_SAMPLES // len(oversize)))
    rates = {int(s): min(1.0, budget / int(strata.units[s])) for s in oversize}
    routes = _routes_to(strata, oversize)
    done.know(OVERSIZE, Oversize(strata.hash_seed, routes, survey, rates, {}))
    done.do(SAMPLE_STRATA)
    samples = _read_samples(done.written(STRATA_SAMPLE), rates)
    trees, leaf_rows = dict[int, Tree](), dict[int, Ints]()
    for number, Z in samples.items():
        rate = len(Z) / int(strata.units[number])
        margin = 1.0 if rates[number] == 1.0 else _SAMPLE_MARGIN
        trees[number] = grow(Z, int(limits[number]) * rate * margin, max(1, int(np.ceil(least[number] * rate))))
        if rates[number] == 1.0 and not context.spec.parts_units:
            leaf_rows[number] = np.bincount(route(trees[number], Z), minlength=count_leaves(trees[number]))
    return _exact_leaves(least, Oversize(strata.hash_seed, routes, survey, rates, trees), leaf_rows, done)


def _routes_to(strata: Strata, oversize: Ints) -> Routes:
    mine = np.isin(strata.stratum_of_hash, oversize)
    stratum = strata.stratum_of_hash[mine]
    return Routes(strata.key_hashes[mine], stratum, np.zeros_like(stratum), pa.table({}))


def _exact_leaves(
    least: Ints, oversize: Oversize, leaf_rows: dict[int, Ints], done: StepsDone
) -> tuple[dict[int, Tree], dict[int, Ints]]:
    """Count the leaves of sampled trees over all records, until each has as many units as it has to have."""
    trees, round_number = dict(oversize.trees), 0
    while any(s not in leaf_rows for s in trees):
        round_number += 1
        uncounted = {s: tree for s, tree in trees.items() if s not in leaf_rows}
        done.know(OVERSIZE, replace(oversize, rates={}, trees=uncounted), number=round_number)
        receipts = done.do(COUNT_LEAVES, round_number=round_number)
        counted = Pieces(done.run, (piece for receipt in receipts for piece in receipt.pieces)).read_all(LEAF_COUNTS)
        for number in uncounted:
            rows, units = np.sum([np.array(part[str(number)]) for part in counted], axis=0)
            if units.min() >= least[number] or count_leaves(trees[number]) == 1:
                leaf_rows[number] = rows
            else:
                trees[number] = give_back_small(trees[number], units, int(least[number]))
    return trees, leaf_rows


def _routed_batches(work: Work, context: Context, oversize: Oversize, part: int) -> Iterator[Routed]:
    """Read an input part, and find which of its records are in strata to be cut."""
    encoding, first = oversize.survey.encoding(context.kinds), oversize.survey.first_record(part)
    for batch in records_of_part(work, context, part, first, context.schema.travelling):
        yield route_batch(context, encoding, oversize.routes, oversize.hash_seed, batch, all_known=False)


def sample_part(work: Work) -> int:
    """Draw the sample of the strata to be cut from one input part; the draw is a hash of the record number."""
    context, oversize = work.load(CONTEXT), work.read(OVERSIZE)
    most = max(oversize.rates, default=0) + 2
    rates = np.zeros(most)
    rates[list(oversize.rates)] = list(oversize.rates.values())
    strata, values = [], []
    for routed in _routed_batches(work, context, oversize, work.number):
        rate = rates[np.where((routed.stratum >= 0) & (routed.stratum < most), routed.stratum, most - 1)]
        drawn = (uniform(routed.records, context.spec.seed) < rate) & routed.counts
        strata.append(routed.stratum[drawn])
        values.append(with_record_numbers(routed.points[drawn], routed.units[drawn]))
    Z = np.concatenate(values) if values else np.empty((0, len(context.kinds) + 1))
    columns: dict[str, NDArray[Any]] = {"stratum": np.concatenate(strata) if strata else np.empty(0, dtype=np.int64)}
    columns |= {f"z{j}": Z[:, j] for j in range(Z.shape[1])}
    work.write(STRATA_SAMPLE, pa.table(columns))
    return len(Z)


def _read_samples(drawn: Pieces, rates: dict[int, float]) -> dict[int, NDArray[np.float64]]:
    tables = drawn.read_all(STRATA_SAMPLE)
    table = pa.concat_tables(tables)
    stratum = np.asarray(table["stratum"])
    Z = np.column_stack([np.asarray(c) for c in table.columns[1:]])
    order = np.argsort(stratum, kind="stable")
    bounds = np.searchsorted(stratum[order], [[s, s + 1] for s in rates])
    return {s: Z[order[a:b]] for s, (a, b) in zip(rates, bounds.tolist(), strict=True)}


def count_part(work: Work) -> int:
    """Count the records of every leaf of the trees in one input part; rounds of counting are numbered on."""
    context, oversize = work.load(CONTEXT), work.read(OVERSIZE)
    rows = 0
    counts = {s: np.zeros((2, count_leaves(tree)), dtype=np.int64) for s, tree in oversize.trees.items()}
    for routed in _routed_batches(work, context, oversize, work.number % len(context.parts)):
        rows += routed.table.num_rows
        for number, tree in oversize.trees.items():
            mine = (routed.stratum == number) & routed.counts
            if mine.any():
                units, n_leaves = routed.units[mine], len(counts[number][0])
                leaf = route(tree, with_record_numbers(routed.points[mine], units))
                of_rows = np.bincount(leaf, minlength=n_leaves)
                counts[number] += [
                    of_rows,
                    _units_of_leaves(leaf, units, n_leaves) if context.spec.parts_units else of_rows,
                ]
    work.write(LEAF_COUNTS, {str(s): c.tolist() for s, c in counts.items()})
    return rows


def _units_of_leaves(leaf: Ints, units: Ints, n_leaves: int) -> Ints:
    """Count the units that have rows in each leaf.

    >>> _units_of_leaves(np.array([0, 0, 1, 0]), np.array([7, 7, 7, 9]), 3).tolist()
    [2, 1, 0]
    """
    return np.bincount(np.unique(units * n_leaves + leaf) % n_leaves, minlength=n_leaves)


SAMPLE_STRATA = Step(
    name="sample",
    stage="plan",
    per="part",
    does=sample_part,
    reads_input=True,
    knows=(CONTEXT, OVERSIZE),
    same=(MARKS, TOGETHER, MEMBERS),
    writes=(STRATA_SAMPLE,),
)
COUNT_LEAVES = Step(
    name="count",
    stage="plan",
    per="part",
    does=count_part,
    reads_input=True,
    knows=(CONTEXT, OVERSIZE),
    same=(MARKS, TOGETHER, MEMBERS),
    writes=(LEAF_COUNTS,),
)
