"""Blocks masked together, beside each of them masked alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from covering import cover, each
from microagg_core.blocks.masking import Blocks, mask_blocks
from microagg_core.data.kinds.encoding import Encoding, QuasiIdentifiers
from microagg_core.group.metrics.statistics import LossStatistics


@dataclass(frozen=True)
class Algorithm:
    name: str = "mdav"
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rules:
    k: int = 3
    seed: int = 1
    effort: str | float = "fast"
    algorithm: Algorithm = Algorithm()


SIZES = np.array([3, 40, 7, 450, 12, 25])


def blocks_of(columns: dict[str, pa.Array], pattern: np.ndarray | None = None) -> tuple[Blocks, Encoding]:
    """Blocks of these sizes; of a column, by ``pattern``, a block has all values or none."""
    numbers = np.repeat(np.arange(len(SIZES)) * 2 + 5, SIZES)
    if pattern is not None:
        names = list(columns)
        for j, name in enumerate(names):
            gone = np.repeat(pattern[:, j], SIZES)
            columns[name] = pa.array(columns[name].to_pylist(), mask=gone, type=columns[name].type)
    quasi = QuasiIdentifiers.of(columns, may_be_missing=True)
    return Blocks.of(numbers, list(quasi.ticks), quasi.missing), quasi.encoding.steadied()


def drawn(kind: str) -> tuple[Blocks, Encoding]:
    draw, n = np.random.default_rng(7), int(SIZES.sum())
    columns: dict[str, Any] = {"a": pa.array(draw.normal(size=n)), "b": pa.array(draw.integers(0, 9, n))}
    if kind == "categories":
        columns["c"] = pa.array(draw.choice(["u", "v", "w"], n)).dictionary_encode()
    if kind == "whole":
        columns = {"a": pa.array(draw.integers(0, 4, n)), "b": pa.array(draw.integers(0, 3, n))}
    pattern = draw.random((len(SIZES), len(columns))) < 0.4 if kind == "missing" else None
    made, encoding = blocks_of(columns, pattern)
    return made, replace(encoding, zeros_apart=(1,)) if kind == "zeros" else encoding


def alone(blocks: Blocks, place: int) -> Blocks:
    rows = slice(int(blocks.starts[place]), int(blocks.starts[place + 1]))
    ends = np.array([0, rows.stop - rows.start])
    ticks = [values[rows] for values in blocks.ticks]
    return Blocks(blocks.numbers[place : place + 1], ends, ticks, blocks.missing[rows])


@each(
    "kind, effort, name",
    cover(["numbers", "categories", "whole", "missing", "zeros"], ["off", "fast"], ["mdav", "mst"]),
)
def test_many_blocks_are_masked_as_each_alone(kind: str, effort: str, name: str) -> None:
    blocks, encoding = drawn(kind)
    rules = Rules(effort=effort, algorithm=Algorithm(name))
    together = mask_blocks(rules, encoding, encoding, blocks)
    each_alone = [mask_blocks(rules, encoding, encoding, alone(blocks, place)) for place in range(len(SIZES))]
    for place, one in enumerate(each_alone):
        rows = slice(blocks.starts[place], blocks.starts[place + 1])
        assert np.array_equal(together.labels[rows] - together.first_groups[place], one.labels)
        for all_ticks, ticks in zip(together.released, one.released, strict=True):
            assert np.array_equal(all_ticks[rows], ticks)
    lines = pa.concat_tables([one.audit(encoding, 1.0) for one in each_alone])
    assert together.audit(encoding, 1.0).equals(lines)
    summed = LossStatistics.sum_of([one.statistics(encoding) for one in each_alone])
    whole = together.statistics(encoding)
    assert whole.by_group == pytest.approx(summed.by_group, rel=1e-9, abs=1e-12)
    assert whole.before.correlations() == pytest.approx(summed.before.correlations(), rel=1e-9, nan_ok=True)


def test_refined_groups_never_lose_more_once_rounded() -> None:
    """Of small whole numbers, whose means are rounded, some refined groups would."""
    _, encoding = drawn("whole")
    numbers = np.repeat(np.arange(200), 12)
    draw = np.random.default_rng(3)
    ticks = [draw.integers(0, 5, len(numbers)), draw.integers(0, 3, len(numbers))]
    many = Blocks.of(numbers, ticks, np.zeros((len(numbers), 2), dtype=np.bool_))
    plain, refined = (mask_blocks(Rules(effort=effort), encoding, encoding, many) for effort in ("off", "fast"))
    better = plain.squares_lost(encoding) - refined.squares_lost(encoding)
    assert better.min() >= -1e-9
    improved = np.array([outcome.improved for outcome in refined.outcomes])
    assert (better[improved] > 0).all()
    assert improved.any()
    assert not improved.all()
