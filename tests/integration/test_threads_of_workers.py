"""A large block is refined by all idle threads of its worker, and its release is the same in one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from distributed import Client

from microagg_core.blocks import masking
from microagg_core.group import costs
from microagg_core.kernels.tools.threads import PROCESS
from microagg_flows.clusters.pool import do_on_worker
from microagg_flows.executors import InProcess
from microagg_flows.process import usable_cores
from microagg_flows.progress import Silence


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Other tests find this process as it was."""
    yield
    PROCESS.allow(1)


def idle(n_running: int) -> int:
    """How many threads a task could borrow beside so many others."""
    if n_running:
        with PROCESS.running():
            return idle(n_running - 1)
    n = PROCESS.borrow(100)
    for _ in range(n):
        PROCESS.give_back()
    return n


def test_a_task_may_borrow_its_workers_other_threads() -> None:
    with Client(processes=False, n_workers=1, threads_per_worker=3, dashboard_address="127.0.0.1:0") as client:  # type: ignore[no-untyped-call]
        free = [client.submit(do_on_worker, idle, "run", n, pure=False).result() for n in (1, 2, 4)]
    assert free == [2, 1, 0]


def test_without_a_cluster_a_task_may_have_all_cores() -> None:
    assert InProcess(Silence()).map(idle, [1], "idle") == [usable_cores() - 1]


def test_a_block_is_the_same_in_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_RECORDS_OF_REGION", 100)
    monkeypatch.setattr(costs, "_RECORDS_FOR_K", 10)
    X = np.random.default_rng(0).random((5000, 3))

    def block(threads: int) -> Any:
        PROCESS.allow(threads)
        with PROCESS.running():
            return masking.refine_with_bound(X, np.arange(5000) // 5, 5, "fast", 0)

    (alone, bound), others = block(1), [block(threads) for threads in (2, 4)]
    assert all(labels.tolist() == alone.tolist() and again == bound for labels, again in others)
