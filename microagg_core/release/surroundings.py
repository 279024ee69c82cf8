"""What a machine that is to work for a release finds around it.

Input, work area and output in reach, compiled kernels, its clock, its disk, the way to the store, credentials.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from microagg_core.compiling import is_compiled
from microagg_core.errors import ClusterError, MicroaggError, StorageError, sanitized
from microagg_core.kernels.machine_code.code_cache import code_folders
from microagg_core.release.context import work_store
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.inputs import input_files, open_input
from microagg_core.store.layout import LATEST, PROBES
from microagg_core.store.objects import Store
from microagg_core.store.probe import seconds_for_a_megabyte
from microagg_core.store.urls import shown


def access_problem(spec: dict[str, Any], probe: str | None = None) -> tuple[str, str] | None:
    """Name what is out of reach from here by the kind of error and its sentence; None where all is well.

    ``probe`` is an object that whoever asks has put into the work area.
    """
    try:
        _reach(ReleaseSpec.model_validate(spec), probe)
    except Exception as error:
        safe = sanitized(error, "looking at the input, the work area and the output")
        return safe.kind, safe.message
    return None


def kernels_problem(spec: dict[str, Any]) -> tuple[str, str] | None:
    """Explain why no compiled kernels can be had here: a worker's memory is for rows, so it must not compile itself."""
    release = ReleaseSpec.model_validate(spec)
    if code_folders().write is not None or is_compiled(release.algorithm.name, release.effort, release.k):
        return None
    places = ", ".join(map(str, code_folders().tried)) or "any folder"
    return ClusterError.kind, (
        f"it has no compiled kernels and can keep none in {places}; name a folder that it can write in "
        "MICROAGG_CACHE_DIR, or have its image run microagg warm"
    )


@contextmanager
def work_probe(spec: ReleaseSpec) -> Iterator[str | None]:
    """Put an object into the work area while the block lasts; None where that fails, as those who work there will."""
    work, probe = work_store(spec), f"{PROBES}/{uuid.uuid4().hex}"
    try:
        work.put(probe, b"put by whoever starts the release\n")
    except MicroaggError:
        yield None
        return
    try:
        yield probe
    finally:
        with suppress(MicroaggError):
            work.delete(probe)


def _reach(spec: ReleaseSpec, probe: str | None) -> None:
    """Read a byte of the input, write and remove an object of the work area, look at the output."""
    first = input_files(spec.input.url, spec.input.storage_options)[0]
    with open_input(first.url, spec.input.storage_options) as file:
        file.read(1)
    work = work_store(spec)
    try_work_area(work)
    if probe is not None and not work.exists(probe):
        raise StorageError(
            f"{shown(work.url)} is another folder there than where the release is started, so what one writes the "
            "other never sees; give both the same file system at this path, or make the work area a bucket"
        )
    Store(spec.output.url, dict(spec.output.storage_options)).exists(LATEST)


def try_work_area(work: Store) -> None:
    """Write, list and remove an object of the work area, before there are rows that would have to stay.

    >>> try_work_area(Store("memory://work-area"))
    """
    probe = f"{PROBES}/{uuid.uuid4().hex}"
    work.put(probe, b"reached\n")
    work.list(PROBES)
    work.delete(probe)


@dataclass(frozen=True)
class Surroundings:
    """Surroundings of a worker: clock, disk, kernels, storage, credentials."""

    #: Seconds since 1970.
    clock: float
    #: On the disk of its temporary files.
    free_bytes: int
    #: Whether it has the kernels that the release needs compiled.
    is_warm: bool
    #: What it took to write a megabyte to the work area, and to read it again; None where that is out of reach.
    seconds_out: float | None
    seconds_back: float | None
    #: Which variables of the environment that tell of credentials are set; never what they hold.
    variables: tuple[str, ...]
    #: When those of the environment end, where they say.
    end_of_credentials: str | None


#: Credentials that end are a token beside a key; who fetches them says when in the second.
TOKEN, END = "AWS_SESSION_TOKEN", "AWS_CREDENTIAL_EXPIRATION"


def surroundings(spec: dict[str, Any]) -> Surroundings:
    """Look around, where the work of a release with this spec will be done."""
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
