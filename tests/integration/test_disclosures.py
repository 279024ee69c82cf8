"""Attacks on what confidential columns say: each succeeds against a naive pipeline, and is refused or told here.

The naive pipeline puts records into groups of k and replaces quasi-identifiers by means, as everybody does who minds
quasi-identifiers alone; a few lines of pandas then get the exact value, or the household, back.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from microagg_core import microaggregate
from microagg_core.errors import DataError
from microagg_core.inspect.disclosures import Disclosure
from microagg_core.release.planned import SURVEY
from releasing.runs import run_stages, start, write_release

N = 3000
K = 5


def naive(frame: pd.DataFrame, quasi: list[str]) -> pd.DataFrame:
    """Groups of k that follow each other by the first quasi-identifier, and their means."""
    order = frame[quasi[0]].rank(method="first").astype(int) - 1
    groups = np.minimum(order // K, len(frame) // K - 1)
    return frame.assign(**{name: frame[name].groupby(groups).transform("mean") for name in quasi})


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def surveyed(folder: Path, frame: pd.DataFrame, quasi: list[str], n_parts: int = 3, **spec: Any) -> Any:
    """The release after its survey; columns that are neither quasi-identifiers nor in blocks are confidential."""
    blocking = spec.pop("blocking", [])
    confidential = [name for name in frame if name not in (*quasi, *blocking)]
    roles = {"quasi_identifiers": quasi, "blocking": blocking, "confidential": confidential}
    table, ends = pa.Table.from_pandas(frame, preserve_index=False), np.linspace(0, len(frame), n_parts + 1).astype(int)
    parts = [table.slice(a, b - a) for a, b in pairwise(ends.tolist())]
    return run_stages(start(write_release(folder, parts, roles=roles, **spec)), "survey")


def disclosed(folder: Path, frame: pd.DataFrame, quasi: list[str], **spec: Any) -> list[Disclosure]:
    release = surveyed(folder, frame, quasi, **spec)
    return list(release.known(SURVEY).disclosures)


def refused(folder: Path, frame: pd.DataFrame, quasi: list[str], **spec: Any) -> str:
    with pytest.raises(DataError) as stopped:
        run_stages(surveyed(folder, frame, quasi, **spec), "plan")
    return stopped.value.message


def what(found: list[Disclosure]) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.what, one.columns) for one in found]


# --- Unique records ------------------------------------------------------------------------------------------------


def test_unique_records_are_counted_not_distinct_values(tmp_path: Path, rng: np.random.Generator) -> None:
    """86 % distinct is 72 % of the records, which whoever knows a value finds."""
    n_alone, n_pairs = 720, 140
    value = np.append(np.arange(n_alone), np.repeat(np.arange(n_alone, n_alone + n_pairs), 2))
    frame = pd.DataFrame({"x": rng.normal(size=1000), "value": rng.permutation(value)})
    shown = naive(frame, ["x"])
    assert (shown.groupby("value")["x"].transform("size") == 1).mean() == 0.72
    message = refused(tmp_path, frame, ["x"])
    assert "'value' is nearly unique: 72 % of the records" in message and "acknowledge.nearly_unique" in message
    run_stages(surveyed(tmp_path / "a", frame, ["x"], acknowledge={"nearly_unique": ["value"]}), "plan")


def test_columns_that_are_unique_together(tmp_path: Path, rng: np.random.Generator) -> None:
    """Two releases of the same people, in other groups and another order, are matched row by row."""
    frame = pd.DataFrame({"x": rng.normal(size=N), "a": rng.integers(0, 540, N), "b": rng.integers(0, 540, N)})
    again = naive(frame, ["x"]).sample(frac=1, random_state=1)
    matched = naive(frame, ["x"]).reset_index().merge(again.reset_index(), on=["a", "b"])
    unique = float((~frame.duplicated(["a", "b"], keep=False)).mean())
    assert unique > 0.98 and (matched["index_x"] == matched["index_y"]).mean() > 0.97
    found = [one for one in disclosed(tmp_path, frame, ["x"]) if one.is_refused]
    assert what(found) == [("jointly_unique", ("a", "b"))]
    assert found[0].share == pytest.approx(unique, abs=1e-9)  # they all fit the sample
    run_stages(surveyed(tmp_path / "one", frame, ["x"], acknowledge={"jointly_unique": ["b", "a"]}), "plan")
    # A column that comes later was not thought of.
    frame["c"] = rng.integers(0, 3, N)
    message = refused(tmp_path / "two", frame, ["x"], acknowledge={"jointly_unique": ["a", "b"]})
    assert "'a', 'b' and 'c' together are nearly unique" in message


@pytest.mark.parametrize("none", [None, ""])
def test_text_that_is_there_for_every_fifth(none: str | None, tmp_path: Path, rng: np.random.Generator) -> None:
    numbers = [f"call 06{i:07d}" if i % 5 == 0 else none for i in range(N)]
    message = refused(tmp_path, pd.DataFrame({"x": rng.normal(size=N), "note": numbers}), ["x"])
    assert "'note' is nearly unique: 100 % of the records that have a value in it" in message


def test_long_free_text(tmp_path: Path, rng: np.random.Generator) -> None:
    words = ["patient", "reports", "that", "neighbour", "of", "sister", "in", "Aberdeen", "was", "ill", "since"]
    texts = [" ".join(rng.choice(words, 9)) for _ in range(N // 3)]
    frame = pd.DataFrame({"x": rng.normal(size=N), "note": rng.choice(texts, N)})
    assert "'note' is long free text" in refused(tmp_path, frame, ["x"])
    # Names of categories may be as long.
    frame["note"] = rng.choice([f"Machine operators, assemblers and inspectors, class {i}" for i in range(60)], N)
    assert disclosed(tmp_path / "b", frame, ["x"]) == []


# --- Values that tie a few records ---------------------------------------------------------------------------------


def test_household_incomes_tie_households(tmp_path: Path, rng: np.random.Generator) -> None:
    household = np.repeat(np.arange(N), rng.integers(1, 6, N))[:N]
    frame = pd.DataFrame({"age": rng.integers(0, 90, N), "income": rng.lognormal(10, 0.5, N).round(2)[household]})
    regrouped = naive(frame, ["age"]).groupby("income").ngroup()
    pairs = pd.DataFrame({"household": household, "seen": regrouped})
    together = pairs.groupby("household")["seen"].nunique().eq(1) & pairs.groupby("household").size().gt(1)
    assert together.sum() > 0.99 * pairs.groupby("household").size().gt(1).sum()
    found = disclosed(tmp_path, frame, ["age"])
    assert what(found) == [("ties_few_records", ("income",))] and found[0].is_refused
    sizes = frame.groupby("income")["age"].transform("size")
    assert found[0].share == pytest.approx(sizes.between(2, 8).mean(), abs=1e-9)
    run_stages(surveyed(tmp_path / "b", frame, ["age"], acknowledge={"ties_few_records": ["income"]}), "plan")


def test_households_tied_by_two_columns(tmp_path: Path, rng: np.random.Generator) -> None:
    household = np.repeat(np.arange(N), 3)[:N]
    frame = pd.DataFrame({"age": rng.integers(0, 90, N)})
    for name in ("rent", "dwelling"):
        frame[name] = rng.integers(0, 300, N)[household]
    found = disclosed(tmp_path, frame, ["age"])
    assert ("ties_few_records", ("rent", "dwelling")) in what(found)


# --- Explained quasi-identifiers -----------------------------------------------------------------------------------


def incomes(rng: np.random.Generator) -> pd.DataFrame:
    gross = rng.lognormal(10, 0.6, N).round()
    tax = (gross * rng.uniform(0.05, 0.6, N)).round()
    return pd.DataFrame({"age": rng.integers(18, 90, N).astype(float), "gross": gross, "net": gross - tax, "tax": tax})


def test_columns_that_add_up(tmp_path: Path, rng: np.random.Generator) -> None:
    frame = incomes(rng)
    shown = naive(frame, ["age", "gross"])
    assert (shown["net"] + shown["tax"] == frame["gross"]).all()
    quasi = ["age", "gross"]
    apart = [np.corrcoef(frame["gross"], frame[name])[0, 1] ** 2 for name in ("net", "tax")]
    assert max(apart) < 0.95
    everything = {"jointly_unique": ["net", "tax"], "nearly_unique": ["net", "tax"]}
    message = refused(tmp_path, frame, quasi, acknowledge=everything)
    assert "'net' and 'tax' together fix the quasi-identifier 'gross': they explain 100 %" in message
    both = {"fixes_quasi_identifier": ["net", "tax"]}
    assert "fix the" in refused(
        tmp_path / "one", frame, quasi, acknowledge={**everything, "fixes_quasi_identifier": ["net"]}
    )
    run_stages(surveyed(tmp_path / "both", frame, quasi, acknowledge={**everything, **both}), "plan")


@pytest.mark.parametrize(("missing", "text"), [(0.3, False), (0.3, True)])
def test_missing_numbers_and_numbers_as_text(
    missing: float, text: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    frame = incomes(rng)
    frame["tax"] = frame["tax"].where(rng.random(N) >= missing)
    if text:  # as in a CSV whose types nobody declared
        frame["tax"] = [None if pd.isna(value) else f"{value:.0f}" for value in frame["tax"]]
    found = disclosed(tmp_path, frame, ["age", "gross"])
    assert ("fixes_quasi_identifier", ("net", "tax")) in what([one for one in found if one.is_refused])


def test_a_copy_that_is_acknowledged_as_nearly_unique(tmp_path: Path, rng: np.random.Generator) -> None:
    frame = pd.DataFrame({"x": rng.normal(size=N), "y": rng.normal(size=N)})
    frame["copy"] = frame["x"] * 3 + 1
    assert np.allclose((naive(frame, ["x", "y"])["copy"] - 1) / 3, frame["x"])
    message = refused(tmp_path, frame, ["x", "y"], acknowledge={"nearly_unique": ["copy"]})
    assert "'copy' fixes the quasi-identifier 'x': it explains 100 %" in message


@pytest.mark.parametrize("form", [lambda x: 1 / x, lambda x: x**5])
def test_the_order_is_as_good_as_the_value(form: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    frame = pd.DataFrame({"income": rng.lognormal(10, 1, N), "age": rng.integers(0, 90, N)})
    frame["score"] = form(frame["income"])
    found = disclosed(tmp_path, frame, ["income", "age"])
    fixes = [one for one in found if one.what == "fixes_quasi_identifier"]
    assert [(one.columns, one.quasi_identifiers, one.is_refused) for one in fixes] == [(("score",), ("income",), True)]


def test_sums_and_differences_of_quasi_identifiers(tmp_path: Path, rng: np.random.Generator) -> None:
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b", "c"])
    for other, (name, formula) in enumerate({"sum": ("a", "b"), "less": ("a", "c")}.items()):
        both = frame[["a", "b", "c"]].assign(**{name: frame[formula[0]] + (-1) ** other * frame[formula[1]]})
        found = disclosed(tmp_path / name, both, ["a", "b", "c"])
        (one,) = [one for one in found if one.what == "fixes_quasi_identifier"]
        assert one.is_combination and one.is_refused and one.quasi_identifiers == formula and one.share > 0.999


def test_a_decile_of_a_sum(tmp_path: Path, rng: np.random.Generator) -> None:
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b", "c"])
    frame["decile"] = [f"d{i}" for i in pd.qcut(frame["a"] + frame["b"], 10, labels=False)]
    (one,) = disclosed(tmp_path, frame, ["a", "b", "c"])
    assert one.is_combination and one.quasi_identifiers == ("a", "b") and one.share > 0.9
    shown = naive(frame, ["c", "a", "b"])
    within = (frame["a"] + frame["b"]).groupby(shown["decile"]).std()
    assert within.median() < 0.15 * (frame["a"] + frame["b"]).std()


@pytest.mark.parametrize("as_text", [False, True])
def test_an_age_in_bands_of_ten(as_text: bool, tmp_path: Path, rng: np.random.Generator) -> None:
    frame = pd.DataFrame({"age": rng.integers(0, 95, N), "x": rng.normal(size=N)})
    band = frame["age"] // 10 * 10
    frame["band"] = [f"{b}-{b + 9}" for b in band] if as_text else band
    (one,) = disclosed(tmp_path, frame, ["age", "x"])
    assert one.columns == ("band",) and one.quasi_identifiers == ("age",) and one.is_refused
    between = 1 - frame["age"].groupby(frame["band"]).transform(lambda a: a - a.mean()).var() / frame["age"].var()
    assert one.share == pytest.approx(between, abs=0.01)


def test_noise_of_ten_percent_is_told(tmp_path: Path, rng: np.random.Generator) -> None:
    frame = pd.DataFrame({"x": rng.normal(50, 15, N), "y": rng.normal(size=N)})
    frame["noisy"] = (frame["x"] * rng.normal(1, 0.1, N)).round(1)
    found = [one for one in disclosed(tmp_path, frame, ["x", "y"]) if one.what == "fixes_quasi_identifier"]
    assert [(one.columns, one.quasi_identifiers, one.is_refused) for one in found] == [(("noisy",), ("x",), False)]
    assert found[0].share == pytest.approx(np.corrcoef(frame["x"], frame["noisy"])[0, 1] ** 2, abs=0.02)


# --- Completed means -----------------------------------------------------------------------------------------------


def registered(rng: np.random.Generator) -> pd.DataFrame:
    """People with an income, a day of birth and a postcode of some hundred places."""
    return pd.DataFrame(
        {
            "income": (rng.lognormal(10, 0.6, N) / 10).round() * 10,
            "born": rng.integers(0, 60 * 365, N),
            "postcode": rng.choice(rng.choice(np.arange(1000, 9999), 300, replace=False), N),
        }
    )


def nearest_branch(below: pd.Series, period: float, mean: pd.Series) -> pd.Series:
    return below + period * ((mean - below) / period).round()


@pytest.mark.parametrize(
    ("name", "period", "as_text"), [("income", 10_000, False), ("born", 365, True), ("postcode", 100, False)]
)
def test_digits_and_days_that_complete_a_mean(
    name: str, period: int, as_text: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    quasi = [name, "income" if name != "income" else "born"]
    frame = registered(rng)[quasi]
    below = frame[name] % period
    means = microaggregate(frame, quasi, k=3).data[name]
    assert (nearest_branch(below, period, means) == frame[name]).mean() > 0.6
    assert (means.round() == frame[name]).mean() < 0.05
    frame["below"] = [f"day {value:05.0f}" for value in below] if as_text else below
    meant = {"nearly_unique": ["below"], "ties_few_records": ["below"]}
    message = refused(tmp_path, frame, quasi, acknowledge=meant)
    assert f"'below' completes what is released of the quasi-identifier '{name}'" in message
    assert "acknowledge.completes_mean" in message and "\n" not in message
    run_stages(surveyed(tmp_path / "a", frame, quasi, acknowledge={**meant, "completes_mean": ["below"]}), "plan")


@pytest.mark.parametrize("form", ["distance from the median", 0.95, 0.57])
def test_distances_and_copies_of_some_complete_a_mean(
    form: str | float, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Of a column with repetitions, and of one in which everybody has a value of his own."""
    for name, values in {"rounded": registered(rng)["income"], "exact": rng.lognormal(10, 0.6, N)}.items():
        frame = registered(rng).assign(income=values)
        income = frame["income"]
        is_copied = rng.random(N) < form if isinstance(form, float) else None
        frame["other"] = (
            (income - income.median()).abs()
            if is_copied is None
            else (income.where(is_copied, rng.permutation(income)))
        )
        found = {one.what: one for one in disclosed(tmp_path / name, frame, ["income", "born"]) if one.is_refused}
        assert "completes_mean" in found or "fixes_quasi_identifier" in found
        if "completes_mean" in found:
            assert found["completes_mean"].quasi_identifiers == ("income",)
            assert found["completes_mean"].share - found["completes_mean"].by_chance > 0.4


@pytest.mark.parametrize("n", [60, N])
def test_columns_that_complete_nothing(n: int, tmp_path: Path, rng: np.random.Generator) -> None:
    """Chance, categories, and numbers that go with an income as closely as others do."""
    frame = registered(rng)[:n]
    z = np.log(frame["income"]).pipe(lambda x: (x - x.mean()) / x.std())
    for i, levels in enumerate((2, 12, 100)):
        frame[f"level{i}"] = rng.integers(0, levels, n)
    frame["class"] = pd.cut(z + rng.normal(size=n), 5, labels=False)
    frame["rent"] = np.exp(6 + 0.4 * z + 0.4 * rng.normal(size=n)).round(-1)
    found = disclosed(tmp_path, frame, ["income", "born", "postcode"])
    assert [one.columns for one in found if one.what == "completes_mean"] == []


def test_ranks_within_blocks(tmp_path: Path, rng: np.random.Generator) -> None:
    """Blocks of other means: over all of them ranks say little."""
    town = rng.integers(0, 40, N)
    frame = pd.DataFrame(
        {"town": town, "x": rng.normal(size=N) + 3 * rng.permutation(40)[town], "y": rng.normal(size=N)}
    )
    frame["percentile"] = (frame.groupby("town")["x"].rank(pct=True) * 20).round() * 5
    assert np.corrcoef(frame["percentile"], frame["x"])[0, 1] ** 2 < 0.2
    (one,) = disclosed(tmp_path, frame, ["x", "y"], blocking=["town"])
    assert one.is_rank and one.is_refused and one.columns == ("percentile",) and one.quasi_identifiers == ("x",)
    assert "the order of the quasi-identifier 'x' within blocks" in one.sentence()


def test_chance_is_not_told(tmp_path: Path, rng: np.random.Generator) -> None:
    """Many columns of noise beside few records."""
    frame = pd.DataFrame(rng.normal(size=(90, 4)), columns=list("wxyz"))
    for i in range(30):
        frame[f"c{i}"] = rng.integers(0, 6, 90)
    assert {one.what for one in disclosed(tmp_path, frame, list("wxyz"))} <= {"jointly_unique"}


def test_dates_booleans_and_decimals_are_numbers(tmp_path: Path, rng: np.random.Generator) -> None:
    days = rng.integers(0, 20_000, N)
    frame = pd.DataFrame({"born": pd.to_datetime(days, unit="D"), "x": rng.normal(size=N)})
    frame["admitted"] = frame["born"].dt.date  # an Arrow date
    frame["text"] = frame["born"].dt.strftime("%Y-%m-%d")
    found = disclosed(tmp_path, frame, ["born", "x"])
    fixing = {
        one.columns for one in found if one.what == "fixes_quasi_identifier" and one.quasi_identifiers == ("born",)
    }
    assert fixing == {("admitted",), ("text",)}


def test_figures_are_the_same_however_the_input_is_cut(tmp_path: Path, rng: np.random.Generator) -> None:
    frame = incomes(rng)
    frame["level"] = pd.cut(frame["age"], 6, labels=False)
    found = disclosed(tmp_path, frame, ["age", "gross"], n_parts=7)
    twin = disclosed(tmp_path / "twin", frame, ["age", "gross"], n_parts=3)
    assert [(*what([one])[0], one.quasi_identifiers) for one in found] == [
        (*what([one])[0], one.quasi_identifiers) for one in twin
    ]
    assert [one.share for one in found] == pytest.approx([one.share for one in twin], abs=1e-6)
