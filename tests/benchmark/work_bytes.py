"""What a release writes to its work area and reads back from it: bytes and objects, by kind of object.

    python tests/benchmark/work_bytes.py --people 200000

Makes the demo's release in this process, and prints a table: how often objects of a kind were written and read, and
how many bytes that were.
"""

from __future__ import annotations

import argparse
import datetime
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from microagg_core.demo import write_demo
from microagg_core.spec.loading import load_spec
from microagg_core.store.objects import Store
from microagg_flows.executors import InProcess
from microagg_flows.progress import Silence
from microagg_flows.release import new_release
from microagg_flows.stages import run_until

_RUN = re.compile(r"^runs/([0-9a-v]/)?[^/]+/")
_NUMBER = re.compile(r"\d+")


def kind_of(name: str) -> str:
    """The kind of an object: its name without the run and without numbers.

    >>> kind_of("runs/7/3f9a/scatter/part-00002-run-00000.arrows")
    'scatter/part-N-run-N.arrows'
    """
    return _NUMBER.sub("N", _RUN.sub("", name))


@dataclass
class Traffic:
    """Objects and bytes, by kind, one way."""

    times: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    objects: set[str] = field(default_factory=set)

    def add(self, name: str, n_bytes: int) -> None:
        self.times[kind_of(name)] += 1
        self.bytes[kind_of(name)] += n_bytes
        self.objects.add(name)


@dataclass(frozen=True)
class CountingStore(Store):
    """A work area that accounts for what is asked of it."""

    written: Traffic = field(default_factory=Traffic, compare=False)
    seen: Traffic = field(default_factory=Traffic, compare=False)

    def put(self, name: str, data: bytes, *, durable: bool = False) -> None:
        super().put(name, data, durable=durable)
        self.written.add(name, len(data))

    def put_if(self, name: str, data: bytes, version: str) -> bool:
        done = super().put_if(name, data, version)
        self.written.add(name, len(data))
        return done

    def read(self, name: str) -> bytes:
        data = super().read(name)
        self.seen.add(name, len(data))
        return data

    def read_ranges(self, ranges: Sequence[tuple[str, int, int]]) -> list[bytes]:
        contents = super().read_ranges(ranges)
        for (name, _, _), data in zip(ranges, contents, strict=True):
            self.seen.add(name, len(data))
        return contents

    def chunks(self, name: str) -> Iterator[bytes]:
        for chunk in super().chunks(name):
            self.seen.add(name, len(chunk))
            yield chunk


def measure(people: int) -> tuple[CountingStore, dict[str, float]]:
    """Make the demo's release; the work area's account, and seconds by stage."""
    with tempfile.TemporaryDirectory() as folder:
        spec = load_spec(str(write_demo(Path(folder), n=people)))
        release = new_release(spec, InProcess(Silence()), None, False, datetime.datetime.now(datetime.UTC))
        work = CountingStore(release.work.url, private=True)
        release.work = work
        run_until("report", release)
    return work, {outcome.name: outcome.seconds for outcome in release.outcomes}


def table(work: CountingStore) -> list[str]:
    """One line a kind of object, the heaviest first, and their sum."""
    kinds = sorted({*work.written.bytes, *work.seen.bytes}, key=lambda kind: -_weight(work, kind))
    lines = [f"{'kind of object':<44}{'writes':>8}{'kB':>10}{'reads':>8}{'kB':>10}"]
    lines += [_line(kind, work, [kind]) for kind in kinds]
    lines.append(_line("all", work, kinds))
    total = sum(_weight(work, kind) for kind in kinds)
    lines.append(f"{len(work.written.objects)} objects, {total / 1e6:.2f} MB written and read")
    return lines


def _weight(work: CountingStore, kind: str) -> int:
    return work.written.bytes[kind] + work.seen.bytes[kind]


def _line(title: str, work: CountingStore, kinds: Sequence[str]) -> str:
    cells = [title.ljust(44)]
    for traffic in (work.written, work.seen):
        times, kilobytes = sum(traffic.times[k] for k in kinds), sum(traffic.bytes[k] for k in kinds) / 1e3
        cells.append(f"{times:>8}{kilobytes:>10.1f}")
    return "".join(cells)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--people", type=int, default=200_000)
    work, seconds = measure(parser.parse_args().people)
    print("\n".join(table(work)))
    print("seconds: " + ", ".join(f"{stage} {taken:.1f}" for stage, taken in seconds.items()))


if __name__ == "__main__":
    main()
