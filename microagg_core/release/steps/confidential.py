"""What the survey gathers of confidential columns: sketches of their values, and draws of records.

A sketch for each column, and one of all of them together, in which nulls are values. A draw of records, and one of
whole blocking keys, which hold numbers and hashes of values, never texts. All are bounded, whatever the input's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.data.kinds.contract import Ticks
from microagg_core.data.kinds.registry import kind_for
from microagg_core.data.tables.hashing import hash_rows, missing_in, one_array
from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.data.tables.types import is_text, is_text_or_bytes
from microagg_core.inspect.samples import (
    SAMPLE_TOGETHER,
    SAMPLE_VALUES,
    WORD,
    Draw,
    Sketch,
    drawn_rows,
    merge_draws,
    merge_sketches,
    sketch_of,
)
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.release.context import Context
from microagg_core.spec.columns import Column

#: Records that are drawn of the whole input: enough for a share of variance to a percent, and looked at in a second.
DRAWN_RECORDS = 10_000
#: Records that a part keeps at least, should all parts but a few be small.
_LEAST_OF_A_PART = 2000
#: A part keeps so many times its even share, so that parts of other sizes have theirs.
_MARGIN = 4
#: Sketches and draws of single batches that are held before they are merged.
_BATCHES = 16
#: Draws are merged when they have so many times the records that are kept: with limits that tighten, late or never.
_HELD_DRAWS = 4
#: Digits of a text that is no number, such as a date or a range of ages, up to which they are read as one.
_MOST_DIGITS = 15
#: Batches of a part of which all records may be drawn by their keys, and the words below which those of later ones may.
_WHOLE_BATCHES, _SHARE_OF_LATER = 4, np.uint64(2**62)
_HALF, _ODD = np.uint64(32), 0x9E3779B97F4A7C15
KEY = "key"


def drawn_of_a_part(n_parts: int) -> int:
    """Count the records that each of the input's parts keeps.

    >>> drawn_of_a_part(1), drawn_of_a_part(1000)
    (10000, 2000)
    """
    return min(DRAWN_RECORDS, max(_LEAST_OF_A_PART, _MARGIN * DRAWN_RECORDS // n_parts))


@dataclass
class ColumnSketch:
    """The sketches of the batches of one column, or of several together."""

    size: int = SAMPLE_VALUES
    batches: list[Sketch] = field(default_factory=list)
    #: The least hashes of all values so far, ascending, and the greatest that is still wanted, once there are others.
    _least: UInt64s = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _limit: int | None = None

    def add(self, hashes: UInt64s, valid: Bools, Z: Floats, missing: Bools) -> None:
        """Account for the next batch."""
        sketch = sketch_of(hashes, valid, Z, missing, self._limit, self.size)
        self.batches.append(sketch)
        least = np.sort(np.append(self._least, sketch.table.index.to_numpy()))
        self._least = least[np.diff(least, prepend=~least[:1]) != 0]
        if len(self._least) > self.size:
            self._least = self._least[: self.size]
            self._limit = int(self._least[-1])
        if len(self.batches) > _BATCHES:
            self.batches = [self.merged()]

    def add_values(self, hashes: UInt64s, valid: Bools) -> None:
        """Account for the next batch, of which no quasi-identifiers are looked at."""
        nothing = np.empty((len(hashes), 0))
        self.add(hashes, valid, nothing, nothing.astype(np.bool_))

    def merged(self) -> Sketch:
        return merge_sketches(self.batches, self.size)


@dataclass
class _Drawn:
    batches: list[Draw]
    size: int
    #: The least words so far, and the greatest that is still wanted, once there are others.
    _least: UInt64s = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _limit: int | None = None

    def rows(self, words: UInt64s) -> tuple[Ints, int | None]:
        """Choose rows of the next batch that may be drawn, and the limit that they come with."""
        return drawn_rows(words, self.size, self._limit)

    def add(self, draw: Draw) -> None:
        """Account for the next batch."""
        self.batches.append(draw)
        self._least, self._limit = np.append(self._least, draw.table[WORD].to_numpy()), draw.limit
        if len(self._least) > self.size:
            self._least = np.partition(self._least, self.size - 1)[: self.size]
            self._limit = int(self._least[-1])
        if sum(len(draw.table) for draw in self.batches) > _HELD_DRAWS * self.size or len(self.batches) > _BATCHES:
            self.batches = [merge_draws(self.batches, self.size)]


@dataclass(frozen=True)
class Gathered:
    """What was gathered of confidential columns; the sketch of all together comes behind those of each."""

    sketches: tuple[Sketch, ...]
    records: Draw
    #: Of whole blocking keys; no records where there is no blocking.
    keys: Draw

    def to_bytes(self) -> list[bytes]:
        """As a part writes them, one object each."""
        return [sketch_bytes(s) for s in self.sketches] + [_framed(d.table, d.limit) for d in (self.records, self.keys)]

    @classmethod
    def of_parts(cls, n_columns: int, written: Callable[[int], Iterable[bytes]]) -> Gathered:
        """Merge all parts of the input; ``written`` gives what each of them wrote as its i-th object."""
        sizes = _sizes(n_columns)
        sketches = [merged_sketches(written(i), size) for i, size in enumerate(sizes)]
        draws = (merge_draws(_read_draws(written(len(sizes) + i)), DRAWN_RECORDS) for i in range(2))
        return cls(tuple(sketches), *draws)


def merged_sketches(data: Iterable[bytes], size: int = SAMPLE_VALUES) -> Sketch:
    read = (_unframed(one) for one in data)
    return merge_sketches([Sketch(table.set_index("h"), limit, rows) for table, limit, rows in read], size)


def _read_draws(data: Iterable[bytes]) -> list[Draw]:
    return [Draw(table, limit) for table, limit, _ in map(_unframed, data)]


@dataclass(frozen=True)
class _Looked:
    """A batch: a word of each record, hashes of its confidential values, its quasi-identifiers (0: not usable)."""

    words: UInt64s
    hashes: list[UInt64s]
    Z: Floats
    unusable: Bools


class ConfidentialGathering:
    """What accumulates over the batches of one part."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._columns = context.schema.confidential
        self._sketched = [ColumnSketch(size) for size in _sizes(len(self._columns))]
        size = drawn_of_a_part(len(context.parts))
        self._records, self._keys = _Drawn([], size), _Drawn([], size)
        self._n_whole = _WHOLE_BATCHES
        #: Bytes of each column's texts.
        self.text_bytes = np.zeros(len(self._columns), dtype=np.int64)

    def add(self, table: pa.Table, quasi: tuple[list[Ticks], Bools] | None = None) -> None:
        """Account for the next batch; of its quasi-identifiers ticks, and which are missing, may be at hand."""
        if not self._columns:
            return
        rough = self._context.rough
        Z, unusable = self._standardized(*(quasi or rough.ticks([table[kind.name] for kind in rough.kinds])))
        hashes = [hash_rows([table[column.name]], table.num_rows, seed=0) for column in self._columns]
        for c, column in enumerate(self._columns):
            there, n_bytes = named_values(one_array(table[column.name]))
            self.text_bytes[c] += n_bytes
            self._sketched[c].add(hashes[c], there, Z, unusable)
        together = _mixed(hashes)
        if len(self._columns) > 1:
            self._sketched[-1].add_values(together, np.ones(table.num_rows, np.bool_))
        words = _mixed([together, *Z.T.view(np.uint64)])
        self._add_draws(table, _Looked(words, hashes, Z, unusable))

    def _standardized(self, ticks: Sequence[Ticks], missing: Bools) -> tuple[Floats, Bools]:
        """Quasi-identifiers column by column, 0 where one is not usable, and where that is."""
        rough = self._context.rough
        offsets = np.empty(missing.shape, order="F")
        for j, (kind, values, origin) in enumerate(zip(rough.kinds, ticks, rough.origins, strict=True)):
            offsets[:, j] = kind.offsets(values, origin)
        Z = rough.standardize(offsets, missing)
        unusable = np.asfortranarray(missing | ~np.isfinite(Z))
        return np.asfortranarray(np.where(unusable, 0.0, Z) if unusable.any() else Z), unusable

    def _add_draws(self, table: pa.Table, looked: _Looked) -> None:
        rows, limit = self._records.rows(looked.words)
        self._records.add(Draw(self._frame(table, looked, rows), limit))
        if not self._context.schema.blocking:
            return
        # Keys need not have all their records: later batches give a share of theirs, as hashing texts takes time.
        self._n_whole -= 1
        some = np.arange(table.num_rows) if self._n_whole >= 0 else np.flatnonzero(looked.words < _SHARE_OF_LATER)
        blocking = [table[column.name].take(pa.array(some)) for column in self._context.schema.blocking]
        keys = hash_rows(blocking, len(some), seed=0)
        words = ((keys >> _HALF) << _HALF) | (looked.words[some] >> _HALF)
        rows, limit = self._keys.rows(words)
        frame = self._frame(table, looked, some[rows])
        self._keys.add(Draw(frame.assign(**{WORD: words[rows], KEY: keys[rows]}), limit))

    def _frame(self, table: pa.Table, looked: _Looked, rows: Ints) -> pd.DataFrame:
        columns: dict[str, NDArray[Any]] = {WORD: looked.words[rows]}
        Z = np.where(looked.unusable[rows], np.nan, looked.Z[rows])
        columns |= {f"z{j}": Z[:, j] for j in range(Z.shape[1])}
        taken = table.select([column.name for column in self._columns]).take(pa.array(rows))
        for c, column in enumerate(self._columns):
            columns |= {f"v{c}": numbers_of(column, taken[column.name]), f"h{c}": looked.hashes[c][rows]}
        return pd.DataFrame(columns)

    def gathered(self) -> Gathered | None:
        """Merge all batches; None where there was none, or no confidential column."""
        if not self._records.batches:
            return None
        sketches = tuple(sketched.merged() for sketched in self._sketched)
        records = merge_draws(self._records.batches, self._records.size)
        keys = merge_draws(self._keys.batches, self._keys.size) if self._keys.batches else _NO_RECORDS
        return Gathered(sketches, records, keys)


def _sizes(n_columns: int) -> list[int]:
    """Sizes of the sketches; there is one of all columns together where there are several."""
    return [SAMPLE_VALUES] * n_columns + [SAMPLE_TOGETHER] * (n_columns > 1)


def _mixed(words: Sequence[UInt64s]) -> UInt64s:
    """One hash a row of several words, in their order."""
    mixed, times = np.zeros_like(words[0]), np.empty_like(words[0])
    for position, word in enumerate(words):
        mixed += np.multiply(word, np.uint64((2 * position + 1) * _ODD % 2**64), out=times)
    return mix_words(mixed)


def named_values(array: pa.Array) -> tuple[Bools, int]:
    """Find values that are neither missing nor a text of nothing, as files without nulls have; count bytes of texts.

    >>> there, n_bytes = named_values(pa.array(["ab", "", None]))
    >>> there.tolist(), n_bytes
    ([True, False, False], 2)
    """
    there = ~missing_in(array)
    if not is_text_or_bytes(array.type):
        return there, 0
    lengths = pc.binary_length(array)
    if array.null_count:
        lengths = pc.fill_null(lengths, 0)
    return there & (np.asarray(lengths) > 0), int(np.asarray(lengths).sum())


def numbers_of(column: Column, values: pa.ChunkedArray) -> Floats:
    """Read values as numbers, NaN where they are none: texts of digits too, be they dates or ranges.

    >>> numbers_of(Column("x", pa.string(), ""), pa.chunked_array([["7.5", None, "2026-11-18", "a"]])).tolist()
    [7.5, nan, 20261118.0, nan]
    """
    # Of a text a kind knows places, not numbers, and these only where it is a quasi-identifier.
    kind = None if is_text_or_bytes(column.type) else kind_for(column.type)
    if kind is not None:
        of_column = kind(column.name, column.type)
        ticks, missing = of_column.ticks(values)
        usable = of_column.finite(ticks) & ~missing
        numbers = np.full(len(ticks), np.nan)
        numbers[usable] = of_column.offsets(ticks[usable], 0)
        return numbers
    if not is_text(column.type):
        return np.full(len(values), np.nan)
    encoded = one_array(values).dictionary_encode()
    of_texts = np.array([*map(_number_in, encoded.dictionary.to_pylist()), np.nan])
    return np.asarray(of_texts[np.asarray(pc.fill_null(encoded.indices, -1))])


def _number_in(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        digits = "".join(filter(str.isdecimal, text))
        number = float(digits) if 0 < len(digits) <= _MOST_DIGITS else np.nan
    return number if np.isfinite(number) else np.nan


def sketch_bytes(sketch: Sketch) -> bytes:
    return _framed(sketch.table.reset_index(), sketch.limit, sketch.rows)


def _framed(frame: pd.DataFrame, limit: int | None, rows: int = 0) -> bytes:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return to_bytes(table.replace_schema_metadata({"limit": "" if limit is None else str(limit), "rows": str(rows)}))


def _unframed(data: bytes) -> tuple[pd.DataFrame, int | None, int]:
    table = read_slice(data)
    meta = table.schema.metadata
    return table.to_pandas(), int(meta[b"limit"]) if meta[b"limit"] else None, int(meta[b"rows"])


_NO_RECORDS = Draw(pd.DataFrame({WORD: np.empty(0, np.uint64)}), None)
