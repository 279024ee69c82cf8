"""Fates: what becomes tonight of the atoms that were released before.

An atom is released whole, is absent whole, or is split into parts of at least k units each, of which one at most is
ever released again: so every trace keeps its k units.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from microagg_core.arrays import Bools, Bytes, Ints, ShortInts, UInt64s
from microagg_core.errors import InternalError
from microagg_core.kernels.tools.hashing import mix_words

SeriesMode: TypeAlias = Literal["disjoint", "atoms", "rotation", "independent"]
Guarantee: TypeAlias = Literal["trace", "trace+changes"]
Leavers: TypeAlias = Literal["withhold", "ghosts", "decoys"]


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


@dataclass(frozen=True)
class Policy:
    mode: Literal["atoms", "rotation"]
    guarantee: Guarantee
    leavers: Leavers
    k: int
    nights: int | None
    night: int

    def is_due(self, since: ShortInts) -> Bools:
        """Mark the atoms whose rotation ends, by the night of their first release."""
        if self.mode == "atoms":
            return np.zeros(len(since), dtype=np.bool_)
        if self.nights is None:
            raise InternalError("a bug: a rotation without its number of nights; please report it")
        return np.asarray(self.night - since >= self.nights)


def is_released(code: Bytes) -> Bools:
    return np.isin(code, (Fate.CARRIED, Fate.WITH_GHOSTS, Fate.SHEDDING))


class Fates(NamedTuple):
    code: Bytes
    decoys: Ints


def decide(n: Ints, left: Ints, since: ShortInts, policy: Policy) -> Fates:
    """Decide each atom's fate tonight.

    >>> n, left, nights = np.array([2, 3]), np.array([0, 1]), np.zeros(2, dtype=np.int32)
    >>> decide(n, left, nights, Policy("atoms", "trace", "ghosts", k=2, nights=None, night=1)).code.tolist()
    [1, 2]
    >>> decide(n, left, nights, Policy("atoms", "trace", "withhold", k=2, nights=None, night=1)).code.tolist()
    [1, 3]
    """
    k, stay, decoys = policy.k, n - left, np.zeros(len(n), dtype=np.int64)
    code = np.full(len(n), Fate.CARRIED, dtype=np.uint8)
    if policy.leavers == "withhold":
        code[(left > 0) | (stay < k)] = Fate.WITHHELD
    else:
        # Where k rose, an atom may have become too small to be released at all.
        closed = (stay == 0) | (n < k)
        lacking = (left > 0) & ((left < k) | (stay < k)) & ~closed
        code[left > 0] = Fate.SHEDDING
        if policy.leavers == "ghosts":
            code[lacking] = Fate.WITH_GHOSTS
        else:
            wanted = np.maximum(k - left, 0)
            closed |= lacking & (stay - wanted < k)
            decoys = np.where(lacking & ~closed, wanted, 0)
        code[closed] = Fate.CLOSED
    due = policy.is_due(since)
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
    """Mark the atoms and columns of which fewer than k released units changed, or any beside ghosts.

    Counted by atom, which is more than by class: two atoms of one class do not always come and go together. A ghost
    would stand still among those who change, and be known by that.

    Args:
        atom: the place of the atom of each released unit.
        changed: of each such unit, the columns whose value is another than was last released.
        beside_ghosts: the atoms of classes that hold ghosts.
        k: how many have to change together.

    >>> changed = np.array([[True, True], [False, True], [False, True]])
    >>> held_back(np.array([0, 0, 0]), changed, np.array([False]), k=3).tolist()
    [[True, False]]
    >>> held_back(np.array([0, 0, 0]), changed, np.array([True]), k=3).tolist()
    [[True, True]]
    """
    counts = [np.bincount(atom, changed[:, j], len(beside_ghosts)) for j in range(changed.shape[1])]
    held = [(count > 0) & ((count < k) | beside_ghosts) for count in counts]
    return np.column_stack(held) if held else np.zeros((len(beside_ghosts), 0), dtype=np.bool_)
