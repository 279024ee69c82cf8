"""A forecast of a release: time by stage, memory, objects, requests, bytes and cost, from its description alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from microagg_core.blocks.memory import WORKER_BASE_BYTES
from microagg_core.release.planning import task_bytes
from microagg_core.release.sizing.description import Description, row_bytes
from microagg_core.release.sizing.tasks import (
    PARALLEL_REQUESTS,
    UPLOAD,
    MeasuredFigures,
    Workload,
    measured_figures,
    measured_steps,
)
from microagg_core.release.sizing.timeline import StepTimes, Timeline, Workplace
from microagg_core.release.step import STAGES, Load
from microagg_core.release.steps.scatter import SCATTER
from microagg_core.store.layout import SHARDS

#: Dask pauses workers at this share of their limit.
_USABLE = 0.8
#: Objects that one request removes or lists.
_BULK = 1000
_MONTH_HOURS = 730.0


@dataclass(frozen=True)
class StageTimes:
    """A stage: seconds, those of them in which the flow alone is at work, and how its tasks went."""

    name: str
    seconds: float
    flow_seconds: float
    steps: tuple[StepTimes, ...]


@dataclass(frozen=True)
class Forecast:
    """Forecast of a release: time, memory, requests, cost."""

    description: Description
    #: What is planned.
    keys: int
    blocks: int
    partitions: int
    files: int
    parts: int
    stages: tuple[StageTimes, ...]
    #: Of all tasks, by step.
    cpu_seconds: dict[str, float]
    flow_cpu_seconds: float
    #: Of the algorithm and its refinement, within those of all tasks.
    kernel_seconds: float
    #: Memory that each worker needs, and the flow.
    worker_bytes: int
    flow_bytes: int
    #: What workers do, as shares of all their time that add up to 1: ``computing``, waiting for the ``store``, while
    #: the ``flow`` alone is at work between tasks, idle while tasks wait (``handing_out``) or others finish the last
    #: tasks of a step (``tails``), and what died with workers, until they were replaced (``failures``).
    losses: dict[str, float]
    #: Requests (``gets``, ``puts``), ``objects`` that stay in the work area until its end, and bytes: of the input
    #: (``input_bytes``), and written to work area and output.
    traffic: dict[str, float]
    #: When and where the figures were measured.
    measured: str

    @property
    def seconds(self) -> float:
        """From the start to the manifest."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def all_cpu_seconds(self) -> float:
        return sum(self.cpu_seconds.values())

    @property
    def binds(self) -> str:
        """Name the largest loss."""
        losses = {name: share for name, share in self.losses.items() if name != "computing"}
        return max(losses, key=lambda name: losses[name])

    @property
    def costs(self) -> dict[str, float]:
        """Price cores while the release is made, requests, and what lies in the work area."""
        one, hours = self.description, self.seconds / 3600
        return {
            "cores": (one.lanes + 1) * hours * one.core_hour,
            "puts": self.traffic["puts"] * one.put,
            "gets": self.traffic["gets"] * one.get,
            "work area": self.traffic["work_bytes"] / 1e9 * one.gb_month * hours / _MONTH_HOURS,
        }

    @property
    def output_month(self) -> float:
        """Price a month of the release where it lies."""
        return self.traffic["output_bytes"] / 1e9 * self.description.gb_month

    def document(self) -> dict[str, object]:
        return {
            "description": asdict(self.description),
            **{name: getattr(self, name) for name in ("keys", "blocks", "partitions", "files", "parts")},
            "seconds": self.seconds,
            "stages": [{**vars(stage), "steps": [vars(step) for step in stage.steps]} for stage in self.stages],
            "cpu_seconds": {**self.cpu_seconds, "flow": self.flow_cpu_seconds},
            "kernel_seconds": self.kernel_seconds,
            "efficiency": self.losses["computing"],
            "losses": self.losses,
            "binds": self.binds,
            "measured": self.measured,
            "worker_bytes": self.worker_bytes,
            "flow_bytes": self.flow_bytes,
            "traffic": self.traffic,
            "costs": {**self.costs, "sum": sum(self.costs.values()), "output a month": self.output_month},
        }


def place_of(description: Description, figures: MeasuredFigures, **changes: float) -> Workplace:
    one, dispatch = description, figures.dispatch
    given = {name: getattr(one, name) for name in ("workers", "threads", "speed", "failures")}
    given |= {name: dispatch[name] for name in ("submit", "take", "scheduler", "start")}
    if one.store == "s3":
        names = ("latency", "bandwidth", "store_bandwidth")
        given |= {name: getattr(one, name) for name in names}
        given |= {name: len(SHARDS) * getattr(one, name) for name in ("gets", "puts")}
    return Workplace(**{**given, **changes})


def flow_requests(work: Workload) -> dict[str, float]:
    """Count requests of the flow itself, by stage."""
    return {
        "survey": work.n_parts * (1.0 + work.description.confidential) + 10,
        "plan": len(work.steps["keys"].cpu) + 6.0,
        "scatter": work.n_parts + 1.0,
        "validate": work.n_parts + float(work.plan.n_files),
        "measure": 2.0 * work.plan.n_partitions + work.plan.n_files,
        "publish": 20.0,
        "report": 2 * np.ceil(work.objects / _BULK) + 2,
    }


def forecast_at(work: Workload, place: Workplace) -> Forecast:
    """Have the tasks done at a place, stage by stage."""
    line, stages, requests = Timeline(place), list[StageTimes](), flow_requests(work)
    for name in STAGES:
        # The flow alone computes, and waits for what it reads.
        start, waits = line.now, float(np.ceil(requests.get(name, 0.0) / PARALLEL_REQUESTS) * place.latency)
        alone = work.flow_seconds(name) / place.speed + waits
        line.wait(alone)
        own = (tasks for step, tasks in work.steps.items() if _stage_of(step) == name)
        steps = tuple(line.play(tasks) for tasks in own)
        stages.append(StageTimes(name, line.now - start, alone, steps))
    return Forecast(
        description=work.description,
        keys=work.description.keys,
        blocks=work.plan.n_blocks,
        partitions=work.plan.n_partitions,
        files=work.plan.n_files,
        parts=work.n_parts,
        stages=tuple(stages),
        cpu_seconds={step: float(tasks.cpu.sum()) for step, tasks in work.steps.items()},
        flow_cpu_seconds=sum(work.flow_seconds(name) for name in STAGES),
        kernel_seconds=_kernel_seconds(work),
        worker_bytes=_worker_bytes(work, place.threads),
        flow_bytes=_flow_bytes(work),
        losses=_shares(stages, place),
        traffic=_traffic(work, sum(requests.values())),
        measured=work.figures.measured,
    )


def _stage_of(step: str) -> str:
    return "publish" if step == UPLOAD else measured_steps()[step].stage


def _kernel_seconds(work: Workload) -> float:
    """CPU seconds of the algorithm and of refinement, as measured, with what each block takes besides."""
    figures, sizes = work.figures.cpu["anonymize"], work.steps["anonymize"].sizes
    names = ("kernel", "refined_kernel", "refined_block", "block", "block_quasi")
    return float(sum(figures.get(name, 0.0) * sizes[name].sum() for name in names))


def _worker_bytes(work: Workload, threads: int) -> int:
    """Memory limit that a worker needs."""
    one, width = work.description, row_bytes(work.description)
    task = task_bytes(work.plan, one.info, one.quasi_identifiers, one.k, width)
    task = max(task, SCATTER.memory(Load(whole_bytes=one.rows * width)))
    return int((WORKER_BASE_BYTES + threads * task) / _USABLE)


def _flow_bytes(work: Workload) -> int:
    """Memory of the flow: that of the survey is free again when the plan is made."""
    figures = work.figures.flow_bytes
    return int(figures["release"] + max(figures.get(name, 0.0) * work.counts[name] for name in ("sketch", "key")))


def _traffic(work: Workload, of_flow: float) -> dict[str, float]:
    steps = work.steps
    return {
        "gets": float(sum(tasks.reads.sum() for tasks in steps.values())) + of_flow,
        "puts": float(sum(tasks.writes.sum() for tasks in steps.values())) + 20,
        "objects": work.objects,
        "input_bytes": float(work.input_bytes.sum()),
        "work_bytes": float(sum(tasks.bytes_written.sum() for step, tasks in steps.items() if step != UPLOAD)),
        "output_bytes": float(work.candidate_bytes.sum()),
    }


def _shares(stages: Sequence[StageTimes], place: Workplace) -> dict[str, float]:
    """Share out the workers' time, from the first stage to the last."""
    whole = place.lanes * sum(stage.seconds for stage in stages)
    steps = [step for stage in stages for step in stage.steps]
    computing, store, tails, failures = (
        sum(getattr(step, name) for step in steps) / whole for name in ("cpu", "store", "tail", "lost")
    )
    flow = place.lanes * sum(stage.flow_seconds for stage in stages) / whole
    rest = max(0.0, 1.0 - computing - store - flow - tails - failures)
    return {
        "computing": computing, "store": store, "flow": flow,
        "handing_out": rest, "tails": tails, "failures": failures,
    }  # fmt: skip


def forecast(description: Description) -> Forecast:
    """What a release of this description would take.

    >>> small, large = (forecast(Description(rows=rows)) for rows in (100_000, 1_000_000))
    >>> small.seconds < large.seconds
    True
    """
    figures = measured_figures()
    return forecast_at(Workload(description, figures), place_of(description, figures))
