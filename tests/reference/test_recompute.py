"""Published figures recomputed by a program that shares nothing with the product; and that this program can tell."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from recompute import FILES, Line, find, kept, paired, read, recompute, release, same

FILE = FILES["GSS7402"]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """Manifest, input and released records, in the same order, of the smallest of the real files."""
    path = find(FILE, None)
    if path is None:
        pytest.skip("GSS7402 of R's package AER is not there")
    if path.suffix != ".csv":
        pytest.importorskip("pyreadr", reason="reads R's files")
    frame = read(FILE, path)
    manifest, out = release(FILE, frame, tmp_path_factory.mktemp("release"))
    return manifest, paired(frame, out), out


def differing(lines: list[Line]) -> list[str]:
    return [line.figure for line in lines if not line.equal]


def test_every_published_figure_is_what_the_files_say(
    released: tuple[dict[str, Any], pd.DataFrame, pd.DataFrame],
) -> None:
    manifest, came, out = released
    assert came["agefirstbirth"].isna().any()
    lines = recompute(FILE, manifest, came, out)
    assert differing(lines) == []
    assert differing(kept(FILE, came, out)) == []
    # Nothing is published that is not recomputed.
    looked_at = {line.figure for line in lines}
    losses = manifest["losses"]
    of_attributes = {
        f"attributes.{name}.{figure}" for name, figures in losses["attributes"].items() for figure in figures
    }
    of_correlations = {f"correlation_change.{figure}" for figure in losses["correlation_change"]}
    totals = set(losses) - {"attributes", "correlation_change", "refined"}
    assert totals | of_attributes | of_correlations <= looked_at


def test_a_figure_that_is_off_in_its_sixth_digit_is_seen(
    released: tuple[dict[str, Any], pd.DataFrame, pd.DataFrame],
) -> None:
    manifest, came, out = released
    off = copy.deepcopy(manifest)
    for figures in (off["losses"], off["losses"]["correlation_change"], *off["losses"]["attributes"].values()):
        figures.update({name: value * (1 + 2e-5) for name, value in figures.items() if isinstance(value, float)})
    seen = differing(recompute(FILE, off, came, out))
    assert {"sse", "sst", "l_sse", "sde", "sdt", "l_e", "lower_bound", "gap"} <= set(seen)
    assert {"correlation_change.mean", "correlation_change.largest"} <= set(seen)
    figures_of = ("l_sse", "il1s", "mean", "variance", "variance_kept")
    assert {f"attributes.{name}.{figure}" for name in FILE.quasi_identifiers for figure in figures_of} <= set(seen)


def test_values_out_of_place_are_seen(released: tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]) -> None:
    manifest, came, out = released
    moved = out.assign(age=out["age"].where(out["age"] != out["age"].max(), 500))
    assert "age: records outside their group's range" in differing(recompute(FILE, manifest, came, moved))
    other = out.assign(ethnicity=np.roll(out["ethnicity"], 1))
    assert "ethnicity: values that are not the record's own" in differing(kept(FILE, came, other))


@pytest.mark.parametrize(("published", "equal"), [(0.123457, True), (0.123456, False), (0.123458, False)])
def test_six_digits_are_compared(published: float, equal: bool) -> None:
    assert same("x", published, 0.12345678).equal is equal
    assert same("x", published, 0.1234565).equal is (published in (0.123456, 0.123457))
