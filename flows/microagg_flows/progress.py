"""Show how far a stage is: a bar on a terminal, plain lines elsewhere; a flow run has its artifacts beside them.

No wait is silent: where nothing has been said for a while, a line says what is under way or waited for.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from microagg_core.pages.words import duration

if TYPE_CHECKING:
    from microagg_core.group.headway import Headway

_LINE_EVERY_SECONDS = 10.0
#: After so long without a line, one says what the wait is for.
_STILL_EVERY_SECONDS = 20.0
_LOOK_EVERY_SECONDS = 0.5
#: A block that has told nothing for so long is done, or its worker is gone.
_FORGOTTEN_SECONDS = 15.0


class Progress:
    """Progress that shows nothing; others build on it."""

    #: Where a person can watch Dask's workers, once it is known.
    dashboard = ""

    def start(self, what: str, total: int) -> None:
        """Note that ``total`` tasks of ``what`` begin."""

    def advance(self) -> None:
        """Note that one more task is done."""

    def finish(self) -> None:
        """Note that all tasks are done, or the work stopped."""

    def wait_for(self, what: str) -> None:
        """Note what is waited for from now on: nothing where it is empty. Around and within tasks are two things."""

    def say(self, text: str) -> None:
        """Print a line."""

    def tell(self, headway: Headway) -> None:
        """Show how far a long block is. Its loss is for the eyes of whoever runs the release alone."""

    def link_dashboard(self, link: str) -> None:
        """Say where Dask's workers can be watched."""
        self.dashboard = link
        self.say(f"Dask's dashboard is at {link}")


class Silence(Progress):
    """Show nothing."""


class Both(Progress):
    """Show progress at several places."""

    def __init__(self, *places: Progress) -> None:
        for name in ("start", "advance", "finish", "wait_for", "say", "tell"):
            setattr(self, name, partial(self._do, [getattr(place, name) for place in places]))

    @staticmethod
    def _do(methods: Sequence[Callable[..., None]], *arguments: Any) -> None:
        for method in methods:
            method(*arguments)


class LongBlocks:
    """Blocks that take long, of those that reported lately."""

    def __init__(self) -> None:
        self._heard: dict[int | None, tuple[float, Headway]] = {}

    def note(self, headway: Headway) -> None:
        self._heard[headway.block] = time.monotonic(), headway

    def forget(self) -> None:
        """Drop all: a task is done, and which blocks were its own is not known; the others report again."""
        self._heard.clear()

    def words(self, with_loss: bool = True) -> str:
        """Say how far the block is that has taken longest, and how many others take long; empty where none does."""
        oldest = time.monotonic() - _FORGOTTEN_SECONDS
        self._heard = {block: heard for block, heard in self._heard.items() if heard[0] >= oldest}
        if not self._heard:
            return ""
        longest = max((headway for _, headway in self._heard.values()), key=lambda headway: headway.seconds)
        others = len(self._heard) - 1
        verb = "take" if others > 1 else "takes"
        return headway_in_words(longest, with_loss) + (f"; {others} more {verb} long" if others else "")


def headway_in_words(headway: Headway, with_loss: bool = True) -> str:
    """Say in a line how far a block is.

    >>> from microagg_core.group.headway import Headway
    >>> headway_in_words(Headway("annealing", 42.0, 1200, 0.613, 3.14159, 7))
    'block 7 of 1,200 records: annealing, 42 s, 61 %, the best groups so far lose 3.14 %'
    >>> headway_in_words(Headway("annealing", 42.0, 1200, 0.613, 3.14159, 7), with_loss=False)
    'block 7 of 1,200 records: annealing, 42 s, 61 %'
    """
    which = "all" if headway.block is None else f"block {headway.block} of"
    parts = [f"{which} {headway.records:,} records: {headway.doing}", duration(headway.seconds)]
    if headway.share is not None:
        parts.append(f"{int(100 * headway.share)} %")
    if with_loss and headway.loss is not None:
        parts.append(f"the best groups so far lose {headway.loss:.3g} %")
    return ", ".join(parts)


class Lines(Progress):
    """Print a line now and then, for logs and pipes; a thread says so where nothing moves."""

    #: Whether only who runs the release reads the lines.
    _is_private = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._what, self._total, self._done = "", 0, 0
        self._awaited = self._awaited_before = ""
        self._last = self._since = time.monotonic()
        self._changing, self._watched = threading.Condition(), False
        self._long = LongBlocks()

    def start(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._awaited_before, self._awaited = self._awaited, ""
        self.say(f"{what}: {total} tasks")
        self._watch()

    def advance(self) -> None:
        self._done += 1
        self._since = time.monotonic()
        self._long.forget()
        if time.monotonic() - self._last >= _LINE_EVERY_SECONDS:
            self.say(f"{self._what}: {self._done} of {self._total}")

    def finish(self) -> None:
        self._what, self._awaited = "", self._awaited_before
        self._since = time.monotonic()

    def wait_for(self, what: str) -> None:
        self._awaited = what
        self._since = time.monotonic()
        self._watch()

    def say(self, text: str) -> None:
        self._last = self._since = time.monotonic()
        self._print(text)

    def tell(self, headway: Headway) -> None:
        self._long.note(headway)
        if time.monotonic() - self._last >= _LINE_EVERY_SECONDS:
            count = f"{self._what}: {self._done} of {self._total}, " if self._what else ""
            self.say(f"{count}{self._long.words(self._is_private)}")

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def _watch(self) -> None:
        """Start a thread that prints a line where nothing moves, while something is under way or waited for."""
        with self._changing:
            if not self._watched and self._still():
                with suppress(RuntimeError):  # a machine that has no thread left has no lines either
                    threading.Thread(target=self._say_what_takes_long, name="progress", daemon=True).start()
                    self._watched = True

    def _say_what_takes_long(self) -> None:
        with self._changing:
            while line := self._still():
                if time.monotonic() - max(self._last, self._since) >= _STILL_EVERY_SECONDS:
                    self._last = time.monotonic()
                    self._print(line)
                self._changing.wait(_LOOK_EVERY_SECONDS)
            self._watched = False

    def _still(self) -> str:
        """Say what is under way, how far it is, and what it waits for."""
        awaited = f"waiting for {self._awaited}" if self._awaited else ""
        count = f"{self._what}: {self._done} of {self._total}" if self._what else ""
        state = ", ".join(part for part in (count, awaited) if part)
        return f"{state}, nothing new for {duration(time.monotonic() - self._since)}" if state else ""


class Bar(Progress):
    """Draw a bar on a terminal, with the time that has gone by."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)
        self._bar: Any = None
        self._task: Any = None
        self._tasks_run = False
        self._awaited = self._awaited_before = ""
        self._long = LongBlocks()

    def start(self, what: str, total: int) -> None:
        self._close()
        self._awaited_before, self._awaited = self._awaited, ""
        self._tasks_run = True
        self._open(what, total)

    def advance(self) -> None:
        self._long.forget()
        if self._bar is not None:
            self._bar.advance(self._task)
            self._bar.update(self._task, awaited=self._awaited_words())

    def finish(self) -> None:
        """Leave the bar as it is; what was waited for around the tasks still is."""
        self._tasks_run = False
        self._close()
        self.wait_for(self._awaited_before)

    def wait_for(self, what: str) -> None:
        """Show it beside the bar, or in its place where no tasks are under way."""
        self._awaited = what
        if self._tasks_run:
            self._bar.update(self._task, awaited=self._awaited_words())
        else:
            self._close()
            if what:
                self._open(f"waiting for {what}", None)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def tell(self, headway: Headway) -> None:
        self._long.note(headway)
        if self._tasks_run:
            self._bar.update(self._task, awaited=self._awaited_words())

    def _awaited_words(self) -> str:
        return f"waiting for {self._awaited}" if self._awaited else self._long.words()

    def _open(self, what: str, total: int | None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        counted = total is not None
        counts = (BarColumn(), MofNCompleteColumn()) if counted else ()
        columns = [TextColumn("{task.description:<12}"), *counts, TimeElapsedColumn()]
        self._bar = RichProgress(
            *columns, TextColumn("{task.fields[awaited]}"), console=self._console, transient=not counted
        )
        self._task = self._bar.add_task(what, total=total, awaited=self._awaited_words() if counted else "")
        self._bar.start()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def terminal_progress(quiet: bool, stream: TextIO | None = None) -> Progress:
    """Choose a bar on a terminal, and else lines."""
    stream = stream or sys.stderr
    if quiet:
        return Silence()
    return Bar(stream) if stream.isatty() else Lines(stream)


@contextmanager
def awaited(progress: Progress, what: str) -> Iterator[None]:
    """Say what is waited for, where the block takes long."""
    progress.wait_for(what)
    try:
        yield
    finally:
        progress.wait_for("")


@contextmanager
def shown(progress: Progress, what: str, total: int) -> Iterator[Progress]:
    """Progress that ends however the work ends."""
    progress.start(what, total)
    try:
        yield progress
    finally:
        progress.finish()
