"""A forecast in words and columns."""

from __future__ import annotations

from microagg_core.release.sizing.forecast import Forecast

STAGE_HEADER = ("stage", "wall", "tasks", "CPU", "flow alone", "of all worker time")
#: What the losses are called.
_LOSSES = {
    "computing": "computing",
    "store": "waiting for the store",
    "flow": "the flow alone at work, between tasks",
    "handing_out": "starting, and waiting to be handed a task",
    "tails": "waiting for the last tasks of a step",
    "failures": "lost with workers that failed",
}


def time_in_words(seconds: float) -> str:
    """Seconds as a person says them.

    >>> time_in_words(4.21), time_in_words(340), time_in_words(10_000)
    ('4.2 s', '5 min 40 s', '2 h 47 min')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return (
        f"{int(seconds) // 60} min {int(seconds) % 60} s" if seconds < 7200 else f"{minutes // 60} h {minutes % 60} min"
    )


def bytes_in_words(n_bytes: float) -> str:
    """Bytes as a person says them.

    >>> bytes_in_words(3e6), bytes_in_words(4e11)
    ('2.9 MiB', '372.5 GiB')
    """
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if n_bytes >= size or unit == "MiB":
            return f"{n_bytes / size:,.1f} {unit}"
    raise AssertionError


def forecast_rows(one: Forecast) -> list[tuple[str, str]]:
    """List what is planned, and what it takes in all."""
    d, traffic = one.description, one.traffic
    enough = "enough" if d.memory >= one.worker_bytes else "TOO LITTLE"
    return [
        ("records", f"{d.rows:,} in {one.parts:,} parts, {d.columns} columns, {one.keys:,} blocking keys"),
        ("plan", f"{one.blocks:,} blocks in {one.partitions:,} partitions, {one.files:,} released files"),
        ("method", f"{d.algorithm}, k={d.k}, refine {d.refine}, {d.quasi_identifiers} quasi-identifiers"),
        ("workers", f"{d.workers:,} of {d.threads} threads"),
        ("wall time", f"{time_in_words(one.seconds)}, {one.efficiency:.0%} of it computing"),
        ("CPU", f"{one.all_cpu_seconds / 3600:,.2f} hours, {one.kernel_seconds / one.all_cpu_seconds:.0%} in kernels; "
                f"the flow {time_in_words(one.flow_cpu_seconds)}"),
        ("memory of a worker", f"{bytes_in_words(one.worker_bytes)}; {bytes_in_words(d.memory)} are {enough}"),
        ("memory of the flow", bytes_in_words(one.flow_bytes)),
        ("objects", f"{traffic.objects:,.0f} in the work area, {one.files:,} at the output"),
        ("requests", f"{traffic.gets:,.0f} that read, {traffic.puts:,.0f} that write"),
        ("bytes", f"{bytes_in_words(traffic.input_bytes)} of input, {bytes_in_words(traffic.work_bytes)} written to "
                  f"the work area, {bytes_in_words(traffic.output_bytes)} released"),
        ("cost", ", ".join(f"{name} {value:,.2f}" for name, value in one.costs.items())
                 + f"; together {sum(one.costs.values()):,.2f}"),
        ("output a month", f"{one.output_month:,.2f}"),
    ]  # fmt: skip


def forecast_stages(one: Forecast) -> list[tuple[str, ...]]:
    return [
        (
            stage.name,
            time_in_words(stage.seconds),
            f"{sum(step.tasks for step in stage.steps):,}",
            time_in_words(sum(one.cpu_seconds[step.step] for step in stage.steps)),
            time_in_words(stage.flow_seconds),
            f"{stage.seconds / one.seconds:.1%}",
        )
        for stage in one.stages
    ]


def loss_rows(one: Forecast) -> list[tuple[str, str]]:
    """List where the workers' time goes, what is next to nothing left out."""
    shares = sorted(vars(one.losses).items(), key=lambda pair: -pair[1])
    return [(f"{share:6.1%}", _LOSSES[name]) for name, share in shares if share >= 0.0005]
