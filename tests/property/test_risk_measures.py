"""Measures of disclosure risk equal what one counts by hand, with ties, labels and missing values."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from microagg_core.inspect import candidates
from microagg_core.inspect.exposure import AskedRecords, ConfidentialValues, Exposure, asking_share, is_asked, noise
from microagg_core.inspect.gate import measures
from microagg_core.inspect.notes import added
from microagg_core.inspect.risk.inference import Inference, chance_of_one_value
from microagg_core.inspect.risk.labels import label_lines
from microagg_core.inspect.risk.linkage import NOISES
from microagg_core.inspect.risk.tables import exposure_of, measure_risk
from twins import naive_risk
from twins.naive_distances import naive_distances

SEEDS = range(3)
LABELS = ["town", "block"]


def tables(seed: int, p: int = 3) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Records with few values, so that many are equally near, and their masked twins."""
    rng = np.random.default_rng(seed)
    n, names = 60, [f"x{j}" for j in range(p)]
    before = pd.DataFrame({name: rng.integers(0, 5, n).astype(float) for name in names})
    before["town"] = rng.choice(["a", "b", None], n, p=[0.5, 0.4, 0.1])
    before["block"] = rng.integers(0, 2, n)
    before["ill"] = rng.choice(["flu", "no", None], n, p=[0.3, 0.6, 0.1])
    before["paid"] = rng.integers(0, 4, n)
    # All of a group miss the same values.
    group = rng.integers(0, 12, n)
    for name in names[1:]:
        before.loc[np.isin(group, rng.choice(12, 2)), name] = np.nan
    after = before.copy()
    key = [before["town"].fillna("-"), before["block"], pd.Series(group)]
    for name in names:
        after[name] = (2 * before.groupby(key)[name].transform("mean")).round() / 2
    return before, after, names


@pytest.mark.parametrize("seed", SEEDS)
def test_links_are_those_of_every_record_against_every_other(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _count_as_few(seed % 2 * 10**6, monkeypatch)
    before, after, names = tables(seed)
    linkage = measure_risk(before, after, names, blocking=LABELS, seed=seed)["linkage"]
    assert [tuple(one["knows"]) for one in linkage["intruders"][:: len(NOISES)]] == [
        ("x0", "x1", "x2"),
        ("x0", "x1"),
        ("x2",),
        ("x0",),
        ("x1",),
    ]
    errors = dict(zip(names, noise(np.arange(len(before)), 3, seed).T, strict=True))
    for one in linkage["intruders"]:
        off = {name: one["noise"] * errors[name] for name in names}
        counted = naive_risk.linked(before, after, one["knows"], names, LABELS, off)
        assert (one["own_nearest"], one["expected_correct"]) == pytest.approx(counted, rel=1e-5)
    # He knows which values are missing as well.
    rows = after.groupby([*(after[name] for name in LABELS), *(after[name].isna() for name in names)], dropna=False)
    rows = rows["block"].transform("size")
    assert linkage["by_chance"] == pytest.approx((1 / rows).mean(), rel=1e-5)


def _count_as_few(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FEW_COMBINATIONS", "FEW_ASKED"):
        monkeypatch.setattr(candidates, name, few)


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_tree_and_comparing_all_give_the_same_links(seed: int, p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of many blocks of points, with ties across them; and of labels of which only some go into the tree."""
    rng = np.random.default_rng(seed)
    n = 3_000
    means = np.round(rng.random((n, p)), 1 + seed % 3)
    missing = rng.random((n, p)) < (0.2 if seed % 2 else 0.0)
    labels, sizes = rng.integers(0, 3, n) // 2, rng.integers(3, 9, n)
    own = rng.integers(0, n, 300)
    values = means[own] + np.array([0.0, 0.05, 0.3])[rng.integers(0, 3, 300), None] * rng.normal(size=(300, p))
    found = []
    for few in (0, 10**6, None):
        if few is None:
            monkeypatch.setattr(candidates, "FEW_ASKED", 0)
            monkeypatch.setattr(candidates, "FEW_COMBINATIONS", 1_500)
        else:
            _count_as_few(few, monkeypatch)
        shown = candidates.Candidates(means, missing, labels, sizes)
        found.append([chances.tolist() for chances in shown.link(values, own)])
    assert found[0] == found[1] == found[2]
    assert 0 < np.count_nonzero(found[0][0]) < 300


def test_labels_in_which_nobody_is_asked_are_left_out() -> None:
    before, after, names = tables(1)
    exposure = exposure_of(before, after, names, LABELS)
    asked, rows = exposure.asked, np.flatnonzero(exposure.labels[exposure.groups] % 3 == 1)[::2]
    few = AskedRecords(rows, rows, asked.values[rows], asked.widths[rows])
    sought = replace(exposure, asked=few)
    assert 0 < len(np.unique(sought.own)) <= int(sought.own.max()) + 1 < len(exposure.sizes)
    of_all = exposure.all_candidates.link(asked.values, exposure.own)
    of_few = sought.all_candidates.link(few.values, sought.own)
    assert [chances[rows].tolist() for chances in of_all] == [chances.tolist() for chances in of_few]


@pytest.mark.parametrize("seed", SEEDS)
def test_intervals_are_counted_value_by_value(seed: int) -> None:
    before, after, names = tables(seed)
    intervals = measure_risk(before, after, names)["intervals"]
    for percent, figures in intervals["rank"]["percent"].items():
        for name in names:
            there = before[name].notna()
            counted = naive_risk.within_rank(before[name][there].tolist(), after[name][there].tolist(), int(percent))
            assert figures["columns"][name] == pytest.approx(counted, rel=1e-5)
    for size, figures in intervals["deviation"].items():
        scale = before[names].std(ddof=0)
        near = ((before[names] - after[names]).abs() / scale <= float(size)) | before[names].isna()
        assert figures["all"] == pytest.approx(near[before[names].notna().any(axis=1)].all(axis=1).mean(), rel=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_inference_is_counted_group_by_group(seed: int) -> None:
    before, after, names = tables(seed)
    risk = measure_risk(before, after, names, blocking=LABELS, confidential=["ill", "paid"])
    for column, is_ordered in (("ill", False), ("paid", True)):
        figures = risk["inference"][column]
        groups = naive_risk.groups_of(after, [*LABELS, *names], column)
        assert figures["records_certain"] == pytest.approx(naive_risk.fewer_than(groups, 2), rel=1e-5)
        assert figures["by_chance"] == pytest.approx(naive_risk.certain_by_chance(groups), rel=1e-5)
        for least, few in figures["fewer_than"].items():
            assert few["records"] == pytest.approx(naive_risk.fewer_than(groups, int(least)), rel=1e-5)
        ordered = [None, *sorted({value for values in groups.values() for value in values} - {None})]
        counts = [sum(values.count(value) for values in groups.values()) for value in ordered]
        codes = [ordered.index(value) for values in groups.values() for value in values]
        labels = np.repeat(np.arange(len(groups)), [len(values) for values in groups.values()])
        distances = naive_distances(np.array(counts), np.array(codes), labels, is_ordered)
        assert figures["largest_distance"] == pytest.approx(float(max(distances)), rel=1e-5)
    sizes = {str(len(values)) for values in groups.values()}
    assert sizes == set(risk["sizes"]["histogram"])


def households(seed: int) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Persons of few kinds, so that many are equally near, as they came and masked; and whose they are."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 3, 4], 60, p=[0.2, 0.5, 0.2, 0.1])
    units = rng.permutation(np.repeat(np.arange(60), sizes))
    n = len(units)
    before = pd.DataFrame({"age": rng.integers(0, 6, n).astype(float), "job": rng.choice(["a", "b", "c"], n)})
    before["town"] = rng.integers(0, 2, 60)[units]
    before["ill"] = rng.choice(["flu", "no", None], n, p=[0.3, 0.6, 0.1])
    after = before.assign(age=3.0 * (before["age"] // 3), job=before["job"].where(before["age"] > 3, "a"))
    return before, after, units


@pytest.mark.parametrize("seed", SEEDS)
def test_units_of_several_rows_are_found_as_by_trying_all_orders_of_all_units(seed: int) -> None:
    before, after, units = households(seed)
    exposure = replace(exposure_of(before, after, ["age", "job"], ["town"], ["ill"]), units=units)
    assert exposure.costs is not None
    scale, cost = before["age"].std(ddof=0), float(exposure.costs[1])

    def square(known: naive_risk.Row, released: naive_risk.Row) -> float:
        return ((known.age - released.age) / scale) ** 2 + cost * (known.job != released.job)

    found = naive_risk.units_found(before, after, units, square)
    figures = figures_of([exposure], ["age", "job"])
    risk = figures["units"]
    assert (risk["by_one_row"], risk["by_all_rows"]) == pytest.approx(np.mean(found, axis=0), rel=1e-5)
    assert 0 < risk["by_one_row"] < risk["by_all_rows"] < risk["largest_chance"] <= 1
    cells = naive_risk.cells_of_units(after, units, "ill")
    certain = {unit for cell in cells if naive_risk.have_a_value_in_common(cell) for unit, _ in cell}
    assert risk["certain"] == {"ill": pytest.approx(len(certain) / 60, rel=1e-5)} and 0 < len(certain) < 60
    groups = {number: [value for _, values in cell for value in values] for number, cell in enumerate(cells)}
    inference = figures["inference"]["ill"]
    assert inference["by_chance"] == pytest.approx(naive_risk.certain_by_chance(groups), rel=1e-5)
    for least, few in inference["fewer_than"].items():
        assert few["records"] == pytest.approx(naive_risk.fewer_than(groups, int(least)), rel=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_stands_alone_is_counted(seed: int) -> None:
    before, after, names = tables(seed)
    uniqueness = measure_risk(before, after, names, blocking=LABELS)["uniqueness"]
    assert uniqueness["before"] == pytest.approx(naive_risk.alone(before, [*LABELS, *names]), rel=1e-5)
    assert uniqueness["after"] == pytest.approx(naive_risk.alone(after, [*LABELS, *names]), rel=1e-5)
    for one in uniqueness["by_knowledge"]:
        assert one["before"] == pytest.approx(naive_risk.alone(before, [*LABELS, *one["knows"]]), rel=1e-5)


def figures_of(exposures: list[Exposure], names: list[str]) -> dict[str, Any]:
    return {m.name: m.figures(reduce(added, map(m.measure, exposures)), tuple(names)) for m in measures()}


def test_notes_of_pieces_add_up() -> None:
    """Two pieces of the same rows are as one; and a piece without an answer takes nothing away."""
    before, after, names = tables(1)
    exposure = exposure_of(before, after, names, LABELS, ["ill"], seed=3)
    silent = replace(exposure, asked=AskedRecords.nobody(len(names)), originals=None)
    once, twice = figures_of([exposure], names), figures_of([silent, exposure, exposure], names)
    whole = measure_risk(before, after, names, blocking=LABELS, confidential=["ill"], seed=3)
    assert once == {name: whole[name] for name in once} and twice != once
    assert twice["linkage"]["asked"] == 2 * once["linkage"]["asked"]
    assert twice["sizes"]["groups"] == 3 * once["sizes"]["groups"]
    for name in ("inference", "uniqueness"):
        assert twice[name] == once[name]
    assert twice["linkage"]["intruders"] == once["linkage"]["intruders"]
    assert twice["intervals"]["rank"] == once["intervals"]["rank"]


def test_lines_of_labels_add_up_to_the_figures() -> None:
    before, after, names = tables(2)
    exposure = exposure_of(before, after, names, LABELS, ["ill"])
    lines, risk = label_lines(exposure).to_pandas(), figures_of([exposure], names)
    labels = after[LABELS].fillna("-").drop_duplicates()
    assert lines["row"].tolist() == labels.index.tolist()
    assert lines["records"].sum() == len(after) and lines["groups"].sum() == risk["sizes"]["groups"]
    assert lines["smallest_group"].min() == risk["sizes"]["smallest"]
    certain = lines["certain_0"].sum() / len(after)
    assert certain == pytest.approx(risk["inference"]["ill"]["records_certain"], rel=1e-5)
    assert lines["own_nearest"].sum() / len(after) == pytest.approx(risk["linkage"]["own_nearest"], rel=1e-5)


def test_chances_are_those_of_counting_all_draws() -> None:
    assert chance_of_one_value(np.array([0, 2, 2]), np.array([2])).tolist() == [pytest.approx(1 / 3)]
    assert chance_of_one_value(np.array([0, 10**9]), np.array([5, 9])).tolist() == [1.0, 1.0]


def test_a_share_of_records_is_asked_whoever_has_them() -> None:
    records = np.arange(100_000)
    asking = asking_share("sampled", len(records), 4)
    asked = is_asked(records, asking, 5)
    assert asked.mean() == pytest.approx(asking, rel=0.05)
    assert np.array_equal(asked[40_000:], is_asked(records[40_000:], asking, 5))
    assert not np.array_equal(asked, is_asked(records, asking, 6))
    assert np.array_equal(noise(records, 2, 1)[7:9], noise(records[7:9], 2, 1))
    assert abs(np.corrcoef(noise(records, 2, 1).T)[0, 1]) < 0.02


def test_a_column_with_too_many_values_has_no_distance_and_is_counted_all_the_same() -> None:
    codes = np.array([1, 1, 2, 3])
    column = ConfidentialValues("c", codes, None)
    points = np.array([[0.0], [1.0]])
    missing, nobody = np.zeros((2, 1), dtype=np.bool_), AskedRecords.nobody(1)
    exposure = Exposure(("x",), np.array([0, 0, 1, 1]), np.array([0, 0]), points, missing, (column,), nobody)
    figures = Inference().figures(Inference().measure(exposure), ("x",))["c"]
    assert (figures["records_certain"], figures["largest_distance"]) == (0.5, None)
    assert figures["commonest_value"] == 0.5


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows_have_their_risk(rows: int) -> None:
    """A file may receive no combination, or one."""
    before, after, names = tables(3)
    exposure = exposure_of(before[:rows], after[:rows], names, LABELS, ["ill"])
    assert figures_of([exposure], names)["linkage"]["asked"] == rows
    assert label_lines(exposure).num_rows == len(after[:rows][LABELS].drop_duplicates())


def test_a_file_that_the_gate_will_stop_is_looked_at_all_the_same() -> None:
    before, after, names = tables(4)
    after.loc[:5, "x0"] = np.inf
    after.loc[6:9, "x1"] = np.nan
    assert measure_risk(before, after, names, blocking=LABELS)["linkage"]["asked"] == len(after)


def test_a_file_without_a_row_tells_nothing() -> None:
    """A night of a series in which nobody of a range of atoms is released has such a file."""
    nobody = np.zeros(0, dtype=np.int64)
    column = ConfidentialValues("score", nobody, None)
    shown, cells = SimpleNamespace(distinct=nobody, distance=None), SimpleNamespace(rows=nobody, units=nobody)
    empty = SimpleNamespace(confidential=(column,), shown={"score": shown}, cells=cells)
    (noted,) = Inference().measure(cast(Any, empty))
    assert (sum(noted.groups), sum(noted.records), noted.chance) == (0, 0, 0.0)
