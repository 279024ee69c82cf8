"""Fates: equal to the rules as one reads them; and whole series of nights in which no trace ever gets below k units."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covering import examples
from microagg_core.arrays import Ints, Pairs, UInt64s
from microagg_core.errors import InternalError
from microagg_core.series.atoms import traces_of
from microagg_core.series.fates import Fate, Fates, decide, drawn_decoys, held_back
from microagg_core.series.night import Night
from microagg_core.series.units import NO_ATOM, State
from microagg_core.series.verdict import weakest_cut
from twins import naive_series
from twins.naive_series import NaiveMember


@dataclass(frozen=True)
class Policy:
    """The rules of a night, as far as fates follow from them."""

    mode: Any
    guarantee: str
    leavers: Any
    k: int
    nights: int | None
    number: int

    def decide(self, n: Ints, left: Ints, since: Any) -> Fates:
        rules: Any = self
        return decide(n, left, Night.is_due(rules, since), self.leavers, self.k)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    mode: Any = draw(st.sampled_from(["atoms", "rotation"]))
    return Policy(
        mode=mode,
        guarantee=draw(st.sampled_from(["trace", "trace+changes"])),
        leavers=draw(st.sampled_from(["withhold", "ghosts", "decoys"])),
        k=draw(st.integers(2, 5)),
        nights=draw(st.integers(1, 6)) if mode == "rotation" else None,
        number=0,
    )


def pair(word: int) -> tuple[int, int]:
    """A digest for a small number; absent for 0."""
    return (word, word * 7 % 5 + 1 if word else 0)


def pairs_of(numbers: list[int]) -> Pairs:
    return np.array([pair(number) for number in numbers], dtype=np.uint64).reshape(-1, 2)


def words_of(units: list[int]) -> UInt64s:
    """What tells units apart when lots are drawn."""
    return np.array([7 * unit + 3 for unit in units], dtype=np.uint64)


def lot_of(unit: int, night: int) -> int:
    return naive_series.mix((7 * unit + 3) ^ naive_series.mix(night))


def fates_of_units(fates: Fates, atom: Ints, present: list[bool], units: list[int], night: int) -> list[str]:
    """What becomes of each unit, of what becomes of its atom; ``atom`` has the place of each one's."""
    stayers = np.flatnonzero(present)
    drawn = drawn_decoys(atom[stayers], fates.decoys, words_of([units[i] for i in stayers]), night)
    decoys = set(stayers[drawn].tolist())
    words = []
    for i, (code, stays) in enumerate(zip(fates.code[atom].tolist(), present, strict=True)):
        assert stays or code != Fate.CARRIED, "an atom is carried although somebody left it"
        assert i not in decoys or code == Fate.SHEDDING
        if code == Fate.WITHHELD:
            words.append("withheld")
        elif code == Fate.CLOSED or i in decoys or (code == Fate.SHEDDING and not stays):
            words.append("vanished")
        else:
            words.append("carried" if stays else "ghost")
    return words


@given(
    policies(),
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.booleans(), st.booleans()), max_size=40),
)
@examples(500)
def test_fates_equal_the_rules(policy: Policy, night: int, rows: list[tuple[int, int, bool, bool]]) -> None:
    """Sizes of atoms are any here, below k as well, as where k rose."""
    policy = replace(policy, number=night)
    atoms, atom = np.unique(np.array([row[0] for row in rows], dtype=np.int64), return_inverse=True)
    present = [chance > 0 for _, chance, _, _ in rows]
    n = np.bincount(atom, minlength=len(atoms))
    left = n - np.bincount(atom[np.flatnonzero(present)], minlength=len(atoms))
    since = (atoms - 1).astype(np.int32)
    fates = policy.decide(n, left, since)
    told = fates_of_units(fates, atom, present, list(range(len(rows))), night)
    carried = np.flatnonzero([fate == "carried" for fate in told])
    changed = np.array([row[2:] for row in rows], dtype=np.bool_).reshape(-1, 2)
    held = held_back(atom[carried], changed[carried], fates.code == Fate.WITH_GHOSTS, policy.k)
    for place in range(len(atoms)):
        units = np.flatnonzero(atom == place).tolist()
        naive = [
            NaiveMember(str(place), present[unit], int(since[place]), lot_of(unit, night), rows[unit][2:])
            for unit in units
        ]
        expected = naive_series.fates_of_atom(naive, policy.mode, policy.leavers, policy.k, policy.nights or 0, night)
        assert [told[unit] for unit in units] == expected
        assert held[place].tolist() == (naive_series.columns_held_back(naive, expected, policy.k) or [False, False])


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=6),
    st.lists(st.integers(0, 8), min_size=6, max_size=6),
    st.integers(0, 9),
    st.randoms(use_true_random=False),
)
@examples(100)
def test_as_many_decoys_as_are_wanted_in_whatever_order_the_stayers_come(
    sizes: list[int], wanted: list[int], night: int, order: Any
) -> None:
    atom = np.repeat(np.arange(len(sizes)), sizes)
    words = words_of(list(range(len(atom))))
    drawn = drawn_decoys(atom, np.array(wanted), words, night)
    assert len(set(drawn.tolist())) == len(drawn)
    expected = [min(some, size) for some, size in zip(wanted, sizes, strict=False)]
    assert np.bincount(atom[drawn], minlength=len(sizes)).tolist() == expected
    shuffled = list(range(len(atom)))
    order.shuffle(shuffled)
    again = drawn_decoys(atom[shuffled], np.array(wanted), words[shuffled], night)
    assert sorted(np.array(shuffled, dtype=np.int64)[again].tolist()) == sorted(drawn.tolist())


def test_the_lot_falls_otherwise_every_night_and_on_everybody() -> None:
    atom, words = np.zeros(10, dtype=np.int64), words_of(list(range(10)))
    drawn = [tuple(sorted(drawn_decoys(atom, np.array([3]), words, night).tolist())) for night in range(300)]
    assert len(set(drawn)) > 90
    often = Counter(unit for lot in drawn for unit in lot)
    assert len(often) == 10 and min(often.values()) > 50 and max(often.values()) < 140


def test_a_rotation_has_a_number_of_nights() -> None:
    one, since = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int32)
    with pytest.raises(InternalError, match="a bug"):
        Policy("rotation", "trace", "ghosts", 2, None, 3).decide(one, one, since)
    codes = [
        int(Policy("rotation", "trace", "ghosts", 2, 3, night).decide(one * 2, one * 0, since).code[0])
        for night in range(1, 5)
    ]
    assert codes == [Fate.CARRIED, Fate.CARRIED, Fate.CLOSED, Fate.CLOSED]


@dataclass
class Story:
    """A series as it happens: who is there each night, and what is released of whom."""

    policy: Policy
    draws: np.random.Generator
    n_units: int
    churn: float
    there: set[int] = field(default_factory=set)
    #: What each unit's one confidential value is tonight, and what it was when last released: numbers of versions.
    version: Counter[int] = field(default_factory=Counter)
    shown: dict[int, int] = field(default_factory=dict)
    klass: dict[int, int] = field(default_factory=dict)
    #: The atom of every unit that was ever released, and the night that first released each atom.
    atom: dict[int, int] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)
    #: Who is never released again, and the night that last released each.
    gone: dict[int, int] = field(default_factory=dict)
    #: For each night the class of every released unit, and the version of its value that was released.
    nights: list[dict[int, int]] = field(default_factory=list)
    versions: list[dict[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.there = set(range(self.n_units * 2 // 3))

    def chance(self, probability: float) -> bool:
        return bool(self.draws.random() < probability)

    def pass_a_day(self) -> None:
        """Some leave, some come or return, and some values change."""
        for unit in range(self.n_units):
            if self.chance(self.churn):
                self.there ^= {unit}
            if self.chance(self.churn * 2):
                self.version[unit] += 1

    def release(self) -> Counter[str]:
        """One night; tells what became of how many."""
        night = len(self.nights)
        released, told = self.carried(night)
        released |= self.grouped_arrivals(night)
        shown = {unit: self.shown.get(unit, self.version[unit]) for unit in released}
        self.shown |= shown
        self.nights.append(released)
        self.versions.append(shown)
        return told

    def carried(self, night: int) -> tuple[dict[int, int], Counter[str]]:
        """What is released again, with the versions that may be shown."""
        units = sorted(set(self.atom) - set(self.gone))
        atoms, atom = np.unique(np.array([self.atom[unit] for unit in units], dtype=np.int64), return_inverse=True)
        present = [unit in self.there for unit in units]
        n = np.bincount(atom, minlength=len(atoms))
        left = n - np.bincount(atom[np.flatnonzero(present)], minlength=len(atoms))
        since = np.array([self.since[number] for number in atoms.tolist()], dtype=np.int32)
        policy = replace(self.policy, number=night)
        decided = policy.decide(n, left, since)
        fates = fates_of_units(decided, atom, present, units, night)
        out = np.flatnonzero([fate == "carried" for fate in fates])
        changed = np.array([[self.version[units[i]] != self.shown[units[i]]] for i in out], dtype=np.bool_)
        klass = np.array([self.klass[next(u for u in units if self.atom[u] == number)] for number in atoms.tolist()])
        haunted = np.isin(klass, klass[decided.code == Fate.WITH_GHOSTS])
        least = policy.k if policy.guarantee == "trace+changes" else 1
        held = held_back(atom[out], changed.reshape(-1, 1), haunted, least)[:, 0]
        told = Counter(fates)
        for unit, fate, place in zip(units, fates, atom.tolist(), strict=True):
            if fate == "carried" and not held[place]:
                self.shown[unit] = self.version[unit]
            if fate == "vanished":
                self.gone[unit] = max(night for night, released in enumerate(self.nights) if unit in released)
        told["held back"] = int(held[atom].sum())
        released = {u: self.klass[u] for u, fate in zip(units, fates, strict=True) if fate in ("carried", "ghost")}
        return released, told

    def grouped_arrivals(self, night: int) -> dict[int, int]:
        """Some of those who were never released, in groups of k and more; a class may be one that others have."""
        k = self.policy.k
        waiting = self.draws.permutation(sorted(self.there - set(self.atom))).tolist()
        waiting = waiting[: int(self.draws.integers(0, len(waiting) + 1)) if night else len(waiting)]
        released: dict[int, int] = {}
        of_class: dict[int, int] = {}
        while len(waiting) >= k:
            size = int(self.draws.integers(k, 2 * k)) if len(waiting) >= 3 * k else len(waiting)
            klass = int(self.draws.integers(1, 4)) if self.chance(0.3) else 10 + len(self.atom)
            # Who comes to one class on one night is of one atom, or of two; who comes on another is never of these.
            atom = 1 + len(self.since) if self.chance(0.5) else of_class.setdefault(klass, 1 + len(self.since))
            self.since[atom] = night
            for unit in waiting[:size]:
                released[unit] = self.klass[unit] = klass
                self.atom[unit] = atom
            waiting = waiting[size:]
        return released

    def traces(self) -> dict[int, tuple[int, int]]:
        """What the ledger has as the trace of each unit."""
        units = range(self.n_units)
        atom = np.array([self.atom.get(unit, NO_ATOM) for unit in units], dtype=np.uint64)
        live = [State.LIVE if unit in self.atom else State.HELD for unit in units]
        state = np.array([State.GONE if unit in self.gone else live[unit] for unit in units], dtype=np.int64)
        last = np.array([self.gone.get(unit, -2 if unit in self.atom else -1) for unit in units], dtype=np.int32)
        return dict(enumerate(map(tuple, traces_of(atom, state, last).tolist())))

    def history(self, unit: int) -> tuple[int, ...]:
        """A unit's class in every night, 0 where it was absent."""
        return tuple(night.get(unit, 0) for night in self.nights)

    def classes(self, night: int) -> Pairs:
        return pairs_of([self.nights[night].get(unit, 0) for unit in range(self.n_units)])

    def sums(self) -> list[set[int]]:
        return [units for night in self.nights for units in naive_series.sums_of(night)]

    def sums_of_values(self) -> tuple[list[set[int]], list[int]]:
        """The sums of the confidential column: each value that a unit was shown with is a column of its own."""
        column_of: dict[tuple[int, int], int] = {}
        sums = []
        for night, versions in zip(self.nights, self.versions, strict=True):
            for units in naive_series.sums_of(night):
                sums.append({column_of.setdefault((unit, versions[unit]), len(column_of)) for unit in units})
        return sums, [unit for unit, _ in column_of]


def assert_traces_have_k(story: Story) -> None:
    """Of each trace there are k units, and an atom with the night in which one left it is all of a history."""
    traces = story.traces()
    assert min(Counter(traces[unit] for unit in story.atom).values(), default=story.policy.k) >= story.policy.k
    assert {traces[unit] for unit in range(story.n_units) if unit not in story.atom} <= {(0, 0)}
    histories, of_trace = defaultdict(set), defaultdict(set)
    for unit, atom in story.atom.items():
        of_trace[traces[unit]].add(story.history(unit))
        histories[atom, story.history(unit)].add(traces[unit])
    assert all(len(some) == 1 for some in (*histories.values(), *of_trace.values()))


def assert_nobody_changed_beside_a_ghost(story: Story) -> None:
    """Else the one who stands still is the one who left."""
    tonight, last = story.nights[-1], story.nights[-2]
    haunted = {klass for unit, klass in tonight.items() if unit not in story.there}
    still = [unit for unit, klass in tonight.items() if klass in haunted and unit in last]
    assert all(story.versions[-1][unit] == story.versions[-2][unit] for unit in still)


def assert_changes_have_k(story: Story) -> None:
    """Between two publications of a class, in any two nights that follow one another."""
    changed: dict[int, int] = defaultdict(int)
    for unit, klass in story.nights[-1].items():
        if story.nights[-2].get(unit) == klass:
            changed[klass] += story.versions[-1][unit] != story.versions[-2][unit]
    assert all(count == 0 or count >= story.policy.k for count in changed.values())


stories = st.builds(
    Story,
    policy=policies(),
    draws=st.integers(0, 2**32).map(np.random.default_rng),
    n_units=st.integers(6, 60),
    churn=st.sampled_from([0.0, 0.01, 0.05, 0.2]),
)


@given(stories, st.integers(2, 12))
@examples(300)
def test_every_trace_keeps_k_units_night_after_night(story: Story, n_nights: int) -> None:
    for _ in range(n_nights):
        story.release()
        assert_traces_have_k(story)
        if len(story.nights) > 1:
            two = story.classes(len(story.nights) - 2), story.classes(len(story.nights) - 1)
            assert weakest_cut(*two, story.policy.k) is None
            assert_nobody_changed_beside_a_ghost(story)
            if story.policy.guarantee == "trace+changes":
                assert_changes_have_k(story)
        story.pass_a_day()


small_stories = st.builds(
    Story,
    policy=policies(),
    draws=st.integers(0, 2**32).map(np.random.default_rng),
    n_units=st.integers(6, 18),
    churn=st.sampled_from([0.05, 0.1, 0.3]),
)


@given(small_stories, st.integers(2, 6))
@examples(300)
def test_no_linear_combination_of_all_sums_involves_fewer_than_k(story: Story, n_nights: int) -> None:
    for _ in range(n_nights):
        story.release()
        story.pass_a_day()
    sums, k = story.sums(), story.policy.k
    assert naive_series.solved(sums, story.n_units) == []
    assert naive_series.smallest_support(sums, range(story.n_units), below=min(k, 4)) is None
    if story.policy.guarantee == "trace+changes":
        assert naive_series.smallest_support(*story.sums_of_values(), below=min(k, 4)) is None


def test_stories_have_all_that_can_happen_in_them() -> None:
    """Leavers, returns, ghosts, decoys, splits and held-back columns do come up in random series."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        leavers: Any = ("withhold", "ghosts", "decoys")[seed % 3]
        policy = Policy("atoms", "trace+changes", leavers, 2 + seed % 2, None, 0)
        story = Story(policy, np.random.default_rng(seed), 40, 0.05)
        for _ in range(12):
            seen.update(story.release())
            story.pass_a_day()
        decoys = [unit for unit in story.gone if unit in story.there]
        seen["decoys"] += len(decoys) if leavers == "decoys" else 0
        atoms_of_gone = {story.atom[unit] for unit in story.gone}
        seen["split"] += sum(story.atom[unit] in atoms_of_gone for unit in story.atom if unit not in story.gone)
        last, nights = story.nights[-1], story.nights
        seen["returned"] += sum(u in last and any(u in n for n in nights[:-2]) and u not in nights[-2] for u in last)
    wanted = ("carried", "ghost", "withheld", "vanished", "held back", "decoys", "split", "returned")
    assert min(seen[what] for what in wanted) > 0


def test_without_change_k_one_change_is_told_by_two_sums() -> None:
    """What the guarantee is for: the exact test sees one person's change where nothing is held back."""
    solved = 0
    for seed in range(30):
        story = Story(Policy("atoms", "trace", "ghosts", 3, None, 0), np.random.default_rng(seed), 12, 0.05)
        for _ in range(3):
            story.release()
            story.pass_a_day()
        solved += naive_series.smallest_support(*story.sums_of_values(), below=3) is not None
    assert solved > 10


def test_two_atoms_of_one_class_are_counted_one_by_one() -> None:
    """Should one of them vanish later, what is left of the class is one change of the other."""
    changed = np.array([[True], [False], [True], [False]])
    without = np.zeros(2, dtype=np.bool_)
    assert held_back(np.array([0, 0, 1, 1]), changed, without, k=2).all()
    assert not held_back(np.array([0, 0, 0, 0]), changed, without, k=2).any()
