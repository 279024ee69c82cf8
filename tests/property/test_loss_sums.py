"""What losses are put together from, against fractions added one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.group.metrics.moments import Groups
from microagg_core.kernels.tools.sums import loss_sums, moments_of_pairs
from twins.naive_losses import naive_loss_sums, naive_moments_of_pairs

SEEDS = st.integers(0, 2**32 - 1)


@examples(40)
@given(SEEDS, st.integers(1, 60), st.integers(1, 5), st.integers(1, 9))
def test_sums_over_groups_are_those_of_fractions(seed: int, n: int, p: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.unique(rng.integers(0, most, n), return_inverse=True)[1]
    before, after = rng.standard_t(2, (n, p)), rng.standard_t(2, (labels.max() + 1, p))
    groups = Groups.of(labels)
    of_groups, lengths = loss_sums(before, after, groups.order, groups.sizes)
    expected, expected_lengths = naive_loss_sums(before, after[labels], labels)
    scale = max(1.0, float(np.abs(before).max() + np.abs(after).max()) ** 2) * n
    assert of_groups.tolist() == [pytest.approx(row, rel=1e-12, abs=1e-14 * scale) for row in expected]
    assert lengths.tolist() == pytest.approx(expected_lengths, rel=1e-12)


@examples(40)
@given(SEEDS, st.integers(1, 60), st.integers(1, 5), st.sampled_from([0.0, 1.0, 1e9]))
def test_moments_of_pairs_are_those_of_fractions(seed: int, n: int, p: int, far: float) -> None:
    rng = np.random.default_rng(seed)
    values, counts = rng.normal(size=(n, p)) + far, rng.integers(1, 4, n)
    means, products = moments_of_pairs(values, counts)
    expected_means, expected = naive_moments_of_pairs(np.repeat(values, counts, axis=0))
    assert means.tolist() == pytest.approx(expected_means, rel=1e-14, abs=1e-13)
    assert products.tolist() == [pytest.approx(row, rel=1e-10, abs=1e-12 * counts.sum()) for row in expected]


def test_what_is_constant_has_no_deviation_at_all() -> None:
    values = np.column_stack([np.full(1000, 0.1), np.arange(1000.0)])
    means, products = moments_of_pairs(values, np.arange(1000) % 3)
    assert means[0] == 0.1
    assert products[0].tolist() == [0.0, 0.0]
