"""Routing: what workers know once there is a plan (encoding, strata, blocks), and how records find their stratum."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.algorithms import algorithms
from microagg_core.blocking.memory import task_bytes
from microagg_core.blocking.plan import BlockPlan, plan_from_objects, plan_to_objects
from microagg_core.blocking.strata import SUPPRESSED, Strata, hash_keys
from microagg_core.kinds.encoding import Encoding
from microagg_core.plain import from_json, to_plain
from microagg_core.steps.pieces import Piece, Pieces
from microagg_core.steps.reading import PartBatch
from microagg_core.steps.survey import Survey, blocking_columns, missing_pattern
from microagg_core.steps.work import Context, Run, Task, load_context
from microagg_core.storage.layout import RunLayout
from microagg_core.storage.objects import canonical_json

Ints = NDArray[np.int64]
#: The parts of a plan that are no JSON, and their files.
_FILES = {"arrays": "arrays.npz", "labels": "labels.arrows"}


@dataclass(frozen=True)
class Planned:
    """A run's context with its survey and plan."""

    context: Context
    survey: Survey
    encoding: Encoding
    plan: BlockPlan

    @classmethod
    def of(cls, context: Context, survey: Survey, plan: BlockPlan) -> Planned:
        """Put together, with the whole file's standardization, and kinds that know all values."""
        surveyed = zip(context.kinds, survey.traits, survey.moments, strict=True)
        kinds = tuple(kind.for_input(traits, moments) for kind, traits, moments in surveyed)
        return cls(context, survey, Encoding.steady(kinds, survey.moments), plan)

    def task_bytes(self) -> int:
        """What the largest task of this plan needs for its rows."""
        spec = self.context.spec
        info = algorithms()[spec.algorithm.name].with_refinement(spec.effort)
        partitions, row_bytes = self.plan.rows_of_partitions(), self.survey.row_bytes
        return task_bytes(info, len(self.context.kinds), spec.k, self.plan.block_rows, partitions, row_bytes)


@dataclass(frozen=True)
class Routed:
    """A batch of records with the stratum of each (``SUPPRESSED``: withheld)."""

    table: pa.Table
    records: Ints
    stratum: Ints
    offsets: NDArray[np.float64]
    missing: NDArray[np.bool_]
    Z: NDArray[np.float64]

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which records are released."""
        kept: NDArray[np.bool_] = self.stratum != SUPPRESSED
        return kept


def route_batch(context: Context, encoding: Encoding, strata: Strata, batch: PartBatch) -> Routed:
    """Find the stratum of each record that takes part by the hash of its key."""
    table = batch.table
    offsets, missing = encoding.offsets([table[t.name] for t in context.kinds])
    hashes = hash_keys(blocking_columns(table, context), missing_pattern(missing), strata.hash_seed)
    Z = encoding.standardize(offsets, missing)
    return Routed(table, batch.records, strata.stratum_of(hashes), offsets, missing, Z)


def save_survey(run: Run, survey: Survey) -> Piece:
    """Write the survey where workers find it."""
    return run.put(run.layout.survey_result(), canonical_json(to_plain(survey)), "survey-result")


def save_plan(run: Run, plan: BlockPlan) -> tuple[Piece, ...]:
    """Write the plan where workers find it."""
    objects, values = plan_to_objects(plan)
    tables = [run.put(run.layout.plan_file(_FILES[name]), objects[name], "plan") for name in _FILES]
    return (*tables, run.put(run.layout.plan(), canonical_json(values), "plan"))


def load_survey(pieces: Pieces, layout: RunLayout) -> Survey:
    """The survey of this run."""
    return from_json(Survey, pieces.read(layout.survey_result()))


def load_planned(task: Task) -> Planned:
    """Survey and plan of the task's run, read once a process."""
    layout, pieces = task.layout, task.pieces
    names = (layout.survey_result(), *(layout.plan_file(file) for file in _FILES.values()), layout.plan())
    survey, plan = _cached(task.run, tuple(pieces.piece(name) for name in names))
    return Planned.of(load_context(task.run, task.reads), survey, plan)


@lru_cache(maxsize=2)
def _cached(run: Run, planned: tuple[Piece, ...]) -> tuple[Survey, BlockPlan]:
    pieces, layout = run.pieces(planned), run.layout
    objects = {name: pieces.read(layout.plan_file(file)) for name, file in _FILES.items()}
    return load_survey(pieces, layout), plan_from_objects(objects, json.loads(pieces.read(layout.plan())))
