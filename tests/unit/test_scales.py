"""Scales of quasi-identifiers: what slow twins compute, whatever the parts in which values are counted."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.data.kinds import scales
from microagg_core.data.kinds.metric import Metric, ScaleName
from microagg_core.data.kinds.scales import ColumnCounts, Scale, log1p
from microagg_core.plain import from_json, to_json
from twins import naive_scales

VALUES = st.lists(
    st.one_of(st.integers(-5, 40).map(float), st.floats(-1e6, 1e6), st.just(0.0)), min_size=2, max_size=60
)
METRICS = st.tuples(st.sampled_from(["log1p", "rank", "robust", None]), st.sampled_from([None, 7.5, "90%"]))


@examples(300)
@given(VALUES, METRICS, st.integers(1, 5))
def test_a_scale_is_that_of_its_twin(
    values: list[float], metric: tuple[str | None, float | str | None], n: int
) -> None:
    name, top = metric
    column = np.array(values)
    counted = reduce(add, [ColumnCounts.of(part) for part in np.array_split(column, n)])
    declared = Metric(name, None, 0.9) if top == "90%" else Metric(name, top)  # type: ignore[arg-type]
    scale = from_json(Scale, to_json(Scale.fitted(declared, counted, 1.0)))
    limit = naive_scales.quantile(values, 0.9) if top == "90%" else np.inf if top is None else top
    by_hand = naive_scales.coordinates(values, name, float(limit))
    np.testing.assert_allclose(scale.of(column), by_hand, rtol=1e-7, atol=1e-7)
    ordered = scale.of(np.sort(column))
    assert (np.diff(ordered) >= 0).all()


@pytest.mark.parametrize("scale", ["log1p", "rank", "robust", None])
def test_more_values_than_are_kept_make_the_same_scale_however_they_are_counted(
    scale: ScaleName | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scales, "MOST_VALUES", 256)
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.lognormal(8, 2, 1400), -rng.lognormal(3, 1, 100), np.zeros(500)])
    rng.shuffle(values)
    cuts = [[1000], [17, 18, 19, 1700], list(range(0, 2000, 41))]
    made = [reduce(add, [ColumnCounts.of(part) for part in np.split(values, cut)]) for cut in cuts]
    assert all(len(counted.keys) <= 256 for counted in made) and made[0].shift > 0
    fitted = [to_json(Scale.fitted(Metric(scale, top_share=0.99), counted, 1.0)) for counted in made]
    assert len(set(fitted)) == 1
    # What is joined is near what it is joined with.
    limit = naive_scales.quantile(values.tolist(), 0.99)
    exact = naive_scales.coordinates(values.tolist(), scale, limit)
    np.testing.assert_allclose(from_json(Scale, fitted[0]).of(values), exact, rtol=0.03, atol=0.05)


def test_the_logarithm_is_that_of_the_library_to_its_last_digits() -> None:
    values = np.concatenate([np.logspace(-300, 300, 5000), np.linspace(0, 3, 5000), [0.0, np.finfo(np.float64).max]])
    np.testing.assert_allclose(log1p(values), np.log1p(values), rtol=1e-14)
    assert (np.diff(log1p(np.sort(values))) >= 0).all()
