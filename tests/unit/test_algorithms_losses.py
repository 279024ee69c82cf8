"""Standardization, centroids and losses."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from microagg_core.metrics.losses import Losses, group_means, losses, standardize


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e9])
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300 / 2e9])
def test_standardized_columns_have_mean_0_and_variance_1(offset: float, scale: float) -> None:
    # Whole steps of 2^-20 stay exact beside an offset of 1e9, so the answer is known.
    steps = np.round(np.random.default_rng(0).standard_normal(500) * 2**20) / 2**20
    exact = [Fraction(s) for s in steps]
    mean = sum(exact) / 500
    deviation = math.sqrt(sum((s - mean) ** 2 for s in exact) / 500)
    z = standardize(((steps + offset) * 2.0 ** round(math.log2(scale)))[:, None])[:, 0]
    assert z == pytest.approx([float(s - mean) / deviation for s in exact], abs=1e-12)
    assert abs(z.mean()) < 1e-12 and z.var() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("value", [0.1, -999, 1e300, 1e-300, 0])
def test_a_constant_attribute_becomes_0(value: float) -> None:
    assert standardize(np.full((7, 1), value)).tolist() == [[0.0]] * 7


def test_group_means_are_exact_for_equal_records_and_safe_for_large_ones() -> None:
    labels = np.array([0, 1, 0, 1, 0, 1, 0])
    assert (group_means(np.full((7, 1), 0.1), labels) == 0.1).all()
    large = np.finfo(np.float64).max
    assert group_means(np.array([[large], [-large]]), np.array([0, 0])).tolist() == [[0.0]]
    assert group_means(np.array([[large], [large]]), np.array([0, 0])).tolist() == [[large]]
    assert group_means(np.array([[1e9], [1e9 + 1]]), np.array([0, 0])).tolist() == [[1e9 + 0.5]]


def test_losses_by_their_definition() -> None:
    rng = np.random.default_rng(1)
    X, labels = rng.standard_normal((60, 3)), np.arange(60) % 20
    sse = sde = 0.0
    for group in range(20):
        members = X[labels == group]
        distances = np.linalg.norm(members - members.mean(axis=0), axis=1)
        sse, sde = sse + float((distances**2).sum()), sde + float(distances.sum())
    total = np.linalg.norm(X - X.mean(axis=0), axis=1)
    found = losses(X, labels)
    assert (found.sse, found.sde) == pytest.approx((sse, sde))
    assert (found.sst, found.sdt) == pytest.approx((float((total**2).sum()), float(total.sum())))
    assert found.l_sse == pytest.approx(100 * sse / float((total**2).sum()))
    assert found.l_e == pytest.approx(100 * sde / float(total.sum()))
    assert set(found.as_json()) == {"sse", "sst", "l_sse", "sde", "sdt", "l_e"}


def test_the_total_of_standardized_data_is_n_times_p() -> None:
    Z = standardize(np.random.default_rng(2).random((50, 4)))
    assert losses(Z, np.zeros(50, np.int64)).sst == pytest.approx(200)
    assert losses(Z, np.zeros(50, np.int64)).l_sse == pytest.approx(100)


def test_nothing_lost_of_nothing_is_0() -> None:
    assert Losses(0.0, 0.0, 0.0, 0.0).l_sse == 0 and Losses(0.0, 0.0, 0.0, 0.0).l_e == 0
    assert losses(np.zeros((4, 2)), np.array([0, 0, 1, 1])).l_sse == 0
