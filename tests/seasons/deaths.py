"""A run that dies before one of its writes, wherever these go: work area, ledger or output.

    python tests/seasons/deaths.py 17 run release.yaml --direct    # the command, killed before its 18th write

As a program it is ``microagg``, for which a run without a sign of life counts as dead at once.
"""

from __future__ import annotations

import datetime
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from microagg_core.store.objects import Store

#: A run without a sign of life for so long counts as dead.
ALIVE_FOR = "microagg_core.release.cleaning._ALIVE_FOR"
WRITES = ("put", "put_file", "put_checked", "create", "delete", "delete_many", "delete_all", "put_if")


class Died(BaseException):
    """The end of a process: nothing of the product may catch it."""


@dataclass
class Writes:
    """Counts writes, and dies before one of them; names what it was about to do."""

    last: int | None = None
    before: str = ""
    done: int = 0
    about: str = ""

    def is_last(self, name: str) -> bool:
        """Tell whether the process dies before it writes this; what is dead writes no more."""
        if (self.last is not None and self.done >= self.last) or (self.before and self.before in name):
            self.last, self.about = self.done, self.about or name
            return True
        self.done += 1
        return False


def _end() -> None:
    raise Died


def kill() -> None:
    """End this process as a loss of power does."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def dying(last: int | None = None, before: str = "", end: Callable[[], None] = _end) -> Iterator[Writes]:
    """Within the block, this process dies after ``last`` writes, or before one whose name holds ``before``.

    Where neither is given it lives, and its writes are counted.
    """
    writes = Writes(last, before)

    def watched(name: str) -> Any:
        genuine = getattr(Store, name)

        def write(store: Store, *what: Any, **more: Any) -> Any:
            if writes.is_last(f"{name} {what[0]}" if what else name):
                end()
            return genuine(store, *what, **more)

        return write

    with ExitStack() as patched:
        for name in WRITES:  # one by one: ``mock.patch.multiple`` takes ``create`` for an option of its own
            patched.enter_context(mock.patch.object(Store, name, watched(name)))
        yield writes


def main() -> None:
    """Call the command, and kill it before a write."""
    from microagg_flows.command.cli import main as command

    last, *arguments = sys.argv[1:]
    sys.argv = ["microagg", *arguments]
    with mock.patch(ALIVE_FOR, datetime.timedelta(0)), dying(int(last), end=kill):
        command()


if __name__ == "__main__":
    main()
