"""What a machine that is to work for a release finds around it: its clock, its disk, kernels, the way to the store."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from microagg_core.compiling import is_compiled
from microagg_core.errors import MicroaggError
from microagg_core.release.steps.work import work_store
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import PROBES
from microagg_core.store.probe import seconds_for_a_megabyte


@dataclass(frozen=True)
class Surroundings:
    """What a worker finds around it.

    Args:
        clock: seconds since 1970.
        free_bytes: on the disk of its temporary files.
        is_warm: whether it has the kernels that the release needs compiled.
        seconds_out: what it took to write a megabyte to the work area; None where that is out of reach.
        seconds_back: what it took to read it again.
        variables: which variables of the environment that tell of credentials are set; never what they hold.
        end_of_credentials: when those of the environment end, where they say.
    """

    clock: float
    free_bytes: int
    is_warm: bool
    seconds_out: float | None
    seconds_back: float | None
    variables: tuple[str, ...]
    end_of_credentials: str | None


#: Credentials that end are a token beside a key; who fetches them says when in the second.
TOKEN, END = "AWS_SESSION_TOKEN", "AWS_CREDENTIAL_EXPIRATION"


def surroundings(spec: dict[str, Any]) -> Surroundings:
    """Look around; runs where the work will be done.

    Args:
        spec: a release spec as plain values.
    """
    release = ReleaseSpec.model_validate(spec)
    out: float | None = None
    back: float | None = None
    with suppress(MicroaggError):  # said by who asks whether it is in reach
        out, back = seconds_for_a_megabyte(work_store(release), PROBES)
    return Surroundings(
        clock=time.time(),
        free_bytes=shutil.disk_usage(tempfile.gettempdir()).free,
        is_warm=is_compiled(release.algorithm.name, release.effort, release.k),
        seconds_out=out,
        seconds_back=back,
        variables=tuple(name for name in (TOKEN, END) if os.environ.get(name)),
        end_of_credentials=os.environ.get(END) or None,
    )
