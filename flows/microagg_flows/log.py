"""A run's log for programs: one line an event, with time, level, stage, series and id, as JSON or as text."""

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
from typing import Protocol, TextIO

from microagg_core.errors import SpecError, StorageError
from microagg_flows.progress import Both, Lines, Progress, Silence, terminal_progress


class Named(Protocol):
    """A run, as lines name it."""

    stage: str | None
    series: str | None
    id: str | None


class LogFormat(StrEnum):
    text = "text"
    json = "json"


class LogLevel(StrEnum):
    """Levels of lines in a log, the most talkative first."""

    info = "info"
    warning = "warning"
    error = "error"


@dataclass
class Log:
    """Write a run's events; a terminal without a log format has the usual lines or a bar instead."""

    format: LogFormat = LogFormat.text
    level: LogLevel = LogLevel.info
    stream: TextIO | None = None
    #: Whether standard error has the log's lines and nothing else.
    is_all_there_is: bool = False
    #: Names stage, series and id in each line.
    record: Named | None = None

    def progress(self, quiet: bool) -> Progress:
        is_short = self.level != LogLevel.info
        lines = Silence() if is_short else _LogLines(self)
        if self.stream is None:
            return terminal_progress(quiet or is_short)
        if self.is_all_there_is:
            return Silence() if quiet else lines
        return Both(terminal_progress(quiet or is_short), lines)

    def write(self, level: LogLevel, event: str) -> None:
        """Write a line, if it is worth one."""
        if self.stream is None or _ORDER.index(level) < _ORDER.index(self.level):
            return
        try:
            print(self._line(level, event), file=self.stream, flush=True)
        except OSError as error:
            raise StorageError(f"writing the log failed ({error.strerror}); free some space there") from None

    def _line(self, level: LogLevel, event: str) -> str:
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        words = " ".join(event.split())
        if self.format == LogFormat.text:
            return f"{time} {level.upper():<7} {words}"
        run = self.record
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


@contextmanager
def opened_log(
    form: LogFormat = LogFormat.text, file: Path | None = None, level: LogLevel = LogLevel.info
) -> Iterator[Log]:
    """Open a log, for as long as the block lasts."""
    if file is not None:
        with _appended(file) as stream:
            yield Log(form, level, stream)
        return
    is_all = form == LogFormat.json
    yield Log(form, level, sys.stderr if is_all else None, is_all)


def _appended(path: Path) -> TextIO:
    """Open the file, for this user alone if it is new: how many records there are is not for everybody."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SpecError(
            f"--log-file: {path} cannot be written ({error.strerror}); name a file in a folder that is there"
        ) from None
    return os.fdopen(handle, "a", encoding="utf-8")
