"""Fates: what becomes tonight of the atoms that were released before.

An atom is released whole, is absent whole, or is split into parts of at least k units each, of which one at most is
ever released again: so every trace keeps its k units.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from microagg_core.arrays import Bools, Bytes, Ints, UInt64s
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.spec.series import Leavers


class Fate(IntEnum):
    #: All of its units are in tonight's input, and released.
    CARRIED = 1
    #: Everybody is released as last: who is in tonight's input, and who left.
    WITH_GHOSTS = 2
    #: Nobody is released tonight; it may return whole.
    WITHHELD = 3
    #: Who left is never released again, nor are its decoys; the others are.
    SHEDDING = 4
    #: Nobody of it is ever released again.
    CLOSED = 5


def is_released(code: Bytes) -> Bools:
    return np.isin(code, (Fate.CARRIED, Fate.WITH_GHOSTS, Fate.SHEDDING))


class Fates(NamedTuple):
    code: Bytes
    decoys: Ints


def decide(n: Ints, left: Ints, due: Bools, leavers: Leavers, k: int) -> Fates:
    """Decide each atom's fate tonight, by its units and how many of them left; ``due``: its rotation ends.

    >>> n, left, due = np.array([2, 3]), np.array([0, 1]), np.zeros(2, dtype=np.bool_)
    >>> decide(n, left, due, "ghosts", k=2).code.tolist(), decide(n, left, due, "withhold", k=2).code.tolist()
    ([1, 2], [1, 3])
    """
    stay, decoys = n - left, np.zeros(len(n), dtype=np.int64)
    code = np.full(len(n), Fate.CARRIED, dtype=np.uint8)
    if leavers == "withhold":
        code[(left > 0) | (stay < k)] = Fate.WITHHELD
    else:
        # Where k rose, an atom may have become too small to be released at all.
        closed = (stay == 0) | (n < k)
        lacking = (left > 0) & ((left < k) | (stay < k)) & ~closed
        code[left > 0] = Fate.SHEDDING
        if leavers == "ghosts":
            code[lacking] = Fate.WITH_GHOSTS
        else:
            wanted = np.maximum(k - left, 0)
            closed |= lacking & (stay - wanted < k)
            decoys = np.where(lacking & ~closed, wanted, 0)
        code[closed] = Fate.CLOSED
    code[due], decoys = Fate.CLOSED, np.where(due, 0, decoys)
    return Fates(code, decoys)


def drawn_decoys(atom: Ints, wanted: Ints, words: UInt64s, night: int) -> Ints:
    """Draw the stayers that vanish with the leavers.

    >>> len(drawn_decoys(np.array([0, 0, 0, 1]), np.array([2, 0]), np.arange(4, dtype=np.uint64), night=1))
    2
    """
    stayers = np.flatnonzero(wanted[atom] > 0)
    lot = mix_words(words[stayers] ^ mix_words(np.full(len(stayers), night, dtype=np.uint64)))
    order = np.lexsort((words[stayers], lot, atom[stayers]))
    atoms = atom[stayers][order]
    place = np.arange(len(atoms)) - np.searchsorted(atoms, atoms)
    drawn: Ints = stayers[order[place < wanted[atoms]]]
    return drawn


def held_back(atom: Ints, changed: Bools, beside_ghosts: Bools, k: int) -> Bools:
    """Mark the atoms and columns of which fewer than k released units ``changed``, or any beside ghosts.

    Counted by atom, the place of which each released unit has, and that is more than by class: two atoms of one class
    do not always come and go together. A ghost would stand still among those who change, and be known by that.

    >>> changed = np.array([[True, True], [False, True], [False, True]])
    >>> held_back(np.array([0, 0, 0]), changed, np.array([False]), k=3).tolist()
    [[True, False]]
    >>> held_back(np.array([0, 0, 0]), changed, np.array([True]), k=3).tolist()
    [[True, True]]
    """
    counts = [np.bincount(atom, changed[:, j], len(beside_ghosts)) for j in range(changed.shape[1])]
    held = [(count > 0) & ((count < k) | beside_ghosts) for count in counts]
    return np.column_stack(held) if held else np.zeros((len(beside_ghosts), 0), dtype=np.bool_)
