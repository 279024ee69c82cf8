"""Nights of a series: every figure beside its files is recomputed from the files, by pandas alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from recompute import FILES, KEY, RealFile, find, paired, read, recompute, release, same, six

#: Who arrives and who leaves before each night; nobody arrives before the third.
ARRIVALS, LEAVERS = (200, 0), 25
SERIES = {"mode": "atoms", "leavers": "ghosts"}
PEOPLE = RealFile("people", "", ("age", "weight", "born"), ("sex",), ("town",), {"k": 3})


def made_up() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    born = pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 20_000, 900), unit="D")
    age = np.where(rng.random(900) < 0.1, np.nan, rng.integers(18, 80, 900))
    frame = pd.DataFrame({"age": age, "weight": rng.normal(70, 12, 900).round(1), "born": born.year.astype("int64")})
    frame["sex"], frame["town"] = rng.choice(["f", "m"], 900), rng.choice(list("abcdef"), 900)
    return frame.assign(**{KEY: np.arange(900) + 1})


@pytest.mark.parametrize("name", ["people", pytest.param("eusilc", marks=pytest.mark.soak("nights of 15,000 records"))])
def test_nights(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Means and deviations are those of the rows in the files; losses are of arrivals, and called so."""
    monkeypatch.delenv("MICROAGG_REPORT")
    monkeypatch.setenv("MICROAGG_SERIES_KEY", "0123456789abcdef" * 2)
    file, frame = PEOPLE, made_up()
    if name == "eusilc":
        # Of the other incomes, 200 arrivals may have none but 0, or one of them most.
        file = replace(FILES["eusilc"], quasi_identifiers=("age", "py010n", "eqIncome"))
        if (path := find(file, None)) is None:
            pytest.skip("eusilc of R's package laeken is not there; MICROAGG_DATA names a folder with eusilc.csv")
        frame = read(file, path)
    rng = np.random.default_rng(11)
    frame = frame.sample(frac=1, random_state=1).assign(person=lambda f: f[KEY])
    n_later, before, seen = sum(ARRIVALS), frame[:0], set[int]()
    there, waiting = frame[n_later:], frame[:n_later]
    for night, n in enumerate((len(there), *ARRIVALS)):
        if night:
            there = pd.concat([there.drop(index=rng.choice(there.index, LEAVERS, replace=False)), waiting[:n]])
            waiting = waiting[n:]
        roles = {**file.roles, "identifiers": ["person"]}
        settings = {**file.settings, "id": f"n{night}", "roles": roles, "unit": ["person"], "series": SERIES}
        manifest, out = release(replace(file, settings=settings), there, tmp_path)
        folder = tmp_path / "release" / manifest["id"] / manifest["revision"]
        came = pd.concat([before, there]).drop_duplicates(KEY, keep="last")
        new = out[~out[KEY].isin(seen)]
        assert manifest["series"]["night"] == night and manifest["rows"] == len(out)
        assert len(new) == n and (not night or len(out) > len(there)), "ghosts are in the file"
        is_right(file, manifest, came, out, new)
        pages_are_right(file, manifest, folder, out, len(new))
        operator_is_right(tmp_path, manifest, file, out, len(new))
        before, seen = came, seen | set(out[KEY])


def is_right(
    file: RealFile, manifest: dict[str, Any], came: pd.DataFrame, out: pd.DataFrame, new: pd.DataFrame
) -> None:
    """The manifest: of all rows means and variances, and nothing else; of arrivals all figures."""
    losses = manifest["losses"]
    if manifest["series"]["night"]:
        assert losses.keys() == {"records", "attributes", "withheld", "arrivals"} and losses["records"] == len(out)
        for name in file.quasi_identifiers:
            published = losses["attributes"][name]
            assert published.keys() == {"unit", "mean", "variance"}
            assert same(name, published["mean"], out[name].mean()).equal, name
            assert same(name, published["variance"], out[name].var(ddof=0)).equal, name
        losses = losses["arrivals"]
        assert losses["records"] == len(new)
    if len(new):
        of_new = {**manifest, "losses": losses, "rows": len(new), "suppressed": 0}
        wrong = [line for line in recompute(file, of_new, paired(came, new), new) if not line.equal]
        assert wrong == []


def pages_are_right(file: RealFile, manifest: dict[str, Any], folder: Path, out: pd.DataFrame, n: int) -> None:
    """The pages: means and deviations of the file, and no share of a loss that is not said to be of arrivals."""
    text, night = (folder / "README.md").read_text("utf-8"), manifest["series"]["night"]
    rows = dict(re.findall(r"^\| `(\w+)` \|(?: [^|]+ \|)?? ([\d.,e+-]+ \| [\d.,e+-]+) \|$", text, re.MULTILINE))
    variables = {of.get("name"): of for of in ElementTree.parse(folder / "ddi.xml").iter("{ddi:codebook:2_5}var")}
    for name in file.quasi_identifiers:
        figures = pytest.approx([out[name].mean(), out[name].std(ddof=0)], rel=6e-6)
        assert [float(cell.replace(",", "")) for cell in rows[name].split(" | ")] == figures, name
        assert [float(of.text or "") for of in variables[name].iter("{ddi:codebook:2_5}sumStat")] == figures, name
    if night:
        assert "variance kept" not in text and "given below" not in text
        head, _, rest = text.partition("## What was lost\n")
        assert "%" not in head
        section, _, others = rest.partition("\n## ")
        assert "%" not in re.sub(r"%[sm]|````.*?````", "", others, flags=re.DOTALL)
        whose = f"{n:,} of its {len(out):,} records were grouped for this release; "
        assert section.lstrip().startswith(whose if n else "No record was grouped for this release: ")
        losses = manifest["losses"]["arrivals"]
        shares = {float(share) for share in re.findall(r"([\d.]+) %", section)}
        assert shares <= {losses.get(figure) for figure in ("l_sse", "l_e", "gap")}
        assert bool(shares) == ("l_sse" in losses)
    caption = (folder / "README.html").read_text("utf-8")
    assert all(cell in caption for cells in rows.values() for cell in cells.split(" | "))


def operator_is_right(work: Path, manifest: dict[str, Any], file: RealFile, out: pd.DataFrame, n: int) -> None:
    """The operator's page and the run's own sentence name the arrivals where they tell of a loss."""
    folder = work / "work" / "audit" / manifest["id"] / manifest["revision"]
    text = re.sub(r"<[^>]*>", " ", (folder / "report.html").read_text("utf-8"))
    said = next(s["says"] for s in json.loads((folder / "run.json").read_text())["stages"] if s["name"] == "measure")
    verdict = next(line for line in text.splitlines() if "Published with k" in line)
    if manifest["series"]["night"]:
        assert f"of its {n:,} arrivals" in verdict if n else "nobody arrived" in verdict
        is_told = "l_sse" in manifest["losses"]["arrivals"]
        assert said.startswith(f"information loss of {n} arrivals " if is_told else ("the loss is withheld", "nobody"))
    table = text.partition("Every column ")[2].replace(",", "")
    for name in file.quasi_identifiers:
        assert re.search(rf"\b{name}\s[^a-z]*?\s{re.escape(str(six(out[name].mean())))}\s", table), name
