"""Undisturbed releases, one a configuration: the bytes with which everything is compared, and how long it takes."""

from __future__ import annotations

import re
import shutil
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from soak import processes
from soak.content import of_content
from soak.data import Configuration, write_input
from soak.places import Folder
from soak.reader import Content, latest
from soak.site import Site, local_cluster

_BEGINS = re.compile(r"^([a-z-]+): (\d+) tasks$")
_ENDS = re.compile(r"^([a-z]+) +\d+\.\d s  ")
#: Tasks that no re-run is spared, whatever was done before.
_ALWAYS_AGAIN = ("check-files", "upload")


def landmark(line: str) -> str | None:
    """The name of a place in a run that a line marks: a stage that ended, or tasks that began."""
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
    _made: dict[Configuration, Reference] = field(default_factory=dict)

    def of(self, configuration: Configuration) -> Reference:
        """The release of a configuration.

        Raises:
            RuntimeError: it cannot be made even when nothing disturbs it.
        """
        if configuration not in self._made:
            self._made[configuration] = self._make(configuration)
        return self._made[configuration]

    def made(self) -> dict[Configuration, Reference]:
        """Those made so far."""
        return dict(self._made)

    def inputs(self, configuration: Configuration) -> Path:
        """The folder with the configuration's input files."""
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
        n_tasks = sum(int(t[2]) for t in tasks if t and t[1] not in _ALWAYS_AGAIN)
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
    """Every landmark with the time until the next; before all of them, the start."""
    marks = [(0.0, ""), *((at, mark) for at, line in lines if (mark := landmark(line)))]
    ends = [*(at for at, _ in marks[1:]), marks[-1][0] + 0.3]
    return tuple(Moment(mark, end - at) for (at, mark), end in zip(marks, ends, strict=True))


def _bytes_below(folder: Path) -> int:
    return sum(int(version.split("-")[1]) for version in Folder(folder).versions().values())


class _Peak:
    """The most that a folder holds while a block lasts."""

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
