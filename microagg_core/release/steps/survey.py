"""Survey: what is in the input, counted part by part, before anything is decided.

Of each part: rows, missing and non-finite values, moments and decimals of the quasi-identifiers, records of each
blocking key, a sample of each confidential column's values, digests of what names a unit, and a fingerprint by which a
later read is known to be of the same rows. All from the confidential values on is of all records. What comes before and
decides about blocks is of the records that take part: in a night of a series, the arrivals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.blocks.strata import FIRSTS, HEAVIEST, ROWS, UNITS, WEIGHT
from microagg_core.data.formats.writing import released_format
from microagg_core.data.kinds.contract import Claim, Kind, Ticks, Traits
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.kinds.nominal import NominalKind, are_numbers
from microagg_core.data.kinds.scales import NO_COUNTS, ColumnCounts, Scale
from microagg_core.data.tables.hashing import hash_rows, one_array, sum_of
from microagg_core.data.tables.ordering import as_key, combinations
from microagg_core.data.tables.types import is_text, is_text_or_bytes
from microagg_core.errors import DataError
from microagg_core.group.metrics.moments import Moments, Origin, merge_all
from microagg_core.group.metrics.statistics import significant
from microagg_core.inspect.checks.known import known_cure
from microagg_core.inspect.confidential import Confidential
from microagg_core.inspect.disclosures import Disclosure
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.plain import from_plain, to_plain
from microagg_core.release.context import CONTEXT, Context
from microagg_core.release.records import (
    MARKS,
    MEMBERS,
    PLACE,
    TOGETHER,
    WAITED,
    PartBatch,
    file_with,
    records_of_part,
)
from microagg_core.release.step import BytesOutput, JsonOutput, Load, Pieces, Step, TableOutput, Work
from microagg_core.release.steps.confidential import ConfidentialGathering, Gathered, merged_sketches
from microagg_core.release.steps.keys import PART_KEYS, merge_keys, write_keys
from microagg_core.release.steps.sampling import SAMPLE, PartSample
from microagg_core.release.steps.units import (
    DIGESTS,
    SALT,
    UNIT_COLUMNS,
    UnitDigests,
    coarser_columns,
    refuse_nameless_units,
    several_columns,
    unit_checks,
)
from microagg_core.spec.release import ReleaseSpec

#: What is counted of an input part; and what is gathered of each confidential column, of all together, and of records
#: that are drawn.
STATISTICS, CONFIDENTIAL = JsonOutput("statistics", dict[str, Any]), BytesOutput("confidential")
#: How many records have each value of the columns that have a scale, one object each.
VALUES = TableOutput("values")

_FINGERPRINT_SEED = 0x5EED
#: More distinct whole numbers than these are no codes of categories; as many values of a batch are looked at first.
MOST_CODES, _SOME = 20, 1000
#: Bytes for each value of a batch (five copies), and for what is gathered of a column (a sketch and drawn records,
#: whole from so many rows on). Measured of 3 to 300 columns: 2 MiB a column at 30,000 rows, 3.5 at 65,000, and 290 MiB
#: with hardly a column, which is less than a worker is taken to need itself.
_VALUE_BYTES, _COLUMN_BYTES, _COLUMN_ROWS, _SPARE_BYTES = 42, 860 * 2**10, 10_000, 48 * 2**20


#: Values at each end of a column that are kept: a handful of records is as many at most.
_HANDFUL = 10
#: Records that make so much of a column's variance, and are fewer than this share of them, dominate it.
_DOMINATED, _FEW = 0.25, 0.01


@dataclass(frozen=True)
class Dominated:
    """A quasi-identifier of which a handful of records makes much of the variance."""

    column: str
    records: int
    #: Of the variance.
    share: float


@dataclass(frozen=True)
class Survey:
    """What the survey found; everything private to the work area."""

    #: All records of each part: what records are numbered by.
    rows_of_parts: tuple[int, ...]
    #: Those of them that take part; all, but for a night of a series.
    arrivals_of_parts: tuple[int, ...]
    #: Units of those that take part.
    units: int
    fingerprints: tuple[str, ...]
    row_bytes: float
    missing: tuple[int, ...]
    moments: tuple[Moments, ...]
    #: What the kind of each quasi-identifier wants to know of its values.
    traits: tuple[Traits, ...]
    #: How many distinct whole numbers a quasi-identifier has, by name; of those alone that have few, and nothing else.
    few_numbers: dict[str, int]
    #: What the confidential columns would disclose.
    disclosures: tuple[Disclosure, ...]
    #: What is to be said of units.
    remarks: tuple[str, ...]
    dominated: tuple[Dominated, ...]
    #: Of each quasi-identifier the coordinate in which it counts when groups are made; None: its values.
    scales: tuple[Scale | None, ...]
    #: Places of those whose zeros are grouped apart.
    zeros_apart: tuple[int, ...]
    #: Where units have several rows, those beyond the most that are released of a unit, and the units that have such.
    left_out: int = 0
    cut_units: int = 0

    @property
    def rows(self) -> int:
        return sum(self.rows_of_parts)

    @property
    def arrivals(self) -> int:
        """Count records that take part, in what was counted and in what is released."""
        return sum(self.arrivals_of_parts)

    @property
    def staged_bytes(self) -> float:
        return self.arrivals * self.row_bytes

    def encoding(self, kinds: Sequence[Kind]) -> Encoding:
        """Complete kinds with what is known of all values, and standardize with their moments."""
        surveyed = zip(kinds, self.traits, self.moments, strict=True)
        kinds = tuple(kind.for_input(of, moments) for kind, of, moments in surveyed)
        encoding = Encoding.from_moments(kinds, self.moments).steadied()
        return replace(encoding, scales=self.scales, zeros_apart=self.zeros_apart)

    def first_record(self, part: int) -> int:
        return sum(self.rows_of_parts[:part])

    @property
    def first_records(self) -> NDArray[np.int64]:
        rows = np.array(self.rows_of_parts, dtype=np.int64)
        return np.cumsum(rows) - rows

    def parts_of(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.first_records, records, side="right") - 1


def blocking_columns(table: pa.Table, context: Context) -> list[pa.Array]:
    """Blocking values as keys."""
    return [as_key(one_array(table[column.name])) for column in context.schema.blocking]


class Fingerprint:
    """A sum over the rows of a part that tells whether it is read as it was surveyed."""

    def __init__(self) -> None:
        self._rows = 0
        self._sums = [0, 0]

    def add(self, table: pa.Table, names: Sequence[str]) -> None:
        """Account for the part's next rows."""
        columns = [pa.array(np.arange(self._rows, self._rows + table.num_rows)), *(table[n] for n in names)]
        hashes = hash_rows(columns, table.num_rows, _FINGERPRINT_SEED)
        for i, words in enumerate((hashes, mix_words(hashes))):
            self._sums[i] = (self._sums[i] + sum_of(words)) % 2**64
        self._rows += table.num_rows

    def text(self) -> str:
        return f"{self._rows}-{self._sums[0]:016x}-{self._sums[1]:016x}"


def refuse_broken_text(name: str, column: pa.ChunkedArray) -> None:
    """Stop where a text is none: Parquet files may hold any bytes in a column of text."""
    if not is_text(column.type):
        return
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raise DataError(
            f"column {name!r} holds text that is not UTF-8, which cannot be written as text; "
            "correct it, or give the column another role"
        ) from None


def value_bytes(column: pa.ChunkedArray) -> int:
    """Bytes that the values take, however they are chunked: the same rows always come to the same.

    >>> value_bytes(pa.chunked_array([["a", "bcd"], [None]])), value_bytes(pa.chunked_array([[1, 2]]))
    (28, 16)
    """
    kind = column.type
    if pa.types.is_null(kind):
        return 0
    if is_text_or_bytes(kind):
        return int(pc.sum(pc.binary_length(column)).as_py() or 0) + 8 * len(column)
    return len(column) * max(1, int(kind.bit_width) // 8)


def least_values(kept: Floats, values: Floats) -> Floats:
    """Add values to the least ones of those before, in ascending order.

    >>> least_values(np.array([1.0, 5.0]), np.array([3.0, 9.0])).tolist()
    [1.0, 3.0, 5.0, 9.0]
    """
    if len(kept) == _HANDFUL:
        values = values[values < kept[-1]]
    both = np.concatenate([kept, values])
    return np.sort(np.partition(both, _HANDFUL)[:_HANDFUL] if len(both) > _HANDFUL else both)


def dominated_by_few(kind: Kind, ends: Floats, moments: Moments, origin: Origin, k: int) -> Dominated | None:
    """Find whether the records farthest from the mean, k at most, make much of the variance; ``ends`` are offsets."""
    deviation, most = moments.deviation, min(k, _HANDFUL, int(_FEW * moments.n))
    if not deviation or Claim.MEAN_KEPT not in kind.claims:
        return None
    far = np.sort(np.abs(ends - moments.mean_from(origin)) / deviation)[::-1][:most]
    shares = np.cumsum(far * far) / moments.n
    records = int(np.searchsorted(shares, _DOMINATED)) + 1
    return Dominated(kind.name, records, significant(float(shares[records - 1]))) if records <= len(far) else None


def may_be_codes(kind: Kind) -> bool:
    """Tell whether a column that is taken for a number may hold whole numbers that stand for categories."""
    held = kind.source_type
    return kind.declared_as == "number" and (pa.types.is_integer(held) or pa.types.is_floating(held))


def _with_few(few: frozenset[int] | None, values: Ticks) -> frozenset[int] | None:
    """Add values to few whole numbers; None where they are too many, or others are among them.

    >>> sorted(_with_few(frozenset({9}), np.array([1.0, 2.0]))), _with_few(frozenset(), np.array([1.5]))
    ([1, 2, 9], None)
    """
    for some in (values[:_SOME], values[_SOME:]):  # most columns are known by some values to be none of codes
        if few is None:
            break
        numbers = pd.unique(some)
        is_few = len(numbers) <= MOST_CODES and (numbers == np.rint(numbers)).all()
        few = few | {int(number) for number in numbers} if is_few else None
    return few if few is not None and len(few) <= MOST_CODES else None


def _few_numbers(context: Context, parts: Sequence[Sequence[list[int] | None]]) -> dict[str, int]:
    """Count the few whole numbers of all parts, by quasi-identifier."""
    counts = {}
    for kind, *of_parts in zip(context.kinds, *parts, strict=True):
        few = {number for numbers in of_parts for number in numbers or ()}
        if None not in of_parts and len(few) <= MOST_CODES:
            counts[kind.name] = len(few)
    return counts


class PartSurvey:
    """What accumulates over the batches of one part."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.needs_valid_text = released_format(context.spec.output).needs_valid_text
        self.rows = 0
        self.arrivals = 0
        self.units = 0
        self.looked_at = 0
        self.is_marked = False
        self.bytes = 0
        p = len(context.kinds)
        self.missing = np.zeros(p, dtype=np.int64)
        self.not_finite = np.zeros(p, dtype=np.int64)
        self.moments: list[list[Moments]] = [[] for _ in range(p)]
        self.traits: list[Traits] = [kind.NO_TRAITS for kind in context.kinds]
        #: Offsets of the least values, and of the greatest with the other sign.
        self.ends: list[list[Floats]] = [[np.zeros(0)] * 2 for _ in range(p)]
        #: Of columns that have a scale, how many records have each value.
        self.counted = {j: NO_COUNTS for j, metric in enumerate(context.schema.metrics) if metric is not None}
        self.few_numbers: list[frozenset[int] | None] = [
            frozenset() if may_be_codes(kind) else None for kind in context.kinds
        ]
        self.keys: list[pa.Table] = []
        self.confidential = ConfidentialGathering(context)
        self.fingerprint = Fingerprint()

    def add(self, batch: PartBatch) -> None:
        """Account for the next batch."""
        self.rows += batch.whole.num_rows
        self.fingerprint.add(batch.whole, self.context.schema.travelling)
        self.is_marked |= batch.marks is not None
        table = batch.table
        self.arrivals += table.num_rows
        self.units += int(np.count_nonzero(batch.is_first))
        travelling = dict.fromkeys(self.context.schema.travelling)
        self.bytes += sum(value_bytes(table[name]) for name in travelling)
        rough = self.context.rough
        columns = [table[kind.name] for kind in rough.kinds]
        quasi = rough.ticks(columns)
        self._add_quasi_identifiers(columns, *quasi)
        self._add_keys(batch, quasi[1], rough.weights_of(quasi[0]))
        self._add_confidential(batch, quasi if batch.marks is None else None)

    def _add_quasi_identifiers(
        self, columns: Sequence[pa.ChunkedArray], ticks: Sequence[Ticks], missing: Bools
    ) -> None:
        for j, (kind, column, values) in enumerate(zip(self.context.kinds, columns, ticks, strict=True)):
            refuse_broken_text(kind.name, column)
            finite = kind.finite(values)
            usable = finite & ~missing[:, j]
            there = values if usable.all() else values[usable]
            self.moments[j].append(kind.moments(there))
            self.traits[j] = kind.more_traits(self.traits[j], column, there)
            self.few_numbers[j] = _with_few(self.few_numbers[j], there)
            n_missing = np.count_nonzero(missing[:, j])
            self.not_finite[j] += len(values) - n_missing - len(there)
            self.missing[j] += n_missing
            if j in self.counted:
                self.counted[j] += ColumnCounts.of(there.astype(np.float64) / kind.ticks_of_value)
            offsets = kind.offsets(there, self.context.rough.origins[j])
            self.ends[j] = [
                least_values(kept, side) for kept, side in zip(self.ends[j], (offsets, -offsets), strict=True)
            ]

    def _add_keys(self, batch: PartBatch, missing: Bools, weights: Floats | None) -> None:
        """Count the units of each key; and where rows of a unit may have several, its rows too."""
        columns, waited = blocking_columns(batch.table, self.context), batch.waited
        names = ["pattern", *(f"b{i}" for i in range(len(columns)))]
        keys = pa.Table.from_arrays([pa.array(batch.shapes(missing)), *columns], names=names)
        sums = []
        if waited is not None:
            keys = keys.append_column(WAITED, pa.array(waited.astype(np.int64)))
            sums = [(WAITED, "sum")]
        if weights is not None:
            keys = keys.append_column(WEIGHT, pa.array(weights)).append_column(HEAVIEST, pa.array(weights))
            sums += [(WEIGHT, "sum"), (HEAVIEST, "max")]
        if batch.sizes is not None:
            keys = keys.filter(pa.array(batch.is_first))
        elif batch.all_members is not None:
            own = combinations([*keys.columns[: len(names)], pa.array(batch.units)], keys.num_rows)[1]
            is_own = np.bincount(own, minlength=keys.num_rows)
            keys = keys.append_column(FIRSTS, pa.array(batch.is_first.astype(np.int64)))
            keys = keys.append_column(UNITS, pa.array(is_own))
            sums += [(FIRSTS, "sum"), (UNITS, "sum")]
        counted = keys.group_by(names, use_threads=False).aggregate([([], "count_all"), *sums])
        for column, name in zip(self.context.schema.blocking, names[1:], strict=True):
            refuse_broken_text(column.name, counted[name])
        self.keys.append(counted.rename_columns([*names, ROWS, *(name for name, _ in sums)]))
        if len(self.keys) > 32:
            self.keys = [merge_keys(self.keys)]

    def _add_confidential(self, batch: PartBatch, quasi: tuple[list[Ticks], Bools] | None) -> None:
        """Look at confidential values; of a unit of several rows at those of its first, as a unit is what they name."""
        table = batch.whole
        if self.needs_valid_text:
            for column in self.context.schema.confidential:
                refuse_broken_text(column.name, table[column.name])
        if batch.all_members is not None:
            table, quasi = table.filter(pc.equal(batch.all_members[PLACE], 0)), None
        self.looked_at += table.num_rows
        self.confidential.add(table, quasi)


def survey_part(work: Work) -> int:
    """Survey one input part; writes its statistics, keys, sketches and unit digests."""
    context = work.load(CONTEXT)
    survey = PartSurvey(context)
    units = UnitDigests(work, context.spec, context.schema, work.load(SALT), len(context.parts))
    sample = PartSample(work.number, len(context.parts), context.spec.seed, context.schema.grouping)
    names = tuple(dict.fromkeys((*context.schema.travelling, *units.columns)))
    for batch in records_of_part(work, context, work.number, 0, names):
        survey.add(batch)
        units.add(batch.whole)
        if context.spec.several is None:  # whole units are sampled where their blocks have to be cut
            sample.add(batch)
    units.end()
    _write_survey(work, survey, units.nameless)
    sample.write(work)
    return survey.rows


def _write_survey(work: Work, survey: PartSurvey, nameless: list[int]) -> None:
    """Write a part's statistics, keys and confidential columns; ``nameless`` counts records without an id."""
    statistics = {
        "rows": survey.rows,
        "arrivals": survey.arrivals,
        "units": survey.units,
        "looked_at": survey.looked_at,
        "is_marked": survey.is_marked,
        "bytes": survey.bytes,
        "missing": survey.missing.tolist(),
        "not_finite": survey.not_finite.tolist(),
        "fingerprint": survey.fingerprint.text(),
        "moments": to_plain([merge_all(batches) for batches in survey.moments]),
        "traits": survey.traits,
        "ends": [[np.nan_to_num(side).tolist() for side in ends] for ends in survey.ends],
        "few_numbers": [None if few is None else sorted(few) for few in survey.few_numbers],
        "nameless": nameless,
        "text_bytes": survey.confidential.text_bytes.tolist(),
    }
    work.write(STATISTICS, statistics)
    for j, counted in survey.counted.items():
        work.write(VALUES, counted.to_table(j))
    if survey.keys:
        write_keys(work, merge_keys(survey.keys))
    gathered = survey.confidential.gathered()
    for data in gathered.to_bytes() if gathered else ():
        work.write(CONFIDENTIAL, data)


def _survey_memory(load: Load) -> int:
    """Estimate the memory of a part's survey by its columns and rows.

    >>> _survey_memory(Load(30_000, 300, batch_rows=30_000)) // 2**20, _survey_memory(Load(30_000, 20, 0.0, 30_000))
    (564, 0)
    """
    column = _VALUE_BYTES * load.batch_rows + _COLUMN_BYTES * min(1.0, load.rows / _COLUMN_ROWS)
    return max(0, int(load.columns * column) - _SPARE_BYTES)


SURVEY_PARTS = Step(
    name="survey",
    stage="survey",
    per="part",
    does=survey_part,
    memory=_survey_memory,
    reads_input=True,
    knows=(CONTEXT, SALT),
    same=(MARKS, TOGETHER, MEMBERS),
    writes=(STATISTICS, CONFIDENTIAL, UNIT_COLUMNS, SAMPLE, VALUES),
    sends=(PART_KEYS, DIGESTS),
)


def combine_survey(spec: ReleaseSpec, surveyed: Pieces, context: Context) -> Survey:
    """Merge the parts' surveys, in part order, and refuse what cannot be released."""
    parts = surveyed.read_all(STATISTICS)
    rows, arrivals = [p["rows"] for p in parts], [p["arrivals"] for p in parts]
    if not any(p["is_marked"] for p in parts):
        _refuse_few(sum(rows), spec.k)
    nameless = [sum(of_check) for of_check in zip(*(p["nameless"] for p in parts), strict=True)]
    refuse_nameless_units(spec, unit_checks(spec, context.schema), nameless)
    _refuse_values(spec, context, parts)
    # A marked part has tables of values even where no record came.
    filled = {i for i, n in enumerate(rows) if n} or {0}
    traits = tuple(kind.all_traits(p["traits"][j] for p in parts) for j, kind in enumerate(context.kinds))
    _refuse_numbers_as_text(spec, context, traits)
    moments = tuple(
        kind.input_moments(traits[j], merge_all(from_plain(Moments, p["moments"][j]) for p in parts if p["arrivals"]))
        for j, kind in enumerate(context.kinds)
    )
    for kind, values, of in zip(context.kinds, traits, moments, strict=True):
        complete = kind.for_input(values, of)
        complete.read_from(released_format(spec.output).released_form)
        if isinstance(complete, NominalKind) and arrivals == rows:  # the arrivals of a night may be few
            complete.refuse_names()
    gathered, n_columns = None, len(context.schema.confidential)
    if n_columns:
        gathered = Gathered.of_parts(n_columns, lambda i: _written(surveyed, CONFIDENTIAL, i, filled))
    return Survey(
        rows_of_parts=tuple(rows),
        arrivals_of_parts=tuple(arrivals),
        units=sum(p["units"] for p in parts),
        fingerprints=tuple(p["fingerprint"] for p in parts),
        row_bytes=sum(p["bytes"] for p in parts) / max(1, sum(arrivals)),
        missing=tuple(int(m) for m in np.sum([p["missing"] for p in parts], axis=0)),
        moments=moments,
        traits=traits,
        few_numbers=_few_numbers(context, [p["few_numbers"] for p in parts]),
        disclosures=_disclosures(context, gathered, parts),
        remarks=(*_remarks(spec, surveyed, filled), *_rarely_known(context, gathered)),
        dominated=_dominated(context, moments, parts),
        scales=_scales(context, surveyed),
        zeros_apart=tuple(j for j, is_apart in enumerate(context.schema.zeros_apart) if is_apart),
    )


def _refuse_numbers_as_text(spec: ReleaseSpec, context: Context, traits: Sequence[Traits]) -> None:
    """Stop where numbers would be taken for categories: a file has them as text, and nobody said what they are."""
    said = {quasi.name for quasi in spec.roles.quasi_identifiers if quasi.kind is not None} | spec.hierarchies.keys()
    for kind, values in zip(context.kinds, traits, strict=True):
        if kind.declared_as == "nominal" and kind.name not in said and are_numbers([value for value, _ in values]):
            raise DataError(
                f"quasi-identifier {kind.name!r} is text, and most of its values are numbers or dates; give it their "
                "type (for CSV under input.csv.types), or, if they are codes, declare it kind: nominal"
            )


def _scales(context: Context, surveyed: Pieces) -> tuple[Scale | None, ...]:
    """Fit the scales to the values of all parts; of none, a column has no scale."""
    metrics, counted = context.schema.metrics, dict[int, ColumnCounts]()
    for _, table in surveyed.each(VALUES):
        if table.num_rows:
            j = table["column"][0].as_py()
            counted[j] = counted.get(j, NO_COUNTS) + ColumnCounts.from_table(table)
    columns = enumerate(zip(context.kinds, metrics, strict=True))
    return tuple(
        Scale.fitted(metric, counted[j], kind.ticks_of_value) if metric is not None and j in counted else None
        for j, (kind, metric) in columns
    )


def _dominated(context: Context, moments: tuple[Moments, ...], parts: list[dict[str, Any]]) -> tuple[Dominated, ...]:
    found = []
    for j, (kind, of, origin) in enumerate(zip(context.kinds, moments, context.rough.origins, strict=True)):
        least, greatest = (reduce(least_values, (np.array(p["ends"][j][i]) for p in parts)) for i in range(2))
        found.append(dominated_by_few(kind, np.concatenate([least, -greatest]), of, origin, context.spec.k))
    return tuple(column for column in found if column is not None)


def _written(surveyed: Pieces, output: BytesOutput, index: int, filled: set[int]) -> list[bytes]:
    """Read objects with one index of the parts that have records."""
    pieces = [piece for piece in surveyed.of(output) if piece.index == index and piece.number in filled]
    return surveyed.read_of(output, pieces)


def _remarks(spec: ReleaseSpec, surveyed: Pieces, filled: set[int]) -> tuple[str, ...]:
    """Sentences about the columns of a unit."""
    written = (_written(surveyed, UNIT_COLUMNS, i, filled) for i in range(len(several_columns(spec))))
    return coarser_columns(spec, [merged_sketches(of_column) for of_column in written])


def _rarely_known(context: Context, gathered: Gathered | None) -> Iterator[str]:
    """Say which known sets the gate would refuse for a confidential value that fewer than k records have."""
    k, names = context.spec.k, [column.name for column in context.schema.confidential]
    sketches = zip(names, gathered.sketches, strict=False) if gathered and context.spec.known else ()
    rare = [name for name, sketch in sketches if sketch.table["n"].min() < k]
    for known in context.spec.known:
        if own := [name for name in known if name in rare]:
            have = f"{', '.join(map(repr, own))} {'has' if len(own) == 1 else 'have'}"
            yield (
                f"known [{', '.join(known)}]: {have} values that fewer than k={k} records have, so the gate would stop "
                f"the release; {known_cure(known, context.schema.grouping)}"
            )


def _disclosures(context: Context, gathered: Gathered | None, parts: list[dict[str, Any]]) -> tuple[Disclosure, ...]:
    if gathered is None:
        return ()
    text_bytes = np.sum([p["text_bytes"] for p in parts], axis=0)
    found = disclosures_of(context, gathered, text_bytes, sum(p["looked_at"] for p in parts))
    return found if context.spec.several is None else tuple(replace(case, of_units=True) for case in found)


def disclosures_of(context: Context, gathered: Gathered, text_bytes: Ints, n_records: int) -> tuple[Disclosure, ...]:
    """Find what the confidential columns would disclose, by what was gathered of so many records."""
    names = tuple(column.name for column in context.schema.confidential)
    sketches = gathered.sketches[: len(names)]
    lengths = tuple(int(b) / max(1, sketch.rows) for b, sketch in zip(text_bytes, sketches, strict=True))
    together = gathered.sketches[-1] if len(names) > 1 else None
    quasi = tuple(kind.name for kind in context.kinds)
    draws = (gathered.records, gathered.keys)
    return Confidential(names, quasi, sketches, lengths, together, *draws, context.spec.k, n_records).disclosures()


def _refuse_few(rows: int, k: int) -> None:
    if rows == 0:
        raise DataError("the input has no records")
    if rows < k:
        raise DataError(f"the input has {rows} records, fewer than k={k}")


_MISSING = ("missing values", "fill them in, or set missing: blank")
_MISSING_OF_SEVERAL = ("missing values", "fill them in, or, of a category, say {name: ..., missing: category}")


def _any_of(what: str, kind: Kind, column: pa.ChunkedArray) -> bool:
    """Look for a missing value, or one that is not usable, in a column of a quasi-identifier."""
    ticks, missing = kind.ticks(column)
    return bool(missing.any() if what == "missing" else (~(kind.finite(ticks) | missing)).any())


def _refuse_values(spec: ReleaseSpec, context: Context, parts: list[dict[str, Any]]) -> None:
    problems = []
    for j, kind in enumerate(context.kinds):
        missing = _MISSING if spec.several is None else _MISSING_OF_SEVERAL
        for count_in, (what, cure) in {"not_finite": kind.unusable, "missing": missing}.items():
            counts = [p[count_in][j] for p in parts]
            may_be_missing = spec.missing != "error" and not kind.is_weight
            if sum(counts) == 0 or (count_in == "missing" and may_be_missing):
                continue
            part = context.parts[next(i for i, c in enumerate(counts) if c)]
            place = ""
            if spec.several is None:  # else parts are those of whole units
                found = file_with(part, context, kind.name, partial(_any_of, count_in, kind))
                place = f" (the first in {found}, part {part.number})"
            role, cure = ("weight", kind.unusable[1]) if kind.is_weight else ("quasi-identifier", cure)
            problems.append(f"{role} {kind.name!r} has {sum(counts)} {what}{place}; {cure}")
    if problems:
        raise DataError("\n".join(problems))
