"""Values of confidential columns, counted over the records that are released: part by part, then together.

The scatter step counts them; the gate counts those of the files again, and a difference stops the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from microagg_core.data.formats.writing import released_format
from microagg_core.data.tables.slices import read_slice, to_bytes
from microagg_core.errors import DataError
from microagg_core.inspect.check import Check
from microagg_core.inspect.distributions import (
    MOST_VALUES,
    MOST_VALUES_OF_PROTECTED,
    Distribution,
    ValueCounts,
    distributions_in,
    table_of,
)
from microagg_core.release.steps.pieces import Piece, Pieces
from microagg_core.release.steps.work import Context, Run, Task
from microagg_core.store.values_layout import ValuesLayout

#: Counts of parts that are read at once: together they are smaller than the rows that a worker holds.
_AT_ONCE = 16


class ColumnCounts:
    """Counts the values of all confidential columns of some rows, as they are released."""

    def __init__(self, context: Context) -> None:
        self._columns = context.schema.confidential
        self._form = released_format(context.spec.output)
        self.columns = [ValueCounts(column.type, _limit(context, column.name)) for column in self._columns]

    def add(self, table: pa.Table) -> None:
        """Count the next rows, which have the input's columns."""
        for column, counts in zip(self._columns, self.columns, strict=True):
            if not counts.is_given_up:
                counts.add(self._form.released_form(table.select([column.name]))[column.name])

    def add_released(self, table: pa.Table, like: Sequence[Distribution | None]) -> None:
        """Count rows as they are released, in columns that are counted there."""
        for column, counts, other in zip(self._columns, self.columns, like, strict=True):
            if other is None:
                counts.give_up()
            else:
                counts.add(table[column.name])

    def merge(self, others: Sequence[Distribution | None]) -> None:
        """Take in what was counted elsewhere."""
        for counts, other in zip(self.columns, others, strict=True):
            if other is None:
                counts.give_up()
            else:
                counts.merge(other.values, other.counts)

    def distributions(self) -> tuple[Distribution | None, ...]:
        """For each confidential column, what was counted; None where it has too many distinct values."""
        return tuple(counts.distribution() for counts in self.columns)

    def to_bytes(self) -> bytes:
        """What was counted, as :func:`combine_counts` reads it."""
        return to_bytes(table_of(self.distributions()))


def _limit(context: Context, column: str) -> int:
    """Distinct values up to which a column is counted."""
    return MOST_VALUES_OF_PROTECTED if is_close(context, column) else MOST_VALUES


def is_close(context: Context, column: str) -> bool:
    """Whether closeness to the whole release's distribution is demanded of a column."""
    protect = context.spec.protect
    demand = None if protect is None else protect.of_columns([column]).get(column)
    return demand is not None and demand.t is not None


def refuse_uncounted(context: Context, distributions: Sequence[Distribution | None]) -> None:
    """Stop where closeness is demanded of a column that has too many values for it.

    Raises:
        DataError: naming the column.
    """
    for column, distribution in zip(context.schema.confidential, distributions, strict=True):
        if distribution is None and is_close(context, column.name):
            raise DataError(
                f"protect.{column.name}.t: the column has more than {MOST_VALUES_OF_PROTECTED} distinct values, whose "
                "distribution nobody can hold; round them, or take t away"
            )


def combine_counts(context: Context, pieces: Pieces, names: Sequence[str]) -> tuple[Distribution | None, ...]:
    """The distributions over all that was counted under these names."""
    whole = ColumnCounts(context)
    for first in range(0, len(names), _AT_ONCE):
        for data in pieces.read_all(names[first : first + _AT_ONCE]):
            whole.merge(distributions_in(read_slice(data)))
    return whole.distributions()


def check_distributions(
    context: Context, used: Sequence[Distribution | None], counted: Sequence[Distribution | None]
) -> Check:
    """Whether the values of the files are those by whose distribution groups were made and measured."""
    columns = zip(context.schema.confidential, used, counted, strict=True)
    wrong = [column.name for column, one, other in columns if one is not None and not one.same_as(other)]
    names = ", ".join(map(repr, wrong))
    right = "confidential values are as often in the files as they were counted"
    return Check(
        "distributions", not wrong, f"values are not as often as they were counted in {names}" if wrong else right
    )


def save_distributions(run: Run, distributions: Sequence[Distribution | None]) -> Piece:
    """Write the distributions where workers find them."""
    return run.put(ValuesLayout(run.key).distributions(), to_bytes(table_of(distributions)), "distributions")


def load_distributions(task: Task) -> tuple[Distribution | None, ...]:
    """For each confidential column, how its values are distributed over the records that are released.

    None where there are too many distinct values; see :mod:`microagg_core.inspect.distributions`.
    """
    return _read_once(task.run, task.pieces.piece(ValuesLayout(task.run.key).distributions()))


@lru_cache(maxsize=2)
def _read_once(run: Run, piece: Piece) -> tuple[Distribution | None, ...]:
    return read_distributions(run.pieces([piece]), run.key)


def read_distributions(pieces: Pieces, run_key: str) -> tuple[Distribution | None, ...]:
    """The same, for the flow."""
    return distributions_in(read_slice(pieces.read(ValuesLayout(run_key).distributions())))
