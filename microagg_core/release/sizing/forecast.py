"""A forecast of a release: time by stage, memory, objects, requests, bytes and cost, from its description alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from microagg_core.blocks.memory import RUN_BYTES, STEADY_BYTES, WORKER_BASE_BYTES, grown_size
from microagg_core.blocks.plan import BlockPlan
from microagg_core.release.sizing.description import Description, draw_plan, row_bytes
from microagg_core.release.sizing.tasks import (
    PARALLEL_REQUESTS,
    UPLOAD,
    MeasuredFigures,
    Workload,
    measured_figures,
    measured_steps,
)
from microagg_core.release.sizing.timeline import StepTimes, Timeline, Workplace
from microagg_core.release.step import STAGES

#: Dask pauses workers at this share of their limit.
_USABLE = 0.8
#: Copies of a run's rows that a worker holds while it scatters.
_RUN_COPIES = 4
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
class TimeShares:
    """What keeps workers from computing, each as a share of all their time; with ``computing`` it adds up to 1."""

    computing: float
    #: Waiting for the store.
    store: float
    #: The flow alone is at work, between tasks.
    flow: float
    #: Idle while tasks wait: workers start, the flow hands out, the scheduler places.
    handing_out: float
    #: Idle while others finish the last tasks of a step.
    tails: float
    #: What died with workers, and until they were replaced.
    failures: float

    @property
    def binds(self) -> str:
        """Name the largest loss."""
        losses = {name: value for name, value in vars(self).items() if name != "computing"}
        return max(losses, key=lambda name: losses[name])


@dataclass(frozen=True)
class Traffic:
    """Requests and bytes of a release, and the objects that it leaves in the work area until its end."""

    gets: float
    puts: float
    objects: float
    input_bytes: float
    work_bytes: float
    output_bytes: float


@dataclass(frozen=True)
class Forecast:
    """What a release would take.

    Attributes:
        description: of it.
        keys, blocks, partitions, files, parts: what is planned.
        stages: how each goes.
        cpu_seconds: of all tasks, by step; and of the flow.
        kernel_seconds: of the algorithm and its refinement within them.
        worker_bytes: memory that each worker needs; ``flow_bytes``: the flow.
        losses: where the workers' time goes.
        traffic: requests and bytes.
    """

    description: Description
    keys: int
    blocks: int
    partitions: int
    files: int
    parts: int
    stages: tuple[StageTimes, ...]
    cpu_seconds: dict[str, float]
    flow_cpu_seconds: float
    kernel_seconds: float
    worker_bytes: int
    flow_bytes: int
    losses: TimeShares
    traffic: Traffic
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
    def efficiency(self) -> float:
        return self.losses.computing

    @property
    def costs(self) -> dict[str, float]:
        """Price cores while the release is made, requests, and what lies in the work area."""
        one, hours = self.description, self.seconds / 3600
        return {
            "cores": (one.lanes + 1) * hours * one.core_hour,
            "puts": self.traffic.puts * one.put,
            "gets": self.traffic.gets * one.get,
            "work area": self.traffic.work_bytes / 1e9 * one.gb_month * hours / _MONTH_HOURS,
        }

    @property
    def output_month(self) -> float:
        """Price a month of the release where it lies."""
        return self.traffic.output_bytes / 1e9 * self.description.gb_month

    def document(self) -> dict[str, object]:
        return {
            "description": self.description.document(),
            **{name: getattr(self, name) for name in ("keys", "blocks", "partitions", "files", "parts")},
            "seconds": self.seconds,
            "stages": [{**vars(stage), "steps": [vars(step) for step in stage.steps]} for stage in self.stages],
            "cpu_seconds": {**self.cpu_seconds, "flow": self.flow_cpu_seconds},
            "kernel_seconds": self.kernel_seconds,
            "efficiency": self.efficiency,
            "losses": vars(self.losses),
            "binds": self.losses.binds,
            "measured": self.measured,
            "worker_bytes": self.worker_bytes,
            "flow_bytes": self.flow_bytes,
            "traffic": vars(self.traffic),
            "costs": {**self.costs, "sum": sum(self.costs.values()), "output a month": self.output_month},
        }


def stage_of(step: str) -> str:
    """Name the stage that does a step, or copies files to the output."""
    return "publish" if step == UPLOAD else measured_steps()[step].stage


def place_of(description: Description, figures: MeasuredFigures, **changes: float) -> Workplace:
    one, dispatch = description, figures.dispatch
    remote = one.store == "s3"
    given = {
        "workers": one.workers,
        "threads": one.threads,
        "speed": one.speed,
        "latency": one.latency if remote else 0.0,
        "bandwidth": one.bandwidth if remote else 1e12,
        "store_bandwidth": one.store_bandwidth if remote else 1e15,
        "gets": one.gets if remote else 1e12,
        "puts": one.puts if remote else 1e12,
        "submit": dispatch["submit"],
        "take": dispatch["take"],
        "scheduler": dispatch["scheduler"],
        "start": dispatch["start"],
        "failures": one.failures,
    }
    return Workplace(**{**given, **changes})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Forecaster:
    """The tasks of a description, which may be done at several places."""

    description: Description
    figures: MeasuredFigures

    @cached_property
    def plan(self) -> BlockPlan:
        return draw_plan(self.description)

    @cached_property
    def work(self) -> Workload:
        return Workload(self.description, self.plan, self.figures)

    def flow_seconds(self, stage: str, place: Workplace) -> float:
        """Seconds of a stage in which the flow alone is at work: it computes, and waits for what it reads."""
        requests = self.flow_requests.get(stage, 0.0)
        waits = np.ceil(requests / PARALLEL_REQUESTS) * place.latency
        return self.work.flow_seconds(stage) / place.speed + float(waits)

    @cached_property
    def flow_requests(self) -> dict[str, float]:
        """Requests of the flow itself, by stage."""
        work, one = self.work, self.description
        return {
            "survey": work.n_parts * (1.0 + one.confidential) + 10,
            "plan": len(work.steps["keys"]) + 6.0,
            "scatter": work.n_parts + 1.0,
            "validate": work.n_parts + float(self.plan.n_files),
            "measure": 2.0 * self.plan.n_partitions + self.plan.n_files,
            "publish": 20.0,
            "report": 2 * np.ceil(work.objects / _BULK) + 2,
        }

    def at(self, place: Workplace) -> Forecast:
        line, stages = Timeline(place), []
        for name in STAGES:
            start, alone = line.now, self.flow_seconds(name, place)
            line.wait(alone)
            steps = tuple(line.play(t) for step, t in self.work.steps.items() if stage_of(step) == name)
            stages.append(StageTimes(name, line.now - start, alone, steps))
        work = self.work
        return Forecast(
            description=self.description,
            keys=self.description.keys,
            blocks=self.plan.n_blocks,
            partitions=self.plan.n_partitions,
            files=self.plan.n_files,
            parts=work.n_parts,
            stages=tuple(stages),
            cpu_seconds={step: float(tasks.cpu.sum()) for step, tasks in work.steps.items()},
            flow_cpu_seconds=sum(work.flow_seconds(name) for name in STAGES),
            kernel_seconds=self.kernel_seconds,
            worker_bytes=self.worker_bytes(place.threads),
            flow_bytes=self.flow_bytes,
            losses=shares_of(stages, place),
            traffic=self.traffic,
            measured=self.figures.measured,
        )

    @property
    def kernel_seconds(self) -> float:
        """CPU seconds of the algorithm and of refinement, as measured, with what each block takes besides."""
        figures, parts = self.figures.cpu["anonymize"], self.work.steps["anonymize"].sizes.parts(self.work.columns)
        names = ("kernel", "refined_kernel", "refined_block", "block", "block_quasi")
        return float(sum(figures.get(name, 0.0) * parts[name].sum() for name in names))

    def worker_bytes(self, threads: int) -> int:
        """Memory limit that a worker needs."""
        one = self.description
        task = self.plan.task_bytes(one.info, one.quasi_identifiers, one.k, row_bytes(one))
        run = grown_size(RUN_BYTES, one.rows * row_bytes(one), STEADY_BYTES)
        return int((WORKER_BASE_BYTES + threads * max(task, _RUN_COPIES * run)) / _USABLE)

    @property
    def flow_bytes(self) -> int:
        """Memory of the flow: that of the survey is free again when the plan is made."""
        counts, figures = self.work.counts, self.figures.flow_bytes
        survey, plan = (figures.get(name, 0.0) * counts[name] for name in ("sketch", "key"))
        return int(figures["release"] + max(survey, plan))

    @cached_property
    def traffic(self) -> Traffic:
        """Requests and bytes of all tasks, and of the flow."""
        steps, work = self.work.steps, self.work
        flow = sum(self.flow_requests.values())
        return Traffic(
            gets=float(sum(tasks.reads.sum() for tasks in steps.values())) + flow,
            puts=float(sum(tasks.writes.sum() for tasks in steps.values())) + 20,
            objects=work.objects,
            input_bytes=float(work.input_bytes.sum()),
            work_bytes=float(sum(t.bytes_written.sum() for step, t in steps.items() if step != UPLOAD)),
            output_bytes=float(work.candidate_bytes.sum()),
        )


def shares_of(stages: Sequence[StageTimes], place: Workplace) -> TimeShares:
    """Share out the workers' time, from the first stage to the last."""
    whole = place.lanes * sum(stage.seconds for stage in stages)
    steps = [step for stage in stages for step in stage.steps]
    computing, store, tails, failures = (
        sum(getattr(step, name) for step in steps) / whole for name in ("cpu", "store", "tail", "lost")
    )
    flow = place.lanes * sum(stage.flow_seconds for stage in stages) / whole
    rest = 1.0 - computing - store - flow - tails - failures
    return TimeShares(computing, store, flow, max(0.0, rest), tails, failures)


def forecast(description: Description) -> Forecast:
    """What a release of this description would take.

    Raises:
        DataError: a block has more records than the algorithm can take.

    >>> small, large = (forecast(Description(rows=rows)) for rows in (100_000, 1_000_000))
    >>> small.seconds < large.seconds
    True
    """
    figures = measured_figures()
    return Forecaster(description, figures).at(place_of(description, figures))
