"""A run that dies before one of its writes, wherever these go: work area, ledger or output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from microagg_core.storage.objects import Store

WRITES = ("put", "put_file", "put_checked", "create", "delete", "delete_many", "delete_all", "put_if")


class Died(BaseException):
    """The end of a process: nothing of the product may catch it."""


@dataclass
class Writes:
    """Counts writes, and dies before one of them; names what it was about to do."""

    last: int | None = None
    done: int = 0
    about: str = ""


@contextmanager
def dying(last: int | None = None) -> Iterator[Writes]:
    """Within the block, this process dies after ``last`` writes; None: it lives, and they are counted."""
    writes = Writes(last)

    def watched(name: str) -> Any:
        genuine = getattr(Store, name)

        def write(store: Store, *what: Any, **more: Any) -> Any:
            if writes.last is not None and writes.done >= writes.last:
                writes.about = f"{name} {what[0]}"
                raise Died
            writes.done += 1
            return genuine(store, *what, **more)

        return write

    with mock.patch.multiple(Store, **{name: watched(name) for name in WRITES}):
        yield writes
