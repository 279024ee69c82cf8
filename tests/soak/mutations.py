"""Break the product in one place after another, and see whether the tests that should notice do.

    python tests/soak/mutations.py                    every fault of the table, which takes an hour
    python tests/soak/mutations.py --area kernels     those of one area; --only 3,7 takes some of them by number
    python tests/soak/mutations.py --stale            only say which faults no longer find their text

A fault is an exact text of one source, found wherever that is now, and another in its place. It is made in a copy of
the sources; the tests named beside it run until the first fails. Exit code 1 where a fault is missed or stale.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from soak.seeded_faults import FAULTS, Fault  # noqa: E402 - found through the path

SOURCES = ("microagg_core", "flows/microagg_flows")
COPIED = ("microagg_core", "flows", "tests", "deploy", "infra", "pyproject.toml", "README.md", "CITATION.cff")
MOST_SECONDS = 300


@dataclass(frozen=True)
class Outcome:
    fault: Fault
    verdict: str
    seconds: float
    detail: str = ""


def place_of(fault: Fault, root: Path) -> Path | None:
    """Find the one source that holds a fault's text, once."""
    sources = [path for folder in SOURCES for path in sorted((root / folder).rglob("*.py"))]
    holding = [path for path in sources if fault.within in str(path) and fault.old in path.read_text(encoding="utf-8")]
    if len(holding) != 1 or holding[0].read_text(encoding="utf-8").count(fault.old) != 1:
        return None
    return holding[0]


@contextmanager
def made(fault: Fault, path: Path) -> Iterator[None]:
    right = path.read_text(encoding="utf-8")
    path.write_text(right.replace(fault.old, fault.new), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(right, encoding="utf-8")


def first_failure(copy: Path, tests: str, cache: Path | None) -> tuple[int, str]:
    """Run tests until the first fails; pytest's exit code, and the line that names the failure."""
    paths = os.pathsep.join(map(str, (copy, copy / "flows", copy / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "MICROAGG_NO_SHRINKING": "1"}
    environment |= {"MICROAGG_CACHE_DIR": str(cache)} if cache else {}
    # The console script imports the installed package: PYTHONPATH goes before it.
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no"]
    selected, _, words = tests.partition(" -k ")
    command += [*selected.split(), *(["-k", words] if words else [])]
    try:
        run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return 1, "took too long"
    lines = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return run.returncode, (lines or run.stderr.splitlines() or run.stdout.splitlines() or [""])[-1]


def tried(fault: Fault, copy: Path) -> Outcome:
    """Make a fault, and say whether its tests notice."""
    begun = time.monotonic()
    path = place_of(fault, copy)
    if path is None:
        return Outcome(fault, "STALE", 0.0, f"not there, or more than once: {fault.old!r}")
    # Kernels are compiled for their sources: with a fault in one they lie in a folder of their own.
    cache = copy / "kernels" if "kernels" in path.parts else None
    with made(fault, path):
        code, line = first_failure(copy, fault.tests, cache)
    if cache:
        shutil.rmtree(cache, ignore_errors=True)
    # Anything else is no test that noticed: files that are gone, modules that cannot be imported.
    verdict = {0: "MISSED", 1: "caught"}.get(code, "BROKEN")
    return Outcome(fault, verdict, time.monotonic() - begun, line)


def main() -> int:
    parser = argparse.ArgumentParser(description="Seeded faults of the product, and whether the tests notice them.")
    parser.add_argument("--area", help="one of kernels, gate, publish, series, figures, flows")
    parser.add_argument("--only", help="numbers, such as 3,7")
    parser.add_argument("--stale", action="store_true", help="only say which texts are gone")
    arguments = parser.parse_args()
    numbers = {int(number) for number in arguments.only.split(",")} if arguments.only else None
    wanted = [
        (number, fault)
        for number, fault in enumerate(FAULTS, 1)
        if arguments.area in (None, fault.area) and (numbers is None or number in numbers)
    ]
    if arguments.stale:
        stale = [(number, fault) for number, fault in wanted if place_of(fault, ROOT) is None]
        for number, fault in stale:
            print(f"{number:3} {fault.area:8} {fault.old!r}")
        print(f"{len(wanted)} faults, {len(stale)} stale")
        return int(bool(stale))
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="microagg-mutations-") as folder:
        copy = Path(folder)
        for name in COPIED:
            there = ROOT / name
            if there.is_dir():
                shutil.copytree(there, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".git"))
            else:
                shutil.copy(there, copy / name)
        for number, fault in wanted:
            outcome = tried(fault, copy)
            outcomes.append(outcome)
            print(f"{number:3} {outcome.verdict:8} {outcome.seconds:5.0f} s  {fault.area:8} {fault.what}", flush=True)
            print(f"      {outcome.detail}", flush=True)
    caught = sum(outcome.verdict == "caught" for outcome in outcomes)
    print(f"{caught} of {len(outcomes)} faults caught")
    return int(caught < len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
