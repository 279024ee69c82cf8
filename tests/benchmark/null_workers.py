"""Workers that do nothing: they answer every task of a release as if it had been done, on data that nobody has.

What a release costs the flow itself (its bookkeeping) grows with blocks, parts and partitions, not with rows; with
these workers it is measured for a census without having one. A process of its own answers, so that neither its time nor
its memory is counted: it writes the objects that the flow reads and sends receipts back, both of the size that real
ones have. Nothing of what workers alone read is written; a released file is a hole of its length.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from microagg_core.arrays import Ints
from microagg_core.data.tables.slices import Slice, Slices
from microagg_core.group.metrics.moments import EMPTY, Moments, moments_of
from microagg_core.group.metrics.statistics import loss_statistics
from microagg_core.inspect.checks.distributions import Distributions
from microagg_core.inspect.checks.k_anonymity import KAnonymity
from microagg_core.inspect.contract import Promise
from microagg_core.inspect.distributions import ValueCounts
from microagg_core.inspect.exposure import AskedRecords, ConfidentialValues, Exposure
from microagg_core.inspect.gate import checks, measures, nothing_noted
from microagg_core.inspect.notes import Notes
from microagg_core.inspect.risk.labels import label_lines
from microagg_core.inspect.samples import SAMPLE_TOGETHER, SAMPLE_VALUES, WORD, Draw, Sketch
from microagg_core.plain import to_plain
from microagg_core.release.context import CONTEXT, Context
from microagg_core.release.pieces import Piece
from microagg_core.release.planned import load_planned
from microagg_core.release.publish import Upload
from microagg_core.release.step import Output, Receipt, Rows, Sent, Task, Work
from microagg_core.release.steps.anonymize import ANONYMIZED, BLOCK_LINES, LOSSES
from microagg_core.release.steps.candidate import CANDIDATE, ORIGINS
from microagg_core.release.steps.checking import EXPECTED, NOTES, promise_of
from microagg_core.release.steps.confidential import KEY, Gathered, drawn_of_a_part
from microagg_core.release.steps.keys import KEYS, PART_KEYS
from microagg_core.release.steps.scatter import SCATTERED
from microagg_core.release.steps.survey import CONFIDENTIAL, STATISTICS
from microagg_core.release.steps.units import unit_checks
from microagg_core.store.objects import Store
from microagg_core.store.urls import local_path
from microagg_flows.progress import Progress, Silence


@dataclass(frozen=True)
class Census:
    """The data that nobody has: as many rows in each part, and every key in as many parts as its rows can reach."""

    rows: int
    keys: int
    parts: int

    @property
    def rows_of_part(self) -> int:
        return self.rows // self.parts

    def keys_of_range(self, number: int, n_ranges: int) -> pa.Table:
        """One range of the counted keys: numbers of districts, and of types within them."""
        numbers, rows = np.arange(number, self.keys, n_ranges), self.parts * self.rows_of_part
        rows_of_keys = rows // self.keys + (numbers < rows % self.keys)
        columns = {"pattern": pa.array(np.zeros(len(numbers), dtype=np.uint64))}
        columns |= {"b0": pa.array((numbers // 1000).astype(np.int16)), "b1": np.char.mod("g%d", numbers % 1000)}
        return pa.table({**columns, "rows": rows_of_keys})


class NullWorkers:
    """The executor: a process that answers for all workers."""

    def __init__(self, census: Census, connection: Connection) -> None:
        self.progress: Progress = Silence()
        self._census, self._connection = census, connection

    def map(self, function: Callable[[Any], Any], items: Sequence[Any], what: str) -> list[Any]:
        """Have every item answered; one after the other, each sent and received as Dask would."""
        answers = []
        for item in items:
            self._connection.send(item)
            answers.append(self._connection.recv())
        return answers

    def memory_per_task(self) -> int | None:
        return None

    def expect(self, cpu_seconds: float) -> str:
        return "by nobody"


@contextmanager
def null_workers(census: Census) -> Iterator[NullWorkers]:
    """Workers for a release of this census, while the block lasts."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_answer_all, args=(census, theirs), daemon=True)
    process.start()
    theirs.close()  # so that a process that ended is noticed
    try:
        yield NullWorkers(census, ours)
    finally:
        ours.close()
        process.join()


def _answer_all(census: Census, connection: Connection) -> None:
    with suppress(EOFError):
        while True:
            connection.send(answer(census, connection.recv()))


def answer(census: Census, item: Task | tuple[Store, Upload]) -> Receipt | None:
    """The receipt of a task that nobody did, or nothing once a file is published that nobody has."""
    if isinstance(item, Task):
        work = Work(item)
        return work.receipt(_ANSWERS[item.step](census, work))
    output, upload = item
    path = Path(local_path(output.url)) / upload.target
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(upload.entry.bytes)
    return None


# --- The steps -----------------------------------------------------------------------------------------------


def _untouched(work: Work, output: Output[Any], n_bytes: int) -> None:
    """An object that only workers would read, and that is not there."""
    name = output.path(work.run.key, work.task.step, work.number)
    work.written.append(Piece(name, n_bytes, "0" * 64, work.task.step, work.number, output.name))


def _sent(work: Work, output: Rows, n_bytes: int, destinations: Iterable[int], rows: int) -> None:
    """One slice for each destination, of about equal length, in an object that is not there."""
    numbers = list(destinations)
    bounds = np.linspace(0, rows, len(numbers) + 1).astype(np.int64).tolist()
    slices = zip(numbers, bounds, bounds[1:], strict=False)
    _untouched(work, output, n_bytes)
    sent = Slices.of(Slice(work.number, 0, number, a * 20, b * 20, b - a, 7) for number, a, b in slices)
    work.sent.append(Sent(work.task.step, output.name, sent))


def _moments(rows: int) -> Moments:
    """Moments of any quasi-identifier in so many records."""
    some = moments_of(np.arange(1000))
    return replace(some, n=rows, m2=some.m2 * rows / some.n) if rows else EMPTY


def _survey(census: Census, work: Work) -> int:
    number, rows = work.number, census.rows_of_part
    context = work.load(CONTEXT)
    n_attributes = len(context.kinds)
    statistics = {
        "rows": rows,
        "arrivals": rows,
        "units": rows,
        "looked_at": rows,
        "is_marked": False,
        "bytes": 64 * rows,
        "missing": [0] * n_attributes,
        "not_finite": [0] * n_attributes,
        "fingerprint": f"{rows}-{number:016x}-{number:016x}",
        "moments": to_plain([_moments(rows)] * n_attributes),
        "traits": [kind.NO_TRAITS for kind in context.kinds],
        "ends": [[[0.0], [0.0]]] * n_attributes,
        "few_numbers": [None] * n_attributes,
        "nameless": [0] * len(unit_checks(context.spec, context.schema)),
        "text_bytes": [0] * len(context.schema.confidential),
    }
    work.write(STATISTICS, statistics)
    for data in _gathered(context, number, rows).to_bytes():
        work.write(CONFIDENTIAL, data)
    keys = min(census.keys, rows)
    level = max(0, math.ceil(math.log2(keys / 4096)))
    _sent(work, PART_KEYS, 12 * keys, range(1 << level, 2 << level), keys)
    return rows


def _gathered(context: Context, number: int, rows: int) -> Gathered:
    n_attributes, n_columns = len(context.kinds), len(context.schema.confidential)
    sketches = [_sketch(number, n_attributes, SAMPLE_VALUES, rows) for _ in range(n_columns)]
    if n_columns > 1:
        sketches.append(_sketch(number, 0, SAMPLE_TOGETHER, rows))
    draws = (_draw(number, n_attributes, n_columns, drawn_of_a_part(len(context.parts)), which) for which in range(2))
    return Gathered(tuple(sketches), *draws)


def _sketch(number: int, n_attributes: int, size: int, rows: int) -> Sketch:
    rng = np.random.default_rng(number)
    hashes = np.sort(rng.integers(0, 2**62, size).astype(np.uint64))
    names = ["n", *(f"{what}{j}" for j in range(n_attributes) for what in "csq")]
    frame = pd.DataFrame({name: rng.random(size) for name in names}, index=pd.Index(hashes, name="h"))
    return Sketch(frame, int(hashes[-1]), rows)


def _draw(number: int, n_attributes: int, n_columns: int, size: int, which: int) -> Draw:
    rng = np.random.default_rng([number, which])
    words = np.sort(rng.integers(0, 2**62, size).astype(np.uint64))
    names = [*(f"z{j}" for j in range(n_attributes)), *(f"v{c}" for c in range(n_columns))]
    columns = {WORD: words, KEY: words >> np.uint64(50), **{name: rng.normal(size=size) for name in names}}
    columns |= {f"h{c}": rng.integers(0, 2**62, size).astype(np.uint64) for c in range(n_columns)}
    return Draw(pd.DataFrame(columns), int(words[-1]))


def _keys(census: Census, work: Work) -> int:
    n_ranges = 1 << (work.slices(PART_KEYS)[0].destination.bit_length() - 1)
    keys = census.keys_of_range(work.number, n_ranges)
    work.write(KEYS, keys)
    return keys.num_rows


def _scatter(census: Census, work: Work) -> int:
    planned, rows = load_planned(work), census.rows_of_part
    counts = np.zeros(census.parts, dtype=np.int64)
    counts[work.number] = rows
    work.write(EXPECTED, _notes(rows, work, counts))
    _sent(work, SCATTERED, 20 * rows, range(planned.outline.n_partitions), rows)
    return rows


def _too_many_values(promise: Promise) -> tuple[ValueCounts, ...]:
    """What is counted of confidential columns with many values."""
    counts = nothing_noted(Distributions(), promise)
    for column in counts:
        column.give_up()
    return counts


def _anonymize(census: Census, work: Work) -> int:
    planned, number = load_planned(work), work.number
    outline, n_attributes = planned.outline, len(planned.context.kinds)
    bounds = np.append(outline.first_blocks, outline.n_blocks)
    n, rows = int(bounds[number + 1] - bounds[number]), int(outline.rows[number])
    values = np.random.default_rng(number).normal(size=(100, n_attributes))
    losses = loss_statistics(values, values / 2, np.zeros(values.shape, dtype=np.bool_))
    counts = {"groups": rows // n // 5, "least": 5, "most": 9}
    lines = {
        "block": np.arange(bounds[number], bounds[number + 1]),
        "records": np.full(n, rows // n),
        "sse": np.full(n, float(losses.squares[0].sum()) / n),
        "lower_bound": np.zeros(n),
        "improved": np.ones(n, dtype=np.bool_),
        "algorithm": ["mdav"] * n,
        "tried": [""] * n,
        **{name: np.full(n, count) for name, count in counts.items()},
    }
    work.write(LOSSES, losses)
    work.write(BLOCK_LINES, pa.table(lines))
    # The blocks of a partition follow each other, and so do the files of their labels.
    first = number * outline.n_files // outline.n_partitions
    _sent(work, ANONYMIZED, 20 * rows, range(first, min(first + 2, outline.n_files)), rows)
    return rows


def _assemble(census: Census, work: Work) -> int:
    rows = int(work.slices(ANONYMIZED).array["rows"].sum())
    for output in (CANDIDATE, ORIGINS):
        _untouched(work, output, 20 * rows)
    return rows


def _notes(rows: int, work: Work, counts: Ints, **more: Any) -> Notes:
    planned = load_planned(work)
    promise = promise_of(planned)
    sums = (counts, np.zeros((len(counts), 2), dtype=np.uint64))
    notes = {
        **{check.key: nothing_noted(check, promise) for check in checks()},
        "check: missing values": ({column.name: 0 for column in promise.schema.released}, 0),
        "check: means": (_moments(rows),) * len(promise.kinds),
        "check: values": sums,
        "check: distributions": _too_many_values(promise),
        **more,
    }
    return Notes(rows, notes)


def _check_files(census: Census, work: Work) -> int:
    planned, number = load_planned(work), work.number
    promise = promise_of(planned)
    # As many from each part, so that all files together have all.
    bounds = np.linspace(0, census.rows_of_part, planned.outline.n_files + 1).astype(np.int64)
    counts = np.full(census.parts, bounds[number + 1] - bounds[number])
    nobody, exposure = nothing_noted(KAnonymity(), promise), _exposure(work)
    rows = int(counts.sum())
    more = {"check: k-anonymity": nobody, "check: groups": (0,) * len(promise.kinds)}
    more |= {measure.key: measure.measure(exposure) for measure in measures()}
    lines = label_lines(exposure)
    more["risk: labels"] = lines.add_column(0, "file", pa.array(np.full(lines.num_rows, number)))
    work.write(NOTES, _notes(rows, work, counts, **more))
    work.vouch(work.piece(CANDIDATE))
    return rows


def _exposure(work: Work) -> Exposure:
    """A file of as many labels as its share of the blocks, with one combination each."""
    plan = load_planned(work)
    names, outline = tuple(kind.name for kind in plan.context.kinds), plan.outline
    n = -(-outline.n_blocks // outline.n_files)
    shape, numbers = (n, len(names)), np.arange(n)
    columns = [ConfidentialValues(column.name, numbers, None) for column in plan.context.schema.confidential]
    nobody, missing = AskedRecords.nobody(len(names)), np.zeros(shape, dtype=np.bool_)
    return Exposure(names, numbers, numbers, np.zeros(shape), missing, tuple(columns), nobody)


_ANSWERS: dict[str, Callable[[Census, Work], int]] = {
    "survey": _survey,
    "keys": _keys,
    "scatter": _scatter,
    "anonymize": _anonymize,
    "assemble": _assemble,
    "check-files": _check_files,
}
