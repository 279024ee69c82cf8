"""Fates: what becomes tonight of the units that were released before, atom by atom.

An atom is the units of one trace. It is released whole, is absent whole, or is split into parts of at least k units
each, of which one at most is ever released again: so every trace keeps its k units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from microagg_core.arrays import Bools, Bytes, Ints, Pairs, ShortInts
from microagg_core.errors import InternalError
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.series.digests import numbered_pairs

#: In tonight's input, and released.
CARRIED = 1
#: Not in tonight's input, and released as it was last.
GHOST = 2
#: Not released tonight; its atom may return whole.
WITHHELD = 3
#: Not released, and never again.
VANISHED = 4

SeriesMode: TypeAlias = Literal["disjoint", "atoms", "rotation", "independent"]
Guarantee: TypeAlias = Literal["trace", "trace+changes"]
Leavers: TypeAlias = Literal["withhold", "ghosts", "decoys"]


@dataclass(frozen=True)
class Policy:
    """What a spec says of a series, and which night it is."""

    mode: Literal["atoms", "rotation"]
    guarantee: Guarantee
    leavers: Leavers
    k: int
    nights: int | None
    night: int


class Members(NamedTuple):
    """The units that were released before and may be again, with all of every atom; one row a unit.

    ``present`` says who is in tonight's input; ``since`` and ``last`` are the nights of the first and the last
    release; ``changed`` says of each confidential column whether its value is another than was last released.
    """

    trace: Pairs
    klass: Pairs
    unit: Pairs
    present: Bools
    since: ShortInts
    last: ShortInts
    changed: Bools


class Fates(NamedTuple):
    """A code for each member, and which of its columns are released as they were last."""

    code: Bytes
    held_back: Bools


def decide(members: Members, policy: Policy) -> Fates:
    """What becomes of every member tonight.

    >>> pairs = lambda *words: np.array([[word, 0] for word in words], dtype=np.uint64)
    >>> nights = np.zeros(5, dtype=np.int32)
    >>> present = np.array([True, True, True, True, False])
    >>> members = Members(pairs(1, 1, 2, 2, 2), pairs(1, 1, 2, 2, 2), pairs(1, 2, 3, 4, 5), present, nights, nights,
    ...                   np.zeros((5, 0), dtype=np.bool_))
    >>> decide(members, Policy("atoms", "trace", "ghosts", k=2, nights=None, night=1)).code.tolist()
    [1, 1, 1, 1, 2]
    >>> decide(members, Policy("atoms", "trace", "withhold", k=2, nights=None, night=1)).code.tolist()
    [1, 1, 3, 3, 3]
    """
    atom, distinct = numbered_pairs(members.trace)
    stay = np.bincount(atom[members.present], minlength=len(distinct))
    left = np.bincount(atom, minlength=len(distinct)) - stay
    code = _codes(members, atom, stay, left, policy)
    if policy.mode == "rotation":
        if policy.nights is None:
            raise InternalError("a bug: a rotation without its number of nights; please report it")
        code[policy.night - members.since >= policy.nights] = VANISHED
    return Fates(code, _held_back(members, atom, code, policy))


def _codes(members: Members, atom: Ints, stay: Ints, left: Ints, policy: Policy) -> Bytes:
    """The fates by the rule for leavers alone."""
    k, present = policy.k, members.present
    code = np.where(present, CARRIED, VANISHED).astype(np.uint8)
    if policy.leavers == "withhold":
        code[((left > 0) | (stay < k))[atom]] = WITHHELD
        return code
    # Where k rose, an atom may have become too small to be released at all.
    closed = (stay == 0) | (stay + left < k)
    lacking = (left > 0) & ((left < k) | (stay < k)) & ~closed
    if policy.leavers == "ghosts":
        code[lacking[atom] & ~present] = GHOST
    else:
        closed |= lacking & (stay - np.maximum(k - left, 0) < k)
        code[_decoys(members, atom, np.where(lacking & ~closed, k - left, 0), policy.night)] = VANISHED
    code[closed[atom]] = VANISHED
    return code


def _decoys(members: Members, atom: Ints, wanted: Ints, night: int) -> Ints:
    """The stayers that vanish with the leavers: of each atom as many as are wanted, by lot."""
    stayers = np.flatnonzero(members.present & (wanted[atom] > 0))
    unit = members.unit[stayers]
    lot = mix_words(unit[:, 0] ^ mix_words(unit[:, 1] + np.uint64(night)))
    order = np.lexsort((unit[:, 1], unit[:, 0], lot, atom[stayers]))
    atoms = atom[stayers][order]
    place = np.arange(len(atoms)) - np.searchsorted(atoms, atoms)
    return stayers[order[place < wanted[atoms]]]


def _held_back(members: Members, atom: Ints, code: Bytes, policy: Policy) -> Bools:
    """The columns in which some of an atom's released units changed, but fewer than k of them.

    Counted by atom, which is more than by class: two atoms of one class do not always come and go together.
    """
    held_back = np.zeros(members.changed.shape, dtype=np.bool_)
    if policy.guarantee == "trace":
        return held_back
    released = (code == CARRIED) | (code == GHOST)
    for column in range(members.changed.shape[1]):
        changed = atom[members.changed[:, column] & (code == CARRIED)]
        count = np.bincount(changed, minlength=int(atom.max(initial=-1)) + 1)
        held_back[:, column] = ((count > 0) & (count < policy.k))[atom] & released
    return held_back
