"""What a task sends to others: packed when there is enough of it, and more at a time where the whole is large."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.release.steps import shuffling
from microagg_core.release.steps.shuffling import Scatter, gather_slices
from microagg_core.release.steps.work import Run, Task
from microagg_core.store.objects import Store

ROWS = pa.table({"a": np.arange(1000)})


@pytest.mark.parametrize(("whole_bytes", "objects"), [(0.0, 4), (4e4, 4), (16e4, 2), (1e12, 1)])
def test_a_task_of_a_larger_whole_writes_larger_objects(
    monkeypatch: pytest.MonkeyPatch, whole_bytes: float, objects: int
) -> None:
    for name, value in (("RUN_BYTES", ROWS.nbytes), ("OBJECT_BYTES", 1), ("STEADY_BYTES", 4e4)):
        monkeypatch.setattr(shuffling, name, value)
    task = Task("scatter", 3, Run(Store("memory://shuffling"), f"run-{whole_bytes:.0f}"))
    scatter = Scatter(task, task.layout.scatter, whole_bytes)
    for _ in range(4):
        scatter.add(ROWS, np.arange(1000) % 2)
    scatter.flush()
    assert len(scatter.pieces) == objects
    assert len(scatter.slices) == 2 * objects
    sent = [
        gather_slices(task.run, scatter.slices.by_destination(2)[where], "scatter", task.layout.scatter)
        for where in range(2)
    ]
    assert [sorted(some["a"].to_pylist()) for some in sent if some is not None] == [
        sorted(4 * list(range(where, 1000, 2))) for where in range(2)
    ]
