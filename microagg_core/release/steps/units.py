"""Units of one record each: a run stops where one has several and the spec does not say so.

What names a unit is hashed to 128 bits under a secret of the run, so that repeated units are found without the
identifiers themselves going anywhere. Digests are written in the order of their first byte, in runs of bounded size; a
task then compares one range of them from all runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Bytes, UInt64s
from microagg_core.blocks.memory import RUN_UNITS, STEADY_PARTS, TASK_UNITS, grown_size
from microagg_core.data.tables.hashing import hash_rows, missing_in, one_array
from microagg_core.data.tables.slices import Slice, Slices
from microagg_core.data.tables.spelling import in_normal_form
from microagg_core.data.tables.types import is_text_or_bytes
from microagg_core.errors import DataError
from microagg_core.inspect.disclosures import in_percent
from microagg_core.inspect.samples import Sketch
from microagg_core.release.pieces import Piece, sealed, unsealed
from microagg_core.release.step import BytesOutput, JsonOutput, Output, Pieces, Rows, Run, Step, Work
from microagg_core.release.steps.confidential import ColumnSketch, named_values, sketch_bytes
from microagg_core.spec.columns import FileSchema
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.objects import sha256_hex

#: The secret under which a run hashes what names a unit.
SALT = Output("salt", lambda salt: sealed(str(salt).encode()), lambda data: int(unsealed(data) or b""), "sealed")
#: Digests of the units of an input part, for the buckets of each check; and the sketch of each column of a unit.
DIGESTS, UNIT_COLUMNS = Rows("digests"), BytesOutput("unit-columns")
#: The check of a range of digests, how many of its units repeat, and how many of these to the byte.
REPEATED = JsonOutput("repeated", tuple[int, int, int])

_SEEDS = (0x5EED, 0xF00D)
_ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
#: The half of a digest's second word that tells spellings apart.
_SPELLING = np.uint64(2**32 - 1)
_SPELLING_IS = "spelling (case, spaces, leading zeros, forms of one letter)"
_BUCKETS = 256
#: A value with more rows than this, or than the root of all rows, is a region's or a visit's number, not a person's.
_MOST_ROWS_OF_A_PERSON = 100
#: The share of records from which a part of the unit that repeats is refused, not told.
_MOSTLY_REPEATS = 0.5
_DIGEST_BYTES = 16

Pairs = UInt64s


@dataclass(frozen=True)
class UnitCheck:
    """Columns that together name a unit, and whether ids that differ only in spelling are taken for one."""

    columns: tuple[str, ...]
    is_spelled: bool


def unit_checks(spec: ReleaseSpec, schema: FileSchema) -> list[UnitCheck]:
    """What may not repeat: each identifier, and where units are named, their spelling.

    Whether named units repeat to the byte is found out where they are met with the ledger.
    """
    types = {column.name: column.type for column in schema.columns}
    acknowledged = set(spec.acknowledge.spelling_of_units)

    def check(columns: tuple[str, ...]) -> UnitCheck:
        spelled = any(is_text_or_bytes(types[name]) for name in columns)
        return UnitCheck(columns, spelled and not acknowledged.issuperset(columns))

    if spec.several is not None:  # looked at where their rows are brought together
        return []
    if spec.unit == "row":
        return [check((name,)) for name in spec.roles.identifiers]
    unit = check(spec.unit_columns)
    return [unit] if unit.is_spelled else []


def several_columns(spec: ReleaseSpec) -> tuple[str, ...]:
    return spec.unit_columns if len(spec.unit_columns) > 1 and spec.several is None else ()


def draw_salt(run: Run) -> Piece:
    """Draw the run's secret, once, and again where it is damaged; it lies with the digests and is in no message."""
    name = SALT.path(run.key, SALT.name)
    while True:
        data, version = run.work.versioned(name)
        if data is not None and unsealed(data) is not None:
            return Piece(name, len(data), sha256_hex(data), SALT.name, 0, SALT.name)
        run.work.put_if(name, SALT.encode(secrets.randbits(62)), version)


def _pairs(data: bytes) -> Pairs:
    return np.frombuffer(data, dtype=np.uint64).reshape(-1, 2)


def _sum_of(pairs: Pairs) -> int:
    """Sum digests so that the checksum of a range is the sum, modulo 2^64, of those of its parts."""
    return int(((pairs[:, 0] * _ODD[0]) ^ (pairs[:, 1] * _ODD[1])).sum())


class UnitDigests:
    """The digests of one input part, for each check, written in runs as they come.

    The first word of a digest, and the upper half of the second, are of the unit's normal spelling; the lower half is
    of its own.
    """

    def __init__(self, work: Work, spec: ReleaseSpec, schema: FileSchema, salt: int, n_parts: int = 1) -> None:
        self._work, self._salt = work, salt
        self._most = grown_size(RUN_UNITS, n_parts, STEADY_PARTS)
        self._checks = unit_checks(spec, schema)
        self._unit = several_columns(spec)
        self._sketches = [ColumnSketch() for _ in self._unit]
        self._held: list[list[Pairs]] = [[] for _ in self._checks]
        self._rows = 0
        #: Records of which nobody knows whose they are, for each check.
        self.nameless = [0] * len(self._checks)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._unit, *(name for check in self._checks for name in check.columns))))

    def add(self, table: pa.Table) -> None:
        """Account for the part's next rows."""
        for i, check in enumerate(self._checks):
            arrays = [one_array(table[name]) for name in check.columns]
            normal = [in_normal_form(array) for array in arrays] if check.is_spelled else arrays
            named = reduce(np.logical_and, map(_is_name, normal))
            self.nameless[i] += len(named) - int(np.count_nonzero(named))
            first, second = (hash_rows(normal, table.num_rows, self._salt ^ seed) for seed in _SEEDS)
            exact = hash_rows(arrays, table.num_rows, self._salt) if check.is_spelled else second
            pairs = np.column_stack([first, (second & ~_SPELLING) | (exact & _SPELLING)])
            self._held[i].append(pairs if named.all() else pairs[named])
        for name, sketch in zip(self._unit, self._sketches, strict=True):
            values = in_normal_form(table[name])
            sketch.add_values(hash_rows([values], len(values), self._salt), _is_name(values))
        self._rows += table.num_rows
        if self._rows >= self._most:
            self.flush()

    def end(self) -> None:
        """Write what is left, and the sketch of each column of a unit of several."""
        self.flush()
        for sketch in self._sketches:
            if sketch.batches:
                self._work.write(UNIT_COLUMNS, sketch_bytes(sketch.merged()))

    def flush(self) -> None:
        """Write what is held; digests that begin alike lie behind each other, so a range of them is one of bytes."""
        if not self._rows:
            return
        for check, held in enumerate(self._held):
            pairs = np.concatenate(held)
            pairs = np.take(pairs, np.argsort(_bucket_of(pairs), kind="stable"), axis=0)
            number, index = self._work.number, self._work.count(DIGESTS)
            self._work.send_packed(DIGESTS, pairs.tobytes(), _buckets(pairs, check, number, index))
        self._held = [[] for _ in self._checks]
        self._rows = 0


def _bucket_of(pairs: Pairs) -> Bytes:
    return (pairs[:, 0] >> np.uint64(56)).astype(np.uint8)


def _buckets(pairs: Pairs, check: int, part: int, number: int) -> Slices:
    """Find where the digests of each first byte lie in an object; the buckets of checks are numbered on."""
    ends = np.cumsum(np.bincount(_bucket_of(pairs), minlength=_BUCKETS))
    edges = [0, *ends.tolist()]
    return Slices.of(
        Slice(part, number, check * _BUCKETS + bucket, a * _DIGEST_BYTES, b * _DIGEST_BYTES, b - a, _sum_of(pairs[a:b]))
        for bucket, (a, b) in enumerate(pairwise(edges))
        if b > a
    )


def deal_digests(slices: Slices) -> list[Slices]:
    """Share out all parts' digests to tasks, each a range of the buckets of one check."""
    dealt: list[Slices] = []
    check_of = slices.array["destination"] // _BUCKETS
    for check in np.unique(check_of).tolist():
        array = slices.array[check_of == check]
        bucket = array["destination"] % _BUCKETS
        digests = np.bincount(bucket, array["rows"], _BUCKETS).astype(np.int64)
        # Neighbouring buckets of an object lie behind each other, so that they are read together.
        of_bucket = (np.cumsum(digests) - digests) // TASK_UNITS
        array["destination"] = of_bucket[bucket]
        sent = Slices(array).by_destination(int(of_bucket.max()) + 1)
        for of_range in sent:
            of_range.array["destination"] = check
        dealt += [of_range for of_range in sent if len(of_range)]
    return dealt


def check_units(work: Work) -> int:
    """Count repeated units in a range of digests; the receipt's rows are the repetitions in whatever spelling."""
    runs = work.contents(DIGESTS, lambda data: _sum_of(_pairs(data)))
    suspects = suspicious([_pairs(run) for run in runs])
    repeated = count_repeated(suspects & np.array([~np.uint64(0), ~_SPELLING]))
    if repeated:
        work.write(REPEATED, (work.slices(DIGESTS)[0].destination, repeated, count_repeated(suspects)))
    return repeated


UNITS = Step(
    name="units",
    stage="survey",
    per="range of digests",
    does=check_units,
    receives=(DIGESTS,),
    deals=deal_digests,
    writes=(REPEATED,),
)


def suspicious(runs: Sequence[Pairs]) -> Pairs:
    """The rows that share their first half with another one: as a rule none, which the first halves alone tell.

    >>> suspicious([np.array([[1, 2], [4, 4]], dtype=np.uint64), np.array([[1, 3]], dtype=np.uint64)]).tolist()
    [[1, 2], [1, 3]]
    """
    heads = np.concatenate([np.empty(0, dtype=np.uint64), *(run[:, 0] for run in runs)])
    heads.sort()
    shared = np.unique(heads[1:][heads[1:] == heads[:-1]])
    return np.concatenate([np.empty((0, 2), dtype=np.uint64), *(run[np.isin(run[:, 0], shared)] for run in runs)])


def count_repeated(pairs: Pairs) -> int:
    """How many rows repeat an earlier one.

    >>> count_repeated(np.array([[1, 2], [1, 3], [1, 2], [4, 4]], dtype=np.uint64))
    1
    """
    ordered = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return int(np.sum(np.all(ordered[1:] == ordered[:-1], axis=1)))


def refuse_repeated_units(spec: ReleaseSpec, checks: Sequence[UnitCheck], written: Pieces) -> None:
    """Stop where a unit has more than one record, or may have under ids that differ only in spelling."""
    repeated, exact = [0] * len(checks), [0] * len(checks)
    for place, count, to_the_byte in written.read_all(REPEATED):
        repeated[place] += count
        exact[place] += to_the_byte
    for check, count, to_the_byte in zip(checks, repeated, exact, strict=True):
        if to_the_byte:
            raise DataError(repeated_units(spec, check.columns, to_the_byte))
        if count:
            raise DataError(_differ_in_spelling(spec, check.columns, count))


def refuse_nameless_units(spec: ReleaseSpec, checks: Sequence[UnitCheck], nameless: Sequence[int]) -> None:
    """Stop where nobody knows whose a record is."""
    what, cure = ("identifier", ", or give the column the role drop if it does not identify")
    if spec.unit != "row":
        what, cure = "unit", ", or leave these records out"
    for check, count in zip(checks, nameless, strict=True):
        if count:
            raise DataError(
                f"{what} {_quoted(check.columns)} is missing in {count} record(s), so nobody knows whether they are "
                f"of one person or firm or of several; fill it in{cure}"
            )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _differ_in_spelling(spec: ReleaseSpec, names: tuple[str, ...], count: int) -> str:
    what = "identifier" if spec.unit == "row" else "unit"
    return (
        f"{what} {_quoted(names)}: {count} id(s) differ from others only in {_SPELLING_IS}, so a person or firm may be "
        f"counted twice; {_cure_of_spelling(names)}"
    )


def _cure_of_spelling(names: tuple[str, ...]) -> str:
    return f"clean them, or, if they are different ones, list {', '.join(names)} under acknowledge.spelling_of_units"


def repeated_units(spec: ReleaseSpec, names: tuple[str, ...], count: int) -> str:
    """Explain that so many records have a unit with another record."""
    several = f"unit: {{id: [{', '.join(names)}], rows: several}}"
    if spec.unit == "row":
        return (
            f"identifier {_quoted(names)} repeats in {count} records, so a row is not a person or firm of its own: "
            f"write {several} if rows with one value belong together, as those of a household or a patient; name the "
            "columns that tell persons or firms apart under unit; or, if it does not identify, give it the role drop, "
            "but then k counts rows, and who has several may be alone in a group"
        )
    return (
        f"unit {_quoted(names)} repeats in {count} records: write {several} if they belong together, as those of a "
        f"household or a patient, so that k units share all of them; or, if their ids differ in {_SPELLING_IS}, "
        f"{_cure_of_spelling(names)}"
    )


def coarser_columns(spec: ReleaseSpec, sketches: Sequence[Sketch]) -> tuple[str, ...]:
    """Tell of columns of a unit of several that alone may name the person; what the spec acknowledges is not told."""
    unit, words = several_columns(spec), []
    for name, sketch in zip(unit, sketches, strict=True):
        shared, rows = 1.0 - sketch.share_shared_by(1, 1), sketch.rows / max(1, sketch.distinct())
        is_coarse = rows > min(_MOST_ROWS_OF_A_PERSON, sketch.rows**0.5)
        if shared <= 0 or is_coarse or name in spec.acknowledge.part_of_unit:
            continue
        told = (
            f"unit {_quoted(unit)}: {in_percent(shared)} of the records share their {name!r} with others, "
            f"{rows:.1f} records each on average; if {name!r} alone names a person or firm, k counts something "
            f"smaller: write unit: {{id: [{name}], rows: several}}"
        )
        if shared >= _MOSTLY_REPEATS:
            raise DataError(f"{told}; if it does not, list {name} under acknowledge.part_of_unit")
        words.append(told)
    return tuple(words)


def _is_name(array: pa.Array) -> Bools:
    """Mark values that name anything: neither missing, nor a text of nothing."""
    return named_values(array)[0] if is_text_or_bytes(array.type) else ~missing_in(array)
