"""A release on many workers, in virtual time: how much of their time they compute, and what keeps them from it.

    python tests/benchmark/simulate.py                                       a billion rows on 1 to 3,000 workers
    python tests/benchmark/simulate.py --describe rows=1e8,keys=2e4 --workers 10,100 --what-if parts=32MiB
    python tests/benchmark/simulate.py --like release_at_scale --rows 100e6 --blocks 20000 --workers 2

The plan is made by the planner of real releases; tasks are handed out as the executor of Dask does it; what each takes
is measured (see calibrate.py). ``--failures`` has so many of each worker's hours end in its death. ``--json``
prints everything. ``--what-if`` changes what a release has no setting for: bytes of an input part
(``parts``), of a partition, a run, a scattered object and a file (``partitions``, ``runs``, ``objects``, ``files``), a
partition's seconds (``seconds``), keys that are merged at a time (``keys``), requests of a worker at a time
(``connections``), tasks out for each thread (``ahead``); the flow's own work and the handing out of tasks (``flow``,
``dispatch``: times as much).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from microagg_core.data.formats.reading import OPENING_BYTES, PART_BYTES
from microagg_core.pages.plan_report import forecast_stages
from microagg_core.pages.words import duration, size_in_words
from microagg_core.release.sizing.description import Description, read_description, read_number
from microagg_core.release.sizing.forecast import Forecast, forecast_at, place_of
from microagg_core.release.sizing.tasks import MeasuredFigures, StepTasks, Workload, measured_figures
from microagg_flows.clusters import pool

WORKERS = (1, 3, 10, 30, 100, 300, 1000, 3000)
BILLION = "rows=1e9,keys=3e6"
#: Of that release: bytes of a file's million rows before compression; of a bucket's server on the same machine: seconds
#: to its answer, and bytes a second.
_FILE_BYTES = 29_500_000
_NEAR = {"latency": 0.004, "bandwidth": 300e6}
#: What may be changed that is no setting: where it lies.
_PLACES = {
    "parts": ("microagg_core.release.sizing.tasks.PART_BYTES",),
    "partitions": ("microagg_core.blocks.packing.PARTITION_BYTES",),
    "seconds": ("microagg_core.blocks.packing._MOST_SECONDS",),
    "runs": ("microagg_core.release.sizing.tasks.RUN_BYTES",),
    "objects": ("microagg_core.release.sizing.tasks.OBJECT_BYTES",),
    "files": ("microagg_core.blocks.packing.FILE_BYTES",),
    "connections": (
        "microagg_core.release.sizing.tasks.PARALLEL_REQUESTS",
        "microagg_core.release.sizing.forecast.PARALLEL_REQUESTS",
    ),
    "keys": ("microagg_core.release.sizing.tasks.TASK_KEYS",),
}


@contextmanager
def changed(wishes: dict[str, float]) -> Iterator[None]:
    """With limits of the planner as they are wished for."""
    with ExitStack() as stack:
        for name, value in wishes.items():
            for place in _PLACES.get(name, ()):
                stack.enter_context(patch(place, int(value) if name != "seconds" else value))
        yield


def figures_with(wishes: dict[str, float]) -> MeasuredFigures:
    figures = measured_figures()
    times, dispatching = wishes.get("flow", 1.0), wishes.get("dispatch", 1.0)
    flow = {stage: {name: value * times for name, value in of.items()} for stage, of in figures.flow.items()}
    dispatch = {name: value * (1.0 if name == "start" else dispatching) for name, value in figures.dispatch.items()}
    return replace(figures, flow=flow, dispatch=dispatch)


def simulate(
    description: Description, workers: Sequence[int], wishes: dict[str, float], **place: float
) -> list[Forecast]:
    figures = figures_with(wishes)
    with changed(wishes):
        work = Workload(description, figures)
        ahead = int(wishes.get("ahead", pool._AHEAD))
        return [
            replace(
                forecast_at(work, place_of(description, figures, workers=n, ahead=ahead, **place)),
                description=replace(description, workers=n),
            )
            for n in workers
        ]


def like_release_at_scale(given: dict[str, Any], describe: str, cores: int) -> Forecast:
    """The release of ``release_at_scale.py``, whose workers, bucket and flow share the cores of one machine."""
    files = max(1, int(PART_BYTES // (_FILE_BYTES + OPENING_BYTES)))
    given = {**given, "part_rows": files * 1_000_000, "max_records": 0, **_NEAR}
    description = read_description(describe, given)
    store, workers = description.store, description.workers
    figures = measured_figures()
    work = Workload(description, figures)
    steps = work.steps.values()
    computing = sum(float(tasks.cpu.sum()) for tasks in steps)
    serving = sum(float(served_seconds(tasks, figures).sum()) for tasks in steps) if store == "s3" else 0.0
    crowd = max(1.0, workers * (1 + serving / computing) / cores)
    return forecast_at(work, place_of(description, figures, speed=1 / crowd))


def served_seconds(tasks: StepTasks, figures: MeasuredFigures) -> Any:
    moved, asked = tasks.bytes_read + tasks.bytes_written, tasks.reads + tasks.writes
    return figures.remote["server_request"] * asked + figures.remote["server_byte"] * moved


# --- Telling -------------------------------------------------------------------------------------------------


def table(forecasts: Sequence[Forecast]) -> list[str]:
    """A line for each number of workers: time, efficiency, and the shares of what is lost."""
    names = ("computing", "store", "flow", "handing_out", "tails", "failures")
    lines = [f"{'workers':>8}{'wall':>14}" + "".join(f"{name:>13}" for name in names) + "  binds"]
    for one in forecasts:
        shares = "".join(f"{one.losses[name]:>13.1%}" for name in names)
        lines.append(f"{one.description.workers:>8,}{duration(one.seconds):>14}{shares}  {one.binds}")
    return lines


def account(one: Forecast) -> list[str]:
    traffic = one.traffic
    return [
        f"{one.description.rows:,} rows, {one.keys:,} keys, refine {one.description.refine}: {one.blocks:,} blocks, "
        f"{one.partitions:,} partitions, {one.parts:,} parts, {one.files:,} files",
        f"CPU {one.all_cpu_seconds:,.0f} s of tasks, {one.kernel_seconds:,.0f} s of them in kernels; "
        f"{one.flow_cpu_seconds:,.1f} s of the flow",
        f"{traffic['gets']:,.0f} reads, {traffic['puts']:,.0f} writes, {traffic['objects']:,.0f} objects, "
        f"{size_in_words(traffic['work_bytes'])} written to the work area",
        f"a worker needs {size_in_words(one.worker_bytes)}, the flow {size_in_words(one.flow_bytes)}",
    ]


def by_step(one: Forecast) -> list[str]:
    lines = []
    for stage in one.stages:
        lines.append(f"{stage.name:<12}{stage.seconds:>10.1f} s   the flow alone {stage.flow_seconds:.1f} s")
        lines += [
            f"  {s.step:<12}{s.seconds:>8.1f} s   {s.tasks:>6} tasks  CPU {one.cpu_seconds[s.step]:,.1f}  "
            f"store {s.store:,.1f}  handing out {s.handing_out:,.1f}  tail {s.tail:,.1f}  lost {s.lost:,.1f}"
            for s in stage.steps
        ]
    return lines


def _wishes(texts: Sequence[str]) -> dict[str, float]:
    pairs = (text.partition("=")[::2] for text in texts)
    return {name: read_number(value) for name, value in pairs}


def main() -> None:
    """Read the arguments, simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--describe", default="", help="as microagg plan --describe; added to a billion rows")
    parser.add_argument("--workers", default=",".join(map(str, WORKERS)))
    parser.add_argument("--failures", type=float, default=0.0, help="of a worker, an hour")
    parser.add_argument("--detection", type=float, default=30.0, help="seconds until a worker's death is noticed")
    parser.add_argument("--what-if", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--like", choices=["release_at_scale"])
    parser.add_argument("--rows", type=float, default=100e6)
    parser.add_argument("--blocks", type=float, default=20_000)
    parser.add_argument("--refine", default="off")
    parser.add_argument("--store", choices=["s3", "disk"], default="s3")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--steps", action="store_true", help="every step, for the most workers")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    workers = [int(read_number(n)) for n in a.workers.split(",")]
    if a.like:
        given = {"rows": int(a.rows), "keys": int(a.blocks), "refine": a.refine, "store": a.store}
        forecasts = [like_release_at_scale({**given, "workers": workers[0]}, a.describe, a.cores)]
    else:
        description = read_description(f"{BILLION},{a.describe}")
        forecasts = simulate(description, workers, _wishes(a.what_if), failures=a.failures, detection=a.detection)
    print(json.dumps([one.document() for one in forecasts], indent=1) if a.json else "\n".join(told(forecasts, a)))


def told(forecasts: Sequence[Forecast], wish: Any) -> list[str]:
    lines = [*account(forecasts[-1]), "", *table(forecasts)]
    if wish.like:
        start = measured_figures().dispatch["start"]
        lines.append(f"\neach worker starts with {start:.1f} CPU s, not in those of the tasks")
        lines += ["", *("  ".join(f"{cell:>12}" for cell in row) for row in forecast_stages(forecasts[-1]))]
    if wish.like or wish.steps:
        lines += ["", *by_step(forecasts[-1])]
    return lines


if __name__ == "__main__":
    main()
