"""Thorough refinement of pairs is the optimum: of real records, released, no groups of two or more lose less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from published import DATA
from test_factor_figures import FIGURES

from microagg_core.compare.bare_file import read_columns
from releasing.runs import data_digests, run_stages, start, write_release


def release_of(folder: Path, **changes: Any) -> tuple[float, float, float]:
    """Release a whole reference file by pairs in one block: its SSE, the bound, and the loss in percent.

    They are of the audit's lines of blocks: published figures have fewer digits where one group dominates them.
    """
    frame: pd.DataFrame = read_columns(str(DATA / "tarragona.csv"), [])
    exact = dict.fromkeys(frame.columns, "none")
    spec = {"k": 2, "roles": {"quasi_identifiers": list(frame.columns)}, "rounding": exact, **changes}
    path = write_release(folder, [pa.Table.from_pandas(frame, preserve_index=False)], **spec)
    measured = run_stages(start(path)).measured
    sse, bound = (sum(measured.blocks[name].to_pylist()) for name in ("sse", "lower_bound"))
    return sse, bound, 100.0 * sse / measured.figures.sst


def test_thorough_refinement_of_pairs_is_the_proved_optimum_on_every_run(tmp_path: Path) -> None:
    fast, fast_bound, _ = release_of(tmp_path / "fast", algorithm="mdav", refine="fast")
    for run, algorithm in (("one", "mdav"), ("two", "mdav"), ("three", "two_mu_approx")):
        sse, bound, l_sse = release_of(tmp_path / run, algorithm=algorithm, refine="thorough")
        assert round(l_sse, 5) == FIGURES["tarragona"][2]
        assert 1 - bound / sse < 1e-5 < 1 - fast_bound / fast, "what is left is that bounds are rounded down"
        assert fast_bound < bound <= sse < fast
    assert data_digests(tmp_path / "one" / "output") == data_digests(tmp_path / "two" / "output")
