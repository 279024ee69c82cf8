"""One case: a fault at work on a release; what kinds of fault use to do their one thing."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import psutil

from soak import processes
from soak.command import Command, Ended
from soak.data import AGAIN
from soak.kinds import Kind
from soak.reader import Content, Reader, Reuse, read_release
from soak.reference import Reference, References
from soak.site import Site

_FIND_SECONDS = 20.0


class MissedError(Exception):
    """The fault found nothing to strike: the run was over before, or there is no such process. It does not count."""


@dataclass
class Case:
    """What a kind of fault is given."""

    kind: Kind
    site: Site
    random: random.Random
    reference: Reference
    references: References
    through_prefect: bool
    reader: Reader
    #: Undone when the case is over, whatever happened.
    undo: ExitStack
    bucket: Any = None
    running: list[Command] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    #: What was done, for the record.
    did: list[str] = field(default_factory=list)
    #: What the kind itself saw that must not be.
    wrongs: list[str] = field(default_factory=list)
    #: How the same command is called again when nothing disturbs it any more.
    again: tuple[str, ...] = ()
    #: Give the command again even where nothing failed.
    always_again: bool = False
    #: What is put right before that: a disk enlarged, a server started.
    mend: Callable[[], object] = lambda: None
    #: A failed command cannot clean up where its storage is gone; the re-run must.
    may_leave_uploads: bool = False
    #: A run of another spec or input failed: its rows stay until they are due, and nobody goes on with them.
    may_leave_runs: bool = False
    #: Others publish under the same id: that it is published says nothing about a command that failed.
    has_rivals: bool = False
    #: Somebody takes finished work away: it need not be used again.
    may_lose_work: bool = False
    #: What looks at the end in place of the comparison with an undisturbed release: what is wrong, a sentence each.
    look_at_end: Callable[[], list[str]] | None = None
    #: Watches what a run finds done that goes on where a killed one stopped.
    reuse: Reuse | None = None

    def arguments(self, *others: str) -> tuple[str, ...]:
        return ("run", "release.yaml", *(() if self.through_prefect else ("--direct",)), *others)

    def start(
        self,
        *,
        settings: Mapping[str, str | None] | None = None,
        wrapped_in: tuple[str, ...] = (),
        arguments: tuple[str, ...] = (),
    ) -> Command:
        """Start the release's command (or another)."""
        if self.reuse is None and any(ended.killed for ended in self.ended):
            self.reuse = self.watch_reuse()
        command = self.site.start(*(arguments or self.arguments()), settings=settings, wrapped_in=wrapped_in)
        self.running.append(command)
        return command

    def watch_reuse(self) -> Reuse:
        reuse = Reuse(self.site.work, n_tasks=self.reference.n_tasks)
        reuse.start()
        return reuse

    def finish(self, command: Command) -> Ended:
        """Wait until it is over; the judge will look at how it ended."""
        ended = command.wait()
        self.running.remove(command)
        self.ended.append(ended)
        return ended

    @property
    def failed(self) -> bool:
        """Tell whether a command failed, or was killed and no other took its place."""
        return not all(e.succeeded for e in self.ended if not e.killed) or (bool(self.ended) and self.ended[-1].killed)

    def content_of(self, identity: str) -> Content | None:
        """Read the first revision of an id; None where it cannot be read."""
        name = f"{identity}/r0001/manifest.json"
        return None if self.site.output.read(name) is None else read_release(self.site.output, name).content

    def may_overlap(self) -> None:
        """Let the case's releases follow each other though they hold the same people."""
        self.site.spec |= AGAIN
        self.site.write_spec()

    def moment(self, command: Command, *among: str) -> None:
        """Wait for a moment that is drawn: something that the run says, and a part of the time to the next.

        Args:
            command: the run.
            among: landmarks to choose from, such as ``"anonymize: "`` (its tasks begin) or ``"plan "`` (it is done).

        Raises:
            MissedError: the run ended before.
        """
        moments = [m for m in self.reference.moments if not among or m.landmark in among]
        by_time = self.random.random() < 0.5
        weights = [m.seconds if by_time else 1.0 for m in moments]
        chosen = self.random.choices(moments, weights)[0]
        delay = self.random.random() * chosen.seconds
        if chosen.landmark and not command.wait_for(f"^{re.escape(chosen.landmark)}"):
            raise MissedError(f"the run ended before {chosen.landmark!r}")
        time.sleep(delay)
        if command.is_over():
            raise MissedError(f"the run was over {delay:.2f} s after {chosen.landmark!r}")
        self.did.append(f"{delay:.2f} s after {chosen.landmark.strip() or 'the start'}")

    def middle(self) -> tuple[str, ...]:
        """List landmarks at which a run has left something in its work area."""
        names = [m.landmark for m in self.reference.moments if m.landmark]
        return tuple(name for name in names[1:] if name not in ("publish ", "report "))

    def pause(self, least: float, most: float) -> float:
        """Wait for a time that is drawn."""
        seconds = self.random.uniform(least, most)
        time.sleep(seconds)
        self.did.append(f"waited {seconds:.1f} s")
        return seconds

    def one_of(self, find: Callable[[str], list[psutil.Process]], what: str) -> psutil.Process:
        """Draw a process.

        Raises:
            MissedError: there is none.
        """
        found: list[psutil.Process] = []

        def is_found() -> bool:
            found[:] = find(self.site.mark)
            return bool(found) or all(command.is_over() for command in self.running)

        processes.wait_until(is_found, _FIND_SECONDS)
        if not found:
            raise MissedError(f"there is no {what}")
        return self.random.choice(sorted(found, key=lambda process: process.pid))

    def strike(self, process: psutil.Process, number: int, what: str) -> None:
        """Send a signal to a process."""
        if not processes.send(process, number):
            raise MissedError(f"the {what} was gone")
        self.did.append(f"{signal.Signals(number).name} to the {what}")

    def hold(self, process: psutil.Process, what: str, least: float, most: float) -> None:
        """Stop a process for a time that is drawn, then let it go on."""
        self.strike(process, signal.SIGSTOP, what)
        try:
            seconds = self.pause(least, most)
        finally:
            processes.send(process, signal.SIGCONT)
        for command in self.running:
            command.held_up += seconds

    def broken_off(self) -> None:
        """Kill a run somewhere in the middle: what a re-run finds then.

        Raises:
            MissedError: it was over before.
        """
        command = self.start()
        self.moment(command, *self.middle())
        self.kill_all(command)
        self.finish(command)

    def kill_all(self, command: Command) -> None:
        """Kill the command and all its processes at once, as a loss of power does."""
        command.killed = True
        processes.end(self.site.mark)
