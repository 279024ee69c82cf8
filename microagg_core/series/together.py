"""Rows of a unit brought together, where units have several: from wherever they lie in the input into one part.

Each input part sends its rows to the part that its unit's id decides. That part orders them by unit, in the order in
which units come in the input, and writes them in batches of whole units; all later steps read these instead of the
input. Ids stay behind: a unit is known by its digest from here on, and a row by that and its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Ints
from microagg_core.data.formats.reading import BATCH_ROWS, InputPart, input_format, read_part
from microagg_core.data.places import Input
from microagg_core.data.tables.hashing import hash_rows, one_array
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import DataError
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.release.context import CONTEXT, Context
from microagg_core.release.records import CAME, MEMBERS, PLACE, SIZE, TOGETHER
from microagg_core.release.step import JsonOutput, Pieces, Rows, Scatter, Step, Work
from microagg_core.series.digests import (
    as_columns,
    numbered_rows,
    pairs_of,
    places_of_units,
    rows_of_units,
    units_of,
)
from microagg_core.series.night import NIGHT, NIGHT_KEY, load_night
from microagg_core.spec.release import ReleaseSpec
from microagg_core.spec.units import MOST_ROWS, RowsLimit, SeveralRows

#: Rows of the input on their way to the part of their unit.
BROUGHT = Rows("brought")
#: Columns beside the travelling ones, which have numbers for names: digests of the row, of how its unit is spelled, and
#: what says when it was.
_ROW, _SPELLED, _WHEN = "row", "spelled", "when"
_COPIES = 4


#: Bytes of the rows that are put together by one task, decoded: it holds them several times.
_TASK_BYTES = 96 * 2**20


def parts_of_units(parts: Sequence[InputPart], source: Input) -> tuple[InputPart, ...]:
    """Add parts, of nothing in the input, until rows of whole units in as many fit into memory."""
    stored = sum(stretch.size for part in parts for stretch in part.stretches)
    wanted = -(-stored * input_format(source).decoded // _TASK_BYTES)
    return (*parts, *(InputPart(number, ()) for number in range(len(parts), wanted)))


@dataclass(frozen=True)
class BroughtTogether:
    """Findings about the units of a part; sums of two parts are those of both."""

    units: int = 0
    rows: int = 0
    #: Rows beyond the most that a unit may have, which are left out, and the units that have such.
    left_out: int = 0
    cut_units: int = 0
    #: Units with more rows than a unit can have; whose ids are spelled in several ways; rows that repeat one of their
    #: unit; and units in which a column differs that may not, by its name.
    too_long: int = 0
    spelled: int = 0
    repeated: int = 0
    differing: dict[str, int] | None = None

    def __add__(self, other: BroughtTogether) -> BroughtTogether:
        counts = {name: value + getattr(other, name) for name, value in vars(self).items() if name != "differing"}
        mine, theirs = self.differing or {}, other.differing or {}
        return BroughtTogether(**counts, differing={name: n + mine.get(name, 0) for name, n in theirs.items()} or mine)


#: What was found of the units of a part.
UNITS_FOUND = JsonOutput("units-found", BroughtTogether)


def bring_part(work: Work) -> int:
    """Send the rows of an input part to the parts of their units."""
    context, (night, key) = work.load(CONTEXT), load_night(work)
    unit, travelling = _several(context), tuple(dict.fromkeys(context.schema.travelling))
    names = tuple(dict.fromkeys((*travelling, *unit.named)))
    scatter, rows = Scatter(work, BROUGHT), 0
    for table in read_part(context.parts[work.number], context.spec.input, names):
        ids = [one_array(table[name]) for name in unit.id]
        records = np.arange(rows, rows + table.num_rows) + (work.number << 40)
        columns = {RECORD: pa.array(records), **as_columns(units_of(ids, key, night.unit_form), "u")}
        columns[_SPELLED] = pa.array(hash_rows(ids, table.num_rows, key.seed("spelling")))
        if unit.row:
            of_rows = units_of([table[name] for name in unit.row], key, night.unit_form, of="row of a unit")
            columns[_ROW] = pa.array(of_rows[:, 0].copy())
        if unit.limit and unit.limit.by:
            columns[_WHEN] = one_array(table[unit.limit.by])
        columns |= {str(j): one_array(table[name]) for j, name in enumerate(travelling)}
        scatter.add(pa.table(columns), places_of_units(ids, len(context.parts), night.unit_form))
        rows += table.num_rows
    scatter.flush()
    return rows


def put_together(work: Work) -> int:
    """Order the rows of a part's units by unit, leave out what is beyond the limit, and look at each unit."""
    context, gathered = work.load(CONTEXT), work.gather(BROUGHT)
    if gathered is None:
        work.write(UNITS_FOUND, BroughtTogether())
        return 0
    limit, came = _several(context).limit, gathered.num_rows
    table, unit = _by_unit(gathered)
    kept = _within(limit, table, unit)
    cut = len(np.unique(unit[~kept]))
    table, unit = table.filter(pa.array(kept)), unit[kept]
    first, sizes, place = _places(unit)
    members = _members(table, place)
    if context.spec.has_whole_units:
        members = members.append_column(SIZE, pa.array(np.repeat(sizes, sizes)))
    found = BroughtTogether(
        units=len(first),
        rows=came,
        left_out=came - len(unit),
        cut_units=cut,
        too_long=int(np.sum(sizes > MOST_ROWS)),
        spelled=_differing(table[_SPELLED], first, sizes),
        repeated=_n_repeated(members),
        differing=_differing_columns(context, table, first, sizes),
    )
    work.write(UNITS_FOUND, found)
    travelling = tuple(dict.fromkeys(context.schema.travelling))
    own = table.select([str(j) for j in range(len(travelling))]).rename_columns(list(travelling))
    for start, end in _batches(first, len(unit)):
        work.write(TOGETHER, own.slice(start, end - start))
        work.write(MEMBERS, members.slice(start, end - start))
    return len(unit)


BRING = Step(
    name="bring",
    stage="survey",
    per="part",
    does=bring_part,
    reads_input=True,
    knows=(CONTEXT, NIGHT, NIGHT_KEY),
    sends=(BROUGHT,),
)
PUT_TOGETHER = Step(
    name="together",
    stage="survey",
    per="part",
    does=put_together,
    memory=lambda load: int(_COPIES * load.rows * load.row_bytes),
    knows=(CONTEXT, NIGHT, NIGHT_KEY),
    receives=(BROUGHT,),
    writes=(TOGETHER, MEMBERS, UNITS_FOUND),
)


def _several(context: Context) -> SeveralRows:
    unit = context.spec.several
    assert unit is not None
    return unit


def _by_unit(table: pa.Table) -> tuple[pa.Table, Ints]:
    """Order rows by unit, units by their first row; and number the unit of each."""
    unit, distinct = numbered_rows(pairs_of(table, "u"))
    records = np.asarray(table[RECORD])
    first = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(first, unit, records)
    order = np.lexsort((records, first[unit]))
    ascending = np.cumsum(np.diff(unit[order], prepend=unit[order][:1]) != 0)
    return table.take(pa.array(order)).combine_chunks(), ascending


def _within(limit: RowsLimit | None, table: pa.Table, unit: Ints) -> Bools:
    """Mark the rows of each unit that are released; who lacks a date is the last to be kept."""
    if limit is None:
        return np.ones(len(unit), dtype=np.bool_)
    rank = np.arange(len(unit))
    if limit.keep == "newest" and not limit.by:
        rank = np.lexsort((-rank, unit))
    elif limit.by:
        descending = "descending" if limit.keep == "newest" else "ascending"
        keys = [("unit", "ascending", "at_end"), ("when", descending, "at_end"), ("row", "ascending", "at_end")]
        when = pa.table({"unit": unit, "when": table[_WHEN], "row": np.arange(len(unit))})
        rank = np.asarray(pc.sort_indices(when, sort_keys=keys)).astype(np.int64)
    kept = np.zeros(len(unit), dtype=np.bool_)
    kept[rank[_places(unit[rank])[2] < limit.at_most]] = True
    return kept


def _places(unit: Ints) -> tuple[Ints, Ints, Ints]:
    """Find where each unit begins among rows ordered by unit, how many rows it has, and the place of each row in it.

    >>> [found.tolist() for found in _places(np.array([0, 0, 1]))]
    [[0, 2], [2, 1], [0, 1, 0]]
    """
    first = np.flatnonzero(np.diff(unit, prepend=-1))
    sizes = np.diff(first, append=len(unit))
    return first, sizes, np.arange(len(unit)) - np.repeat(first, sizes)


def _members(table: pa.Table, place: Ints) -> pa.Table:
    """Tabulate whose the rows are: a row is told from others of its unit by its own id, or else by its place."""
    by_place = mix_words(place.astype(np.uint64))
    rows = rows_of_units(pairs_of(table, "u"), np.asarray(table[_ROW]) if _ROW in table.column_names else by_place)
    came = table[RECORD].take(pa.array(np.arange(len(place)) - place))
    return pa.table({PLACE: place, CAME: came, **as_columns(rows, "u")})


def _n_repeated(members: pa.Table) -> int:
    return int(members.num_rows) - len(numbered_rows(pairs_of(members, "u"))[1])


def _differing_columns(context: Context, table: pa.Table, first: Ints, sizes: Ints) -> dict[str, int]:
    """Count, by column, the units whose rows have several values of what is to be the same in all of them."""
    schema = context.schema
    blocking = schema.blocking if context.spec.has_whole_units else ()
    same = {*(column.name for column in blocking), *_several(context).per_unit, schema.weight}
    travelling = dict.fromkeys(schema.travelling)
    counts = {
        name: _differing(pa.array(hash_rows([table[str(j)]], table.num_rows, 0)), first, sizes)
        for j, name in enumerate(travelling)
        if name in same
    }
    return {name: count for name, count in counts.items() if count}


def _differing(hashes: pa.Array | pa.ChunkedArray, first: Ints, sizes: Ints) -> int:
    """Count the units whose rows have several values."""
    values = np.asarray(hashes)
    differ: Ints = np.add.reduceat(values != np.repeat(values[first], sizes), first)
    return int(np.count_nonzero(differ))


def _batches(first: Ints, n: int) -> list[tuple[int, int]]:
    """Cut rows into batches of whole units."""
    wanted = np.arange(0, n, BATCH_ROWS)
    starts = np.unique(first[np.searchsorted(first, wanted, side="right") - 1])
    return list(zip(starts.tolist(), [*starts[1:].tolist(), n], strict=True))


def refuse_units(spec: ReleaseSpec, written: Pieces) -> BroughtTogether:
    """Add up what was found of units; stop where they are not what the spec says."""
    found = sum(written.read_all(UNITS_FOUND), BroughtTogether())
    unit, names = spec.several, ", ".join(map(repr, spec.unit_columns))
    assert unit is not None
    acknowledged = set(spec.acknowledge.spelling_of_units).issuperset(spec.unit_columns)
    problems = []
    for column, count in (found.differing or {}).items():
        if column in unit.per_unit:
            problems.append(
                f"unit.per_unit: {column!r} has several values within {count} units; take it away from there"
            )
        elif column == spec.roles.weight:
            problems.append(
                f"weight {column!r} has several values within {count} units; give all rows of a unit the unit's weight"
            )
        else:
            problems.append(
                f"blocking column {column!r} has several values within {count} units, whose rows would be parted; make "
                "it a quasi-identifier, or block by what is the same in all rows of a unit"
            )
    if found.spelled and not acknowledged:
        problems.append(
            f"unit {names}: the rows of {found.spelled} units spell it in several ways (case, spaces, leading zeros, "
            "forms of one letter), so that several units may be taken for one; clean them, or list "
            f"{', '.join(spec.unit_columns)} under acknowledge.spelling_of_units"
        )
    if found.repeated:
        problems.append(
            f"unit.row: {found.repeated} rows have the {', '.join(map(repr, unit.row))} of another row of their unit; "
            "name what tells the rows of a unit apart, or leave repeated rows out"
        )
    if found.too_long:
        problems.append(
            f"unit {names}: {found.too_long} units have more than {MOST_ROWS} rows; say under unit.rows how many are "
            "released at most, such as {at_most: 12, keep: newest, by: ...}"
        )
    if found.units < spec.k:
        problems.append(f"the input has {found.units} units, fewer than k={spec.k}")
    if problems:
        raise DataError("\n".join(problems))
    return found
