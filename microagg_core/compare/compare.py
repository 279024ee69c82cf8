"""Run every suitable algorithm on a table, for several k, and say which loses least.

The groups are those of a release of the same records as one block with ``refine: off``, and the figures those of its
manifest where nothing is rounded: groups are made on the same scale, and losses measured on the same (that of all
records), see ``metrics/moments.py``. Only what an algorithm draws differs: each block of a release has its own seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from microagg_core.api import microaggregate
from microagg_core.compare.asked import chosen_algorithms, refuse_small_k, said_once
from microagg_core.compare.published import Figure, printed_figures
from microagg_core.data.formats.reading import list_input, read_part, read_schema, with_guessed_types
from microagg_core.data.kinds.registry import kind_for
from microagg_core.data.places import Input
from microagg_core.errors import DataError, MicroaggError, SpecError
from microagg_core.group.algorithms import AlgorithmInfo
from microagg_core.group.metrics.statistics import significant
from microagg_core.plain import to_plain

#: Algorithms whose model says that they would take longer are left out, unless they were asked for by name.
PATIENCE_SECONDS = 60.0


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
class Comparison:
    """All outcomes, what was left out and why, and the literature's figures where the file is known to it."""

    records: int
    quasi_identifiers: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    left_out: tuple[str, ...]
    published: tuple[Figure, ...]

    def best(self, k: int) -> list[Outcome]:
        """The outcomes for a k, least loss first; equal losses by name."""
        return sorted((o for o in self.outcomes if o.k == k), key=lambda o: (o.l_sse, o.algorithm))

    def ks(self) -> list[int]:
        """Every k that was compared."""
        return sorted({o.k for o in self.outcomes})

    def in_words(self) -> list[str]:
        """Which algorithm is best here for each k, and by how much."""
        return [_sentence(k, self.best(k)) for k in self.ks()]

    def document(self) -> dict[str, Any]:
        """As plain values, with what they say in words."""
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
    """The named columns of a file (all that have a mean, where none is named).

    Raises:
        SpecError: a column that the file does not have.
        DataError: a column of text, or missing values.
    """
    source = with_guessed_types(Input(url=url))
    schema = read_schema(source)
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise SpecError(f"--quasi-identifiers: {url} has no column {unknown[0]!r}; it has {', '.join(schema.names)}")
    wanted = tuple(names) or tuple(f.name for f in schema if _is_compared(f.type))
    if not wanted:
        raise DataError(f"{url} has no column of numbers or dates to compare algorithms on")
    tables = [t for part in list_input(source).parts for t in read_part(part, source, wanted)]
    if not tables:
        raise DataError(f"{url} has no records")
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
    told: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Run algorithms (all suitable ones, where none is named) for each k on all columns of the table.

    Raises:
        SpecError: an unknown algorithm, or a k below 2.
        DataError: fewer records than a k, or values that cannot be averaged.

    >>> found = compare(pd.DataFrame({"x": [1.0, 2.0, 9.0, 10.0]}), [2], ["mdav", "mdav_plus"])
    >>> found.in_words()
    ['k=2: mdav loses least, 1.538 % of the variance (as do mdav_plus)']
    """
    columns = tuple(str(c) for c in table.columns)
    chosen = chosen_algorithms(names)
    refuse_small_k(ks)
    outcomes, unsuitable = [], []
    for k in ks:
        for info in chosen:
            reason = _unsuitable(info, k, len(table), len(columns), by_name=bool(names))
            if reason is None:
                told(f"{info.name}, k={k}")
                outcomes.append(_run(table, info, k, seed))
            else:
                unsuitable.append((info.name, k, reason))
    left_out = said_once(unsuitable)
    if not outcomes:
        raise SpecError("no algorithm suits: " + "; ".join(left_out))
    return Comparison(len(table), columns, tuple(outcomes), left_out, printed_figures(table))


def _unsuitable(info: AlgorithmInfo, k: int, n: int, p: int, by_name: bool) -> str | None:
    if problem := info.refuses(k, p) or info.refuses_records(n):
        return problem
    seconds = info.cost_seconds(n, p, k)
    if seconds > PATIENCE_SECONDS and not by_name:
        return f"would take about {seconds:,.0f} s; name it under --algorithms to run it all the same"
    return None


def _run(table: pd.DataFrame, info: AlgorithmInfo, k: int, seed: int) -> Outcome:
    warm = table.head(min(len(table), 2 * k))
    try:
        if len(warm) == 2 * k:
            microaggregate(warm, list(table.columns), k, info.name, seed=seed)  # compiling is not the algorithm's time
    except MicroaggError:
        pass
    start = time.process_time()
    result = microaggregate(table, list(table.columns), k, info.name, seed=seed)
    seconds = time.process_time() - start
    sizes = np.bincount(np.asarray(result.groups).ravel())
    l_sse, l_e = significant(result.losses.l_sse), significant(result.losses.l_e)
    return Outcome(info.name, k, l_sse, l_e, len(sizes), int(sizes.min()), int(sizes.max()), round(seconds, 3))
