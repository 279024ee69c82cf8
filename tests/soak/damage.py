"""Damage every file of a work area in every way, after every stage, and count how the release ends.

    python tests/soak/damage.py [--format parquet] [--moment between] [--share 0.1 --seed 1]

Prints a table, and a line for each case that did not end right; exits with 1 if there is one. A process that dies is
seen as such, because every format has one of its own.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from trouble.damage import DAMAGES, FORMATS, MOMENTS, STAGES, DamagedRelease


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--format", choices=FORMATS)
    parser.add_argument("--moment", choices=MOMENTS)
    parser.add_argument("--share", type=float, default=1.0, help="of the cases, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="where to work; default: the system's temporary folder")
    arguments = parser.parse_args()
    if arguments.format:
        return campaign(arguments)
    ends = [subprocess.run([sys.executable, *sys.argv, "--format", form], check=False).returncode for form in FORMATS]
    return max(map(abs, ends))


def campaign(arguments: argparse.Namespace) -> int:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="microagg-damage-", dir=arguments.folder) as folder:
        release = DamagedRelease(Path(folder), arguments.format)
        cases = [case for case in release.cases() if arguments.moment in (None, case.moment)]
        random.Random(arguments.seed).shuffle(cases)
        cases = cases[: round(len(cases) * arguments.share)]
        ends: Counter[tuple[str, str, str, bool]] = Counter()
        for case in cases:
            outcome = release.outcome(case)
            ends[case.moment, case.stage, case.damage, outcome == "right"] += 1
            if outcome != "right":
                print(f"{case}: {outcome}", flush=True)
    print(f"{arguments.format}: {len(cases)} cases in {time.perf_counter() - started:.0f} s; right / all")
    for moment in MOMENTS:
        print(f"{moment:<12}" + "".join(f"{damage:>12}" for damage in DAMAGES))
        for stage in STAGES:
            counts = [(ends[moment, stage, d, True], ends[moment, stage, d, False]) for d in DAMAGES]
            print(f"{stage:<12}" + "".join(f"{f'{right}/{right + wrong}':>12}" for right, wrong in counts))
    return int(any(not right for *_, right in ends))


if __name__ == "__main__":
    sys.exit(main())
