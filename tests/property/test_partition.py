"""What holds for every algorithm of the registry, on any data."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twins
from covering import each, examples
from inputs.strategies import ONE_SIDED, SEARCHING, Case, most_records, runs
from microagg_core import algorithms, partition
from microagg_core.group.algorithms import AlgorithmInfo
from microagg_core.group.metrics.losses import losses, standardize

EVERY_ALGORITHM = [pytest.param(info, id=name) for name, info in algorithms().items()]


def run(case: Case, X: np.ndarray | None = None) -> np.ndarray:
    return partition(case.X if X is None else X, case.k, case.algorithm, seed=7, **case.params)


def assert_valid(labels: np.ndarray, n: int, k: int, info: AlgorithmInfo) -> None:
    assert labels.dtype == np.int64 and labels.shape == (n,)
    groups, first, sizes = np.unique(labels, return_index=True, return_counts=True)
    assert groups.tolist() == list(range(len(groups)))
    assert (np.diff(first) > 0).all(), "groups are numbered by their first record"
    least, most = info.sizes(k)
    assert least >= k and sizes.min() >= least
    assert most is None or sizes.max() <= most


@given(runs())
@examples(400)
def test_every_record_is_in_one_group_of_a_promised_size(case: Case) -> None:
    before = case.X.copy()
    assert_valid(run(case), len(case.X), case.k, algorithms()[case.algorithm])
    assert np.array_equal(case.X, before), "the caller's array is left as it is"


@given(runs())
@examples(100)
def test_the_same_input_gives_the_same_groups(case: Case) -> None:
    expected = run(case).tolist()
    with ThreadPoolExecutor(4) as threads:
        assert all(labels.tolist() == expected for labels in threads.map(run, [case] * 4))


@given(runs(ordinary=True))
@examples(50)
def test_memory_layout_and_number_type_do_not_matter(case: Case) -> None:
    wide = np.repeat(case.X, 2, axis=0)
    expected = run(case).tolist()
    assert run(case, np.asfortranarray(case.X)).tolist() == expected
    assert run(case, wide[::2]).tolist() == expected
    assert run(case, case.X.astype(np.float32)).tolist() == expected, "eighths are exact in float32"


@given(runs(ordinary=True), st.sampled_from([-990, -300, 300, 990]))
@examples(100)
def test_a_power_of_two_changes_nothing(case: Case, exponent: int) -> None:
    assert run(case, np.ldexp(case.X, exponent)).tolist() == run(case).tolist()


@given(runs(ordinary=True))
@examples(200)
def test_exact_moves_of_tied_data_change_nothing(case: Case) -> None:
    """Eighths are exact: a shift, a mirror, another scale or order of attributes leaves every tie a tie.

    So does an attribute that is constant, or that says the same as another.
    """
    if case.algorithm in SEARCHING:
        return
    expected = run(case).tolist()
    wider = [np.hstack([np.full((len(case.X), 1), 3.0), case.X]), np.hstack([case.X] * 4)]
    if algorithms()[case.algorithm].max_attributes is not None:
        wider = []
    mirrored = () if case.algorithm in ONE_SIDED else (-case.X, case.X[:, ::-1])
    for moved in (case.X + 4096, case.X + 5, 3 * case.X, *mirrored, *wider):
        assert run(case, moved).tolist() == expected


@pytest.mark.parametrize("info", EVERY_ALGORITHM)
@each("p", [1, 2, 30])
def test_loss_survives_shift_scale_and_order_where_nothing_is_nearly_tied(info: AlgorithmInfo, p: int) -> None:
    if info.name in SEARCHING:
        return
    k = twins.k_for(info.name, 4)
    if info.refuses(k, p):
        return
    n = most_records(info, 150, p, k)
    Z = standardize(np.random.default_rng(p).standard_normal((n, p)))
    expected = losses(Z, info.run(Z, k)).sse
    assert expected > 0
    for moved in (Z + 1e6, Z * 3.7, *(() if info.name in ONE_SIDED else (-Z, Z[:, ::-1]))):
        assert losses(Z, info.run(moved, k)).sse == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("info", EVERY_ALGORITHM)
@each("k", [2, 3, 10])
def test_all_records_equal(info: AlgorithmInfo, k: int) -> None:
    p, k = min(3, info.max_attributes or 3), twins.k_for(info.name, k)
    for n in (k, k + 1, 2 * k - 1, 2 * k, most_records(info, 5 * k + 1, p, k)):
        labels = info.run(np.full((n, p), 0.1), k)
        assert_valid(labels, n, k, info)
        assert losses(standardize(np.full((n, p), 0.1)), labels).l_sse == 0
