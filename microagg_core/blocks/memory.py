"""The one model of memory by which work is cut: who asks how much fits asks here.

What a task then needs stands with its step, and what an algorithm takes besides its records with it in the registry.
All that is cut by these figures depends on the data and the spec alone, never on the cluster. The cluster is judged by
them: whether a worker has what it needs itself, and whether what is left carries its tasks.
"""

from __future__ import annotations

import math

#: What a worker's process needs beside the rows it works on: Python with its libraries, and compiled kernels. Measured
#: at the end of the survey of narrow rows; solvers, for k = 2 and thorough refinement, are in it.
WORKER_BASE_BYTES = 340 * 2**20

#: The survey: digests of units in one run, and compared at a time by one task, 16 bytes each.
RUN_UNITS, TASK_UNITS = 2_000_000, 2_000_000
#: Blocking keys, counted in all parts, that one task merges.
TASK_KEYS = 1_000_000
#: What whoever works on an input part holds for each of its keys.
ROUTE_BYTES = 64
#: Staging: rows are packed when they reach this many bytes, while a worker holds about four copies of them, and
#: written when what is packed reaches as many as these.
RUN_BYTES, OBJECT_BYTES = 24 * 2**20, 32 * 2**20
#: Anonymizing: the most bytes of staged rows in one partition.
PARTITION_BYTES = 24 * 2**20
#: What an algorithm may take for one block, besides its rows.
BLOCK_BYTES = 4 * PARTITION_BYTES
#: Assembling: rows of a released file aim at this many bytes in memory.
FILE_BYTES = 32 * 2**20

#: What a release is cut by the figures above up to: bytes of staged rows, parts of the input that these come in, and
#: keys counted in all parts.
#: Who reads slices asks for one of every piece that was written, so requests are pieces times pieces: beyond this the
#: pieces grow with the square root of the whole, and requests as the rows do.
STEADY_BYTES, STEADY_PARTS, STEADY_KEYS = 8 * 2**30, 40, 64_000_000
#: No piece grows further, so that a worker of 2 GiB carries any release (640 MiB of rows and copies, and its base).
_MOST_GROWTH = 4.0


def grown_size(size: int, whole: float, steady: float) -> int:
    """Let the size of an object grow with the root of a whole that is larger than is steady; the same for every worker.

    >>> grown_size(24, 50, 100), grown_size(24, 400, 100), grown_size(24, 1e9, 100)
    (24, 48, 96)
    """
    return int(size * min(max(1.0, math.sqrt(whole / steady)), _MOST_GROWTH))


def holds_a_worker(limit: int, usable: float) -> bool:
    """Tell whether a worker can run at all below the share of its memory limit at which it is paused.

    >>> holds_a_worker(400 * 2**20, 0.8), holds_a_worker(600 * 2**20, 0.8)
    (False, True)
    """
    return limit * usable >= WORKER_BASE_BYTES


def bytes_per_task(limit: int, usable: float, threads: int) -> int:
    """Divide a worker's memory limit, below the share at which it is paused, among its tasks.

    >>> bytes_per_task(600 * 2**20, 0.8, 2) // 2**20
    70
    """
    return max(0, (int(usable * limit) - WORKER_BASE_BYTES) // threads)
