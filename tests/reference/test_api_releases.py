"""Real files masked from Python, record by record what the command releases of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from recompute import FILES, KEY, RealFile, find, read, release

from microagg_core import microaggregate

CASES = {
    "eusilc": FILES["eusilc"],
    "CPS1988": RealFile(
        "CPS1988", "AER", ("wage", "education", "experience"), ("region",), ("ethnicity",), {"k": 3, "refine": "off"}
    ),
}


@pytest.mark.slow(reason="releases a file of 15,000 or 28,000 records by the command, and masks it again")
@pytest.mark.parametrize("name", CASES)
def test_a_real_file_is_masked_as_the_command_releases_it(name: str, tmp_path: Path) -> None:
    file = CASES[name]
    path = find(file, None)
    if path is None:
        pytest.skip(f"{name} of R's package {file.package} is not there")
    if path.suffix != ".csv":
        pytest.importorskip("pyreadr", reason="reads R's files")
    frame = read(file, path)
    settings = {**file.settings, "rounding": dict.fromkeys(file.quasi_identifiers, "none"), "cluster": "none"}
    manifest, out = release(replace(file, settings=settings), frame, tmp_path)
    masked = microaggregate(
        frame,
        file.quasi_identifiers,
        int(settings["k"]),
        blocking=file.blocking,
        missing="separate",
        refine=str(settings.get("refine", "fast")),
        bound=True,
    )
    out = out.sort_values(KEY, ignore_index=True)
    mine = masked.data.sort_values(KEY, ignore_index=True)
    assert mine[KEY].tolist() == out[KEY].tolist()
    for column in (*file.quasi_identifiers, *file.blocking):
        pd.testing.assert_series_equal(
            mine[column], out[column], check_exact=True, check_dtype=column in file.quasi_identifiers
        )
    # The same figures as the release has, as far as it may publish them; and by an own computation.
    before, after = frame[list(file.quasi_identifiers)].astype(float), masked.data[list(file.quasi_identifiers)]
    before = before.drop(index=masked.withheld)
    moved = ((after - before) ** 2).sum() / before.var(ddof=0)
    assert list(masked.by_attribute.values()) == pytest.approx((100 * moved / before.notna().sum()).tolist(), rel=1e-6)
    assert masked.losses.l_sse == pytest.approx(100 * moved.sum() / before.notna().sum().sum(), rel=1e-6)
    if name == "CPS1988":
        assert masked.losses.l_sse == pytest.approx(manifest["losses"]["l_sse"], rel=1e-5)
    assert masked.bound is not None and 0 < masked.bound.sse < masked.losses.sse
    assert np.bincount(masked.groups).min() >= int(settings["k"])
