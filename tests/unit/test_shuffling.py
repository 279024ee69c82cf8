"""What a task sends to others: packed when there is enough of it, and more at a time where the whole is large."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.release import step
from microagg_core.release.step import Run, Scatter, Sent, Task, Work
from microagg_core.release.steps.scatter import SCATTERED
from microagg_core.store.objects import Store

ROWS = pa.table({"a": np.arange(1000)})


@pytest.mark.parametrize(("whole_bytes", "objects"), [(0.0, 4), (4e4, 4), (16e4, 2), (1e12, 1)])
def test_a_task_of_a_larger_whole_writes_larger_objects(
    monkeypatch: pytest.MonkeyPatch, whole_bytes: float, objects: int
) -> None:
    for name, value in (("RUN_BYTES", ROWS.nbytes), ("OBJECT_BYTES", 1), ("STEADY_BYTES", 4e4)):
        monkeypatch.setattr(step, name, value)
    work = Work(Task("scatter", 3, Run(Store("memory://shuffling"), f"run-{whole_bytes:.0f}")))
    scatter = Scatter(work, SCATTERED, whole_bytes)
    for _ in range(4):
        scatter.add(ROWS, np.arange(1000) % 2)
    scatter.flush()
    receipt = work.receipt(scatter.rows)
    assert len(receipt.pieces) == objects
    assert len(receipt.slices(SCATTERED)) == 2 * objects
    dealt = receipt.slices(SCATTERED).by_destination(2)
    sent = [Work(Task("b", i, work.run, sent=(Sent("scatter", "scattered", dealt[i]),))) for i in range(2)]
    assert [sorted(of_task.gather(SCATTERED)["a"].to_pylist()) for of_task in sent] == [
        sorted(4 * list(range(where, 1000, 2))) for where in range(2)
    ]
    assert Work(Task("b", 2, work.run)).gather(SCATTERED) is None
