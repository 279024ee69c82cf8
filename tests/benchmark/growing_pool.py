"""How well a pool of workers is used that grows and shrinks under a run.

    python tests/benchmark/growing_pool.py
    python tests/benchmark/growing_pool.py --tasks 400 --seconds 1 --most 6 --least 3

A scheduler and workers are started, processes of their own with one thread each. While the executor has tasks done
that only sleep, workers come one after the other, and after two thirds of the tasks some are sent away. What the
workers could have slept, from the moment in which each had joined until it left, is compared with what the tasks have
slept: that is the share of the ideal speed-up. A task that was begun by a worker that was sent away is begun again by
another one; every result comes once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from distributed import Client

from microagg_core.spec.clusters import RunningCluster
from microagg_core.spec.loading import load_spec
from microagg_flows.clusters import connect
from microagg_flows.progress import Silence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from servers.dask_processes import growing_cluster

_SPEC = """
name: nothing
k: 3
input: {{url: {folder}/input.csv}}
output: {{url: {folder}/output}}
work: {{url: {folder}/work}}
roles: {{quasi_identifiers: [a]}}
"""
_LOOK_SECONDS = 0.05


class Capacity:
    """How long there were how many workers, as the scheduler says."""

    def __init__(self, address: str) -> None:
        self._client = Client(address, set_as_default=False)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.seconds, self.numbers = 0.0, [0]

    def __enter__(self) -> Capacity:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def _follow(self) -> None:
        before, n = time.monotonic(), 0
        while not self._over.wait(_LOOK_SECONDS):
            now = time.monotonic()
            self.seconds += n * (now - before)
            before, n = now, len(self._client.nthreads())
            if n != self.numbers[-1]:
                self.numbers.append(n)


def nap(task: tuple[str, float, int]) -> tuple[int, int]:
    """Sleep, and leave a line about it; the task's number and the process."""
    journal, seconds, number = task
    with Path(journal).open("a", encoding="ascii") as file:
        file.write(f"{number}\n")
    time.sleep(seconds)
    return number, os.getpid()


def measured(tasks: int, seconds: float, most: int, least: int) -> dict[str, Any]:
    """One run over a pool that grows from one worker to ``most`` and shrinks to ``least``."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        (folder / "input.csv").write_text("a\n1\n")
        (folder / "release.yaml").write_text(_SPEC.format(folder=folder))
        cluster = running.enter_context(growing_cluster(folder))
        cluster.start_worker()
        client = running.enter_context(Client(cluster.address, set_as_default=False))
        client.wait_for_workers(1, timeout=120)
        spec = load_spec(str(folder / "release.yaml"))
        executor = running.enter_context(
            connect(
                RunningCluster(address=cluster.address),
                spec,
                _Changing(
                    tasks,
                    lambda: [cluster.start_worker() for _ in range(most - 1)],
                    lambda: _send_away(client, most - least),
                ),
            )
        )
        journal = str(folder / "journal")
        with Capacity(cluster.address) as capacity:
            done = executor.map(nap, [(journal, seconds, number) for number in range(tasks)], "nap")
        begun = Counter(Path(journal).read_text(encoding="ascii").split())
    return {
        "share_of_ideal": round(tasks * seconds / capacity.seconds, 3),
        "workers": capacity.numbers,
        "workers_used": len({process for _, process in done}),
        "lost": tasks - len({number for number, _ in done}),
        "begun_again": sum(begun.values()) - tasks,
    }


def _send_away(client: Client, n: int) -> None:
    """Have so many workers leave, as a cluster that adapts does."""
    leaving = list(client.nthreads())[:n]
    # A process that is started here ends with the thread that starts it; this one starts none.
    threading.Thread(target=client.retire_workers, args=(leaving,), kwargs={"close_workers": True}, daemon=True).start()


class _Changing(Silence):
    """Has workers come after the tenth task, and some leave after two thirds."""

    def __init__(self, tasks: int, grow: Any, shrink: Any) -> None:
        self._done, self._changes = 0, {min(10, tasks // 10): grow, 2 * tasks // 3: shrink}

    def advance(self) -> None:
        self._done += 1
        if change := self._changes.get(self._done):
            change()


def main() -> None:
    """Measure, and print what was measured as JSON."""
    parser = argparse.ArgumentParser(description="How well a pool is used that grows and shrinks under a run.")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each task sleeps")
    parser.add_argument("--most", type=int, default=6)
    parser.add_argument("--least", type=int, default=3)
    arguments = parser.parse_args()
    print(json.dumps(measured(arguments.tasks, arguments.seconds, arguments.most, arguments.least), indent=1))


if __name__ == "__main__":
    main()
