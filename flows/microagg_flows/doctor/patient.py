"""What is looked at: a release's spec as tonight's run would have it, and the workers, once they were asked."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from microagg_core.release.steps.surroundings import Surroundings
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters import WorkerRecord
from microagg_flows.progress import Progress


@dataclass
class Patient:
    """The place that is looked at."""

    spec: ReleaseSpec
    #: Of the release that a run would make now.
    id: str
    now: datetime.datetime
    progress: Progress
    #: What workers say of themselves, and what they find around them; filled in by who asks them.
    records: list[WorkerRecord] = field(default_factory=list)
    around: dict[str, Surroundings] = field(default_factory=dict)
