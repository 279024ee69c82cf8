"""Published figures recomputed by a program that shares nothing with the product."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from recompute import FILES, Line, RealFile, find, kept, paired, read, recompute, release

FILE = FILES["GSS7402"]


def differing(lines: list[Line]) -> list[str]:
    return [line.figure for line in lines if not line.equal]


def declared(**columns: dict[str, str]) -> RealFile:
    """The same file, some of whose quasi-identifiers do not count by their values when groups are made."""
    names = [{"name": name, **columns[name]} if name in columns else name for name in FILE.quasi_identifiers]
    return replace(FILE, settings={**FILE.settings, "roles": {**FILE.roles, "quasi_identifiers": names}})


SCALED = declared(
    kids={"zeros": "separate"},
    siblings={"scale": "log1p", "zeros": "separate"},
    education={"scale": "rank"},
    age={"scale": "robust", "top": "99%"},
)


@pytest.mark.parametrize("file", [FILE, SCALED, FILES["CPS1985"]], ids=["plain", "scaled", "categories"])
def test_every_published_figure_is_what_the_files_say(tmp_path: Path, file: RealFile) -> None:
    path = find(file, None)
    if path is None:
        pytest.skip(f"{file.name} of R's package AER is not there")
    if path.suffix != ".csv":
        pytest.importorskip("pyreadr", reason="reads R's files")
    frame = read(file, path)
    manifest, out = release(file, frame, tmp_path)
    came = paired(frame, out)
    assert file.nominal or came["agefirstbirth"].isna().any()
    lines = recompute(file, manifest, came, out)
    assert differing(lines) == []
    assert differing(kept(file, came, out)) == []
    # Nothing is published that is not recomputed.
    looked_at = {line.figure for line in lines}
    losses = manifest["losses"]
    of_attributes = {
        f"attributes.{name}.{figure}{at}"
        for name, figures in losses["attributes"].items()
        for figure, value in figures.items()
        for at in ([f".{percent}" for percent in value] if isinstance(value, dict) else [""])
    }
    of_correlations = {f"correlation_change.{figure}" for figure in losses["correlation_change"]}
    totals = set(losses) - {"attributes", "correlation_change", "refined", "coarser", "withheld"}
    assert totals | of_attributes | of_correlations <= looked_at
