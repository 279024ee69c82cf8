"""What compiling costs, what a process needs once it is done, and what the pinned target is worth.

    python tests/benchmark/compiling.py [--records 100000]

Compiles the default path into an empty folder, in a process of its own, and prints its CPU seconds, compilations and
memory; then the memory of processes that find everything compiled; then the time of refinement by code for the
pinned target and for this very processor, which must make the same groups.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
MIB = 2**20

COMPILE = """
import json, sys
from numba.core import event
count = {"ours": 0, "numba's": 0}
class Listener(event.Listener):
    def on_start(self, e): pass
    def on_end(self, e):
        ours = e.data["dispatcher"].py_func.__module__.startswith("microagg_core")
        count["ours" if ours else "numba's"] += 1
event.register("numba:compile", Listener())
from microagg_core.compiling import needed_parts
from microagg_core.compiling.compilation import stamp
from microagg_core.compiling.problems import solve
for part in needed_parts(*json.loads(sys.argv[1])):
    solve(part)
    stamp(part)
print(json.dumps(count))
"""
#: A worker of Dask, but for Dask's own threads: what it imports, and a small release.
WORKER = """
import json, sys, tempfile
import distributed
import microagg_core.runner
from pathlib import Path
from inputs.people import people
from releasing.runs import run_stages, start, write_release
with tempfile.TemporaryDirectory() as folder:
    run_stages(start(write_release(Path(folder), [people(2000)], **json.loads(sys.argv[1]))))
print("{}")
"""
REFINE = """
import hashlib, json, sys, time
import numpy as np
from microagg_core.group.algorithms import algorithms
from microagg_core.group.refine.refinement import neighbour_count, refine_near
from microagg_core.group.refine.neighbours import Records
X = np.random.default_rng(0).random((int(sys.argv[1]), 4))
labels = algorithms()["mdav"].run(X, 5)
records, seconds = Records.of(X, neighbour_count(len(X), 5)), []
refine_near(records, labels, 5, "fast", 0)
for _ in range(5):
    start = time.process_time()
    refined = refine_near(records, labels, 5, "fast", 0)
    seconds.append(time.process_time() - start)
print(json.dumps([min(seconds), hashlib.sha256(refined.tobytes()).hexdigest()]))
"""
HOST = "import llvmlite.binding as b; print(b.get_host_cpu_name(), b.get_host_cpu_features().flatten())"


def run(script: str, argument: str, **surroundings: str) -> tuple[Any, float, float]:
    """What a fresh process prints, its CPU seconds, and the most memory it had, in MiB."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS), **surroundings}
    process = subprocess.Popen([sys.executable, "-c", script, argument], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"a process of the benchmark failed: {status}")
    peak = usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024
    return json.loads(said), usage.ru_utime + usage.ru_stime, peak / MIB


def show_compiling(cache: str) -> None:
    """The cold path, and the memory of those who come after it."""
    count, seconds, peak = run(COMPILE, json.dumps(["mdav", "fast", 5]), MICROAGG_CACHE_DIR=cache)
    code = sum(path.stat().st_size for path in Path(cache).rglob("*.code")) / MIB
    print(f"compiling mdav with refine: fast   {seconds:6.1f} CPU s   {peak:6.0f} MiB   {code:.1f} MiB kept")
    print(f"specializations                    {sum(count.values()):6} ({count})")
    for words, change in (
        ("default", {}),
        ("refine: off", {"refine": "off"}),
        ("refine: thorough", {"refine": "thorough"}),
        ("two_mu_approx, k=2", {"algorithm": "two_mu_approx", "k": 2}),
    ):
        run(WORKER, json.dumps(change), MICROAGG_CACHE_DIR=cache)
        _, seconds, peak = run(WORKER, json.dumps(change), MICROAGG_CACHE_DIR=cache)
        print(f"warm, 2,000 records: {words:18} {seconds:6.1f} CPU s   {peak:6.0f} MiB")


def show_target(cache: str, records: int) -> None:
    """Refinement by code for the pinned target and for this processor."""
    name, features = subprocess.run(
        [sys.executable, "-c", HOST], check=True, capture_output=True, text=True
    ).stdout.split()
    (pinned, groups), *_ = run(REFINE, str(records), MICROAGG_CACHE_DIR=cache)
    own = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    (host, same), *_ = run(REFINE, str(records), MICROAGG_CACHE_DIR=cache, **own)
    print(f"refining {records:,} x 4: pinned target {pinned:.2f} s, {name} {host:.2f} s, {host / pinned:.2f} times")
    print("groups: " + ("identical" if groups == same else "DIFFERENT"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    records = parser.parse_args().records
    with tempfile.TemporaryDirectory() as cache:
        show_compiling(cache)
        show_target(cache, records)


if __name__ == "__main__":
    main()
