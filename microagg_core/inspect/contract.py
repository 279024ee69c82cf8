"""The contract of inspections: note something of released files and of the input, add notes up, judge their sum.

A worker notes, the flow adds up and judges: any figure is the same however rows lie in files, but for the last digits
of floats. Notes lie in the private work area, and may hold values of records; what a check says of them may not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Floats, Ints
from microagg_core.data.kinds.contract import Kind
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.ordering import combinations
from microagg_core.data.tables.slices import RECORD
from microagg_core.group.metrics.statistics import significant
from microagg_core.inspect.check import Check
from microagg_core.inspect.demand import Protection
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.exposure import Exposure, asking_share, expose
from microagg_core.spec.columns import FileSchema
from microagg_core.spec.edits import Edit
from microagg_core.spec.release import RiskEffort

#: The column beside a released file with the unit of each row, by the record number of its first; where units have
#: several rows.
UNIT = "unit"


@dataclass(frozen=True)
class Promise:
    """Promise of a release: what it has to keep and to hold, as spec, survey and plan have it."""

    schema: FileSchema
    #: The kinds of the quasi-identifiers, and the scale of distances.
    encoding: Encoding
    k: int
    #: Records of the input that take part, and how many of them are withheld.
    rows: int
    withheld: int
    #: Parts of the input.
    n_parts: int
    #: Records that are released as an earlier night of the series released them.
    carried: int = 0
    #: Cells of each quasi-identifier that are blanked; None where what is missing is what came in so.
    blanked: tuple[int, ...] | None = None
    #: Whether it is a later night of a series, whose arrivals alone are grouped.
    in_series: bool = False
    protection: Protection = field(default_factory=Protection)
    #: Of each confidential column over the records that are released, as workers know it; None: too many values.
    distributions: tuple[Distribution | None, ...] = ()
    risk: RiskEffort = "off"
    analyses: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    #: Sets of released columns that somebody may know.
    known: tuple[tuple[str, ...], ...] = ()
    seed: int = 0
    #: Whether units have several rows; and whether something may tie these, so that k units share each profile.
    several: bool = False
    rows_tied: bool = True

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return self.encoding.kinds

    @property
    def blocking(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.schema.blocking)

    @property
    def key_columns(self) -> tuple[str, ...]:
        return (*self.blocking, *(column.name for column in self.schema.quasi_identifiers))

    @property
    def known_besides(self) -> tuple[tuple[str, ...], ...]:
        """Known sets that k-anonymity does not speak of.

        Who knows some key columns knows of a record that it is in one of several released combinations: as each of
        these has at least k units, so have they together.
        """
        return tuple(names for names in self.known if not set(names) <= set(self.key_columns))

    def distribution(self, column: str) -> Distribution | None:
        names = [confidential.name for confidential in self.schema.confidential]
        return dict(zip(names, self.distributions, strict=False)).get(column)


@dataclass(frozen=True)
class ReleasedFile:
    """A file that would be published, as it was read back; its columns are the declared ones."""

    promise: Promise
    table: pa.Table
    #: Row by row, the private record number, and but for survivors the quasi-identifiers q0, q1, ... as they came in.
    origins: pa.Table
    #: The input part from which each record comes.
    parts: Ints
    number: int = 0
    #: Whether its rows are as an earlier night of the series released them.
    is_carried: bool = False

    @property
    def records(self) -> Ints:
        return np.asarray(self.origins[RECORD]).astype(np.int64)

    @property
    def units(self) -> Ints:
        """Number the unit of each row by the first of its records; of survivors it is not known here."""
        return np.asarray(self.origins[UNIT]).astype(np.int64) if UNIT in self.origins.column_names else self.records

    def once_a_unit(self, names: Sequence[str]) -> pa.Table:
        """Select these columns, and of each unit's rows that are equal in them one; so rows count units."""
        if UNIT not in self.origins.column_names:
            return self.table.select(list(names))
        columns = [self.table[name] for name in names]
        first = combinations([*columns, self.origins[UNIT]], self.table.num_rows)[1]
        return self.table.select(list(names)).take(pa.array(first))

    @property
    def came(self) -> list[pa.ChunkedArray]:
        """Quasi-identifiers as they came in; of survivors none, as nobody keeps them."""
        return [] if self.is_carried else [self.origins[f"q{j}"] for j in range(len(self.promise.kinds))]

    @cached_property
    def weights(self) -> Floats | None:
        """Survey weights as they came in; None where there are none."""
        columns = zip(self.promise.kinds, self.came, strict=not self.is_carried)
        return next((kind.ticks(came)[0] for kind, came in columns if kind.is_weight), None)

    @cached_property
    def combinations(self) -> tuple[Ints, Ints]:
        return combinations([self.table[name] for name in self.promise.key_columns], self.table.num_rows)

    @cached_property
    def exposure(self) -> Exposure:
        promise = self.promise
        # Of survivors it is not counted how their values are distributed.
        distributions = () if self.is_carried else promise.distributions
        names = [column.name for column in promise.schema.confidential]
        return expose(
            promise.encoding,
            self.table,
            promise.blocking,
            dict(zip(names, distributions or (None,) * len(names), strict=True)),
            self.records,
            None if promise.risk == "off" or self.is_carried else self.came,
            asking=asking_share(promise.risk, promise.rows, len(promise.kinds)),
            seed=promise.seed,
            grouped=self.combinations,
            units=self.units if UNIT in self.origins.column_names and promise.rows_tied else None,
        )


@dataclass(frozen=True)
class InputBatch:
    """Records of an input part that have to be in the release."""

    promise: Promise
    part: int
    records: Ints
    #: What should be released of them; of quasi-identifiers, only which of them are missing.
    expected: pa.Table
    #: The quasi-identifiers as they come in, and the ticks of those that are not missing.
    came: tuple[pa.Array, ...]
    values: tuple[NDArray[Any], ...]
    #: The unit of each, by the number of its first record.
    units: Ints


N = TypeVar("N")


class Inspection(ABC, Generic[N]):
    """Something to be known of a release, with notes of the type ``notes``, see :mod:`microagg_core.inspect.notes`."""

    #: A check of the gate, a measure of risk, or something else: names are told apart within a family.
    family: ClassVar[str]
    name: ClassVar[str]
    notes: ClassVar[Any]
    #: Whether files of survivors are looked at too, whose values come from earlier releases and not from the input.
    of_survivors: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return f"{self.family}: {self.name}"

    @abstractmethod
    def note(self, file: ReleasedFile) -> N | None:
        """Note what is to be known of a released file; None where nothing can be said of it."""

    def note_input(self, batch: InputBatch, before: N | None) -> N | None:
        """Note what the release should hold of a batch of the input; None where the files alone are asked.

        ``before`` are the notes of the part's earlier batches, by which it may be known that no more is to be noted.
        """
        return None


class GateCheck(Inspection[N]):
    """A check of the gate: a release that fails it is not published."""

    family = "check"
    #: Whether survivors' files are judged with the others; they may be noted for figures alone.
    judges_survivors: ClassVar[bool] = False

    @abstractmethod
    def note(self, file: ReleasedFile) -> N:
        """Note what is to be known of a released file, which may be empty."""

    @abstractmethod
    def judge(self, promise: Promise, released: N, expected: N) -> Check | None:
        """Compare the notes of all files with those of the whole input; None where nothing of the kind is promised."""


class RiskMeasure(Inspection[N]):
    """A measure of disclosure risk, for the operator alone."""

    family = "risk"
    of_survivors = True

    def note(self, file: ReleasedFile) -> N:
        return self.measure(file.exposure)

    @abstractmethod
    def measure(self, exposure: Exposure) -> N:
        """Note what the rows of a file expose."""

    @abstractmethod
    def figures(self, total: N, names: tuple[str, ...]) -> dict[str, Any]:
        """Figures of a release from the notes of all its files; ``names`` are the quasi-identifiers."""

    def of_labels(self, exposure: Exposure) -> Mapping[str, NDArray[Any]]:
        """Columns of the audit's lines, one line a label."""
        return {}


def share(part: float, whole: float) -> float | None:
    """Divide to six digits; None of nothing.

    >>> share(1, 3), share(0, 0)
    (0.333333, None)
    """
    return significant(part / whole) if whole else None


How = Literal["least", "most", "sum"]
_ADDED: dict[How, Callable[[float, float], float]] = {"least": min, "most": max, "sum": lambda a, b: a + b}


@dataclass(frozen=True)
class Shown:
    """A figure of some columns over the rows of files: the least or most of all combinations, or a sum over records.

    None is not known, and then that of more files is not known either.

    >>> Shown(4, {"a": 2.0}, "least") + Shown(3, {"a": 1.0}, "least") + Shown(0, {}, "least")
    Shown(rows=7, figures={'a': 1.0}, how='least')
    """

    rows: int
    figures: dict[str, float | None]
    how: How

    def __add__(self, other: Shown) -> Shown:
        if not (self.rows and other.rows):
            return self if self.rows else other
        added = _ADDED[self.how]
        names = {**self.figures, **other.figures}
        pairs = ((name, self.figures.get(name), other.figures.get(name)) for name in names)
        figures = {name: None if a is None or b is None else added(a, b) for name, a, b in pairs}
        return Shown(self.rows + other.rows, figures, self.how)


class Limit(GateCheck[Shown]):
    """A demand on confidential columns besides k, counted over released combinations as a reader sees them.

    The gate knows nothing of groups. Two groups that rounding has made one combination are no worse than the worse.
    """

    notes = Shown
    how: ClassVar[How]

    @abstractmethod
    def limits(self, protection: Protection) -> dict[str, float]:
        """List what is demanded, by column."""

    @abstractmethod
    def show(self, exposure: Exposure, column: str) -> float | None:
        """Say what released combinations, of which there are some, show of a column; None where nobody can tell."""

    @abstractmethod
    def holds(self, figure: float, limit: float) -> bool: ...

    @abstractmethod
    def breach(self, column: str, limit: float) -> str:
        """Say that a column breaks its limit, and not by how much."""

    def promise(self, limits: Mapping[str, float]) -> str:
        """Say what is kept."""
        return "as the spec allows"

    def note(self, file: ReleasedFile) -> Shown:
        rows = file.table.num_rows
        return Shown(rows, self.shown(file) if rows else {}, self.how)

    def shown(self, file: ReleasedFile) -> dict[str, float | None]:
        return {column: self.show(file.exposure, column) for column in self.limits(file.promise.protection)}

    def shares(self, total: Shown) -> dict[str, float | None]:
        """Turn the notes of a release into figures: sums become shares of its records."""
        if self.how != "sum":
            return total.figures
        return {name: None if n is None else n / max(1, total.rows) for name, n in total.figures.items()}

    def judge(self, promise: Promise, released: Shown, expected: Shown) -> Check | None:
        unknown = dict.fromkeys(self.limits(promise.protection)) if released.rows else {}
        return self.check(promise.protection, {**unknown, **self.shares(released)})

    def check(self, protection: Protection, figures: Mapping[str, float | None]) -> Check | None:
        """Hold figures of a release against its limits; a release without a record has none, and breaks nothing."""
        limits = self.limits(protection)
        if not limits:
            return None
        pairs = [(column, limit, figures[column]) for column, limit in limits.items() if figures]
        broken = [
            self.breach(column, limit)
            for column, limit, figure in pairs
            if figure is None or not self.holds(figure, limit)
        ]
        return Check(self.name, not broken, "; ".join(broken) or self.promise(limits))
