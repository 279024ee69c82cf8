"""The gate: what would be published, re-read from its files and compared with the input, re-read from its own.

It knows nothing of groups. From the files it recounts combinations, columns, types, nulls and means; from the input
it learns what should be there: each record's blocking and confidential values, hashed together with the private
record number, must add up to the same sum on both sides; and no quasi-identifier may lie outside the range that it has
in the input among the records that share its released combination. Any difference stops the release.

The input is read first. Its quasi-identifiers go, by record number, to the file in which the record should be, and the
file is read with what came of the input beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.errors import GateError
from microagg_core.formats.reading import read_part
from microagg_core.formats.released_files import EXTENSIONS, from_file_bytes
from microagg_core.kinds.encoding import QuasiType, quasi_type
from microagg_core.metrics.moments import EMPTY, Moments, merge, merge_all, moments_of
from microagg_core.privacy.group_ranges import input_of, outside_ranges
from microagg_core.privacy.kanonymity import CombinationCounter
from microagg_core.spec.columns import FileSchema
from microagg_core.steps.assembling import released_form
from microagg_core.steps.pieces import Pieces
from microagg_core.steps.planned import Planned, Routed, load_planned, route_batch
from microagg_core.steps.staging import Scatter, read_gathered, refuse_changed
from microagg_core.steps.survey import Fingerprint, Survey
from microagg_core.steps.work import Context, Receipt, Task, put_piece
from microagg_core.storage.layout import RunLayout
from microagg_core.tables.hashing import hash_rows, one_array
from microagg_core.tables.slices import read_slice, to_bytes

_SEEDS = (11, 13)


@dataclass(frozen=True)
class Check:
    """One thing the gate looked at; ``detail`` holds counts and column names, never values."""

    name: str
    passed: bool
    detail: str


# --- What one worker looks at --------------------------------------------------------------------------------


class _Side:
    """What is summed over records on either side: values by record number, nulls, moments, rows."""

    def __init__(self, schema: FileSchema, survey: Survey) -> None:
        self.kept = [c.name for c in schema.released if c.role != "quasi_identifiers"]
        self.names = [c.name for c in schema.released]
        self.survey = survey
        self.rows = 0
        self.nulls = dict.fromkeys(self.names, 0)
        n_parts = len(survey.rows_of_parts)
        self.sums = np.zeros((n_parts, len(_SEEDS)), dtype=np.uint64)
        self.counts = np.zeros(n_parts, dtype=np.int64)

    def add(self, table: pa.Table, records: NDArray[np.int64]) -> None:
        """Account for released rows (with their record numbers)."""
        self.rows += table.num_rows
        for name in self.names:
            self.nulls[name] += table[name].null_count
        part = self.survey.parts_of(records)
        self.counts += np.bincount(part, minlength=len(self.counts))
        columns = [pa.array(records), *(table[name] for name in self.kept)]
        for i, seed in enumerate(_SEEDS):
            np.add.at(self.sums[:, i], part, hash_rows(columns, table.num_rows, seed))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        sums = [[f"{int(v):016x}" for v in row] for row in self.sums]
        return {"rows": self.rows, "nulls": self.nulls, "sums": sums, "counts": self.counts.tolist()}


def check_file(task: Task) -> Receipt:
    """Re-read one candidate file and write what is found in it; the receipt names the file before what was written."""
    planned = load_planned(task)
    spec, schema = planned.context.spec, planned.context.schema
    layout, number = task.layout, task.number
    extension = EXTENSIONS[spec.output.format]
    # Only these bytes may be published: what was read is what is named here.
    candidate = task.pieces.piece(layout.candidate(number, extension))
    data = task.pieces.read(candidate.name)
    table = from_file_bytes(data, spec.output.format, schema.released_schema, spec.output.csv)
    found: dict[str, Any] = {"columns": _columns_found(table, schema.released_schema)}
    numbers = np.asarray(read_slice(task.pieces.read(layout.numbers(number)))["record"])
    came = read_gathered(task, "check-input", layout.check_scatter)
    pieces = [candidate]
    if not found["columns"] and len(numbers) == table.num_rows:
        side = _Side(schema, planned.survey)
        side.add(table, numbers)
        found |= side.to_json()
        found["moments"], found["not_finite"] = _file_moments(planned.context, table)
        found["outside"] = _outside(planned, table, input_of(numbers, came))
        counter = CombinationCounter([c.name for c in (*schema.blocking, *schema.quasi_identifiers)], spec.k)
        counter.add(table)
        pieces.append(put_piece(task, layout.check_table("combinations", number), to_bytes(counter.to_table())))
    else:
        found |= {"rows": table.num_rows, "unread": True}
    pieces.append(put_piece(task, layout.checks(number), json.dumps(found).encode()))
    return Receipt(task.stage, number, table.num_rows, tuple(pieces))


def _columns_found(table: pa.Table, expected: pa.Schema) -> list[str]:
    """Differences from the declared columns, in words."""
    if table.column_names != expected.names:
        extra = [n for n in table.column_names if n not in expected.names]
        lost = [n for n in expected.names if n not in table.column_names]
        words = [f"column {n!r} is not declared" for n in extra] + [f"column {n!r} is missing" for n in lost]
        return words or ["the columns are not in the declared order"]
    return [
        f"column {f.name!r} is {table[f.name].type}, not {f.type}" for f in expected if table[f.name].type != f.type
    ]


def _file_moments(context: Context, table: pa.Table) -> tuple[list[dict[str, Any]], int]:
    moments, not_finite = [], 0
    for kind in context.types:
        released = quasi_type(kind.name, kind.released_type, "type")
        ticks, missing = released.ticks(table[kind.name])
        finite = np.isfinite(ticks) if released.kind == "float" else np.ones(len(ticks), dtype=np.bool_)
        not_finite += int(np.sum(~finite))
        if pa.types.is_floating(kind.released_type):
            not_finite += int(np.sum(missing)) - table[kind.name].null_count
        moments.append(moments_of(ticks[finite & ~missing]).to_dict())
    return moments, not_finite


def _outside(planned: Planned, table: pa.Table, came: pa.Table | None) -> list[int] | None:
    """For each quasi-identifier, records outside the range of their combination; None where the input does not fit."""
    if came is None:
        return [0] * len(planned.encoding.types) if not table.num_rows else None
    schema = planned.context.schema
    combination = [table[c.name] for c in (*schema.blocking, *schema.quasi_identifiers)]
    hashes = hash_rows(combination, table.num_rows, _SEEDS[0])
    columns = enumerate(planned.encoding.types)
    return [outside_ranges(kind, came[f"q{j}"], table[kind.name], hashes) for j, kind in columns]


def check_input(task: Task) -> Receipt:
    """Re-read one input part and write what the release should hold of it."""
    planned = load_planned(task)
    context = planned.context
    side, fingerprint = _Side(context.schema, planned.survey), Fingerprint()
    scatter, file_of = Scatter(task, task.layout.check_scatter), _files_of(task, planned)
    moments = [EMPTY] * len(context.types)
    record = planned.survey.first_record(task.number)
    for table in read_part(context.parts[task.number], context.spec.input, context.schema.travelling):
        fingerprint.add(table, context.schema.travelling)
        routed = route_batch(context, planned.encoding, planned.plan.strata, table, record)
        record += table.num_rows
        kept = routed.kept
        for j, kind in enumerate(context.types):
            ticks, missing = kind.ticks(table[kind.name])
            moments[j] = merge(moments[j], moments_of(ticks[kept & ~missing]))
        side.add(_expected_rows(planned, routed), routed.records[kept])
        _send(planned, routed, file_of[routed.records - planned.survey.first_record(task.number)], scatter)
    refuse_changed(planned, task.number, fingerprint)
    found = {**side.to_json(), "moments": [m.to_dict() for m in moments]}
    scatter.flush()
    piece = put_piece(task, task.layout.input_checks(task.number), json.dumps(found).encode())
    return Receipt(task.stage, task.number, side.rows, (*scatter.pieces, piece), tuple(scatter.slices))


def _files_of(task: Task, planned: Planned) -> NDArray[Any]:
    """The file in which each record of the part should be, by the files' own lists; the number of files: in none."""
    first, n_files = planned.survey.first_record(task.number), planned.plan.n_files
    # As narrow as can be: a part may be a file of any length.
    files = np.full(planned.survey.rows_of_parts[task.number], n_files, dtype=np.min_scalar_type(n_files))
    for number, run, start, end, rows, crc in task.arguments:
        one = replace(task, arguments=((number, run, start, end, rows, crc),))
        listed = read_gathered(one, "assemble", lambda file, _: task.layout.places(file))
        if listed is not None:
            place = np.asarray(listed["record"]) - first
            files[place[(place >= 0) & (place < len(files))]] = number
    return files


def _send(planned: Planned, routed: Routed, files: NDArray[Any], scatter: Scatter) -> None:
    """Send the quasi-identifiers of the records to the files in which they should be."""
    listed = files < planned.plan.n_files
    columns = [pa.array(routed.records), *(routed.table[kind.name] for kind in planned.context.types)]
    names = ["record", *(f"q{j}" for j in range(len(planned.context.types)))]
    table = pa.Table.from_arrays(columns, names=names)
    scatter.add(table.filter(pa.array(listed)), files[listed].astype(np.int64))


def _expected_rows(planned: Planned, routed: Routed) -> pa.Table:
    """What should be released of a batch, but for the quasi-identifiers, which keep only their missing values."""
    schema, plan = planned.context.schema, planned.plan
    kept = pa.array(routed.kept)
    labels = plan.strata.labels.take(pa.array(plan.strata.label[routed.stratum[routed.kept]]))
    position = {c.name: j for j, c in enumerate(schema.blocking)}
    columns = []
    for column in schema.released:
        if column.role == "blocking":
            columns.append(labels[f"b{position[column.name]}"])
        else:
            values = one_array(routed.table[column.name]).filter(kept)
            if pa.types.is_floating(values.type) and column.role == "quasi_identifiers":
                values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
            columns.append(values)
    return released_form(planned.context.spec, pa.Table.from_arrays(columns, names=[c.name for c in schema.released]))


# --- What is decided from it ---------------------------------------------------------------------------------


def run_checks(checked: Pieces, layout: RunLayout, planned: Planned, n_files: int) -> list[Check]:
    """Compare both sides; every check is made, whichever fail."""
    context = planned.context
    files = [json.loads(data) for data in checked.read_all(layout.checks(i) for i in range(n_files))]
    numbers = range(len(context.parts))
    inputs = [json.loads(data) for data in checked.read_all(layout.input_checks(i) for i in numbers)]
    checks = [_check_columns(files)]
    if not checks[0].passed:
        return checks
    checks.append(_check_rows(files, planned))
    if any(f.get("unread") for f in files):
        return [*checks, Check("record numbers", False, "a file and its private record numbers differ in length")]
    checks.append(_check_combinations(checked, layout, context, n_files))
    checks.append(_check_nulls(files, inputs))
    checks += _check_means(planned.encoding.types, files, inputs)
    checks.append(_check_groups(planned.encoding.types, files))
    checks.append(_check_values(files, inputs, context))
    return checks


def refuse_failed(checks: Sequence[Check]) -> None:
    """Stop the release if any check failed.

    Raises:
        GateError: naming the checks that failed.
    """
    failed = [c for c in checks if not c.passed]
    if failed:
        what = "; ".join(f"{c.name}: {c.detail}" for c in failed)
        raise GateError(f"the privacy gate stopped the release, nothing was published: {what}")


def _check_columns(files: list[dict[str, Any]]) -> Check:
    problems = sorted({p for f in files for p in f["columns"]})
    return Check("columns", not problems, "; ".join(problems) or "exactly the declared columns and types")


def _check_rows(files: list[dict[str, Any]], planned: Planned) -> Check:
    expected = planned.survey.rows - planned.plan.strata.suppressed_rows
    found = sum(f["rows"] for f in files)
    detail = f"{found} records = {planned.survey.rows} in the input - {planned.plan.strata.suppressed_rows} withheld"
    return Check("rows", found == expected, detail if found == expected else f"{found} records instead of {expected}")


def _check_combinations(checked: Pieces, layout: RunLayout, context: Context, n_files: int) -> Check:
    schema, k = context.schema, context.spec.k
    counter = CombinationCounter([c.name for c in (*schema.blocking, *schema.quasi_identifiers)], k)
    for i in range(n_files):
        counter.merge(CombinationCounter.from_table(read_slice(checked.read(layout.check_table("combinations", i)))))
    failing = counter.failing()
    if failing:
        return Check("k-anonymity", False, f"{failing} combinations have fewer than k={k} units")
    return Check(
        "k-anonymity", True, f"every combination of quasi-identifiers and blocking values has at least {k} units"
    )


def _check_nulls(files: list[dict[str, Any]], inputs: list[dict[str, Any]]) -> Check:
    wrong = []
    for name in files[0]["nulls"]:
        before, after = sum(p["nulls"][name] for p in inputs), sum(f["nulls"][name] for f in files)
        if before != after:
            wrong.append(f"column {name!r} has {after} missing values instead of {before}")
    not_finite = sum(f["not_finite"] for f in files)
    if not_finite:
        wrong.append(f"{not_finite} released quasi-identifiers are not finite")
    return Check("missing values", not wrong, "; ".join(wrong) or "no value turned missing or non-finite")


def _check_means(
    types: tuple[QuasiType, ...], files: list[dict[str, Any]], inputs: list[dict[str, Any]]
) -> list[Check]:
    wrong = []
    for j, kind in enumerate(types):
        before = merge_all(Moments(**p["moments"][j]) for p in inputs)
        after = merge_all(Moments(**f["moments"][j]) for f in files)
        if before.n != after.n or (before.n and not _mean_kept(kind, before, after)):
            wrong.append(f"the mean of {kind.name!r} is not kept")
    return [Check("means", not wrong, "; ".join(wrong) or "the mean of every quasi-identifier is kept")]


def _mean_kept(kind: QuasiType, before: Moments, after: Moments) -> bool:
    """Within 1e-9 deviations, 4 units in the last place of the largest magnitude, and half the rounding step."""
    unit = 10.0**kind.scale if kind.kind == "int" and not kind.step else 1.0
    if unit == 1.0 and isinstance(before.origin, int) == isinstance(after.origin, int):
        difference = after.mean_from(before.origin) - before.mean
    else:
        difference = (float(after.origin) + after.mean) - (float(before.origin) + before.mean) / unit
    largest = max(abs(float(before.least)), abs(float(before.greatest))) / unit
    half_step = kind.step / 2.0 if kind.decimals is None else 0.5 * 10.0**-kind.decimals
    if kind.released_type == pa.float32():
        half_step += float(np.spacing(np.float32(largest))) / 2.0
    tolerance = 1e-9 * before.deviation / unit + 4 * float(np.spacing(largest)) + half_step
    return abs(difference) <= tolerance


def _check_groups(types: tuple[QuasiType, ...], files: list[dict[str, Any]]) -> Check:
    """Every released value lies in the range that its combination's records have in the input."""
    if any(f["outside"] is None for f in files):
        return Check("groups", False, "a file's record numbers are not those of the input's records that it holds")
    wrong = [
        f"{count} values of {kind.name!r} lie outside the range of the records that share them"
        for j, kind in enumerate(types)
        if (count := sum(f["outside"][j] for f in files))
    ]
    right = "every released value is within the range of the records that share it, and theirs where they are equal"
    return Check("groups", not wrong, "; ".join(wrong) or right)


def _check_values(files: list[dict[str, Any]], inputs: list[dict[str, Any]], context: Context) -> Check:
    """Blocking and confidential values, by record number, add up to the same on both sides."""
    wrong = [part.number for part in context.parts if _total(files, part.number) != _total(inputs, part.number)]
    places = ", ".join(map(str, wrong[:5])) + ("" if len(wrong) <= 5 else ", ...")
    detail = f"blocking or confidential values differ from the input's in part {places}"
    return Check("values", not wrong, detail if wrong else "blocking and confidential values are each record's own")


def _total(side: list[dict[str, Any]], part: int) -> tuple[int, ...]:
    sums = [sum(int(s["sums"][part][i], 16) for s in side) % 2**64 for i in range(len(_SEEDS))]
    return (sum(s["counts"][part] for s in side), *sums)
