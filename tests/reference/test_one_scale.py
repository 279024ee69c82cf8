"""Groups of the same values are the same, whoever makes them: `microagg compare`, partition(), a release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from published import DATA

from covering import share
from microagg_core.api import microaggregate, partition
from microagg_core.compare.bare_file import Outcome, compare, read_columns
from microagg_core.group.metrics.losses import losses, standardize
from microagg_core.group.metrics.statistics import significant
from releasing.runs import AGAIN, run_stages, start, write_release

ALGORITHMS = ["md", "mdav", "mdav_generic", "mdav_plus", "mdav_single", "mdav_star", "mst", "mu_approx", "v_mdav"]
KS = [3, 5, 10]


def tied(n: int = 300) -> pd.DataFrame:
    """Few values in each column, so that most distances occur many times; deviations without a short reciprocal."""
    rng = np.random.default_rng(5)
    return pd.DataFrame({"kids": rng.poisson(2, n), "age": 18 + rng.integers(0, 60, n), "rooms": rng.integers(1, 7, n)})


def real(name: str) -> pd.DataFrame:
    return read_columns(str(DATA / f"{name}.csv"), [])


FILES = {
    "tied": tied,
    "census": lambda: real("census"),
    "eia": lambda: real("eia").head(1500),
    "tarragona": lambda: real("tarragona"),
}


#: What a release with seed 0 draws from in its block 0: each block has a seed of its own.
SEED_OF_BLOCK_0 = int(np.random.SeedSequence([0, 0]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def rows_of(table: pd.DataFrame, seed: int = 0) -> list[Outcome]:
    found = compare(table, KS, ALGORITHMS, seed)
    assert len(found.outcomes) == 27
    return list(found.outcomes)


@pytest.mark.parametrize("name", FILES)
def test_compare_shows_what_partition_makes(name: str) -> None:
    """Of values as the file has them, and as floats; in every row of algorithm and k."""
    table = FILES[name]()
    numbers = table.to_numpy(np.float64)
    for row in rows_of(table):
        labels = partition(standardize(numbers), row.k, row.algorithm)
        result = microaggregate(table, list(table.columns), row.k, row.algorithm)
        assert (labels == result.groups).all(), row
        Z = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
        found = losses(Z, labels)
        assert (significant(found.l_sse), significant(found.l_e)) == (row.l_sse, row.l_e), row


def test_compare_shows_what_a_release_makes(tmp_path: Path) -> None:
    """Of one block, neither refined nor rounded, from the same seed, however the input is cut into parts."""
    table = tied()
    names = list(table.columns)
    whole = pa.Table.from_pandas(table.assign(note=np.arange(len(table)) % 7), preserve_index=False)
    parts = [whole.slice(0, 10), whole.slice(10, 123), whole.slice(133)]
    for row in share(rows_of(table, SEED_OF_BLOCK_0), 9):
        spec = {
            "k": row.k,
            "algorithm": row.algorithm,
            "refine": "off",
            "rounding": dict.fromkeys(names, "none"),
            "blocks": {"max_records": 10_000},
            "roles": {"quasi_identifiers": names, "confidential": ["note"]},
        }
        path = write_release(tmp_path, parts, **spec, **AGAIN)
        made = run_stages(start(path, identity=f"{row.algorithm}-{row.k}")).measured.figures
        within = made.coarser or {}  # where one group dominates a figure
        assert abs(made.l_sse - row.l_sse) <= within.get("l_sse", 0.0), row
        assert abs(made.l_e - row.l_e) <= within.get("l_e", 0.0), row
