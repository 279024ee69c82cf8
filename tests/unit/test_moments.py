"""Moments and their merging, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import each, examples
from microagg_core.group.metrics.moments import EMPTY, Moments, merge_all, moments_of, offsets_from


def exact(values: list[int] | list[float]) -> tuple[Fraction, float]:
    """Mean as a fraction, and the population standard deviation from exact sums."""
    fractions = [Fraction(v) for v in values]
    mean = sum(fractions) / len(fractions)
    variance = sum((f - mean) ** 2 for f in fractions) / len(fractions)
    scale = max((abs(f - mean) for f in fractions), default=Fraction(0)) or Fraction(1)
    return mean, float(scale) * float(variance / scale**2) ** 0.5


def assert_right(m: Moments, values: list[int] | list[float]) -> None:
    mean, deviation = exact(values)
    spread = max(deviation, float(max(abs(Fraction(v) - mean) for v in values)))
    assert abs(Fraction(m.origin) + Fraction(m.mean) - mean) <= Fraction(1e-13) * Fraction(spread) + Fraction(
        float(np.spacing(float(abs(mean)) or 1e-320)) if isinstance(m.origin, float) else 0
    )
    assert m.deviation == pytest.approx(deviation, rel=1e-9, abs=0)
    assert (m.n, m.least, m.greatest) == (len(values), min(values), max(values))


@given(
    st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6), min_size=1, max_size=6),
)
@examples(200)
def test_whole_numbers_of_any_size(parts: list[list[int]]) -> None:
    together = [v for part in parts for v in part]
    merged = merge_all(moments_of(np.array(part, dtype=np.int64)) for part in parts)
    if together:
        assert_right(merged, together)
    else:
        assert merged == EMPTY


@each("scale", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_floats_of_any_magnitude(scale: float) -> None:
    rng = np.random.default_rng(4)
    parts = [rng.normal(size=n) * scale for n in (1, 50, 3, 700)]
    assert_right(merge_all(map(moments_of, parts)), [float(v) for part in parts for v in part])


@each("ratio", [1e3, 1e6, 1e9])
def test_a_mean_far_from_zero(ratio: float) -> None:
    """The textbook's E[x2] - E[x]2 loses everything here."""
    rng = np.random.default_rng(5)
    values = ratio + rng.normal(size=10_000)
    merged = merge_all(moments_of(part) for part in np.array_split(values, 37))
    assert merged.deviation == pytest.approx(np.std(values - ratio), rel=1e-7)
    naive = np.mean(values**2) - np.mean(values) ** 2
    if ratio >= 1e9:
        assert abs(naive - 1) > 0.1  # so the test can tell


def test_unsigned_numbers_beyond_the_signed_range() -> None:
    values = np.array([2**64 - 1, 2**64 - 3], dtype=np.uint64)
    m = moments_of(values)
    assert (m.origin, m.mean, m.deviation) == (2**64 - 2, 0.0, 1.0)
    assert offsets_from(values, m.origin).tolist() == [1.0, -1.0]
