"""What one task takes, by its size: sums of measured figures, one for each thing that its size is made of.

The figures lie in ``figures.json``, with the day and the machine on which ``tests/benchmark/calibrate.py`` measured
them; nobody writes them by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.release.steps.sizing.description import Description
from microagg_core.release.steps.sizing.drawing import row_bytes

#: The steps of a release, in their order, and the stage of each.
STAGE_OF_STEP = {
    "survey": "survey",
    "units": "survey",
    "keys": "survey",
    "scatter": "scatter",
    "anonymize": "anonymize",
    "assemble": "anonymize",
    "check-files": "validate",
    "upload": "publish",
}
STAGES = ("survey", "plan", "scatter", "anonymize", "validate", "measure", "publish", "report")


@dataclass(frozen=True)
class Columns:
    """The columns of an input, as far as they make tasks longer."""

    quasi_identifiers: int
    confidential: int
    blocking: int
    identifiers: int
    row_bytes: float

    @classmethod
    def of(cls, description: Description) -> Columns:
        """Those of a description."""
        one = description
        return cls(one.quasi_identifiers, one.confidential, one.blocking, one.identifiers, row_bytes(one))


@dataclass(frozen=True)
class TaskSizes:
    """How large the tasks of one step are, an entry a task; what a step knows nothing of is left at 0."""

    rows: Floats
    #: Slices that it is sent, each a range of bytes, and streams in them, one for each time that rows were packed.
    slices_read: Floats = field(default_factory=lambda: np.zeros(1))
    streams_read: Floats = field(default_factory=lambda: np.zeros(1))
    slices_written: Floats = field(default_factory=lambda: np.zeros(1))
    streams_written: Floats = field(default_factory=lambda: np.zeros(1))
    blocks: Floats = field(default_factory=lambda: np.zeros(1))
    #: Blocking keys of its own part or range, as often as they were counted; and those of the whole plan.
    keys: Floats = field(default_factory=lambda: np.zeros(1))
    #: Keys as often as they are met in another batch of rows.
    batch_keys: Floats = field(default_factory=lambda: np.zeros(1))
    routes: Floats = field(default_factory=lambda: np.zeros(1))
    #: What the algorithm takes for its blocks, by the registry.
    kernel_seconds: Floats = field(default_factory=lambda: np.zeros(1))
    #: Whether groups are refined, which has a cost of its own for each block.
    refined: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    def parts(self, columns: Columns) -> dict[str, Floats]:
        """What the size is made of, by the names that figures have."""
        return {
            "task": np.ones(len(self)),
            "row": self.rows,
            "row_quasi": self.rows * columns.quasi_identifiers,
            "row_confidential": self.rows * columns.confidential,
            "row_identifier": self.rows * columns.identifiers,
            "row_byte": self.rows * columns.row_bytes,
            "slice_read": self.slices_read,
            "stream_read": self.streams_read,
            "stream_written": self.streams_written,
            "block": self.blocks,
            "block_quasi": self.blocks * columns.quasi_identifiers,
            "key": self.keys,
            "batch_key": self.batch_keys,
            "route": self.routes,
            "kernel": self.kernel_seconds * (not self.refined),
            "refined_kernel": self.kernel_seconds * self.refined,
            "refined_block": self.blocks * self.refined,
        }


@dataclass(frozen=True)
class MeasuredFigures:
    """Measured figures: seconds and bytes by step, and the flow's own work by stage."""

    measured: str
    #: CPU seconds of a task, and bytes that it writes, by step.
    cpu: Mapping[str, Mapping[str, float]]
    written: Mapping[str, Mapping[str, float]]
    #: CPU seconds of the flow itself between its tasks, by stage and by what they are for; and bytes of its memory.
    flow: Mapping[str, Mapping[str, float]]
    flow_bytes: Mapping[str, float]
    #: CPU seconds of a worker for each request to a remote store and each byte that it moves, and of its server.
    remote: Mapping[str, float]
    #: CPU seconds of the flow for each task that it hands out and takes back, and of the scheduler.
    dispatch: Mapping[str, float]
    #: Bytes of an input row as it is stored, for each byte of it, by format.
    stored: Mapping[str, float]

    def seconds(self, step: str, sizes: TaskSizes, columns: Columns) -> Floats:
        """CPU seconds of each task."""
        return _sum(self.cpu[step], sizes.parts(columns), len(sizes))

    def bytes_written(self, step: str, sizes: TaskSizes, columns: Columns) -> Floats:
        """Bytes that each task writes."""
        return _sum(self.written[step], sizes.parts(columns), len(sizes))


def _sum(figures: Mapping[str, float], parts: Mapping[str, Floats], n: int) -> Floats:
    return sum((value * parts[name] for name, value in figures.items()), np.zeros(n))


@lru_cache(maxsize=1)
def measured_figures() -> MeasuredFigures:
    """The figures that are kept with the package."""
    return MeasuredFigures(
        **json.loads(files("microagg_core.release.steps.sizing").joinpath("figures.json").read_text(encoding="utf-8"))
    )
