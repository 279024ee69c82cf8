"""Algorithms side by side on a bare file, for several k: all records in one block, not refined and not rounded.

The groups are those of a release of the same records as one block with ``refine: off``, and the figures those of its
manifest where nothing is rounded: groups are made on the same scale, and losses measured on the same (that of all
records), see ``metrics/moments.py``. Only what an algorithm draws differs: each block of a release has its own seed.
Beside them stands what the literature prints for its reference files.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_numeric_dtype

from microagg_core.compare.grid import chosen_algorithms, refuse_small_k
from microagg_core.data.formats.reading import list_input, read_part
from microagg_core.data.kinds.encoding import QuasiIdentifiers
from microagg_core.data.kinds.registry import kind_for
from microagg_core.errors import DataError, MicroaggError, SpecError
from microagg_core.group.algorithms import AlgorithmInfo
from microagg_core.group.metrics.losses import losses
from microagg_core.group.metrics.statistics import significant
from microagg_core.plain import to_plain
from microagg_core.profile.reading import understood

#: Algorithms whose model says that they would take longer are left out, unless they were asked for by name.
PATIENCE_SECONDS = 60.0
#: Records, attributes and sum of all values of the literature's reference files, by which they are recognized.
_REFERENCE_FILES = {
    (834, 13, 1_118_735_908): "tarragona",
    (1080, 13, 516_352_498): "census",
    (4092, 11, 6_661_309_878): "eia",
}


@dataclass(frozen=True)
class Outcome:
    """One algorithm at one k: losses in percent to six significant digits, processor time in seconds."""

    algorithm: str
    k: int
    l_sse: float
    l_e: float
    groups: int
    least: int
    most: int
    seconds: float


@dataclass(frozen=True)
class PrintedLoss:
    """A figure of the literature: of a source's method at a k, as information loss in percent."""

    dataset: str
    source: str
    method: str
    k: int
    measure: str
    value: float
    note: str


@dataclass(frozen=True)
class Comparison:
    """All outcomes, what was left out and why, and the literature's figures where the file is known to it."""

    records: int
    quasi_identifiers: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    left_out: tuple[str, ...]
    published: tuple[PrintedLoss, ...]

    def best(self, k: int) -> list[Outcome]:
        """Order the outcomes for a k, least loss first; equal losses by name."""
        return sorted((o for o in self.outcomes if o.k == k), key=lambda o: (o.l_sse, o.algorithm))

    def ks(self) -> list[int]:
        return sorted({o.k for o in self.outcomes})

    def in_words(self) -> list[str]:
        """Say which algorithm is best here for each k, and by how much."""
        return [_sentence(k, self.best(k)) for k in self.ks()]

    def document(self) -> dict[str, Any]:
        return {**to_plain(self), "in_words": self.in_words()}


def _sentence(k: int, ranked: list[Outcome]) -> str:
    first = ranked[0]
    text = f"k={k}: {first.algorithm} loses least, {first.l_sse:.4g} % of the variance"
    others = [o for o in ranked[1:] if o.l_sse > first.l_sse]
    equals = [o.algorithm for o in ranked[1:] if o.l_sse == first.l_sse]
    if equals:
        text += f" (as do {', '.join(equals)})"
    if not others or others[0].l_sse == 0:
        return text
    following, last = others[0], others[-1]
    text += f", {_less(first, following)} less than {following.algorithm}"
    return text if last is following else f"{text} and {_less(first, last)} less than {last.algorithm}, the last"


def _less(first: Outcome, other: Outcome) -> str:
    return f"{significant(100 * (1 - first.l_sse / other.l_sse), 2):g} %"


def read_columns(url: str, names: Sequence[str]) -> pd.DataFrame:
    """Read the named columns of a file (all that have a mean, where none is named)."""
    understanding = understood(url)
    sample, source = understanding.sample, understanding.source
    schema = sample.table.schema
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise SpecError(f"--quasi-identifiers: {url} has no column {unknown[0]!r}; it has {', '.join(schema.names)}")
    wanted = tuple(names) or tuple(f.name for f in schema if _is_compared(f.type))
    if not wanted:
        raise DataError(f"{url} has no column of numbers or dates to compare algorithms on")
    tables = [sample.table.select(wanted)]
    if not sample.is_whole:
        tables = [rows for part in list_input(source).parts for rows in read_part(part, source, wanted)]
    table: pd.DataFrame = pa.concat_tables(tables).to_pandas(types_mapper=pd.ArrowDtype)
    return table


def _is_compared(held: pa.DataType) -> bool:
    kind = kind_for(held)
    return kind is not None and kind.is_compared


def compare(
    table: pd.DataFrame,
    ks: Sequence[int],
    names: Sequence[str] = (),
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Run algorithms (all suitable ones, where none is named) for each k on all columns of the table.

    >>> compare(pd.DataFrame({"x": [1.0, 2.0, 9.0, 10.0]}), [2], ["mdav", "mdav_plus"]).in_words()
    ['k=2: mdav loses least, 1.538 % of the variance (as do mdav_plus)']
    """
    chosen = chosen_algorithms(names)
    refuse_small_k(ks)
    quasi = _quasi_identifiers(table)
    outcomes, unsuitable = [], []
    for k in ks:
        if len(table) < k:
            raise DataError(
                f"the data have {len(table)} records, fewer than k = {k}; choose a smaller k or add records"
            )
        for info in chosen:
            reason = _unsuitable(info, k, quasi, by_name=bool(names))
            if reason is None:
                say(f"{info.name}, k={k}")
                outcomes.append(_run(quasi, info, k, seed))
            else:
                unsuitable.append((info.name, k, reason))
    left_out = _reasons(unsuitable)
    if not outcomes:
        raise SpecError("no algorithm suits: " + "; ".join(left_out))
    columns = tuple(str(name) for name in quasi.names)
    return Comparison(len(table), columns, tuple(outcomes), left_out, printed_losses(table))


def _reasons(left_out: Iterable[tuple[str, int, str]]) -> tuple[str, ...]:
    """Write names, k and reasons, with one line for all k of a name and a reason.

    >>> _reasons([("md", 3, "too slow"), ("mst", 3, "too slow"), ("md", 5, "too slow")])
    ('md at k=3, 5: too slow', 'mst at k=3: too slow')
    """
    lines: dict[tuple[str, str], list[int]] = {}
    for name, k, reason in left_out:
        lines.setdefault((name, reason), []).append(k)
    return tuple(f"{name} at k={', '.join(map(str, ks))}: {reason}" for (name, reason), ks in lines.items())


def _quasi_identifiers(table: pd.DataFrame) -> QuasiIdentifiers:
    arrays = pa.Table.from_pandas(table, preserve_index=False)
    return QuasiIdentifiers.of({name: arrays[str(name)].combine_chunks() for name in table.columns})


def _unsuitable(info: AlgorithmInfo, k: int, quasi: QuasiIdentifiers, by_name: bool) -> str | None:
    n, p, nominal = len(quasi.missing), len(quasi.names), [k.name for k in quasi.encoding.kinds if k.is_coded]
    if problem := info.refuses(k, p) or info.refuses_records(n) or info.refuses_nominal(nominal):
        return problem
    seconds = info.cost_seconds(n, p, k)
    if seconds > PATIENCE_SECONDS and not by_name:
        return f"would take about {seconds:,.0f} s; name it under --algorithms to run it all the same"
    return None


def _run(quasi: QuasiIdentifiers, info: AlgorithmInfo, k: int, seed: int) -> Outcome:
    Z = quasi.standardized()
    try:
        if len(Z) >= 2 * k:
            info.run(Z.rows(slice(2 * k)), k, seed=seed)  # compiling is not the algorithm's time
    except MicroaggError:
        pass
    start = time.process_time()
    labels = info.run(Z, k, seed=seed)
    seconds = time.process_time() - start
    lost, sizes = losses(quasi.measured(), labels), np.bincount(labels)
    l_sse, l_e = significant(lost.l_sse), significant(lost.l_e)
    return Outcome(info.name, k, l_sse, l_e, len(sizes), int(sizes.min()), int(sizes.max()), round(seconds, 3))


def printed_losses(table: pd.DataFrame) -> tuple[PrintedLoss, ...]:
    """List the printed losses of a reference file; SSE is turned into L_SSE (SST is records times attributes)."""
    dataset = _reference_file(table)
    if dataset is None:
        return ()
    sst = len(table) * table.shape[1]
    text = files("microagg_core.compare").joinpath("published.csv").read_text(encoding="utf-8")
    printed = []
    for row in csv.DictReader(text.splitlines()):
        if row["dataset"] != dataset:
            continue
        value, measure = float(row["value"]), row["measure"]
        if measure == "SSE":
            value, measure = round(100 * value / sst, 4), "L_SSE"
        printed.append(PrintedLoss(dataset, row["source"], row["method"], int(row["k"]), measure, value, row["note"]))
    return tuple(printed)


def _reference_file(table: pd.DataFrame) -> str | None:
    is_known = (len(table), table.shape[1]) in {key[:2] for key in _REFERENCE_FILES}
    if not is_known or not all(map(is_numeric_dtype, table.dtypes)):
        return None
    total = sum(int(table[name].astype("int64").sum()) for name in table.columns)
    return _REFERENCE_FILES.get((len(table), table.shape[1], total))
