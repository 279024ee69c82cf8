"""Cuts of large strata by a sample: what is known of their leaves for certain, and what nearly."""

from __future__ import annotations

import numpy as np
import pytest

from microagg_core.blocks.cuts import count_leaves, route, with_record_numbers
from microagg_core.release.steps.cuts import _sampled_cut
from microagg_core.release.steps.sampling import uniform


@pytest.mark.parametrize("ties", [1.0, 0.5, 0.0])
def test_leaves_of_a_sample_hold_about_what_is_estimated_and_never_fewer_than_k(ties: float) -> None:
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(200_000, 3))
    Z = Z if ties == 1.0 else np.round(Z * ties)
    records = np.arange(len(Z))
    of_all = with_record_numbers(Z, records)
    sample = of_all[uniform(records, 7) < 0.05]
    tree, estimated = _sampled_cut(sample, len(Z), limit=20_000, least=5)
    rows = np.bincount(route(tree, of_all), minlength=count_leaves(tree))
    assert estimated.sum() == rows.sum() == len(Z)
    assert rows.min() >= 5
    deviations = np.sqrt(rows * 0.05 * 0.95) / 0.05
    assert (np.abs(rows - estimated) < 6 * deviations).all()
    if ties == 1.0:
        assert len(rows) > 10 and rows.max() <= 20_000


def test_a_whole_sample_is_counted_exactly() -> None:
    Z = with_record_numbers(np.random.default_rng(1).normal(size=(1000, 2)), np.arange(1000))
    tree, counted = _sampled_cut(Z, 1000, limit=130, least=5)
    assert np.array_equal(counted, np.bincount(route(tree, Z)))
    assert counted.max() <= 130


def test_a_draw_is_fixed_by_number_and_seed() -> None:
    draws = uniform(np.arange(100_000), 3)
    assert np.array_equal(draws[500:600], uniform(np.arange(500, 600), 3))
    assert not np.array_equal(draws, uniform(np.arange(100_000), 4))
    assert abs(float((draws < 0.25).mean()) - 0.25) < 0.01
