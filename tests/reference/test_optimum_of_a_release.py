"""Thorough refinement of pairs is the optimum: of real records, released, no groups of two or more lose less."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from published import DATA
from test_factor_figures import FIGURES

from microagg_core.compare.bare_file import read_columns
from releasing.runs import data_digests, run_stages, start, write_release


@dataclass(frozen=True)
class Loss:
    """What the audit's lines of blocks say; published figures have fewer digits where one group dominates them."""

    l_sse: float
    sse: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """The share of the loss above the bound, in percent."""
        return 100.0 * (1.0 - self.lower_bound / self.sse)


def release_of(folder: Path, name: str, **changes: Any) -> Loss:
    """The loss of a release of a whole reference file, in one block, by pairs."""
    frame: pd.DataFrame = read_columns(str(DATA / f"{name}.csv"), [])
    exact = dict.fromkeys(frame.columns, "none")
    spec = {"k": 2, "roles": {"quasi_identifiers": list(frame.columns)}, "rounding": exact, **changes}
    path = write_release(folder, [pa.Table.from_pandas(frame, preserve_index=False)], **spec)
    measured = run_stages(start(path)).measured
    sse, bound = (sum(measured.blocks[name].to_pylist()) for name in ("sse", "lower_bound"))
    return Loss(100.0 * sse / measured.figures.sst, sse, bound)


@pytest.mark.parametrize("algorithm", ["mdav", "two_mu_approx"])
def test_thorough_refinement_of_pairs_is_the_proved_optimum(algorithm: str, tmp_path: Path) -> None:
    fast, thorough = (
        release_of(tmp_path / effort, "tarragona", algorithm=algorithm, refine=effort)
        for effort in ("fast", "thorough")
    )
    assert round(thorough.l_sse, 5) == FIGURES["tarragona"][2]
    assert thorough.gap < 0.001 < fast.gap, "what is left is that bounds are rounded down"
    assert fast.lower_bound < thorough.lower_bound <= thorough.sse < fast.sse


def test_the_optimum_is_the_same_on_every_run(tmp_path: Path) -> None:
    digests = []
    for run in ("one", "two"):
        release_of(tmp_path / run, "tarragona", refine="thorough")
        digests.append(data_digests(tmp_path / run / "output"))
    assert digests[0] == digests[1]
