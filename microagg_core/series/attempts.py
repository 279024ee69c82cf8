"""Attempts at publishing, written to the ledger before the first object of each lies at the output.

Whoever comes next knows by them what a run that died may have left for readers; a record stays until that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from microagg_core.errors import StorageError
from microagg_core.plain import from_json, to_plain
from microagg_core.store.layout import ATTEMPTS, digits
from microagg_core.store.objects import Store, canonical_json
from microagg_core.store.urls import shown


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Attempt:
    """One try to publish the release of a night.

    Attributes:
        name: the digits in the name of each of its objects.
        output: the URL of the output.
        run_key: of the run in whose folder of the work area its signs of life are.
    """

    name: str
    release_id: str
    revision: str
    output: str
    run_key: str


def note_attempt(ledger: Store, attempt: Attempt) -> None:
    """Write an attempt down, for good."""
    ledger.put(_name(attempt.name), canonical_json(to_plain(attempt)), durable=True)


def noted_attempts(ledger: Store) -> list[Attempt]:
    """Read the attempts that are written down.

    Raises:
        StorageError: one is damaged.

    >>> noted_attempts(Store("memory://no-ledger-here"))
    []
    """
    attempts = []
    for name in ledger.list(ATTEMPTS):
        try:
            attempts.append(from_json(Attempt, ledger.read(name)))
        except ValueError:
            raise StorageError(
                f"{shown(ledger.url_of(name))} is damaged, so nobody knows what its run left at the output; remove "
                "it, then have microagg clean look for files that no manifest names"
            ) from None
    return attempts


def drop_attempts(ledger: Store, attempts: Iterable[Attempt]) -> None:
    """Forget attempts of which nothing is left."""
    ledger.delete_many([_name(attempt.name) for attempt in attempts])


def _name(attempt: str) -> str:
    return f"{ATTEMPTS}/{attempt}.json"


def erasure_key(night: int) -> str:
    """The key under which an erasure stages files and gives signs of life in the work area, as runs do."""
    return f"erasure-{digits(night)}"
