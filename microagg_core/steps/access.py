"""Whether a machine that is to work for a release has what it needs: input, work area and output in reach, kernels."""

from __future__ import annotations

import uuid
from typing import Any

from microagg_core.compiling import is_compiled
from microagg_core.errors import ClusterError, sanitized
from microagg_core.kernels.machine_code.code_folders import code_folders
from microagg_core.spec.release import ReleaseSpec
from microagg_core.steps.work import work_store
from microagg_core.storage.inputs import input_files, open_input
from microagg_core.storage.layout import LATEST, PROBES
from microagg_core.storage.objects import Store


def access_problem(spec: dict[str, Any]) -> tuple[str, str] | None:
    """What is out of reach from here: the kind of error and its sentence; None where all is well.

    Args:
        spec: a release spec as plain values.
    """
    try:
        _reach(ReleaseSpec.model_validate(spec))
    except Exception as error:
        safe = sanitized(error, "looking at the input, the work area and the output")
        return safe.kind, safe.message
    return None


def kernels_problem(spec: dict[str, Any]) -> tuple[str, str] | None:
    """Why no compiled kernels can be had here: a worker's memory is for rows, so it must not compile itself."""
    release = ReleaseSpec.model_validate(spec)
    if code_folders().write is not None or is_compiled(release.algorithm.name, release.effort, release.k):
        return None
    places = ", ".join(map(str, code_folders().tried)) or "any folder"
    return ClusterError.kind, (
        f"it has no compiled kernels and can keep none in {places}; name a folder that it can write in "
        "MICROAGG_CACHE_DIR, or have its image run microagg warm"
    )


def _reach(spec: ReleaseSpec) -> None:
    """Read a byte of the input, write and remove an object of the work area, look at the output.

    Raises:
        MicroaggError: one of them is out of reach.
    """
    first = input_files(spec.input.url, spec.input.storage_options)[0]
    with open_input(first.url, spec.input.storage_options) as file:
        file.read(1)
    try_work_area(work_store(spec))
    Store(spec.output.url, dict(spec.output.storage_options)).exists(LATEST)


def try_work_area(work: Store) -> None:
    """Write, list and remove an object of the work area, before there are rows that would have to stay.

    Raises:
        StorageError: one of these cannot be done, or versions of what is removed are kept.

    >>> try_work_area(Store("memory://work-area"))
    """
    probe = f"{PROBES}/{uuid.uuid4().hex}"
    work.put(probe, b"reached\n")
    work.list(PROBES)
    work.delete(probe)
