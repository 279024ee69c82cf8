"""Undisturbed releases, one a configuration: the bytes with which everything is compared, and how long it takes.

They are held against their input, with nothing of the product: what came in is what is released.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa

from seasons.readable import table_of
from soak import processes
from soak.data import Configuration, write_input
from soak.places import Folder, Place
from soak.reader import ALWAYS_AGAIN, Content, latest, read_json
from soak.site import Site, local_cluster

_BEGINS = re.compile(r"^([a-z-]+): (\d+) tasks$")
_ENDS = re.compile(r"^([a-z]+) +\d+\.\d s  ")


def landmark(line: str) -> str | None:
    """Name the place in a run that a line marks: a stage that ended, or tasks that began."""
    if begins := _BEGINS.match(line):
        return f"{begins[1]}: "
    ends = _ENDS.match(line)
    return f"{ends[1]} " if ends else None


@dataclass(frozen=True)
class Moment:
    """Something that a run says, and how long it takes until it says the next thing."""

    landmark: str
    seconds: float


@dataclass(frozen=True)
class Reference:
    """An undisturbed release."""

    content: Content
    moments: tuple[Moment, ...]
    n_tasks: int
    seconds: float
    input: Path
    #: What such a run leaves in its temporary folder, and why that is wrong.
    leaves: frozenset[str]
    wrongs: tuple[str, ...]
    output_bytes: int
    work_bytes: int


@dataclass
class References:
    """Undisturbed releases, each made when it is first asked for."""

    folder: Path
    kernels: Path
    rows: int
    made: dict[Configuration, Reference] = field(default_factory=dict)

    def of(self, configuration: Configuration) -> Reference:
        if configuration not in self.made:
            self.made[configuration] = self._make(configuration)
        return self.made[configuration]

    def inputs(self, configuration: Configuration) -> Path:
        folder = self.folder / f"input-{configuration.format}-{configuration.sample}-{self.rows}"
        if not folder.exists():
            write_input(folder, configuration, self.rows)
        return folder

    def _make(self, configuration: Configuration) -> Reference:
        source = self.inputs(configuration)
        before = _bytes_below(self.kernels)
        made = self._run(configuration, source)
        # A run that compiled took times that say nothing of those after it.
        return made if _bytes_below(self.kernels) == before else self._run(configuration, source)

    def _run(self, configuration: Configuration, source: Path) -> Reference:
        folder = self.folder / f"reference-{configuration.name.replace(' ', '-')}"
        shutil.rmtree(folder, ignore_errors=True)
        cluster = {} if configuration.leaves_cluster_open else {"cluster": local_cluster("3GiB")}
        site = Site(folder, configuration, self.kernels, spec=cluster)
        site.take_input(source)
        with ExitStack() as undo, _Peak(folder / "work") as staged:
            undo.callback(processes.end, site.mark)
            command = site.start("run", "release.yaml", "--direct")
            ended = command.wait()
        released = latest(site.output)
        if not ended.succeeded or released is None:
            raise RuntimeError(f"the undisturbed release failed: {ended.hung} {ended.err}")
        moments = _moments(command.lines)
        tasks = [_BEGINS.match(line) for _, line in command.lines]
        n_tasks = sum(int(t[2]) for t in tasks if t and t[1] not in ALWAYS_AGAIN)
        left = frozenset(path.name for path in site.temporary.iterdir())
        wrongs = (f"left in the temporary folder: {sorted(left)}",) if left else ()
        wrongs += tuple(of_content(site, site.output, released.folder))
        return Reference(
            released.content,
            moments,
            n_tasks,
            ended.seconds,
            source,
            left,
            wrongs,
            _bytes_below(folder / "release"),
            staged.most,
        )


def _moments(lines: list[tuple[float, str]]) -> tuple[Moment, ...]:
    """List every landmark with the time until the next; before all of them, the start."""
    marks = [(0.0, ""), *((at, mark) for at, line in lines if (mark := landmark(line)))]
    ends = [*(at for at, _ in marks[1:]), marks[-1][0] + 0.3]
    return tuple(Moment(mark, end - at) for (at, mark), end in zip(marks, ends, strict=True))


def _bytes_below(folder: Path) -> int:
    return sum(int(version.split("-")[1]) for version in Folder(folder).versions().values())


class _Peak:
    """Measure the most that a folder holds while a block lasts."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._over = folder, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.most = 0

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.most = max(self.most, _bytes_below(self._folder))

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def of_content(site: Site, output: Place, folder: str) -> Iterator[str]:
    """Tell what of a release is not so by its files and its input; a sentence each."""
    roles = site.spec["roles"]
    manifest = read_json(output, f"{folder}/manifest.json")
    released = _frame({part["name"]: output.read(f"{folder}/{part['name']}") or b"" for part in manifest["parts"]})
    given = _frame({path.name: path.read_bytes() for path in sorted((site.folder / "input").iterdir())})
    wanted = [column for role in ("quasi_identifiers", "blocking", "confidential") for column in roles[role]]
    if set(released.columns) != set(wanted):
        yield f"released columns are {sorted(released.columns)}"
        return
    if len(released) != len(given):
        yield f"{len(released)} records are released of {len(given)}"
    keys = [*roles["blocking"], *roles["quasi_identifiers"]]
    if (least := int(released.groupby(keys, dropna=False).size().min())) < site.spec["k"]:
        yield f"a combination has {least} records, of k={site.spec['k']}"
    confidential = list(roles["confidential"])
    if not _counts(released, confidential).equals(_counts(given, confidential)):
        yield "confidential values are not those of the input"
    for column in roles["quasi_identifiers"]:
        before, after = (_numbers(frame[column]) for frame in (given, released))
        if abs(before.mean() - after.mean()) > 5e-3 * before.std():
            yield f"the mean of {column} is not that of the input"
        if after.min() < before.min() or after.max() > before.max() or after.nunique() > len(after) // site.spec["k"]:
            yield f"{column} does not hold means of groups"


def _frame(files: dict[str, bytes]) -> pd.DataFrame:
    tables = [table_of(name, data) for name, data in files.items()]
    return pa.concat_tables([table for table in tables if table is not None]).to_pandas(date_as_object=False)


def _counts(frame: pd.DataFrame, columns: list[str]) -> pd.Series:
    return frame[columns].astype(str).value_counts(sort=False).sort_index()


def _numbers(values: pd.Series) -> pd.Series:
    if pd.api.types.is_string_dtype(values):  # of Python objects, or of Arrow in newer versions
        first = str(values.iloc[0])
        values = pd.to_datetime(values) if first.count("-") == 2 else pd.to_numeric(values)
    if pd.api.types.is_datetime64_any_dtype(values):
        return values.astype("int64") / 86_400e9
    return values.astype(float)
