"""Masking as a step of scikit-learn's pipelines."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from microagg_core import MicroaggregationTransformer, microaggregate
from microagg_core.errors import DataError, SpecError

#: What scikit-learn expects of most transformers and not of this one, with the reason.
_NEARER = (
    "of the records of fit, transform gives some a nearer combination: which record was in which group is not kept"
)
NOT_EXPECTED = {"check_transformer_general": _NEARER, "check_transformer_data_not_an_array": _NEARER}


@parametrize_with_checks([MicroaggregationTransformer(k=3)], expected_failed_checks=lambda estimator: NOT_EXPECTED)
def test_it_is_what_scikit_learn_expects(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture
def X() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(80, 3)) * [1.0, 100.0, 0.01]


def test_it_masks_what_it_is_fitted_to(X: np.ndarray[Any, Any]) -> None:
    masking = MicroaggregationTransformer(k=4, algorithm="v_mdav", parameters={"gamma": 0.5}, refine="fast")
    data = masking.fit_transform(X)
    expected = microaggregate(X, None, 4, "v_mdav", refine="fast", gamma=0.5)
    assert np.array_equal(data, expected.data)
    assert masking.sizes_.min() >= 4 and masking.sizes_.sum() == len(X)
    assert np.array_equal(np.unique(data, axis=0), masking.combinations_)


def test_others_get_the_nearest_combination(X: np.ndarray[Any, Any]) -> None:
    masking = MicroaggregationTransformer(k=4).fit(X)
    others = np.random.default_rng(1).normal(size=(50, 3)) * [1.0, 100.0, 0.01]
    scale = masking.fit_transform(X).std(axis=0)
    distances = (((others[:, None, :] - masking.combinations_) / scale) ** 2).sum(axis=2)
    assert np.array_equal(masking.transform(others), masking.combinations_[distances.argmin(axis=1)])
    plain = MicroaggregationTransformer(k=4, standardize=False).fit(X)
    distances = ((others[:, None, :] - plain.combinations_) ** 2).sum(axis=2)
    assert np.array_equal(plain.transform(others), plain.combinations_[distances.argmin(axis=1)])


def test_it_keeps_nothing_of_its_records_but_the_combinations(X: np.ndarray[Any, Any]) -> None:
    fitted = pickle.loads(pickle.dumps(MicroaggregationTransformer(k=4).fit(X)))
    learned = {name for name in vars(fitted) if name.endswith("_") and not name.startswith("_")}
    assert learned == {"combinations_", "sizes_", "n_features_in_"}
    arrays = [value for value in vars(fitted).values() if isinstance(value, np.ndarray)]
    assert {array.shape[0] for array in arrays} == {len(fitted.sizes_)}
    assert not np.isin(X, np.concatenate([array.ravel() for array in arrays])).any()


def test_it_takes_part_in_pipelines_with_names(X: np.ndarray[Any, Any]) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=range(5, 85))
    masking = MicroaggregationTransformer(k=4).set_output(transform="pandas")
    data = masking.fit_transform(frame)
    assert isinstance(data, pd.DataFrame) and data.index.equals(frame.index)
    assert list(data.columns) == list(masking.get_feature_names_out()) == ["a", "b", "c"]
    polars_data = MicroaggregationTransformer(k=4).set_output(transform="polars").fit_transform(frame)
    assert polars_data.columns == ["a", "b", "c"] and polars_data["a"].to_list() == data["a"].tolist()
    model = make_pipeline(StandardScaler(), clone(masking), LinearRegression()).fit(frame, X[:, 0])
    assert model.score(frame, X[:, 0]) > 0.5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 0}, "k: must be a whole number of at least 1"),
        ({"algorithm": "x"}, "algorithm: must be one of"),
        ({"parameters": {"gamma": 1}}, "mdav takes no parameter 'gamma'"),
        ({"refine": "x"}, "refine: must be off, fast or thorough"),
    ],
)
def test_a_wrong_parameter_is_a_value_error_and_one_of_ours(parameters: dict[str, Any], message: str) -> None:
    for kind in (ValueError, SpecError):
        with pytest.raises(kind, match=message):
            MicroaggregationTransformer(**parameters).fit(np.zeros((9, 2)))


def test_records_that_cannot_be_masked_are_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"3 sample\(s\)"):
        MicroaggregationTransformer(k=4).fit(np.zeros((3, 2)))
    for kind in (ValueError, DataError):
        with pytest.raises(kind, match="exhaustive takes at most 20 records"):
            MicroaggregationTransformer(k=4, algorithm="exhaustive").fit(np.zeros((30, 2)))


def test_without_scikit_learn_the_rest_works_and_the_class_says_what_to_install() -> None:
    source = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import microagg_core\n"
        "from microagg_core import *\n"
        "print(partition([[1.0], [2.0], [3.0]], 3).tolist(), 'MicroaggregationTransformer' in dir(microagg_core))\n"
        "microagg_core.MicroaggregationTransformer\n"
    )
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert ended.stdout.strip() == "[0, 0, 0] True"
    assert ended.stderr.strip().endswith(
        "SpecError: MicroaggregationTransformer needs packages that are not installed; "
        "run: pip install 'microagg[sklearn]'"
    )
