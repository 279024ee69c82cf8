"""A census-like input, and a spec to release it by: what several benchmarks measure on."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from microagg_core.store.objects import Store

QUASI_IDENTIFIERS = ["birth", "income", "area", "commute"]
CONFIDENTIAL = ["diagnosis", "wage", "benefit", "hours"]


#: How many categories each column of them has, one after the other and again from the start.
CATEGORIES = (2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 25, 40, 60)
#: Kinds of people, who mostly have the same of each column's categories.
_KINDS_OF_PEOPLE, _USUAL = 60, 0.7


def categories_named(columns: int) -> list[str]:
    return [f"c{j:02}" for j in range(columns)]


def write_input(
    store: Store, rows: int, blocks: int, part_rows: int = 1_000_000, largest: float = 0.0, categories: int = 0
) -> None:
    """Census-like rows in blocks of uneven size, the first of a given share if any, so many a file.

    With ``categories``, so many columns of text besides, which hang together as a census's do.
    """
    rng = np.random.default_rng(1)
    usual = np.random.default_rng(2).random((categories, _KINDS_OF_PEOPLE))
    share = 1.0 / np.arange(1, blocks + 1) ** 0.6
    share = np.append(largest, share[1:] / share[1:].sum() * (1 - largest)) if largest else share / share.sum()
    ends = np.cumsum(share)[:-1]
    for part, first in enumerate(range(0, rows, part_rows)):
        n = min(part_rows, rows - first)
        key = np.searchsorted(ends, rng.random(n)).astype(np.int32)
        table = pa.table(
            {
                "person_id": _texts("P", np.arange(first, first + n), 9),
                "region": (key // 10).astype(np.int16),
                "group": _texts("g", key % 10, 1),
                "birth": pa.array(rng.integers(-15_000, 18_000, n).astype(np.int32)).view(pa.date32()),
                "income": np.round(np.exp(rng.normal(10, 0.6, n))),
                "area": rng.gamma(4, 20, n).astype(np.int32),
                "commute": rng.exponential(8, n).astype(np.float32),
                "diagnosis": _texts("", rng.integers(0, 90, n), 2),
                "wage": (rng.gamma(3, 900, n) // 50 * 50).astype(np.int64),
                "benefit": rng.random(n) < 0.2,
                "hours": rng.integers(0, 60, n).astype(np.int8),
            }
        )
        people = rng.integers(0, _KINDS_OF_PEOPLE, n)
        for j, name in enumerate(categories_named(categories)):
            count = CATEGORIES[j % len(CATEGORIES)]
            rarer = 1.0 / np.arange(1, count + 1)
            ends_of = np.cumsum(rarer / rarer.sum())[:-1]
            codes = np.searchsorted(ends_of, np.where(rng.random(n) < _USUAL, usual[j][people], rng.random(n)))
            names = pa.array([f"{name}-{code}" for code in range(count)])
            table = table.append_column(name, names.take(pa.array(codes)))
        sink = io.BytesIO()
        pq.write_table(table, sink)
        store.put(f"part-{part:04d}.parquet", sink.getvalue())


def _texts(before: str, numbers: NDArray[Any], digits: int) -> pa.Array:
    """Numbers with leading zeros, behind a text."""
    padded = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=digits, padding="0")
    return pc.binary_join_element_wise(before, padded, "")


def write_spec(folder: Path, store: str = "", access: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Write a spec over the input; ``store`` is where all of it lies, ``changes`` are keys of the spec."""
    confidential = changes.get("roles", {}).get("confidential", CONFIDENTIAL)
    spec: dict[str, Any] = {
        "name": "benchmark",
        "k": 5,
        "input": {"url": f"{store}input/*.parquet", **(access or {})},
        "output": {"url": f"{store}output", **(access or {})},
        "work": {"url": f"{store}work", **(access or {})},
        "roles": {
            "identifiers": ["person_id"],
            "quasi_identifiers": QUASI_IDENTIFIERS,
            "blocking": ["region", "group"],
            "confidential": CONFIDENTIAL,
        },
        # Nobody is behind these records.
        "acknowledge": dict.fromkeys(("nearly_unique", "jointly_unique", "ties_few_records"), confidential),
        **changes,
    }
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(spec))
    return path
