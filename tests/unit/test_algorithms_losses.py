"""Standardization, centroids and losses."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from covering import each
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.kinds.registry import kind_of
from microagg_core.group.metrics.losses import group_means, losses, standardize
from microagg_core.group.metrics.moments import moments_of


@each("offset, scale", [(0.0, 1.0), (1e9, 1e-300), (-1e9, 1e300 / 2e9), (0.0, 1e-300)])
def test_standardized_columns_have_mean_0_and_variance_1(offset: float, scale: float) -> None:
    # Whole steps of 2^-20 stay exact beside an offset of 1e9, so the answer is known.
    steps = np.round(np.random.default_rng(0).standard_normal(500) * 2**20) / 2**20
    exact = [Fraction(s) for s in steps]
    mean = sum(exact) / 500
    deviation = math.sqrt(sum((s - mean) ** 2 for s in exact) / 500)
    z = standardize(((steps + offset) * 2.0 ** round(math.log2(scale)))[:, None])[:, 0]
    assert z == pytest.approx([float(s - mean) / deviation for s in exact], rel=2**-24, abs=2**-23)
    assert abs(z.mean()) < 2**-23 and z.var() == pytest.approx(1, abs=2**-22)


@each("far", [0, 10**9])
def test_whole_numbers_keep_their_ties_however_they_are_read(far: int) -> None:
    """The same to the last bit as integers and as floats, whatever the middle of the file is."""
    numbers = np.random.default_rng(3).integers(0, 40, (500, 2)) + far
    Z = standardize(numbers)
    assert (standardize(numbers.astype(np.float64)) == Z).all()
    more = np.vstack([numbers, numbers, numbers])
    assert (standardize(more)[:500] == Z).all()


@each("cut", [1, 7, 250, 499])
def test_the_scale_of_groups_does_not_tell_how_a_file_was_cut(cut: int) -> None:
    """Not even where the deviation has so few digits that cutting, not rounding, would part 0.5 from its neighbour."""
    numbers = np.random.default_rng(4).normal(size=(500, 3)) + 1e6
    numbers[:, 2] = np.arange(500) % 2
    encoding = Encoding.from_moments((kind_of("x", pa.float64(), "type"),) * 3, tuple(map(moments_of, numbers.T)))
    merged = tuple(moments_of(column[:cut]) + moments_of(column[cut:]) for column in numbers.T)
    steady = Encoding.from_moments(encoding.kinds, merged).steadied()
    assert (steady.deviations, steady.means) == (encoding.steadied().deviations, encoding.steadied().means)
    assert steady.deviations[2] == 0.5
    assert steady.steadied() == steady


@each("value", [0.1, -999, 1e300, 1e-300, 0])
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
    assert set(found.document()) == {"sse", "sst", "l_sse", "sde", "sdt", "l_e"}
    Z = standardize(np.random.default_rng(2).random((50, 4)))
    assert losses(Z, np.zeros(50, np.int64)).sst == pytest.approx(200), "n times p"
    nothing = losses(np.zeros((4, 2)), np.array([0, 0, 1, 1]))
    assert nothing.l_sse == nothing.l_e == 0
