"""Gaps to the optimum are of the size that the papers print; ``optimality_gaps.py`` prints them side by side."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from optimality_gaps import ALGORITHMS, KS, SAMPLE_RATIOS, TABLES, Table, gaps, sample_ratios
from published import dataset

DRAWS = 16
drawn_gaps = cache(gaps)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_printed_gaps_are_among_those_of_other_draws(table: Table) -> None:
    """A printed gap is one draw more: at most half their spread outside the others."""
    for i, k in enumerate(KS):
        for algorithm, found in drawn_gaps(table, k, DRAWS).items():
            printed, slack = getattr(table, algorithm)[i], (found.max() - found.min()) / 2
            assert found.min() >= -1e-12, "nothing is better than the optimum"
            assert found.min() - slack - 1e-9 <= printed <= found.max() + slack + 1e-9, (algorithm, k)


def test_trees_do_better_on_clusters_and_mdav_without_them() -> None:
    scattered, _, clustered = (drawn_gaps(table, 2, DRAWS) for table in TABLES)
    mu_approx, mdav = ALGORITHMS
    assert np.median(scattered[mdav]) < np.median(scattered[mu_approx])
    assert np.median(clustered[mu_approx]) < np.median(clustered[mdav])


def test_pairs_and_triples_of_samples_are_optimal_or_nearly() -> None:
    found = sample_ratios(dataset("census"), 30)
    assert found.max() <= 1 + 1e-12 and found.min() >= 0.85, "the papers' least is 0.9438, and 0.5 is what is proved"
    assert np.isclose(found, 1).mean() >= 0.25 and abs(found.mean() - np.mean(SAMPLE_RATIOS)) < 0.02
