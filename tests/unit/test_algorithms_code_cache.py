"""Compiled kernels on disk: shared by many processes at once, and never a reason to fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: Compiles some kernels and says, with a sum, whether they work, and how many came from disk.
SCRIPT = """
import numpy as np
from microagg_core.kernels import code_cache, exact_sum, jit
X = np.arange(12.0).reshape(2, 6)
frozen = X.copy(); frozen.flags.writeable = False
for data in (X, frozen):
    assert exact_sum.total_of(data, 1, 6)[0].tolist() == [15.0, 45.0]
hits = sum(exact_sum.total_of.stats.cache_hits.values())
print(hits, code_cache.cache_folder())
"""


def _start(folder: Path, script: str = SCRIPT) -> subprocess.Popen[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    hits, folder = out.split(maxsplit=1)
    return int(hits), folder.strip()


def test_many_processes_can_start_at_once_on_an_empty_folder(tmp_path: Path) -> None:
    for process in [_start(tmp_path) for _ in range(4)]:
        _finish(process)
    hits, folder = _finish(_start(tmp_path))
    assert hits == 2, "both entries of the kernel, writable and read-only data, are found again"
    assert Path(folder).parent == tmp_path
    entries = sorted(path.name for path in Path(folder).rglob("*total_of*.nbc"))
    assert len(entries) == 2, "an entry's file is named by what it is for, whoever wrote it"


def test_a_folder_that_cannot_be_made_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert _finish(_start(tmp_path / "file" / "below")) == (0, "None")


def test_a_disk_that_takes_no_more_costs_only_time(tmp_path: Path) -> None:
    no_file_above_100_bytes = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    hits, folder = _finish(_start(tmp_path, no_file_above_100_bytes + SCRIPT))
    assert hits == 0 and not list(Path(folder).rglob("*.nbc"))


def test_functions_of_different_processes_never_have_one_symbol(tmp_path: Path) -> None:
    """Numba counts functions from 1 in each process, and links those of one name and count as one."""
    script = (
        "from microagg_core.kernels.jit import jit\n"
        "double = jit(lambda x: 2 * x)\n"
        "double(4)\n"
        "print(*(done.fndesc.unique_name for done in double.overloads.values()))\n"
    )
    names = {_start(tmp_path, script).communicate(timeout=120)[0] for _ in range(3)}
    assert len(names) == 3 and all("lambda" in name for name in names)
