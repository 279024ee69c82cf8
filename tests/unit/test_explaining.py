"""Shares of variance that features explain, compared with least squares and canonical correlations done otherwise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.linalg

from microagg_core.inspect.explanations import Normal, explained_by_levels, squared_correlation


def r_squared(features: np.ndarray, y: np.ndarray) -> float:
    """Adjusted R squared by numpy's least squares, with an intercept."""
    X = np.column_stack([np.ones(len(y)), features])
    rest = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    n, rank = X.shape[0], np.linalg.matrix_rank(X)
    return float(1 - (rest @ rest / (n - rank)) / (np.square(y - y.mean()).sum() / (n - 1)))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e9])
def test_a_regression_is_that_of_least_squares(scale: float, rng: np.random.Generator) -> None:
    X = rng.normal(size=(300, 4)) * [1, 10, 100, 1000] * scale + 7 * scale
    X[:, 3] = X[:, 0] - X[:, 1]  # one too many
    Y = np.column_stack([X[:, 0] / scale + rng.normal(size=300), rng.normal(size=300), X[:, 1] / scale * 2])
    normal = Normal.of(X, Y)
    for features in ([0, 1, 2, 3], [1], [2, 0]):
        explained = normal.explained(features)
        for j in range(3):
            assert explained.share_of(j) == pytest.approx(max(0.0, r_squared(X[:, features], Y[:, j])), abs=1e-9)


def test_the_best_combination_has_the_largest_canonical_correlation(rng: np.random.Generator) -> None:
    X, Y = rng.normal(size=(500, 3)), rng.normal(size=(500, 2))
    X[:, 0] += 3 * (Y[:, 0] - Y[:, 1])
    explained = Normal.of(X, Y).explained([0, 1, 2])
    bases = [scipy.linalg.orth(M - M.mean(axis=0)) for M in (X, Y)]
    greatest = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[0] ** 2
    assert 1 - (1 - greatest) * 499 / (500 - 1 - 3 - 1) == pytest.approx(explained.best(), abs=1e-9)
    assert explained.share_of(0) < 0.6 < 0.9 < explained.best()


def test_levels_explain_what_dummies_do(rng: np.random.Generator) -> None:
    levels = rng.integers(0, 12, 400)
    Y = np.column_stack([levels**2 + rng.normal(size=400), rng.normal(size=400)])
    dummies = pd.get_dummies(levels).to_numpy(float)[:, 1:]
    explained, regressed = explained_by_levels(levels, Y), Normal.of(dummies, Y).explained(list(range(11)))
    assert explained.share_of(0) == pytest.approx(r_squared(dummies, Y[:, 0]), abs=1e-9)
    assert explained.best() == pytest.approx(regressed.best(), abs=1e-9)


def test_levels_of_one_record_say_nothing_of_others(rng: np.random.Generator) -> None:
    assert explained_by_levels(np.arange(400), rng.normal(size=(400, 1))).share_of(0) == 0
    # The values that are shared are noise; those that are not are far off.
    levels = np.append(np.repeat(np.arange(100), 2), np.arange(100, 300))
    y = np.append(rng.normal(size=200), rng.normal(size=200) * 1e6)
    assert explained_by_levels(levels, y[:, None]).share_of(0) < 0.3


def test_few_records_explain_nothing(rng: np.random.Generator) -> None:
    """With as many features as records everything fits."""
    X, Y = rng.normal(size=(30, 25)), rng.normal(size=(30, 3))
    assert Normal.of(X, Y).explained(list(range(25))).share_of(0) == 0
    assert squared_correlation(np.arange(2.0), np.arange(2.0)) == 0


def test_constants_explain_nothing_and_are_not_explained() -> None:
    x = np.arange(50.0)
    assert Normal.of(np.full((50, 1), 1e15), x[:, None]).explained([0]).share_of(0) == 0
    assert Normal.of(x[:, None], np.ones((50, 1))).explained([0]).best() == 0
