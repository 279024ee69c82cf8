"""Zeros, heaps and tails of quasi-identifiers, as the command tells them and as the spec has them treated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from command_line import Project

ROLES = {"quasi_identifiers": ["wind", "temp"], "confidential": ["station"]}


def weather(*gusts: float, n: int = 1500) -> pa.Table:
    """Hours with wind and temperature; in the last ones stands what an instrument wrote wrongly."""
    rng = np.random.default_rng(9)
    wind = rng.gamma(4, 3, n).round(2)
    wind[len(wind) - len(gusts) :] = gusts
    return pa.table({"wind": wind, "temp": rng.normal(12, 8, n).round(1), "station": rng.choice(["a", "b"], n)})


@pytest.mark.parametrize("gusts", [(1048.36,), (420.5, 431.25, -400.75), ()])
def test_plan_names_the_column_that_few_records_dominate(tmp_path: Path, gusts: tuple[float, ...]) -> None:
    table, project = weather(*gusts), Project(tmp_path, "none")
    for i in range(3):
        project.write(table.slice(i * 500, 500), f"hours/{i}.parquet")
    project.write_spec(ROLES, input={"url": "hours/*.parquet"}, k=5)
    ended = project.call("plan", "release.yaml")
    assert ended.code == 0, ended.err
    wind = np.asarray(table["wind"])
    far = np.sort((wind - wind.mean()) ** 2)[::-1]
    shares = far.cumsum() / far.sum()
    told = [line for line in ended.out.splitlines() if "of the variance" in line]
    if not gusts:
        assert told == [] and shares[4] < 0.1
        return
    records = int((shares < 0.25).sum()) + 1
    who = "one record makes" if records == 1 else f"{records} records make"
    assert len(told) == 1 and f"{who} {100 * shares[records - 1]:.0f} % of the variance of" in told[0]
    assert "'wind'" in told[0]
    said = ended.out + ended.err + json.dumps(project.call("plan", "release.yaml", "--json").document())
    assert not [gust for gust in gusts if f"{abs(gust):g}" in said or f"{abs(gust):.0f}" in said]
