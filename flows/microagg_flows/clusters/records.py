"""What is known of a worker before it is given work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from microagg_core.errors import MicroaggError


@dataclass(frozen=True)
class WorkerRecord:
    """What one worker says of itself, and what stands against giving it work.

    Args:
        number: from 1, in the order in which the scheduler names them.
        address: where it listens; nothing for the process that was called.
        versions: of Python and of what sends tasks, as far as they are told.
        software: names and versions of what decides a release's bytes there; empty where it could not be told.
        threads: how many tasks it does at a time.
        memory_limit: bytes; 0 where it has no limit.
        memory: bytes in use, as its scheduler knows them.
        access: what of input, work area and output is out of its reach, as a sentence; empty where all is in reach.
        kernels: why it can have no compiled kernels, as a sentence; empty where it can.
        unfit: why a release would not give it work; None where it would.
    """

    number: int
    address: str
    versions: Mapping[str, str]
    software: Mapping[str, str]
    threads: int
    memory_limit: int
    memory: int
    access: str
    kernels: str
    unfit: MicroaggError | None
