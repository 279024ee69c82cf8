"""Traces counted range by range, against a count of one unit after the other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.series.atoms import TraceCounter, no_atoms, with_atoms
from microagg_core.series.units import State
from releasing.nights import atoms_of, units, with_column


def drawn(draw: np.random.Generator, n: int) -> pa.Table:
    """Units with few traces, of which many differ in one half only, and any state but that of who is removed."""
    table = units(n, n_held=n // 4)
    told = with_atoms(table, atoms_of(table, 0))
    for name in ("t0", "t1"):
        told = with_column(told, name, draw.integers(0, 6, n).astype(np.uint64) * np.uint64(2**61))
    return with_column(told, "state", draw.integers(0, 4, n).astype(np.uint8))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_counting_one_by_one_gives(seed: int) -> None:
    draw = np.random.default_rng(seed)
    tables = [drawn(draw, int(n)) for n in draw.integers(0, 40, 6)]
    counter = TraceCounter()
    for table in tables:
        counter.add(table)
    rows = [row for table in tables for row in table.to_pylist() if row["last"] >= 0]
    counts = Counter((row["t0"], row["t1"]) for row in rows)
    live = {(row["t0"], row["t1"]) for row in rows if row["state"] == State.LIVE}
    assert counter.smallest() == min(counts.values())
    for k in range(1, 8):
        assert counter.rarer_than(k) == sum(n for trace, n in counts.items() if trace in live and n < k)


def test_nobody_has_no_trace() -> None:
    counter = TraceCounter()
    for table in (units(0), units(5, n_held=5)):
        counter.add(with_atoms(table, no_atoms()))
    assert counter.smallest() is None and counter.rarer_than(9) == 0


def test_who_left_an_atom_shares_a_trace_with_who_left_it_after_the_same_release() -> None:
    table = units(12, k=12)
    for name, values in (("state", [0] * 4 + [1] * 6 + [2] * 2), ("last", [-2] * 4 + [3] * 3 + [5] * 5)):
        table = with_column(table, name, values)
    counter = TraceCounter()
    counter.add(with_atoms(table.slice(0, 6), atoms_of(table, 6)))
    counter.add(with_atoms(table.slice(6), atoms_of(table, 6)))
    assert counter.smallest() == 3 and counter.rarer_than(4) == 0 and counter.rarer_than(5) == 4
