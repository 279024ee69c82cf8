"""Kernels against their naive twins, record by record, on random, tied, repeated and lattice data."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import twins
from covering import each, is_whole, share
from inputs.strategies import SEARCHING, VALUES
from microagg_core import algorithms, partition
from microagg_core.group.metrics.losses import losses


def _settings() -> list[Any]:
    """Every algorithm, with every combination of the values of its parameters."""
    found = []
    for name, info in algorithms().items():
        if name in SEARCHING:
            continue
        names = [parameter.name for parameter in info.parameters]
        for values in product(*(VALUES[parameter] for parameter in names)):
            params = dict(zip(names, values, strict=True))
            found.append(pytest.param(name, params, id="-".join([name, *map(str, values)])))
    return found


def _repeated(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return rng.standard_normal((max(2, n // 4), p))[rng.integers(0, max(2, n // 4), n)]


def _on_axes(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """Each record has at most one value that is not 0, of any magnitude: right angles, long tails, and ties."""
    X = np.zeros((n, p))
    X[np.arange(n), rng.integers(0, p, n)] = np.exp(6 * rng.standard_normal(n))
    X[rng.random(n) < 0.2] = 0
    return X


DATA: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "random": lambda rng, n, p: rng.standard_normal((n, p)),
    "lattice": lambda rng, n, p: rng.integers(0, 3, (n, p)).astype(np.float64),
    "tenths": lambda rng, n, p: rng.integers(-3, 4, (n, p)) * 0.1,
    "repeated": _repeated,
    "heavy tails": lambda rng, n, p: np.exp(6 * rng.standard_normal((n, p))),
    "equal": lambda rng, n, p: np.full((n, p), rng.random()),
    "axes": _on_axes,
}


def test_slabs_of_more_records_than_the_cache_holds_are_the_twins() -> None:
    X = np.random.default_rng(0).lognormal(size=(9000, 3))
    X[:, 2] = X[:, 2].round()
    assert partition(X, 4, "slabs").tolist() == twins.labels("slabs", X, 4)


@pytest.mark.parametrize(("algorithm", "params"), _settings())
@each("data", DATA)
def test_kernel_equals_its_twin(algorithm: str, params: dict[str, Any], data: str) -> None:
    info = algorithms()[algorithm]
    for seed in range(30 if is_whole() else 6):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, twins.MOST.get(algorithm, 44) + 1))
        p = int(rng.integers(1, (info.max_attributes or 5) + 1))
        k = twins.k_for(algorithm, int(rng.integers(2, min(n, 9) + 1)) if n > 4 else 2)
        X = DATA[data](rng, n, p)
        found, expected = partition(X, k, algorithm, **params).tolist(), twins.labels(algorithm, X, k, **params)
        assert twins.agree(algorithm, X, found, expected), f"seed {seed}"


@pytest.mark.parametrize(("algorithm", "params"), share(_settings(), 5))
def test_kernel_equals_its_twin_over_several_blocks(algorithm: str, params: dict[str, Any]) -> None:
    """Kernels scan in blocks of 512 records, so smaller data would never leave the first."""
    info = algorithms()[algorithm]
    if params.get("gamma") == "auto" and not is_whole():
        pytest.skip("every gamma is tried by itself, and `auto` on smaller data")
    if algorithm in twins.MOST:
        pytest.skip(f"the twin of {algorithm} takes no more than {twins.MOST[algorithm]} records")
    X = DATA["lattice"](np.random.default_rng(5), 1100, min(2, info.max_attributes or 2))
    assert partition(X, 90, algorithm, **params).tolist() == twins.labels(algorithm, X, 90, **params)


#: The values of the MDAV* paper, on one attribute.
PRINTED = [1, 2, 3, 5, 6, 19, 20, 21, 98, 99, 100]


@pytest.mark.parametrize(
    ("algorithm", "params", "values", "groups"),
    [
        # The centroid is 34: 100 is farthest, 1 is farthest from it; the rest make the last group.
        ("mdav", {}, PRINTED, [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]),
        # 19 fills a group with 5 and 6; 20 is left over, and 21 too.
        ("v_mdav", {"gamma": 1.0}, PRINTED, [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]),
        # 5 and 6 join the group of 1, 2 and 3, so that 19, 20 and 21 stay together.
        ("mdav_star", {}, PRINTED, [0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2]),
        # 1 and 100 are farthest apart; their groups leave 5 records, fewer than 2k, which make the last.
        ("md", {}, PRINTED, [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]),
    ],
)
def test_groups_by_hand(algorithm: str, params: dict[str, Any], values: list[float], groups: list[int]) -> None:
    assert partition(np.array(values)[:, None], 3, algorithm, **params).tolist() == groups


def test_the_losses_printed_beside_these_groups() -> None:
    X = np.array(PRINTED, dtype=np.float64)[:, None]
    found = losses(X, partition(X, 3, "mdav_star"))
    assert found.sse == pytest.approx(21.2) and found.sst == pytest.approx(17966)
    assert round(found.l_sse, 3) == 0.118
    assert round(losses(X, partition(X, 3, "v_mdav", gamma=1.0)).l_sse, 2) == 1.44


def test_ties_go_to_the_lower_record() -> None:
    """Four corners of a square are equally far from its middle; record 0 starts, and takes the first neighbour."""
    square = np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]])
    assert partition(square, 2, "mdav").tolist() == [0, 0, 1, 1]
    assert partition(square[::-1], 2, "mdav").tolist() == [0, 0, 1, 1]
    # All pairs are equally far apart, so 0 and 1 are the pair, and 1 is not among the nearest of 0.
    assert partition(np.eye(4), 2, "md").tolist() == [0, 1, 0, 1]


@each("data", DATA)
def test_md_finds_the_farthest_pair(data: str) -> None:
    """The few rounds of large groups look at records of every kind for their farthest partner."""
    for seed in range(5 if is_whole() else 2):
        X = DATA[data](np.random.default_rng(seed), 200, 3)
        assert partition(X, 40, "md").tolist() == twins.labels("md", X, 40), f"seed {seed}"
