"""Made-up records for tests of the pipeline."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def people(n: int, seed: int = 0, first: int = 0) -> pa.Table:
    """``n`` records with an identifier, two quasi-identifiers, two blocking and two confidential columns."""
    rng = np.random.default_rng([seed, first])
    region = rng.choice(["north", "south", "east"], size=n, p=[0.6, 0.3, 0.1])
    return pa.table(
        {
            "id": [f"P{first + i}" for i in range(n)],
            "region": region,
            "town": [f"{r}-{t}" for r, t in zip(region, rng.geometric(0.5, n).clip(1, 9), strict=True)],
            "x": rng.integers(0, 1000, n),
            "y": rng.normal(size=n),
            "note": [f"{v:02d}" for v in rng.integers(0, 20, n)],
            "amount": rng.integers(0, 30, n) * 50 + 2**53 + 1,
        }
    )
