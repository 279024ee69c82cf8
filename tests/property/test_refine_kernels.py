"""The kernels of refinement against their twin, change by change, and the state that they keep against the records."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from covering import cover, each, is_whole
from microagg_core.group.labels import exponent_of
from microagg_core.group.points import AnyPoints, Points
from microagg_core.group.refine.annealing import Annealing
from microagg_core.group.refine.neighbours import Records
from microagg_core.kernels.refinement.annealing import anneal, descend, sweep
from microagg_core.kernels.refinement.changes import GroupDraft, Grouping, total_sse
from microagg_core.kernels.tools.random_draws import draw, exponential_quantiles, random_state
from twins.naive_refine import Random, Refinement, loss

QUANTILES = exponential_quantiles(1024)
#: A limit of exactly 0 leaves it to the last bit whether a group may be replaced by itself in another order.
ABOVE_0 = QUANTILES[1:]


class Both:
    """The same groups of the same records, in the kernels' arrays and as the twin's lists."""

    def __init__(self, X: AnyPoints, k: int, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n = len(X)
        self.k = k
        self.records = Records.of(X, count)
        near = self.records.near(count)
        points = self.records.points.scaled(-exponent_of(Points.of(X)))
        self.annealing = Annealing(points, near, k, seed)
        # The twin has a number for each category.
        self.rows = np.hstack([self.annealing.X, points.columns(points.is_code).dense()])
        labels = rng.permutation(np.arange(n) % (n // k))
        self.grouping: Grouping = self.annealing.grouping(labels)
        self.draft: GroupDraft = self.annealing.draft(self.grouping)
        self.twin = Refinement(self.rows.tolist(), labels.tolist(), near.tolist(), k)
        self.random = Random(int(self.annealing.random[0]))

    def assert_same(self) -> None:
        g = self.grouping
        kernels = [g.members[a, : g.size[a]].tolist() for a in np.flatnonzero(g.size)]
        assert sorted(kernels) == sorted(self.twin.groups)
        assert int(self.annealing.random[0]) == self.random.state, "the same numbers were drawn"


def assert_state_is_that_of_the_records(g: Grouping, k: int, rows: np.ndarray) -> None:
    """Everything that is kept follows from the labels."""
    n = len(g.label)
    assert sorted([*np.flatnonzero(g.size), *g.free[: g.n_free[0]]]) == list(range(len(g.size)))
    assert g.size.sum() == n
    for a in np.flatnonzero(g.size).tolist():
        members = g.members[a, : g.size[a]]
        assert k <= len(members) < 2 * k
        assert (g.label[members] == a).all() and (g.place[members] == np.arange(len(members))).all()
        centre = g.X[members].mean(axis=0)
        assert np.allclose(g.centre[a], centre, rtol=1e-12, atol=1e-12)
        own = ((rows[members] - rows[members].mean(axis=0)) ** 2).sum(axis=1)
        assert np.allclose(g.own[members], own, rtol=1e-9, atol=1e-12)
        assert math.isclose(g.sse[a], own.sum(), rel_tol=1e-9, abs_tol=1e-12)
    assert not g.sse[g.size == 0].any()


def _points(rng: np.random.Generator, n: int, p: int, with_codes: int) -> Points:
    """Numbers and, if asked, up to ten columns of 2 to 300 categories, whose codes take two words."""
    categories = rng.choice([2, 3, 300], int(rng.integers(1, 11)) * with_codes)
    codes = [rng.integers(0, count, n).astype(np.float64) for count in categories]
    costs = np.append(np.zeros(p), rng.random(len(codes)) + 0.5)
    return Points(np.column_stack([rng.standard_normal((n, p)), *codes]), costs)


def test_numbers_are_drawn_as_the_twin_draws_them() -> None:
    state = random_state(3)
    twin = Random(int(state[0]))
    counts = [1, 2, 3, 10, 1000, 2**31]
    assert [draw(state, count) for count in counts * 50] == [twin.below(count) for count in counts * 50]


def test_quantiles_are_those_of_the_exponential_distribution() -> None:
    found = exponential_quantiles(1000)
    assert found[0] == 0 and found[500] == pytest.approx(math.log(2), abs=2e-3)
    assert found.mean() == pytest.approx(1, abs=1e-2)


@each("every, k, seed", list(product([0, 1, 3], [2, 3, 5], range(6 if is_whole() else 2))))
def test_sweeps_equal_their_twin(k: int, every: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    both = Both(_points(rng, int(rng.integers(2 * k, 40)), int(rng.integers(1, 7)), seed % 2), k, k + 2, seed)
    for temperature in (2.0, 0.5, 0.1, 0.01, *([0.0] if every == 0 else [])):
        heat = temperature * total_sse(both.grouping) / len(both.twin.X)
        arguments = (both.annealing.near, k, heat, every, ABOVE_0, both.annealing.random)
        sweep(both.grouping, both.draft, *arguments)
        both.twin.sweep(heat, every, ABOVE_0.tolist(), both.random)
        both.assert_same()
        assert_state_is_that_of_the_records(both.grouping, k, both.rows)


@each("k, seed", list(product([2, 3, 5], range(6 if is_whole() else 3))))
def test_the_way_downhill_equals_its_twin(k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    both = Both(_points(rng, int(rng.integers(2 * k, 40)), int(rng.integers(1, 7)), seed % 2), k, k + 2, seed)
    before = both.twin.loss()
    sweeps = descend(both.grouping, both.annealing.near, k, 20, 1e-9)
    assert sweeps == both.twin.descend(20, 1e-9)
    both.assert_same()
    assert_state_is_that_of_the_records(both.grouping, k, both.rows)
    assert both.twin.loss() <= before


@each("data, k", cover(["lattice", "repeated", "equal", "random", "codes"], [2, 3, 7]))
def test_state_stays_that_of_the_records_where_all_is_tied(data: str, k: int) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n, p = int(rng.integers(2 * k, 120)), int(rng.integers(1, 6))
        X = {
            "lattice": rng.integers(0, 3, (n, p)).astype(np.float64),
            "repeated": rng.standard_normal((4, p))[rng.integers(0, 4, n)],
            "equal": np.full((n, p), 0.1),
            "random": rng.standard_normal((n, p)),
            "codes": _points(rng, n, p, 1),
        }[data]
        both = Both(X, k, min(n - 1, 10), seed)
        g, a, start = both.grouping, both.annealing, total_sse(both.grouping)
        best = g.label.copy()
        least = anneal(g, both.draft, a.near, k, 0, 20, 20, 2 * start / n, 2, 2, QUANTILES, a.random, best, start)
        assert_state_is_that_of_the_records(g, k, both.rows)
        found = [np.flatnonzero(best == group).tolist() for group in np.unique(best)]
        assert min(map(len, found)) >= k
        assert math.fsum(loss(both.rows.tolist(), group) for group in found) == pytest.approx(least, rel=1e-9, abs=1e-9)
        assert least <= start
