"""People under new ids are told from others with the same values, against a count over all pairs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.series import match
from microagg_core.series.match import Likeness, likeness_of, words_of_range

GREATEST = 2**40 - 1


def words(values: list[int]) -> np.ndarray:
    """A word of each value, as a hash would have it."""
    return np.random.default_rng(1).integers(0, GREATEST, 100_000, dtype=np.uint64)[values]


def ranges(released: list[int], gone: set[int], arrived: list[int]) -> list[pa.Table]:
    """Four ranges of units: of who was released, those with a place in ``gone`` are not there."""
    of_range = []
    for i in range(4):
        places = range(i, len(released), 4)
        is_gone = np.array([place in gone for place in places], dtype=np.bool_)
        of_range.append(words_of_range(words([released[p] for p in places]), is_gone, words(arrived[i::4]), 4))
    return of_range


def seen(released: list[int], gone: set[int], arrived: list[int]) -> Likeness:
    return likeness_of(ranges(released, gone, arrived), len(released), alone(released), GREATEST)


def alone(released: list[int]) -> int:
    return sum(n == 1 for i in range(4) for n in Counter(released[i::4]).values())


@pytest.mark.parametrize(("n_values", "n_left"), [(2, 3), (30, 40), (300, 400), (3_000, 3), (60_000, 400)])
def test_innocent_nights_are_not_mostly_alike(n_values: int, n_left: int) -> None:
    """Whoever arrives draws his values as everybody did: from few values or from many, half of them zeros or not."""
    draw = np.random.default_rng(n_values + n_left)
    refused = 0
    for round_ in range(40):
        zeros = 0.5 if round_ % 2 else 0.0
        values = np.where(draw.random(1_400) < zeros, 0, draw.integers(0, n_values, 1_400)).tolist()
        found = seen(values[:1_000], set(range(n_left)), values[1_000 : 1_000 + n_left])
        refused += found.alike >= 3 and found.is_mostly
    assert refused == 0


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_people_under_new_ids_are_mostly_alike(share: float) -> None:
    """Whatever else arrives, and though half of all values are the same; counted by a program of another kind."""
    draw = np.random.default_rng(3)
    values = np.where(draw.random(1_000) < 0.5, 0, draw.integers(1, 60_000, 1_000)).tolist()
    others = draw.integers(60_000, 90_000, 500).tolist()
    arrived = [value for value in values[:400] if draw.random() < share] + others
    found = seen(values, set(range(400)), arrived)
    n_left, n_arrived = Counter(values[:400]), Counter(arrived)
    alike = sum(n == 1 and n_left[value] == 1 for value, n in n_arrived.items())
    assert abs(found.alike - alike) <= 3 and found.is_mostly


def test_a_sample_tells_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    released, gone = list(range(40_000)), set(range(20_000))
    arrived = [*range(15_000), *range(50_000, 55_000)]
    exact = seen(released, gone, arrived)
    monkeypatch.setattr(match, "_MOST_WORDS", 4_000)
    monkeypatch.setattr(match, "_LEAST_WORDS", 1)
    sampled = ranges(released, gone, arrived)
    assert sum(table.num_rows for table in sampled) < 9_000
    told = likeness_of(sampled, len(released), alone(released), GREATEST)
    assert (exact.left, exact.arrived, exact.alike) == (20_000, 20_000, 15_000)
    assert told.alike == pytest.approx(exact.alike, rel=0.1) and told.is_mostly
