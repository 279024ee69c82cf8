"""A ledger that is damaged: how far it is sound, and the rest out of the way. Nothing of it is ever deleted."""

from __future__ import annotations

import secrets

from microagg_core.errors import StorageError, TransientStorageError
from microagg_core.series.generations import Generation
from microagg_core.series.ledger import Ledger
from microagg_core.store.layout import DAMAGED, GENERATIONS, LEDGER_DATA, PUBLISHED, night_of

_ATTEMPT_BYTES = 6


def last_sound(ledger: Ledger) -> Generation | None:
    """The newest generation that can be gone on from: its chain and all of its units are whole. None: there is none.

    Raises:
        TransientStorageError: the store does not answer.

    >>> from microagg_core.store.objects import Store
    >>> last_sound(Ledger(Store("memory://no-ledger-here"), "people")) is None
    True
    """
    chain = _sound_chain(ledger)
    return next((generation for generation in reversed(chain) if _is_whole(ledger, generation)), None)


def _sound_chain(ledger: Ledger) -> list[Generation]:
    chain: list[Generation] = []
    while True:
        try:
            chain.append(ledger.linked(len(chain)))
        except TransientStorageError:
            raise
        except StorageError:
            return chain


def _is_whole(ledger: Ledger, generation: Generation) -> bool:
    try:
        for _ in ledger.told_ranges(generation):
            pass
    except TransientStorageError:
        raise
    except StorageError:
        return False
    return True


def move_aside(ledger: Ledger, first: int) -> int:
    """Move all that is kept of a night, and of those after it, to a folder of this attempt's own below ``damaged``.

    The newest night goes first, so that whenever this is stopped the rest is a chain, and the same call goes on.

    Returns:
        How many objects were moved.

    Raises:
        StorageError: one cannot be copied or removed.
    """
    store, attempt = ledger.store, secrets.token_hex(_ATTEMPT_BYTES)
    listed = [name for place in (GENERATIONS, PUBLISHED, LEDGER_DATA) for name in store.list(place)]
    nights = {name: night_of(name) for name in listed}
    # A file that is no night's by its name is in the way of nobody.
    late = [name for name in listed if (night := nights[name]) is not None and night >= first]
    for name in sorted(late, key=lambda name: -(nights[name] or 0)):
        store.copy_from(store, name, f"{DAMAGED}/{attempt}/{name}")
        store.delete(name)
    return len(late)
