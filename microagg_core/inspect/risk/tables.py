"""The disclosure risk of a masked table, beside the table that it was made from."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.data.kinds.encoding import QuasiIdentifiers
from microagg_core.data.tables.hashing import one_array
from microagg_core.data.tables.types import plain
from microagg_core.errors import DataError, SpecError
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.exposure import Exposure, expose
from microagg_core.inspect.gate import measures

if TYPE_CHECKING:
    import pandas as pd


def measure_risk(
    original: pd.DataFrame,
    released: pd.DataFrame,
    quasi_identifiers: Sequence[str],
    *,
    blocking: Sequence[str] = (),
    confidential: Sequence[str] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Measure what somebody learns from a released table who knows quasi-identifiers of the original one.

    Args:
        original: the table as it was.
        released: the same records in the same order, masked by whatever method.
        quasi_identifiers: columns of both, which an intruder may know; distances are in deviations of the original.
        blocking: columns of the released table that he knows besides.
        confidential: columns of the released table that he does not.
        seed: of the noise in what he knows.

    Returns:
        Figures by measure, see the README of this folder. Whoever sees them learns about the table's records.

    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [20, 30, 60, 70], "ill": ["flu", "flu", "no", "flu"]})
    >>> masked = people.assign(age=[25.0, 25.0, 65.0, 65.0])
    >>> risk = measure_risk(people, masked, ["age"], confidential=["ill"])
    >>> risk["linkage"]["own_nearest"], risk["linkage"]["expected_correct"], risk["inference"]["ill"]["records_certain"]
    (1.0, 0.5, 0.5)
    """
    exposure = exposure_of(original, released, quasi_identifiers, blocking, confidential, seed)
    names = tuple(quasi_identifiers)
    figures = {measure.name: measure.figures(measure.measure(exposure), names) for measure in measures()}
    return {"records": len(exposure.groups), **figures}


def exposure_of(
    original: pd.DataFrame,
    released: pd.DataFrame,
    quasi_identifiers: Sequence[str],
    blocking: Sequence[str] = (),
    confidential: Sequence[str] = (),
    seed: int = 0,
) -> Exposure:
    """Expose the tables that :func:`measure_risk` is given; raises what it raises."""
    before = _arrow(original, quasi_identifiers)
    after = _arrow(released, [*quasi_identifiers, *blocking, *confidential])
    if before.num_rows != after.num_rows:
        lengths = f"{before.num_rows} and {after.num_rows}"
        raise DataError(f"the tables have {lengths} records; give the same ones in one order")
    columns: dict[Hashable, pa.Array] = {
        name: one_array(before[name].unify_dictionaries()) for name in quasi_identifiers
    }
    encoding = QuasiIdentifiers.of(columns, may_be_missing=True).encoding
    for kind in encoding.kinds:
        position = after.column_names.index(kind.name)
        after = after.set_column(position, kind.name, pc.cast(after[kind.name], kind.reader.source_type))
    others = {name: Distribution.of(after[name]) for name in confidential}
    came = list(map(plain, columns.values()))
    return expose(encoding, after, blocking, others, np.arange(after.num_rows), came, seed=seed)


def _arrow(table: pd.DataFrame, names: Sequence[str]) -> pa.Table:
    for name in names:
        if name not in table.columns:
            raise SpecError(f"the table has no column {name!r}")
    return pa.Table.from_pandas(table[list(names)], preserve_index=False)
