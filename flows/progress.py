"""How far a stage is: a bar on a terminal, plain lines elsewhere; for a flow, see :mod:`flows.artifacts`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

_LINE_EVERY_SECONDS = 10.0


class Progress(Protocol):
    """Told when a piece of work starts, moves on and ends."""

    def start(self, what: str, total: int) -> None:
        """``total`` tasks of ``what`` begin."""

    def advance(self) -> None:
        """One more task is done."""

    def finish(self) -> None:
        """All tasks are done, or the work stopped."""

    def say(self, text: str) -> None:
        """Something worth a line."""


class Silence:
    """No progress at all."""

    def start(self, what: str, total: int) -> None:
        """Nothing."""

    def advance(self) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""


class Lines:
    """A line now and then, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._what, self._total, self._done, self._last = "", 0, 0, 0.0

    def start(self, what: str, total: int) -> None:
        """Announce the work."""
        self._what, self._total, self._done, self._last = what, total, 0, time.monotonic()
        self.say(f"{what}: {total} tasks")

    def advance(self) -> None:
        """Count, and say so every few seconds."""
        self._done += 1
        if time.monotonic() - self._last >= _LINE_EVERY_SECONDS:
            self._last = time.monotonic()
            self.say(f"{self._what}: {self._done} of {self._total}")

    def finish(self) -> None:
        """Nothing more to say."""

    def say(self, text: str) -> None:
        """Print the line."""
        print(text, file=self._stream, flush=True)


class Bar:
    """A bar on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)
        self._bar: Any = None
        self._task: Any = None

    def start(self, what: str, total: int) -> None:
        """Show the bar."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = RichProgress(*columns, console=self._console)
        self._task = self._bar.add_task(what, total=total)
        self._bar.start()

    def advance(self) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def finish(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False)


def terminal_progress(quiet: bool, stream: TextIO | None = None) -> Progress:
    """The progress that suits where the command was called."""
    stream = stream or sys.stderr
    if quiet:
        return Silence()
    return Bar(stream) if stream.isatty() else Lines(stream)


@contextmanager
def shown(progress: Progress, what: str, total: int) -> Iterator[Progress]:
    """Progress that ends however the work ends."""
    progress.start(what, total)
    try:
        yield progress
    finally:
        progress.finish()
