"""Fates: equal to the rules as one reads them; and whole series of nights in which no trace ever gets below k units."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microagg_core.arrays import Pairs
from microagg_core.series.fates import CARRIED, GHOST, VANISHED, WITHHELD, Fates, Members, Policy, decide
from microagg_core.series.pairs import weakest_cut
from microagg_core.series.traces import ABSENT, counted, never, next_traces
from twins import naive_series
from twins.naive_series import NaiveMember

WORDS = {CARRIED: "carried", GHOST: "ghost", WITHHELD: "withheld", VANISHED: "vanished"}


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    mode: Any = draw(st.sampled_from(["atoms", "rotation"]))
    return Policy(
        mode=mode,
        guarantee=draw(st.sampled_from(["trace", "trace+changes"])),
        leavers=draw(st.sampled_from(["withhold", "ghosts", "decoys"])),
        k=draw(st.integers(2, 5)),
        nights=draw(st.integers(1, 6)) if mode == "rotation" else None,
        night=0,
    )


def pair(word: int) -> tuple[int, int]:
    """A digest for a small number; absent for 0."""
    return (word, word * 7 % 5 + 1 if word else 0)


def pairs_of(numbers: list[int]) -> Pairs:
    return np.array([pair(number) for number in numbers], dtype=np.uint64).reshape(-1, 2)


def lot_of(unit: int, night: int) -> int:
    one, two = pair(unit)
    return naive_series.mix(one ^ naive_series.mix(two + night))


@given(
    policies(),
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.booleans(), st.booleans()), max_size=40),
)
@settings(max_examples=500, deadline=None)
def test_fates_equal_the_rules(policy: Policy, night: int, rows: list[tuple[int, int, bool, bool]]) -> None:
    """Sizes of atoms are any here, below k as well, as where k rose."""
    policy = replace(policy, night=night)
    since = [atom - 1 for atom, *_ in rows]
    members = Members(
        trace=pairs_of([atom for atom, *_ in rows]),
        klass=pairs_of([1] * len(rows)),
        unit=pairs_of(list(range(1, len(rows) + 1))),
        present=np.array([chance > 0 for _, chance, _, _ in rows], dtype=np.bool_),
        since=np.array(since, dtype=np.int32),
        last=np.array(since, dtype=np.int32),
        changed=np.array([row[2:] for row in rows], dtype=np.bool_).reshape(-1, 2),
    )
    fates = decide(members, policy)
    for atom in {row[0] for row in rows}:
        units = [unit for unit, row in enumerate(rows) if row[0] == atom]
        naive = [
            NaiveMember(str(atom), rows[unit][1] > 0, since[unit], lot_of(unit + 1, night), rows[unit][2:])
            for unit in units
        ]
        expected = naive_series.fates_of_atom(naive, policy.mode, policy.leavers, policy.k, policy.nights or 0, night)
        assert [WORDS[code] for code in fates.code[units].tolist()] == expected
        columns = naive_series.columns_held_back(naive, expected, policy.k)
        for unit, fate in zip(units, expected, strict=True):
            held = columns if policy.guarantee == "trace+changes" and fate in ("carried", "ghost") else [False, False]
            assert fates.held_back[unit].tolist() == (held or [False, False])


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
    since: dict[int, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    traces: Pairs = field(default_factory=lambda: pairs_of([]))
    #: For each night the class of every released unit, and the version of its value that was released.
    nights: list[dict[int, int]] = field(default_factory=list)
    versions: list[dict[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.traces = np.repeat(np.array([never(0)], dtype=np.uint64), self.n_units, axis=0)
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

    def release(self) -> Fates:
        night = len(self.nights)
        released, fates = self.carried(night)
        released |= self.grouped_arrivals(night)
        shown = {unit: self.shown.get(unit, self.version[unit]) for unit in released}
        self.shown |= shown
        self.nights.append(released)
        self.versions.append(shown)
        self.traces = next_traces(self.traces, self.classes(night))
        return fates

    def carried(self, night: int) -> tuple[dict[int, int], Fates]:
        """What is released again, with the versions that may be shown."""
        units = sorted(set(self.since) - self.gone)
        members = Members(
            trace=self.traces[units],
            klass=pairs_of([self.klass[unit] for unit in units]),
            unit=pairs_of([unit + 1 for unit in units]),
            present=np.array([unit in self.there for unit in units], dtype=np.bool_),
            since=np.array([self.since[unit] for unit in units], dtype=np.int32),
            last=np.array([night - 1 for _ in units], dtype=np.int32),
            changed=np.array([[self.version[u] != self.shown[u]] for u in units], dtype=np.bool_).reshape(-1, 1),
        )
        fates = decide(members, replace(self.policy, night=night))
        released = {}
        for unit, code, held_back in zip(units, fates.code.tolist(), fates.held_back[:, 0].tolist(), strict=True):
            assert code != CARRIED or unit in self.there
            assert code != GHOST or unit not in self.there
            if code in (CARRIED, GHOST):
                released[unit] = self.klass[unit]
            if code == CARRIED and not held_back:
                self.shown[unit] = self.version[unit]
            if code == VANISHED:
                self.gone.add(unit)
        return released, fates

    def grouped_arrivals(self, night: int) -> dict[int, int]:
        """Some of those who were never released, in groups of k and more; a class may be one that others have."""
        k = self.policy.k
        waiting = self.draws.permutation(sorted(self.there - set(self.since))).tolist()
        waiting = waiting[: int(self.draws.integers(0, len(waiting) + 1)) if night else len(waiting)]
        released: dict[int, int] = {}
        while len(waiting) >= k:
            size = int(self.draws.integers(k, 2 * k)) if len(waiting) >= 3 * k else len(waiting)
            klass = int(self.draws.integers(1, 4)) if self.chance(0.3) else 10 + len(self.since)
            for unit in waiting[:size]:
                released[unit] = self.klass[unit] = klass
                self.since[unit] = night
            waiting = waiting[size:]
        return released

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
    released = sorted(story.since)
    assert counted(story.traces[released])[1].min(initial=story.policy.k) >= story.policy.k
    unreleased = [unit for unit in range(story.n_units) if unit not in story.since]
    assert {tuple(row) for row in story.traces[unreleased].tolist()} <= {never(len(story.nights))}
    histories = Counter(tuple(night.get(unit, 0) for night in story.nights) for unit in released)
    assert sorted(histories.values()) == sorted(counted(story.traces[released])[1].tolist())


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
@settings(max_examples=300, deadline=None)
def test_every_trace_keeps_k_units_night_after_night(story: Story, n_nights: int) -> None:
    for _ in range(n_nights):
        story.release()
        assert_traces_have_k(story)
        if len(story.nights) > 1:
            two = story.classes(len(story.nights) - 2), story.classes(len(story.nights) - 1)
            assert weakest_cut(*two, story.policy.k) is None
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
@settings(max_examples=300, deadline=None)
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
            fates = story.release()
            seen.update(WORDS[code] for code in fates.code.tolist())
            seen["held back"] += int(fates.held_back.sum())
            story.pass_a_day()
        decoys = [unit for unit in story.gone if unit in story.there]
        seen["decoys"] += len(decoys) if leavers == "decoys" else 0
        last, nights = story.nights[-1], story.nights
        seen["returned"] += sum(u in last and any(u in n for n in nights[:-2]) and u not in nights[-2] for u in last)
    assert min(seen[what] for what in (*WORDS.values(), "held back", "decoys", "returned")) > 0


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


@pytest.mark.parametrize("k", [3, 5])
def test_a_unit_that_moves_between_atoms_is_seen(k: int) -> None:
    before = [1] * k + [2] * k
    after = [2, *before[1:]]
    traces = np.repeat(np.array([never(0)], dtype=np.uint64), 2 * k, axis=0)
    for classes in (before, after):
        traces = next_traces(traces, pairs_of(classes))
    assert counted(traces)[1].min() == 1
    assert weakest_cut(pairs_of(before), pairs_of(after), k) == 1


def test_absent_is_no_class_of_a_small_number() -> None:
    assert (pairs_of([0]) == ABSENT).all() and not (pairs_of(list(range(1, 50))) == ABSENT).all(axis=1).any()


def test_two_atoms_of_one_class_are_counted_one_by_one() -> None:
    """Should one of them vanish later, what is left of the class is one change of the other."""
    same, zeros = pairs_of([9] * 4), np.zeros(4, dtype=np.int32)
    changed = np.array([[True], [False], [True], [False]])
    members = Members(pairs_of([1, 1, 2, 2]), same, pairs_of([1, 2, 3, 4]), np.ones(4, np.bool_), zeros, zeros, changed)
    fates = decide(members, Policy("atoms", "trace+changes", "ghosts", 2, None, 3))
    assert fates.held_back.all() and fates.code.tolist() == [CARRIED] * 4
