"""What a look ahead takes from a plan: pieces as the cutter makes them, and groups as a release makes them."""

from __future__ import annotations

import numpy as np
import pytest

from microagg_core.blocks.cuts import count_leaves, grow, route, with_record_numbers
from microagg_core.compare.drawing import Piece
from microagg_core.compare.grid import neighbours
from microagg_core.compare.trial import standard_error
from microagg_core.release.steps.drawn_rows import Cut


def behind(path: tuple[Cut, ...], Z: np.ndarray) -> np.ndarray:
    inside = np.ones(len(Z), dtype=bool)
    for cut in path:
        inside &= (Z[:, cut.attribute] <= cut.threshold) == cut.goes_left
    return inside


@pytest.mark.parametrize("digits", [8, 0])
def test_the_ways_to_all_leaves_are_those_of_the_tree(digits: int) -> None:
    Z = with_record_numbers(np.round(np.random.default_rng(3).normal(size=(3000, 3)), digits), np.arange(3000))
    tree = grow(Z, 170, 5)
    leaves = list(Piece(Z, 170, 5).leaves(np.arange(3000) / 3000))
    assert len(leaves) == count_leaves(tree) > 15
    of_tree = route(tree, Z)
    for number, (path, share, times) in enumerate(leaves):
        assert np.array_equal(behind(path, Z), of_tree == number)
        assert share * 3000 == pytest.approx(np.sum(of_tree == number))
        assert times == pytest.approx(share * 3000, abs=2)


def test_leaves_are_met_as_often_as_they_have_records() -> None:
    Z = with_record_numbers(np.random.default_rng(4).exponential(size=(5000, 2)), np.arange(5000))
    piece = Piece(Z, 300, 1)
    (met,) = piece.leaves(np.array([0.37]))
    assert met[2] == 1 and 150 <= behind(met[0], Z).sum() <= 300
    times = {path: n for path, _, n in piece.leaves(np.linspace(0, 0.999, 40))}
    assert sum(times.values()) == 40 and max(times.values()) <= 4


def test_a_standard_error_holds_for_most_draws() -> None:
    """Of units drawn one by one by their weights, as a loss that is known for all of them tells."""
    rng = np.random.default_rng(6)
    sizes = rng.integers(5, 3000, 400)
    loss = rng.gamma(4.0, 1.0, 400) / np.sqrt(sizes)
    true, within = 100 * float(np.sum(sizes * loss) / sizes.sum()), 0
    for _ in range(200):
        drawn = rng.choice(400, 60, p=np.sqrt(sizes) / np.sqrt(sizes).sum())
        weights = np.sqrt(sizes[drawn]) / sizes[drawn]
        estimate = 100 * float(np.sum(weights * sizes[drawn] * loss[drawn]) / np.sum(weights * sizes[drawn]))
        error = standard_error(weights, sizes[drawn] * loss[drawn], sizes[drawn])
        within += error is not None and abs(estimate - true) < 2 * error
    assert 175 <= within <= 200


def test_neighbours_of_the_smallest_k() -> None:
    assert neighbours(2) == (2, 4) and neighbours(40) == (20, 40, 80)
