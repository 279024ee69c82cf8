"""How many cores this process may use, which in a container are mostly fewer than the machine has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS, _OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def usable_cores() -> int:
    """The cores on which the system lets this process run, and no more than its share of their time fills.

    >>> 1 <= usable_cores() <= (os.cpu_count() or 1)
    True
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *(int(share) for share in shares_of_time(_GROUPS, _OWN_GROUP))]))


def shares_of_time(groups: Path, own_group: Path) -> Iterator[float]:
    """The limits that control groups, of the second version or the first, set to this process, in cores.

    Args:
        groups: where the system shows them.
        own_group: the file that names those of this process.
    """
    with suppress(OSError, ValueError):
        named = [line.split(":", 2)[2].strip("/") for line in own_group.read_text().splitlines() if line[:3] == "0::"]
        # A group has no more than those that it is in; in a container, its own is often the first there is.
        for folder in {groups, *(groups / part for name in named for part in _with_parents(name))}:
            yield from _share(folder / "cpu.max")
    with suppress(OSError, ValueError):
        quota = int((groups / "cpu" / "cpu.cfs_quota_us").read_text())
        if quota > 0:
            yield quota / int((groups / "cpu" / "cpu.cfs_period_us").read_text())


def _with_parents(name: str) -> Iterator[str]:
    parts = Path(name).parts
    return ("/".join(parts[: i + 1]) for i in range(len(parts)))


def _share(limit: Path) -> Iterator[float]:
    with suppress(OSError, ValueError):
        quota, period = limit.read_text().split()
        if quota != "max":
            yield int(quota) / int(period)
