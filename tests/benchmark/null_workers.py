"""Workers that do nothing: they answer every task of a release as if it had been done, on data that nobody has.

What a release costs the flow itself (its bookkeeping) grows with blocks, parts and partitions, not with rows; with
these workers it is measured for a census without having one. A process of its own answers, so that neither its time nor
its memory is counted: it writes the objects that the flow reads and sends receipts back, both of the size that real
ones have. Nothing of what workers alone read is written; a released file is a hole of its length.
"""

from __future__ import annotations

import json
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
from microagg_core.data.tables.slices import Slice, Slices, to_bytes
from microagg_core.group.metrics.moments import EMPTY, Moments, moments_of
from microagg_core.group.metrics.statistics import loss_statistics
from microagg_core.inspect.checks.distributions import ColumnCounts, Distributions
from microagg_core.inspect.checks.groups import Outside
from microagg_core.inspect.checks.k_anonymity import KAnonymity
from microagg_core.inspect.checks.means import QuasiMoments
from microagg_core.inspect.checks.missing_values import Nulls
from microagg_core.inspect.checks.values import Sums
from microagg_core.inspect.contract import Promise
from microagg_core.inspect.draws import WORD, Draw
from microagg_core.inspect.exposure import ConfidentialValues, Exposure
from microagg_core.inspect.gate import limits, measures
from microagg_core.inspect.notes import Notes
from microagg_core.inspect.risk.labels import Lines, label_lines
from microagg_core.inspect.sketches import SAMPLE_TOGETHER, SAMPLE_VALUES, Sketch
from microagg_core.plain import to_json, to_plain
from microagg_core.release.publish import Upload
from microagg_core.release.steps.checking import promise_of
from microagg_core.release.steps.confidential import KEY, Gathered, drawn_of_a_part
from microagg_core.release.steps.pieces import Piece
from microagg_core.release.steps.routing import load_planned
from microagg_core.release.steps.units import unit_checks
from microagg_core.release.steps.work import Context, Receipt, Task, load_context
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
        return _ANSWERS[item.step](census, item)
    output, upload = item
    path = Path(local_path(output.url)) / upload.target
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(upload.entry.bytes)
    return None


# --- The steps -----------------------------------------------------------------------------------------------


def _untouched(task: Task, name: str, n_bytes: int) -> Piece:
    return Piece(name, n_bytes, "0" * 64, task.step, task.number)


def _slices(task: Task, destinations: Iterable[int], rows: int) -> Slices:
    """One slice for each destination, of about equal length."""
    numbers = list(destinations)
    bounds = np.linspace(0, rows, len(numbers) + 1).astype(np.int64).tolist()
    slices = zip(numbers, bounds, bounds[1:], strict=False)
    return Slices.of(Slice(task.number, 0, number, a * 20, b * 20, b - a, 7) for number, a, b in slices)


def _moments(rows: int) -> Moments:
    """Moments of any quasi-identifier in so many records."""
    some = moments_of(np.arange(1000))
    return replace(some, n=rows, m2=some.m2 * rows / some.n) if rows else EMPTY


def _survey(census: Census, task: Task) -> Receipt:
    layout, number, rows = task.layout, task.number, census.rows_of_part
    context = load_context(task.run, task.reads)
    n_attributes = len(context.kinds)
    statistics = {
        "rows": rows,
        "arrivals": rows,
        "is_marked": False,
        "bytes": 64 * rows,
        "missing": [0] * n_attributes,
        "not_finite": [0] * n_attributes,
        "fingerprint": f"{rows}-{number:016x}-{number:016x}",
        "moments": to_plain([_moments(rows)] * n_attributes),
        "traits": [kind.NO_TRAITS for kind in context.kinds],
        "nameless": [0] * len(unit_checks(context.spec, context.schema)),
        "text_bytes": [0] * len(context.schema.confidential),
    }
    pieces = [task.put(layout.survey(number, "json"), json.dumps(statistics).encode())]
    for i, data in enumerate(_gathered(context, number, rows).to_bytes()):
        pieces.append(task.put(layout.survey(number, f"confidential-{i}.arrows"), data))
    keys = min(census.keys, rows)
    level = max(0, math.ceil(math.log2(keys / 4096)))
    pieces.append(_untouched(task, layout.part_keys(number), 12 * keys))
    return Receipt(task.step, number, rows, tuple(pieces), _slices(task, range(1 << level, 2 << level), keys))


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


def _keys(census: Census, task: Task) -> Receipt:
    n_ranges = 1 << (task.slices[0].destination.bit_length() - 1)
    keys = census.keys_of_range(task.number, n_ranges)
    return Receipt(task.step, task.number, keys.num_rows, (task.put(task.layout.keys(task.number), to_bytes(keys)),))


def _scatter(census: Census, task: Task) -> Receipt:
    planned, rows = load_planned(task), census.rows_of_part
    counts = np.zeros(census.parts, dtype=np.int64)
    counts[task.number] = rows
    expected = task.put(task.layout.expected(task.number), _notes(rows, task, counts))
    piece = _untouched(task, task.layout.scatter(task.number, 0), 20 * rows)
    return Receipt(
        task.step, task.number, rows, (piece, expected), _slices(task, range(planned.outline.n_partitions), rows)
    )


def _too_many_values(promise: Promise) -> ColumnCounts:
    """What is counted of confidential columns with many values."""
    counts = Distributions().nothing(promise)
    for column in counts.columns:
        column.give_up()
    return counts


def _anonymize(census: Census, task: Task) -> Receipt:
    planned, layout, number = load_planned(task), task.layout, task.number
    outline, n_attributes = planned.outline, len(planned.context.kinds)
    bounds = np.append(outline.first_blocks, outline.n_blocks)
    n, rows = int(bounds[number + 1] - bounds[number]), int(outline.rows[number])
    values = np.random.default_rng(number).normal(size=(100, n_attributes))
    losses = loss_statistics(values, values / 2, np.zeros(values.shape, dtype=np.bool_))
    counts = {"groups": rows // n // 5, "least": 5, "most": 9}
    lines = {
        "block": np.arange(bounds[number], bounds[number + 1]),
        "records": np.full(n, rows // n),
        "sse": np.full(n, float(losses.sse.sum()) / n),
        "lower_bound": np.zeros(n),
        "improved": np.ones(n, dtype=np.bool_),
        "algorithm": ["mdav"] * n,
        "tried": [""] * n,
        **{name: np.full(n, count) for name, count in counts.items()},
    }
    pieces = (
        _untouched(task, layout.anonymized(number), 20 * rows),
        task.put(layout.loss_statistics(number), to_json(losses)),
        task.put(layout.block_results(number), to_bytes(pa.table(lines))),
    )
    # The blocks of a partition follow each other, and so do the files of their labels.
    first = number * outline.n_files // outline.n_partitions
    return Receipt(task.step, number, rows, pieces, _slices(task, range(first, min(first + 2, outline.n_files)), rows))


def _assemble(census: Census, task: Task) -> Receipt:
    rows, layout, number = int(task.slices.array["rows"].sum()), task.layout, task.number
    pieces = (
        _untouched(task, layout.candidate(number, "parquet"), 20 * rows),
        _untouched(task, layout.origins(number), 20 * rows),
    )
    return Receipt(task.step, number, rows, pieces)


def _notes(rows: int, task: Task, counts: Ints, **more: Any) -> bytes:
    planned = load_planned(task)
    promise = promise_of(planned)
    sums = Sums(counts, np.zeros((len(counts), 2), dtype=np.uint64))
    notes = {
        "check: missing values": Nulls({column.name: 0 for column in promise.schema.released}),
        "check: means": QuasiMoments((_moments(rows),) * len(promise.kinds)),
        "check: values": sums,
        "check: distributions": _too_many_values(promise),
        **more,
    }
    return Notes(rows, notes).to_bytes()


def _check_files(census: Census, task: Task) -> Receipt:
    planned, number = load_planned(task), task.number
    promise = promise_of(planned)
    # As many from each part, so that all files together have all.
    bounds = np.linspace(0, census.rows_of_part, planned.outline.n_files + 1).astype(np.int64)
    counts = np.full(census.parts, bounds[number + 1] - bounds[number])
    nobody, exposure = KAnonymity().nothing(promise), _exposure(task)
    rows = int(counts.sum())
    more = {"check: k-anonymity": nobody, "check: groups": Outside((0,) * len(promise.kinds))}
    more |= {limit.key: limit.nothing(promise) for limit in limits()}
    more |= {measure.key: measure.measure(exposure) for measure in measures()}
    lines = label_lines(exposure)
    more["risk: labels"] = Lines(lines.add_column(0, "file", pa.array(np.full(lines.num_rows, number))))
    noted = task.put(task.layout.checks(number), _notes(rows, task, counts, **more))
    candidate = _untouched(task, task.layout.candidate(number, "parquet"), 20 * rows)
    return Receipt(task.step, number, rows, (candidate, noted))


def _exposure(task: Task) -> Exposure:
    """A file of as many labels as its share of the blocks, with one combination each."""
    plan = load_planned(task)
    names, outline = tuple(kind.name for kind in plan.context.kinds), plan.outline
    n = -(-outline.n_blocks // outline.n_files)
    shape, numbers = (n, len(names)), np.arange(n)
    columns = [ConfidentialValues(column.name, numbers, None) for column in plan.context.schema.confidential]
    return Exposure(names, numbers, numbers, np.zeros(shape), np.zeros(shape, dtype=np.bool_), tuple(columns))


_ANSWERS: dict[str, Callable[[Census, Task], Receipt]] = {
    "survey": _survey,
    "keys": _keys,
    "scatter": _scatter,
    "anonymize": _anonymize,
    "assemble": _assemble,
    "check-files": _check_files,
}
