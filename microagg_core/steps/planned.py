"""What workers know once there is a plan: encoding, strata, blocks; and how a batch of records finds its block."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.blocking.plan import BlockPlan, plan_from_objects, plan_to_objects
from microagg_core.blocking.strata import SUPPRESSED, Strata, hash_keys
from microagg_core.encoding import Encoding
from microagg_core.errors import StorageError
from microagg_core.steps.survey import Survey, blocking_columns, missing_pattern
from microagg_core.steps.work import Context, Task, load_context
from microagg_core.storage.layout import RunLayout
from microagg_core.storage.objects import Store

Ints = NDArray[np.int64]
_TABLES = ("arrays", "labels")


@dataclass(frozen=True)
class Planned:
    """A run's context with its survey and plan."""

    context: Context
    survey: Survey
    encoding: Encoding
    plan: BlockPlan

    @classmethod
    def of(cls, context: Context, survey: Survey, plan: BlockPlan) -> Planned:
        """Put together, with the whole file's standardization, and the decimals that its floats are released with."""
        decimals = zip(context.types, survey.decimals, strict=True)
        types = tuple(kind.for_input(needed) for kind, needed in decimals)
        return cls(context, survey, Encoding.steady(types, survey.moments), plan)


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


def route_batch(context: Context, encoding: Encoding, strata: Strata, table: pa.Table, first_record: int) -> Routed:
    """Find each record's stratum by the hash of its key."""
    offsets, missing = encoding.offsets([table[t.name] for t in context.types])
    hashes = hash_keys(blocking_columns(table, context), missing_pattern(missing), strata.hash_seed)
    records = np.arange(first_record, first_record + table.num_rows)
    return Routed(table, records, strata.stratum_of(hashes), offsets, missing, encoding.standardize(offsets, missing))


def save_survey(work: Store, layout: RunLayout, survey: Survey) -> None:
    """Write the survey where workers find it."""
    work.put_json(layout.survey_result(), survey.to_json())


def save_plan(work: Store, layout: RunLayout, plan: BlockPlan) -> None:
    """Write the plan; the JSON comes last, so that it stands for the whole."""
    objects, values = plan_to_objects(plan)
    for name in _TABLES:
        work.put(layout.plan_table(name), objects[name])
    work.put_json(layout.plan(), values)


def load_survey(work: Store, layout: RunLayout) -> Survey:
    """The survey of this run."""
    return Survey.from_json(work.read_json(layout.survey_result()))


def load_plan(work: Store, layout: RunLayout) -> BlockPlan:
    """The plan of this run.

    Raises:
        StorageError: it is not there, or not what was written.
    """
    objects = {name: work.read(layout.plan_table(name)) for name in _TABLES}
    try:
        return plan_from_objects(objects, work.read_json(layout.plan()))
    except (BadZipFile, pa.ArrowException, OSError, ValueError, LookupError):
        raise StorageError(
            "the plan in the work area is damaged; run microagg clean and start the release again"
        ) from None


def load_planned(task: Task) -> Planned:
    """Survey and plan of the task's run, read once a process."""
    context = load_context(task)
    survey, plan = _cached(task.work.url, json.dumps(task.work.storage_options, sort_keys=True), task.key)
    return Planned.of(context, survey, plan)


@lru_cache(maxsize=2)
def _cached(url: str, options: str, key: str) -> tuple[Survey, BlockPlan]:
    work, layout = Store(url, json.loads(options)), RunLayout(key)
    return load_survey(work, layout), load_plan(work, layout)
