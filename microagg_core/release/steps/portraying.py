"""Portraying: what workers note of records as they came and as they are released, and what the flow shows of it.

The gate's workers have both sides of each record at hand. Drawn records stay in the private work area; what becomes of
them in the flow are counts of many. Nothing of it decides what is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.registry import kind_for, kind_of
from microagg_core.data.tables.hashing import one_array
from microagg_core.group.metrics.moments import standardized
from microagg_core.group.metrics.statistics import LossStatistics
from microagg_core.inspect.portrait.columns import DrawnColumn, ShownColumn
from microagg_core.inspect.portrait.composing import Material, compose, drawing_share, fewest_records
from microagg_core.inspect.portrait.contract import Portrait, Regression
from microagg_core.inspect.portrait.design import (
    MOST_LEVELS,
    NO_RECORDS,
    Categories,
    DesignMoments,
    Numbers,
    Variable,
    design_moments,
)
from microagg_core.inspect.portrait.fitting import LinearModel, Scaled, regression_of
from microagg_core.inspect.risk.asking import is_asked
from microagg_core.release.planned import Planned
from microagg_core.release.step import JsonOutput, Pieces, TableOutput, Work
from microagg_core.release.steps.candidate import Candidate
from microagg_core.spec.analyses import Formula


@dataclass(frozen=True)
class AnalysisSums:
    """The sums of one formula over a file's records, before and after; or the columns with too many levels."""

    before: DesignMoments
    after: DesignMoments
    too_many: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileSums:
    """What is noted of all records of a file: their number, and the sums of each formula."""

    rows: int
    analyses: tuple[AnalysisSums, ...]


#: The drawn records of a candidate file, before and after; and the sums over all its records.
DRAWN, PORTRAIT_SUMS = TableOutput("drawn"), JsonOutput("portrait-sums", FileSums)


# --- A worker's half -----------------------------------------------------------------------------------------


def note_portrait(work: Work, plan: Planned, candidate: Candidate) -> None:
    """Write the drawn records of a candidate file, and the sums over all; nothing of survivors of a series.

    Nothing either where that fails: no picture stops a release, and :func:`combine_portrait` misses the file.
    """
    if candidate.came is None:
        return
    table = candidate.table
    formulas = [Formula.parse(text) for text in plan.context.spec.analyses]
    try:
        sums = tuple(sums_of(plan, formula, table, candidate.origins) for formula in formulas)
        drawn = drawn_records(plan, candidate)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # pyarrow's are among them
        return
    work.write(PORTRAIT_SUMS, FileSums(table.num_rows, sums))
    work.write(DRAWN, drawn)


def drawn_records(plan: Planned, candidate: Candidate) -> pa.Table:
    """The drawn records: columns b0, b1, ... as they came and a0, a1, ... as they are released, in their units."""
    kinds, spec = plan.encoding.kinds, plan.context.spec
    share = drawing_share(plan.survey.arrivals, len(kinds))
    table, origins = candidate.table, candidate.origins
    if share < 1.0:
        drawn = pa.array(is_asked(candidate.records, share, spec.seed))
        table, origins = table.filter(drawn), origins.filter(drawn)
    shown = [ShownColumn(kind) for kind in kinds]
    before = {f"b{j}": of.before(origins[f"q{j}"]) for j, of in enumerate(shown)}
    return pa.table({**before, **{f"a{j}": of.after(table[of.kind.name]) for j, of in enumerate(shown)}})


def sums_of(plan: Planned, formula: Formula, table: pa.Table, origins: pa.Table) -> AnalysisSums:
    """The sums of a formula over the records of a file that lack none of its values."""
    sides = [_Side.of(plan, name, table, origins) for name in formula.columns]
    too_many = tuple(side.name for side in sides if side.levels is not None and len(side.levels) > MOST_LEVELS)
    if too_many:
        return AnalysisSums(NO_RECORDS, NO_RECORDS, too_many)
    rows = np.flatnonzero(np.logical_and.reduce([side.there for side in sides]))
    before = [side.variable(side.before, rows) for side in sides]
    after = [side.variable(side.after, rows) for side in sides]
    return AnalysisSums(design_moments(before), design_moments(after))


@dataclass(frozen=True)
class _Side:
    """A column of a formula, before and after; NaN, or a code below 0, where a value is missing."""

    name: str
    before: Floats | Ints
    after: Floats | Ints
    #: Of a category; None of numbers.
    levels: tuple[str, ...] | None = None

    @classmethod
    def of(cls, plan: Planned, name: str, table: pa.Table, origins: pa.Table) -> _Side:
        names = [kind.name for kind in plan.encoding.kinds]
        if name in names:
            j = names.index(name)
            return cls(name, *_standardized(plan, j, origins[f"q{j}"], table[name]))
        if is_category(plan, name):
            encoded = one_array(table[name]).cast(pa.string()).dictionary_encode()
            codes = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
            return cls(name, codes, codes, tuple(encoded.dictionary.to_pylist()))
        values = ShownColumn(kind_of(name, table[name].type)).before(table[name])
        return cls(name, values, values)

    @property
    def there(self) -> Bools:
        """Which records have a value on both sides."""
        if self.levels is not None:
            return np.asarray(self.before >= 0)
        return np.isfinite(self.before) & np.isfinite(self.after)

    def variable(self, values: Floats | Ints, rows: Ints) -> Variable:
        """What a design takes of some rows."""
        if self.levels is not None:
            return Categories(self.levels, values[rows].astype(np.int64))
        return Numbers(values[rows].astype(np.float64))


def is_category(plan: Planned, name: str) -> bool:
    """Whether a column of a formula has levels: blocking columns do, and texts."""
    columns = {column.name: column for column in plan.context.schema.columns}
    return columns[name].role == "blocking" or kind_for(columns[name].type) is None


def _standardized(plan: Planned, j: int, came: pa.ChunkedArray, released: pa.ChunkedArray) -> tuple[Floats, Floats]:
    """A quasi-identifier on the scale of distances, that of the input, before and after."""
    encoding = plan.encoding
    kind, origin = encoding.kinds[j], encoding.origins[j]
    ticks, missing = kind.ticks(came)
    ticks_after, missing_after = kind.reader.ticks(released)
    offsets = np.stack([kind.offsets(ticks, origin), kind.released_offsets(ticks_after, origin)], axis=1)
    scale = np.array([encoding.means[j]] * 2), np.array([encoding.deviations[j]] * 2)
    z = standardized(offsets, *scale)
    z[missing, 0], z[missing_after, 1] = np.nan, np.nan
    return z[:, 0], z[:, 1]


# --- The flow's half -----------------------------------------------------------------------------------------


def combine_portrait(checked: Pieces, plan: Planned, n_files: int, statistics: LossStatistics | None) -> Portrait:
    """What the notes of all files come to.

    Args:
        checked: what the gate's workers wrote.
        plan: what is released.
        n_files: all of them, those of survivors included.
        statistics: of all records that were grouped; None where none was.
    """
    kinds, files = plan.encoding.kinds, checked.read_all(PORTRAIT_SUMS)
    if lacking := plan.outline.n_files - len(files):
        raise ValueError(f"{lacking} files were not portrayed")
    none = pa.table({f"{side}{j}": np.zeros(0) for side in "ba" for j in range(len(kinds))})
    drawn = pa.concat_tables([none, *checked.read_all(DRAWN)])
    columns = [
        DrawnColumn(ShownColumn(kind), np.asarray(drawn[f"b{j}"]), np.asarray(drawn[f"a{j}"]))
        for j, kind in enumerate(kinds)
    ]
    regressions, left_out = _regressions(plan, files)
    rows = sum(file.rows for file in files)
    said = [*_absent(plan, n_files), *left_out]
    return compose(Material(plan.context.spec.k, rows, columns, statistics, regressions, said))


def _absent(plan: Planned, n_files: int) -> list[str]:
    """Sentences on records that are in nothing of it."""
    said = []
    if n_files > plan.outline.n_files:
        said.append("survivors are not in it: of them, the series keeps what was released, and not how they came")
    if plan.outline.withheld_rows:
        said.append("withheld records are not in it, neither before nor after")
    return said


def _regressions(plan: Planned, files: Sequence[FileSums]) -> tuple[list[Regression], list[str]]:
    fewest, models, left_out = fewest_records(plan.context.spec.k), [], []
    for place, text in enumerate(plan.context.spec.analyses):
        sums = [file.analyses[place] for file in files if file.analyses]
        too_many = sorted({name for of_file in sums for name in of_file.too_many})
        if too_many:
            left_out.append(f"{text!r} is not computed, as {too_many[0]!r} has more than {MOST_LEVELS} levels")
            continue
        before, after = (reduce(add, side, NO_RECORDS) for side in ([s.before for s in sums], [s.after for s in sums]))
        regression, said = regression_of(_model(plan, text), before, after, fewest)
        models += [] if regression is None else [regression]
        left_out += said
    return models, left_out


def _model(plan: Planned, text: str) -> LinearModel:
    names = Formula.parse(text).columns
    return LinearModel(text, names, tuple(_scale(plan, name) for name in names))


def _scale(plan: Planned, name: str) -> Scaled | None:
    """How a column of a formula came onto the scale of its sums; None of a category."""
    encoding, names = plan.encoding, [kind.name for kind in plan.encoding.kinds]
    if name not in names:
        return None if is_category(plan, name) else Scaled()
    j = names.index(name)
    ticks = ShownColumn(encoding.kinds[j]).ticks_before
    return Scaled((float(encoding.origins[j]) + encoding.means[j]) / ticks, encoding.deviations[j] / ticks)
