"""The portrait of a release: of its files and its input, the same however it was made, and nowhere but in the audit."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from inputs.people import people
from microagg_core.errors import MicroaggError
from microagg_core.inspect.portrait import portrait as composing
from microagg_core.inspect.portrait.contract import Portrait, Regression
from microagg_core.inspect.portrait.models import MOST_LEVELS
from microagg_core.plain import to_json
from microagg_core.release.audit import read_portrait
from microagg_flows.release import Release
from releasing.runs import released_table, run_stages, start, write_release, write_series
from twins import naive_portrait

CENSUS = Path(__file__).parents[1] / "reference" / "data" / "census.csv"
MEANT = {"acknowledge": {"nearly_unique": ["number"], "jointly_unique": ["number", "diploma", "hours"]}}
ROLES = {
    "identifiers": ["id"],
    "quasi_identifiers": ["income", "age", "born", "retired"],
    "blocking": ["region"],
    "confidential": ["number", "diploma", "hours"],
}
ANALYSES = ["income ~ age + retired + diploma + region", "hours ~ income + age", "age ~ born"]


def frame(n: int = 1200) -> pd.DataFrame:
    """People whose incomes have a shape, with a number of their own by which a test finds them again."""
    rng = np.random.default_rng(5)
    age = rng.integers(18, 90, n)
    diploma = rng.choice(["none", "school", "degree"], n, p=[0.3, 0.5, 0.2])
    steps = np.where(diploma == "degree", 1.6, 1.0) * (1 + age / 100)
    days = (90 - age) * 365 + rng.integers(0, 365, n)
    return pd.DataFrame(
        {
            "id": [f"P{i}" for i in range(n)],
            "income": (rng.lognormal(9, 0.8, n) * steps * (rng.random(n) > 0.15)).round(2),
            "age": age.astype(np.int16),
            "born": [datetime.date(1935, 1, 1) + datetime.timedelta(int(day)) for day in days],
            "retired": age > 64,
            "region": rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2]),
            "number": np.arange(n),
            "diploma": diploma,
            "hours": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 60, n)),
        }
    )


def run(folder: Path, table: pd.DataFrame, n_parts: int = 1, **changes: Any) -> Release:
    whole, length = pa.Table.from_pandas(table, preserve_index=False), len(table) // n_parts
    parts = [whole.slice(i * length, length) for i in range(n_parts)]
    meant = {"roles": ROLES, **MEANT, "analyses": ANALYSES, "missing": "separate"}
    return run_stages(start(write_release(folder, parts, **{**meant, **changes})))


def kept(release: Release) -> Portrait:
    assert release.published is not None
    portrait = read_portrait(release.work, release.published.manifest)
    assert portrait is not None
    return portrait


def sides(folder: Path, table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same records as they came and as they are released, in numbers."""
    after = released_table(folder / "output").to_pandas().set_index("number").sort_index()
    before = table.set_index("number").loc[after.index]
    both = []
    for side in (before, after):
        born = (pd.to_datetime(side["born"]) - pd.Timestamp("1970-01-01")).dt.days
        both.append(side.assign(born=born, retired=side["retired"].astype(float), age=side["age"].astype(float)))
    return both[0], both[1]


def test_it_is_that_of_the_input_and_the_files(tmp_path: Path) -> None:
    table = frame()
    portrait = kept(run(tmp_path, table))
    assert_nothing_of_it_is_published_or_left(tmp_path)
    before, after = sides(tmp_path, table)
    assert portrait.records == portrait.drawn == 1200 and portrait.left_out == ()
    assert [one.column for one in portrait.distributions] == ROLES["quasi_identifiers"]
    for one in portrait.distributions:
        assert list(one.before) == naive_portrait.records_of_intervals(before[one.column].tolist(), one.edges)
        assert list(one.after) == naive_portrait.records_of_intervals(after[one.column].tolist(), one.edges)
        assert min(one.before) >= 10
    income, _, born, retired = portrait.distributions
    assert len(income.edges) > 12 and income.before[0] > 120  # who has none, for themselves
    assert born.unit == "days" and all(len(words) == 10 for words in born.edge_words)
    assert retired.values == ("false", "true")
    names = ROLES["quasi_identifiers"]
    assert portrait.correlations is not None
    np.testing.assert_allclose(portrait.correlations.before, before[names].corr(), atol=1e-6)
    np.testing.assert_allclose(portrait.correlations.after, after[names].corr(), atol=1e-6)
    assert len(portrait.pairs) == 6
    for pair in portrait.pairs:
        points = list(before[[pair.x, pair.y]].itertuples(index=False))
        by_hand = naive_portrait.records_of_cells(points, pair.x_edges, pair.y_edges, 10)
        assert [list(row) for row in pair.before] == by_hand


def assert_fits(regression: Regression, before: pd.DataFrame, after: pd.DataFrame, terms: list[str]) -> None:
    outcome = regression.formula.split(" ~ ")[0]
    for fit, side in ((regression.before, before), (regression.after, after)):
        coefficients, errors, r_squared = naive_portrait.fitted(side, outcome, terms)
        assert fit.records == len(side[[outcome, *terms]].dropna())
        assert fit.coefficients == pytest.approx(coefficients, rel=1e-7)
        assert fit.errors == pytest.approx(errors, rel=1e-7)
        assert fit.r_squared == pytest.approx(r_squared, rel=1e-8)


def test_models_are_those_of_the_input_and_the_files(tmp_path: Path) -> None:
    table = frame()
    first, second, third = kept(run(tmp_path, table, n_parts=2, rounding={"age": "none"})).regressions
    before, after = sides(tmp_path, table)
    assert first.terms[1:] == ("age", "retired", "diploma=none", "diploma=school", "region=north", "region=south")
    assert first.bases == ("diploma=degree", "region=east")
    assert_fits(first, before, after, ["age", "retired", "diploma", "region"])
    assert_fits(second, before, after, ["income", "age"])
    assert second.before.records < 1200
    assert_fits(third, before, after, ["born"])
    assert first.before.coefficients != first.after.coefficients


def test_it_is_the_same_however_the_input_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for drawn in (10**6, 500):
        monkeypatch.setattr(composing, "DRAWN", drawn)
        made = [kept(run(tmp_path / f"{drawn}-{n}", frame(), n_parts=n)) for n in (1, 3)]
        assert to_json(made[0]) == to_json(made[1])
        figures = [json.loads(next((tmp_path / f"{drawn}-{n}").rglob("manifest.json")).read_text()) for n in (1, 3)]
        assert figures[0]["losses"]["attributes"] == figures[1]["losses"]["attributes"]
        assert figures[0]["losses"].get("drawn") == (None if drawn > 1200 else made[0].drawn)
        assert made[0].records == 1200
        assert (made[0].drawn == 1200) if drawn > 1200 else (430 < made[0].drawn < 570)
        assert sum(made[0].distributions[0].before) == made[0].drawn


def test_quantiles_and_zeros_stand_on_both_pages_as_pandas_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MICROAGG_REPORT", "on")
    table = frame()
    run(tmp_path, table)
    before, after = sides(tmp_path, table)
    income = json.loads(next(tmp_path.rglob("manifest.json")).read_text())["losses"]["attributes"]["income"]
    born = json.loads(next(tmp_path.rglob("manifest.json")).read_text())["losses"]["attributes"]["born"]
    assert income["zeros"] == float(f"{100 * (after['income'] == 0).mean():.6g}") < income["zeros_before"]
    assert abs(income["zeros_before"] - 100 * (before["income"] == 0).mean()) <= 0.5
    assert income["quantiles"]["75"] == float(f"{after['income'].quantile(0.75):.6g}")
    days = [str(np.datetime64(int(day), "D")) for day in after["born"].quantile([0.05, 0.5], "lower")]
    assert [born["quantiles"][percent] for percent in ("5", "50")] == days and "zeros" not in born
    median = str(np.datetime64(int(before["born"].quantile(0.5, "lower")), "D"))
    assert median.startswith(born["quantiles_before"]["50"]) and len(born["quantiles_before"]["50"]) < 10
    public, own = (next(tmp_path.rglob(name)).read_text() for name in ("README.md", "report.html"))
    for page in (public, own):
        assert days[0] in page and born["quantiles_before"]["50"] in page
    assert f"{income['zeros']:g} %" in public and "Shares of zeros, and of round" in own


def test_of_few_records_nothing_is_told_of_the_input(tmp_path: Path) -> None:
    """Of 90 people five lie below the quantile at 5 %, and no share is of so many that one is not known."""
    run(tmp_path, frame(90), analyses=[])
    losses = json.loads(next(tmp_path.rglob("manifest.json")).read_text())["losses"]
    income = losses["attributes"]["income"]
    assert {"5", "95"} & income["quantiles_before"].keys() == set() and "zeros_before" not in income
    assert "attributes.income.zeros_before, attributes.income.heaps_before" in losses["withheld"]


def test_analyses_are_no_other_release(tmp_path: Path) -> None:
    run(tmp_path, frame(), analyses=[])
    again = run(tmp_path, frame())
    assert again.published is not None and again.published.already
    assert kept(again).regressions == ()


def test_missing_values_withheld_records_and_levels(tmp_path: Path) -> None:
    table = frame()
    table["age"] = table["age"].astype(float)
    table.loc[table["income"] > 30_000, "age"] = np.nan
    table.loc[:4, "born"] = None
    table.loc[:20, "region"] = [f"r{i}" for i in range(21)]
    table["diploma"] = [f"d{i % (MOST_LEVELS + 1)}" for i in range(len(table))]
    portrait = kept(run(tmp_path, table, blocks={"undersized": "suppress"}))
    before, _ = sides_without_dates(tmp_path, table)
    assert portrait.records == len(before) < 1200
    by_name = {one.column: one for one in portrait.distributions}
    assert by_name["age"].missing == int(before["age"].isna().sum()) > 100
    assert portrait.left_out == (
        "withheld records are not in it, neither before nor after",
        f"'income ~ age + retired + diploma + region' is not computed, as 'diploma' has more than {MOST_LEVELS} levels",
    )


def sides_without_dates(folder: Path, table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    after = released_table(folder / "output").to_pandas().set_index("number").sort_index()
    return table.set_index("number").loc[after.index], after


def test_it_is_of_this_very_release_and_the_audit_is_whole_without(tmp_path: Path) -> None:
    release = run(tmp_path, frame(300), analyses=[])
    assert release.published is not None
    (path,) = (tmp_path / "work" / "audit").glob("*/r0001/portrait.json")
    document = json.loads(path.read_text())
    other = release.published.manifest.model_copy(update={"created": "2026-01-01T00:00:00+00:00"})
    assert read_portrait(release.work, other) is None
    for damage in (b"", b"[", b"[]", json.dumps({**document, "portrait": {"records": "many"}}).encode()):
        path.write_bytes(damage)
        assert read_portrait(release.work, release.published.manifest) is None
    path.unlink()
    assert read_portrait(release.work, release.published.manifest) is None
    assert run(tmp_path, frame(300), analyses=[]).published.already  # type: ignore[union-attr]


def assert_nothing_of_it_is_published_or_left(tmp_path: Path) -> None:
    assert {path.name for path in tmp_path.rglob("*portrait*")} == {"portrait.json"}
    assert not list(tmp_path.rglob("*drawn*"))
    manifest = next((tmp_path / "output").rglob("manifest.json")).read_text()
    assert "analyses" not in manifest and "income ~" not in manifest


def test_survivors_of_a_series_have_no_before(tmp_path: Path) -> None:
    run_stages(start(write_series(tmp_path, [people(300)])))
    later = datetime.datetime(2026, 11, 19, 3, 0, tzinfo=datetime.UTC)
    write_series(tmp_path, [people(300), people(200, first=300)])
    second = run_stages(start(tmp_path / "release.yaml", now=later))
    attributes = second.published.manifest.losses.attributes  # type: ignore[union-attr]
    assert all(of.quantiles is None is of.zeros_before for of in (attributes or {"": None}).values())
    portrait = kept(second)
    assert portrait.records == portrait.drawn == 200
    assert portrait.left_out == (
        "survivors are not in it: of them, the series keeps what was released, and not how they came",
    )
    nobody = kept(run_stages(start(tmp_path / "release.yaml", now=later + datetime.timedelta(days=1))))
    assert (nobody.records, nobody.drawn, nobody.distributions, nobody.correlations) == (0, 0, (), None)


def test_a_real_file_whose_incomes_are_skewed(tmp_path: Path) -> None:
    """The Census file of the field: 1,080 households; withheld tax and its kind explain an income."""
    table = pd.read_csv(CENSUS)
    table["kind"] = np.where(table["INTVAL"] == 0, "without interest", "with interest")
    table["number"] = np.arange(len(table))
    names = ["AGI", "FEDTAX", "PTOTVAL", "INTVAL", "FICA"]
    told = ["WSALVAL", "kind", "number"]
    others = [name for name in table if name not in (*names, *told)]
    roles = {"quasi_identifiers": names, "confidential": told, "drop": others}
    meant = {"nearly_unique": ["number"], "jointly_unique": told, "fixes_quasi_identifier": told}
    meant["completes_mean"] = ["WSALVAL"]  # of which FICA is a share, up to a bound
    formula = "AGI ~ FEDTAX + FICA + WSALVAL + kind"
    portrait = kept(run(tmp_path, table, roles=roles, acknowledge=meant, analyses=[formula]))
    after = released_table(tmp_path / "output").to_pandas().set_index("number").sort_index()
    before = table.set_index("number").loc[after.index]
    (regression,) = portrait.regressions
    assert_fits(regression, before, after, ["FEDTAX", "FICA", "WSALVAL", "kind"])
    assert portrait.correlations is not None
    released = after[list(portrait.correlations.columns)]
    np.testing.assert_allclose(portrait.correlations.after, released.corr(), atol=1e-6)
    assert sorted(released) == sorted(names)
    for one in portrait.distributions:
        assert list(one.before) == naive_portrait.records_of_intervals(before[one.column].tolist(), one.edges)
        assert len(one.edges) >= 8 and max(one.before) < 0.4 * len(table)


def test_a_text_has_no_coefficients(tmp_path: Path) -> None:
    with pytest.raises(MicroaggError, match=r"'diploma' has the type .*string, and only"):
        run(tmp_path, frame(100), analyses=["diploma ~ age"])
