"""Portraits of any data: what they count is right, of many records, and no edge is the value of few."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.data.kinds.registry import kind_of
from microagg_core.group.metrics.statistics import loss_statistics
from microagg_core.inspect.portrait.contract import PERCENTS, Portrait, Summary
from microagg_core.inspect.portrait.models import (
    AS_IT_IS,
    NO_RECORDS,
    OTHER_LEVELS,
    DesignMoments,
    LinearModel,
    Variable,
    regression_of,
)
from microagg_core.inspect.portrait.pictures import correlations_of
from microagg_core.inspect.portrait.portrait import drawing_share, fewest_records, with_pictures
from microagg_core.inspect.portrait.scales import DrawnColumn, ShownColumn, Sight, find_edges
from microagg_core.inspect.portrait.summaries import common_quantile, summaries_of
from microagg_core.plain import from_json, to_json
from twins import naive_portrait

SHAPES: dict[str, Any] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "income": lambda rng, n: rng.lognormal(10, 1, n).round(2) * rng.integers(0, 2, n),
    "pareto": lambda rng, n: rng.pareto(0.7, n),
    "both ways": lambda rng, n: rng.standard_cauchy(n),
    "whole": lambda rng, n: rng.integers(0, 100, n).astype(float),
    "thousands": lambda rng, n: (rng.lognormal(10, 1, n) / 1000).round() * 1000,
    "two": lambda rng, n: rng.integers(0, 2, n) * 3.0,
    "few rare": lambda rng, n: rng.choice([1.0, 2.0, 5.0, 15.0, 400.0], n, p=[0.6, 0.37, 0.01, 0.01, 0.01]),
    "constant": lambda rng, n: np.full(n, 7.25),
    "huge": lambda rng, n: rng.normal(size=n).clip(-4, 4) * 4e307,
    "tiny": lambda rng, n: rng.lognormal(0, 3, n) * 1e-300,
    "least": lambda rng, n: rng.integers(0, 50, n) * 5e-324,
    "far away": lambda rng, n: 1e9 + rng.pareto(1, n),
    "clumps": lambda rng, n: np.where(rng.random(n) < 0.5, rng.random(n), 1e12 + rng.random(n)),
}
TYPES = {"days": pa.date32(), "seconds": pa.timestamp("us"), None: pa.float64()}
RECORDS = st.integers(0, 400)
FEWEST = st.sampled_from([10, 10, 25])


def column(values: np.ndarray, name: str = "x") -> DrawnColumn:
    return DrawnColumn(ShownColumn(kind_of(name, pa.float64())), values, values)


def values_of(shape: str, n: int, seed: int) -> np.ndarray:
    values: np.ndarray = SHAPES[shape](np.random.default_rng(seed), n)
    return values


def rare_values(values: np.ndarray, fewest: int) -> set[float]:
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    return set(distinct[counts < fewest].tolist())


@examples(150)
@given(
    st.sampled_from(list(SHAPES)), RECORDS, st.integers(0, 99), FEWEST, st.sampled_from(list(TYPES)), st.integers(1, 40)
)
def test_no_interval_is_of_few_and_no_edge_is_one_of_few(
    shape: str, n: int, seed: int, fewest: int, unit: str | None, most: int
) -> None:
    values = values_of(shape, n, seed)
    if unit is not None:
        values = np.floor(np.clip(values, -1e6, 1e6))
    edges = find_edges(Sight(values, unit, fewest, most))
    counts, places = edges.counts(values), edges.places
    assert counts.tolist() == naive_portrait.records_of_intervals(values.tolist(), places.tolist())
    assert np.isfinite(places).all() and (np.diff(places) > 0).all()
    assert len(places) == 0 or counts.min() >= fewest
    assert not rare_values(values, fewest) & set(places.tolist())
    words = ShownColumn(kind_of("x", TYPES[unit])).words(places.tolist())
    assert len(set(words)) == len(words) or unit is not None


@pytest.mark.parametrize("shape", SHAPES)
def test_a_scale_shows_the_shape(shape: str) -> None:
    """No interval takes most of what is not one value."""
    values = values_of(shape, 5000, 1)
    edges = find_edges(Sight(values, None, 10, 24))
    distinct, counts = np.unique(values, return_counts=True)
    spread = values[~np.isin(values, distinct[counts > 500])]
    if shape not in ("two", "few rare", "constant"):
        assert edges.counts(spread).max() <= 0.55 * len(spread)
        assert len(edges.places) >= 9
    assert edges.scale == {"pareto": "log", "tiny": "log", "both ways": "log", "far away": "quantiles"}.get(
        shape, edges.scale
    )


@examples(150)
@given(st.sampled_from(list(SHAPES)), st.integers(20, 3000), st.integers(0, 99), FEWEST, st.sampled_from(list(TYPES)))
def test_a_quantile_of_the_input_is_common_to_enough_records(
    shape: str, n: int, seed: int, fewest: int, unit: str | None
) -> None:
    """Whoever takes what is told for a record's value has as many to choose from, and as many on either side."""
    values = np.sort(values_of(shape, n, seed))
    if unit is not None:
        values = np.floor(np.clip(values, -1e6, 1e6))
    shown, n_told = ShownColumn(kind_of("x", TYPES[unit])), 0
    for percent in PERCENTS:
        told = common_quantile(values, percent, fewest, shown)
        is_far_out = min(percent, 100 - percent) / 100 * n < fewest
        if told is None:
            continue
        n_told += 1
        true = pd.Series(values).quantile(percent / 100, interpolation="lower" if unit else "linear")
        low, high = naive_portrait.told_by(told.value, told.within, unit)
        common = (values == true).sum()
        near = common if told.within == 0 and common >= fewest else ((values > low) & (values < high)).sum()
        assert not is_far_out and near >= fewest
        assert low - 1e-5 * abs(true) <= true <= high + 1e-5 * abs(true)  # what is common has six digits
    assert n_told == len(PERCENTS) or shape not in ("normal", "whole") or n < 40 * fewest


@pytest.mark.parametrize("unit", TYPES)
def test_summaries_are_those_of_pandas(unit: str | None) -> None:
    rng = np.random.default_rng(3)
    before = np.where(rng.random(5000) < 0.3, 0.0, np.round(rng.lognormal(8, 1, 5000), -2))
    before[rng.random(5000) < 0.02] = np.nan
    after = pd.Series(before).groupby(np.arange(5000) // 5).transform("mean").round().where(~np.isnan(before))
    (summary,) = summaries_of([DrawnColumn(ShownColumn(kind_of("x", TYPES[unit])), before, after.to_numpy())], 10)
    assert to_json(from_json(Summary, to_json(summary))) == to_json(summary)
    sides = pd.Series(before).dropna(), after.dropna()
    assert summary.records == len(sides[0])
    if unit is None:
        assert [summary.zeros.before, summary.zeros.after] == [(side == 0).sum() for side in sides]  # type: ignore[union-attr]
        heaps = [side[side != 0].value_counts().nlargest(5).sum() for side in sides]
        assert [summary.heaps.before, summary.heaps.after] == heaps  # type: ignore[union-attr]
    shares = [percent / 100 for percent in PERCENTS]
    came, released = (side.quantile(shares, "lower" if unit else "linear").tolist() for side in sides)
    as_told = [float(f"{value:.6g}") if unit is None else naive_portrait.moment(value, unit) for value in released]
    assert list(summary.after) == as_told
    for told, value in zip(summary.before, came, strict=True):
        assert told is not None
        low, high = naive_portrait.told_by(told.value, told.within, unit)
        assert low - 1e-6 * abs(low) <= value <= high + 1e-6 * abs(high)


def table_of(n: int, seed: int, masked: bool = True) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Records of some shapes, some without a value, and their means by tens."""
    rng = np.random.default_rng(seed)
    before = pd.DataFrame(
        {name.replace(" ", ""): SHAPES[name](rng, n) for name in ("income", "whole", "two", "pareto")}
    )
    before["twice"] = before["whole"] * 2 + rng.normal(size=n)
    before.loc[rng.random(n) < 0.1, "whole"] = np.nan
    after = before.groupby(np.arange(n) // 10).transform("mean").where(before.notna())
    return before, after if masked else before


def portrait_of(before: pd.DataFrame, after: pd.DataFrame, k: int) -> Portrait:
    columns = [
        DrawnColumn(ShownColumn(kind_of(name, pa.float64())), before[name].to_numpy(), after[name].to_numpy())
        for name in before
    ]
    missing = before.isna().to_numpy()
    scale = before.std(ddof=0).replace(0, 1)
    z = [((side - before.mean()) / scale).fillna(0).to_numpy() for side in (before, after)]
    kinds, fewest = [column.shown.kind for column in columns], fewest_records(k)
    correlations = correlations_of(kinds, loss_statistics(z[0], z[1], missing), fewest)
    return with_pictures(Portrait(len(before), 0), columns, fewest, correlations)


@examples(25)
@given(st.integers(20, 600), st.integers(0, 99), st.sampled_from([3, 17]))
def test_counts_and_cells_are_those_of_the_records(n: int, seed: int, k: int) -> None:
    before, after = table_of(n, seed)
    portrait, fewest = portrait_of(before, after, k), fewest_records(k)
    assert to_json(from_json(Portrait, to_json(portrait))) == to_json(portrait)
    for one in portrait.distributions:
        there = before[one.column].notna()
        for side, counts in ((before, one.before), (after, one.after)):
            assert list(counts) == naive_portrait.records_of_intervals(side[one.column][there].tolist(), one.edges)
        assert min(one.before) >= fewest and (one.missing == 0 or one.missing >= fewest)
    for pair in portrait.pairs:
        points = before[[pair.x, pair.y]].dropna()
        by_hand = naive_portrait.records_of_cells(
            list(points.itertuples(index=False)), pair.x_edges, pair.y_edges, fewest
        )
        assert [list(row) for row in pair.before] == by_hand
        means = after.loc[points.index, [pair.x, pair.y]].groupby([pair.x, pair.y]).size().reset_index(name="n")
        within = means[means[pair.x].between(*ends(pair.x_edges)) & means[pair.y].between(*ends(pair.y_edges))]
        assert [mean.records for mean in pair.means] == within["n"].tolist()
        for name, shown in ((pair.x, [mean.x for mean in pair.means]), (pair.y, [mean.y for mean in pair.means])):
            assert shown == pytest.approx(within[name].tolist(), rel=1e-2, abs=1e-2)
        for edges, name in ((pair.x_edges, pair.x), (pair.y_edges, pair.y)):
            assert not rare_values(points[name].to_numpy(), fewest) & set(edges)
            assert points[name].min() < edges[-1] and points[name].max() > edges[0]


def ends(edges: tuple[float, ...]) -> tuple[float, float]:
    return edges[0], edges[-1]


def test_correlations_are_those_of_pandas() -> None:
    before, after = table_of(500, 3)
    correlations = portrait_of(before, after, 3).correlations
    assert correlations is not None
    np.testing.assert_allclose(correlations.before, before.corr(), atol=1e-6)
    np.testing.assert_allclose(correlations.after, after.corr(), atol=1e-6)
    before["whole"] = before["whole"].where(np.arange(500) < 9)
    few = portrait_of(before, before, 3).correlations
    assert (
        few is not None
        and np.isnan(few.before[1]).all()
        and few.before[0, 2] == pytest.approx(before.corr().iloc[0, 2], abs=1e-6)
    )


@pytest.mark.parametrize("seed", range(3))
def test_no_extreme_and_no_unique_value_is_told(seed: int) -> None:
    """Canaries: every value of these records is its own, with digits that nothing else has."""
    rng = np.random.default_rng(seed)
    before = pd.DataFrame({"a": rng.lognormal(8, 1.5, 900), "b": rng.normal(50, 9, 900), "c": rng.integers(0, 9, 900)})
    before.loc[0, "a"], before.loc[1, "b"], before.loc[2, "c"] = 9_876_543.21, -12345.678, 77
    after = before.groupby(np.argsort(np.argsort(before["a"])) // 5).transform("mean")
    text = to_json(portrait_of(before, after, 5)).decode()
    numbers = set(
        json.loads(text, parse_int=float).__str__().replace(",", " ").replace("]", " ").replace("}", " ").split()
    )
    told = {float(word) for word in numbers if _is_number(word)}
    unique = {value for name in before for value in rare_values(before[name].to_numpy(), 10)}
    extremes = {float(before[name].max()) for name in "ab"} | {float(before[name].min()) for name in "ab"}
    assert not told & (unique | extremes) - set(np.arange(10.0, 900.0))  # which are numbers of records
    for value in extremes | {9_876_543.21, -12345.678}:
        assert f"{value:.6g}" not in text and f"{value:,.2f}" not in text


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


@examples(60)
@given(st.integers(60, 400), st.integers(0, 99), st.integers(1, 5))
def test_sums_of_pieces_make_the_model_of_the_whole(n: int, seed: int, pieces: int) -> None:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"u": rng.normal(1e6, 1, n), "v": rng.normal(size=n) * 1e-6, "g": rng.choice(list("abc"), n)})
    table["y"] = 3 * table["u"] + 1e6 * table["v"] + (table["g"] == "b") * 2 + rng.normal(size=n)
    model = LinearModel("y ~ u + v + g", ("y", "u", "v", "g"), (AS_IT_IS, (1e6, 2.0), AS_IT_IS, None))
    total = NO_RECORDS
    for rows in np.array_split(np.arange(n), pieces):
        part = table.iloc[rows]
        levels, codes = np.unique(part["g"], return_inverse=True)
        numbers = [Variable(values.to_numpy()) for values in (part["y"], (part["u"] - 1e6) / 2, part["v"])]
        total = total + DesignMoments.of([*numbers, Variable(codes, tuple(levels))])
    regression, left_out = regression_of(model, total, total, 10)
    assert regression is not None and not left_out
    assert regression.terms == ("constant", "u", "v", "g=b", "g=c") and regression.bases == ("g=a",)
    centred = table.assign(u=table["u"] - 1e6)
    coefficients, errors, r_squared = naive_portrait.fitted(centred, "y", ["u", "v", "g"])
    assert regression.before.coefficients[1:] == pytest.approx(coefficients[1:], rel=1e-6, abs=1e-7)
    assert regression.before.errors[1:] == pytest.approx(errors[1:], rel=1e-6)
    assert regression.before.coefficients[0] == pytest.approx(coefficients[0] - 1e6 * coefficients[1], rel=1e-5)
    assert regression.before.r_squared == pytest.approx(r_squared, rel=1e-7)


def fit_of(y: np.ndarray, *terms: Any, fewest: int = 10) -> Any:
    variables = [Variable(np.asarray(y, dtype=float))]
    for term in terms:
        if np.asarray(term).dtype.kind in "US":
            levels, codes = np.unique(term, return_inverse=True)
            variables.append(Variable(codes, tuple(levels.tolist())))
        else:
            variables.append(Variable(np.asarray(term, dtype=float)))
    names = ("y", *(f"x{j}" for j in range(len(terms))))
    scales = tuple(None if variable.levels else AS_IT_IS for variable in variables)
    moments = DesignMoments.of(variables)
    return regression_of(LinearModel("f", names, scales), moments, moments, fewest)


def test_rare_levels_are_one_and_the_base_is_the_first() -> None:
    rng = np.random.default_rng(0)
    level = np.repeat(["10", "9", "z", "y", "x"], [50, 40, 8, 7, 30])
    regression, _ = fit_of(rng.normal(size=135), level)
    assert regression.terms == ("constant", "x0=10", "x0=x", f"x0={OTHER_LEVELS}") and regression.bases == ("x0=9",)
    alone, _ = fit_of(rng.normal(size=95), np.repeat(["a", "b", "c"], [50, 40, 5]))
    assert alone.terms == ("constant", f"x0={OTHER_LEVELS}")  # the rarest has b for company


def test_what_few_records_decide_has_no_coefficient() -> None:
    rng = np.random.default_rng(1)
    y, x = rng.normal(size=200), rng.normal(size=200)
    dummy, outlier = np.arange(200) < 9, np.where(np.arange(200) == 5, 1e6, x)
    for few in (dummy, outlier):
        regression, (said,) = fit_of(y, few, x)
        assert math.isnan(regression.before.coefficients[1]) and "'x0', which few records decide" in said
        assert regression.before.coefficients[2] == pytest.approx(np.polyfit(x, y, 1)[0])
    assert fit_of(y, np.arange(200) < 10, x)[1] == []
    assert fit_of(outlier, x) == (None, ["'f' is not computed, as few records decide what 'y' is"])


def test_a_term_that_follows_has_no_coefficient_and_a_constant_outcome_no_r_squared() -> None:
    rng = np.random.default_rng(2)
    y, x = rng.normal(size=200), rng.normal(size=200)
    regression, _ = fit_of(y, x, 3 * x + 7, np.full(200, 4.0))
    alone, _ = fit_of(y, x)
    assert regression.after.coefficients[:2] == pytest.approx(alone.after.coefficients)
    assert np.isnan(regression.after.coefficients[2:]).all() and np.isnan(regression.after.errors[2:]).all()
    constant, _ = fit_of(np.full(200, 3.5), x)
    assert constant.before.coefficients == (3.5, 0.0) and math.isnan(constant.before.r_squared)


def test_too_few_and_too_large() -> None:
    rng = np.random.default_rng(3)
    assert "too few records" in fit_of(rng.normal(size=11), rng.normal(size=11))[1][0]
    with np.errstate(over="ignore", invalid="ignore"):
        assert "too large" in fit_of(rng.normal(size=99) * 1e300, rng.normal(size=99))[1][0]


@pytest.mark.parametrize(("records", "p"), [(10, 4), (10**6, 4), (10**6, 200), (10**9, 1)])
def test_what_is_drawn_is_bounded(records: int, p: int) -> None:
    drawn = drawing_share(records, p) * records
    assert drawn <= 100_000.5 and 2 * drawn * p <= 4_000_001


def test_many_columns_make_no_more_pictures_of_pairs() -> None:
    rng = np.random.default_rng(4)
    before = pd.DataFrame(rng.normal(size=(400, 60)), columns=[f"x{j}" for j in range(60)])
    after = before.groupby(np.arange(400) // 5).transform("mean")
    portrait = portrait_of(before, after, 5)
    assert len(portrait.distributions) == 60 and len(portrait.pairs) == 8
    assert portrait.correlations is not None and portrait.correlations.after.shape == (60, 60)
    assert len(to_json(portrait)) < 2_000_000
    changes = np.abs(portrait.correlations.after - portrait.correlations.before)
    largest = np.unravel_index(np.argmax(changes), changes.shape)
    assert {f"x{j}" for j in largest} in [{pair.x, pair.y} for pair in portrait.pairs]
