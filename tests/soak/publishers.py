"""Every interleaving of three publishers, or of two with two faults: minutes and gigabytes, so not among the tests.

python tests/soak/publishers.py            three publishers, deaths everywhere
python tests/soak/publishers.py --pairs    two publishers, two faults
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "integration")]

from test_publish_interleavings import RACES, Race, publisher, store_with  # noqa: E402 - found through the path


def search(what: str, race: Race, before: str, faults: int) -> None:
    """Come to every situation, and say how many there were; what is wrong ends it with an AssertionError."""
    start = time.perf_counter()
    situations = race.search.everything(store_with(before, remote=True), faults)
    race.assert_another_run_clears_up()
    seconds = time.perf_counter() - start
    print(f"{what}: {situations:,} situations, {race.search.steps:,} steps, none wrong, {seconds:.0f} s", flush=True)


def main() -> None:
    """Search what was asked for."""
    if "--pairs" in sys.argv:
        for name, (programs, before, _) in RACES.items():
            search(f"two, {name}, two faults", Race(programs, remote=True), before, faults=2)
        return
    for contents in ("aaa", "aab", "abc"):
        race = Race([publisher(content, i) for i, content in enumerate(contents)], remote=True)
        search(f"three, contents {contents}", race, "", faults=0)


if __name__ == "__main__":
    main()
