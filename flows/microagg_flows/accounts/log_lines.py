"""A run's log for programs: a line an event, with time, level, stage, series and id, as JSON or as text."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from microagg_core.errors import SpecError, StorageError
from microagg_core.group.headway import Headway
from microagg_flows.progress import Lines, Progress, Silence, terminal_progress

if TYPE_CHECKING:
    from microagg_flows.accounts.account import Account


class LogFormat(StrEnum):
    """How a line is written."""

    text = "text"
    json = "json"


class LogLevel(StrEnum):
    """What is worth a line, the most talkative first."""

    info = "info"
    warning = "warning"
    error = "error"


@dataclass(frozen=True)
class LogWish:
    """What log is asked for: as text on a terminal there are the usual lines, or a bar, and none of this."""

    format: LogFormat = LogFormat.text
    file: Path | None = None
    level: LogLevel = LogLevel.info


@dataclass
class Log:
    """Where a run's events go, and the progress that tells them."""

    wish: LogWish
    stream: TextIO | None
    #: The run, once it is known.
    account: Account | None = None

    @property
    def is_all_there_is(self) -> bool:
        """Whether standard error has the log's lines and nothing else."""
        return self.stream is not None and self.wish.file is None

    def progress(self, quiet: bool) -> Progress:
        """Progress as it suits the terminal, and lines of the log."""
        shown = quiet or self.wish.level != LogLevel.info
        lines = Silence() if self.wish.level != LogLevel.info else _LogLines(self)
        if self.stream is None:
            return terminal_progress(shown)
        if self.is_all_there_is:
            return Silence() if quiet else lines
        return _Both(terminal_progress(shown), lines)

    def write(self, level: LogLevel, event: str) -> None:
        """Write a line, if it is worth one.

        Raises:
            StorageError: there is no room for it.
        """
        if self.stream is None or _ORDER.index(level) < _ORDER.index(self.wish.level):
            return
        try:
            print(self._line(level, event), file=self.stream, flush=True)
        except OSError as error:
            raise StorageError(f"writing the log failed ({error.strerror}); free some space there") from None

    def _line(self, level: LogLevel, event: str) -> str:
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        words = " ".join(event.split())
        if self.wish.format == LogFormat.text:
            return f"{time} {level.upper():<7} {words}"
        run = self.account
        stage, series, identity = (run.stage, run.series, run.id) if run else (None, None, None)
        line = {"time": time, "level": level.value, "stage": stage, "event": words, "series": series, "id": identity}
        return json.dumps(line, ensure_ascii=False)


_ORDER = list(LogLevel)


class _LogLines(Lines):
    """The lines of progress, as events of the log; others may read it, so that losses of blocks stay out."""

    _is_private = False

    def __init__(self, log: Log) -> None:
        super().__init__(sys.stderr)
        self._log = log

    def _print(self, text: str) -> None:
        self._log.write(LogLevel.info, text)


class _Both:
    """Two places at which a user looks."""

    def __init__(self, *places: Progress) -> None:
        self._places = places

    def start(self, what: str, total: int) -> None:
        """Tell both."""
        self._do("start", what, total)

    def advance(self) -> None:
        """Tell both."""
        self._do("advance")

    def finish(self) -> None:
        """Tell both."""
        self._do("finish")

    def wait_for(self, what: str) -> None:
        """Tell both."""
        self._do("wait_for", what)

    def say(self, text: str) -> None:
        """Tell both."""
        self._do("say", text)

    def tell(self, headway: Headway) -> None:
        """Tell both."""
        self._do("tell", headway)

    def _do(self, what: str, *arguments: Any) -> None:
        for place in self._places:
            getattr(place, what)(*arguments)


@contextmanager
def opened_log(wish: LogWish) -> Iterator[Log]:
    """The log that is asked for, while the block lasts.

    Raises:
        SpecError: there can be no such file.
    """
    if wish.file is None:
        yield Log(wish, sys.stderr if wish.format == LogFormat.json else None)
        return
    with _appended(wish.file) as stream:
        yield Log(wish, stream)


def _appended(path: Path) -> TextIO:
    """The file, for this user alone if it is new: how many records there are is not for everybody."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SpecError(
            f"--log-file: {path} cannot be written ({error.strerror}); name a file in a folder that is there"
        ) from None
    return os.fdopen(handle, "a", encoding="utf-8")
