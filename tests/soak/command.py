"""The real command as a process, watched: what it says and when, how it ends, and whether it hangs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from soak.processes import as_from_a_terminal, is_busy

COMMAND = str(Path(sys.executable).with_name("microagg"))
#: Without a line and without work for so long, a command hangs: a store that does not answer is asked for 90 s, and
#: Prefect's longest pause between two tries is 60 s.
IDLE_SECONDS = 110.0
#: A wait that the command itself tells of every few seconds may be longer, but not for ever.
TOLD_SECONDS = 300.0
_TELLS = re.compile(r"nothing (?:new|was finished) for ")
#: An idle cluster beats its heart now and then, and waits for a processor to do so: at most at this share of looks.
IDLE_SHARE = 0.5
#: What hangs is given so long to end by itself: a wait that is too long is told from one without an end.
MORE_SECONDS = 240.0
#: Nothing in a campaign takes so long.
MOST_SECONDS = 900.0
_LOOK_EVERY = 0.05
_LOOK_AT_THREADS_EVERY = 1.0


@dataclass(frozen=True)
class Ended:
    """How a command ended: code (negative: the signal), words, and the reason where the campaign had to end it."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float
    hung: str = ""
    #: The campaign killed it: no word, no code and no tidiness can be asked of it.
    killed: bool = False

    @property
    def succeeded(self) -> bool:
        return self.code == 0

    def sentences(self) -> list[str]:
        """Read what the command says went wrong."""
        return [line.removeprefix("microagg: ") for line in self.err.splitlines() if line.startswith("microagg: ")]


@dataclass
class Command:
    """A command under way."""

    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes]
    out_path: Path
    err_path: Path
    mark: str
    started: float = field(default_factory=time.monotonic)
    #: Every line on standard error with its second.
    lines: list[tuple[float, str]] = field(default_factory=list)
    killed: bool = False
    #: Seconds for which a kind of fault holds it up on purpose; not held against it.
    held_up: float = 0.0
    _read: int = 0

    def look(self) -> None:
        """Take in new lines."""
        try:
            text = self.err_path.read_bytes()
        except FileNotFoundError:
            return
        end = text.rfind(b"\n") + 1
        new = text[self._read : end].decode(errors="replace").splitlines()
        self._read = max(self._read, end)
        self.lines += [(self.seconds(), line) for line in new]

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def is_over(self) -> bool:
        return self.process.poll() is not None

    def wait_for(self, pattern: str, seconds: float = MOST_SECONDS) -> bool:
        """Wait for a line; False where the command ends, or falls silent, before it comes."""
        watch = _Watch(self)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            over = self.is_over()
            self.look()
            if any(re.search(pattern, line) for _, line in self.lines):
                return True
            if over or watch.silence():
                return False
            time.sleep(_LOOK_EVERY)
        return False

    def send(self, number: int, group: bool = False) -> None:
        """Send a signal to the command alone, or to the whole group, as a terminal does."""
        if not self.is_over():
            (os.killpg if group else os.kill)(self.process.pid, number)
        self.killed |= number == signal.SIGKILL

    def wait(self) -> Ended:
        """Wait for the end, or end it where it hangs."""
        watch, hung, since = _Watch(self), "", 0.0
        while not self.is_over():
            self.look()
            if said := watch.silence():
                hung, since = said, since or time.monotonic()
            if hung and time.monotonic() - since > MORE_SECONDS:
                self.process.kill()
                self.process.wait()
                self.killed = True
                hung += f", and it does not end within {MORE_SECONDS:.0f} s more"
            time.sleep(_LOOK_EVERY)
        self.look()
        out = self.out_path.read_text(errors="replace") if self.out_path.exists() else ""
        err = self.err_path.read_text(errors="replace") if self.err_path.exists() else ""
        return Ended(self.arguments, self.process.returncode, out, err, self.seconds(), hung, self.killed)


class _Watch:
    """Notices when a command neither says nor does anything."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._looked = 0.0
        self._rest(time.monotonic())

    def _rest(self, now: float) -> None:
        self._lines, self._since = len(self._command.lines), now
        self._looks = self._busy = 0

    def silence(self) -> str:
        """Say how the command hangs, or nothing."""
        now, command = time.monotonic(), self._command
        if command.seconds() - command.held_up > MOST_SECONDS:
            return f"not over after {MOST_SECONDS:.0f} s"
        if now - self._looked < _LOOK_AT_THREADS_EVERY:
            return ""
        self._looked = now
        new = [line for _, line in command.lines[self._lines :]]
        if any(not _TELLS.search(line) for line in new):
            self._rest(now)
        self._looks += 1
        self._busy += is_busy(command.mark)
        idle = now - self._since
        patience = TOLD_SECONDS if new else IDLE_SECONDS
        if idle < patience + command.held_up:
            return ""
        if self._busy > IDLE_SHARE * self._looks:
            self._rest(now)
            return ""
        last = command.lines[-1][1] if command.lines else "nothing said"
        return f"hangs: {idle:.0f} s without anything new, busy at {self._busy} of {self._looks} looks, after {last!r}"


def start(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    mark: str,
    number: int,
    wrapped_in: Sequence[str] = (),
) -> Command:
    """Start the command in a session of its own; what it says goes to files, which nobody can block."""
    out, err = folder / f"stdout-{number}.txt", folder / f"stderr-{number}.txt"
    with out.open("wb") as out_file, err.open("wb") as err_file:
        process = subprocess.Popen(
            [*wrapped_in, COMMAND, *arguments],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
            start_new_session=True,
            preexec_fn=as_from_a_terminal,
        )
    return Command(tuple(arguments), process, out, err, mark)
