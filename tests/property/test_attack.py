"""The attack against exact linear algebra: who is solved, and with which values, on hundreds of small series."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from covering import each, share
from microagg_core.series.attack.equations import bridges, determined
from microagg_core.series.attack.evidence import ColumnsOfAttack, Evidence
from microagg_core.series.attack.report import Attack, AttackedRelease, attack_evidence

NAMES = ColumnsOfAttack(("x",), (), ("c",))
NOBODY = -1


def in_row_space(rows: list[list[int]], n: int) -> list[bool]:
    """Whether each unit vector is in the row space, by elimination in fractions."""
    exact = [[Fraction(value) for value in row] for row in rows]
    reduced: list[list[Fraction]] = []
    for column in range(n):
        pivot = next((row for row in exact if row[column]), None)
        if pivot is None:
            continue
        exact.remove(pivot)
        pivot = [value / pivot[column] for value in pivot]

        def cleared(row: list[Fraction], by: list[Fraction] = pivot, at: int = column) -> list[Fraction]:
            return [a - row[at] * b for a, b in zip(row, by, strict=True)]

        exact, reduced = [cleared(row) for row in exact], [*(cleared(row) for row in reduced), pivot]
    units = [[value != 0 for value in row] for row in reduced if sum(value != 0 for value in row) == 1]
    return [any(row[i] for row in units) for i in range(n)]


def keys_of(means: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Groups of one mean are one group, to who sees nothing else."""
    return np.ascontiguousarray(means[:, :2]).view(np.uint64).reshape(len(means), -1)


def evidence(person: NDArray[np.int64], group: NDArray[np.int64], truth: NDArray[np.float64]) -> Evidence:
    """A release of these people in these groups, whose confidential value is who they are."""
    _, group, sizes = np.unique(group, return_inverse=True, return_counts=True)
    means = np.zeros((len(sizes), 1))
    np.add.at(means, group, truth[person])
    digests = np.column_stack([person, person + 7]).astype(np.uint64)
    return Evidence(group, means / sizes[:, None], sizes, digests, digests, keys_of(means / sizes[:, None]))


def attacked(releases: list[Evidence], k: int = 3) -> Attack:
    described = tuple(
        AttackedRelease("memory://x", str(i), "r0001", k, len(of.group), len(of.sizes)) for i, of in enumerate(releases)
    )
    return attack_evidence(releases, described, NAMES)


def series(
    rng: np.random.Generator, n_releases: int
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]], NDArray[np.float64]]:
    """People, some absent from some releases, in groups that are often those of the release before."""
    n = int(rng.integers(4, 16))
    truth = rng.normal(size=(n, 1))
    group = rng.integers(0, max(1, n // 3), size=n)
    people, groups = [], []
    for _ in range(n_releases):
        moves = rng.random(n) < rng.choice([0.1, 0.3, 0.9])
        group = np.where(moves, rng.integers(0, max(1, n // 3), size=n), group)
        is_there = np.flatnonzero(rng.random(n) < rng.choice([0.7, 0.95, 1.0]))
        is_there = is_there if len(is_there) else np.arange(n)
        people.append(is_there)
        groups.append(group[is_there])
    return people, groups, truth


@each("n_releases, block", share(product([2, 3, 4], range(10)), 10))
def test_who_is_solved_is_who_the_row_space_determines(n_releases: int, block: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng([n_releases, block, seed])
        people, groups, truth = series(rng, n_releases)
        rows = [
            [int(i in set(who[of == g].tolist())) for i in range(len(truth))]
            for who, of in zip(people, groups, strict=True)
            for g in np.unique(of)
        ]
        expected = {i for i, solved in enumerate(in_row_space(rows, len(truth))) if solved}
        outcome = attacked([evidence(w, g, truth) for w, g in zip(people, groups, strict=True)])
        assert outcome.report.undecided == 0
        solved_people = [who[rows] for who, (rows, _) in zip(people, outcome.solved, strict=True)]
        assert set(np.concatenate(solved_people).tolist()) == expected
        assert outcome.report.records_solved == len(expected)
        for who, (_, values) in zip(solved_people, outcome.solved, strict=True):
            assert np.allclose(values, truth[who], atol=1e-7)


@pytest.mark.parametrize("n_releases", [2, 3, 4])
def test_traces_are_those_that_a_dictionary_counts(n_releases: int) -> None:
    for seed in range(60):
        people, groups, truth = series(np.random.default_rng([seed, n_releases]), n_releases)
        traces = {
            person: tuple(
                int(of[who == person][0]) if person in who else NOBODY for who, of in zip(people, groups, strict=True)
            )
            for person in set(np.concatenate(people).tolist())
        }
        counts = [list(traces.values()).count(trace) for trace in traces.values()]
        report = attacked([evidence(w, g, truth) for w, g in zip(people, groups, strict=True)], k=3).report
        assert (report.smallest_trace, report.below_k) == (min(counts), sum(count < 3 for count in counts))


@each("seed", range(100))
def test_confidential_values_that_repeat_solve_nobody_wrongly(seed: int) -> None:
    """Rows that cannot be told apart are not matched: whoever is solved is solved rightly, with few values too."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 16))
    truth, value = rng.normal(size=(n, 1)), rng.integers(0, 6, size=n)
    releases = []
    for _ in range(3):
        one = evidence(np.arange(n), rng.integers(0, 4, size=n), truth)
        digests = np.column_stack([value, value]).astype(np.uint64)
        releases.append(Evidence(one.group, one.means, one.sizes, digests, digests, one.keys))
    for rows, values in attacked(releases).solved:
        assert np.allclose(values, truth[rows], atol=1e-7)


def test_the_same_groups_again_give_nobody_away_however_often_values_repeat() -> None:
    rng = np.random.default_rng(1)
    truth, who, group = rng.normal(size=(300, 1)), np.arange(300), np.arange(300) // 3
    one = evidence(who, group, truth)
    for n_values in (2, 10, 100, 300):
        value = rng.integers(0, n_values, size=300)
        digests = np.column_stack([value, value]).astype(np.uint64)
        again = Evidence(one.group, one.means, one.sizes, digests, digests, one.keys)
        report = attacked([again, again, again]).report
        assert report.is_safe
        assert report.smallest_trace is None or report.smallest_trace >= 3


@pytest.mark.parametrize("n_corrected", [1, 5, 40])
def test_corrected_values_in_a_group_that_is_released_again_are_no_absence(n_corrected: int) -> None:
    rng = np.random.default_rng(n_corrected)
    truth, group = rng.normal(size=(300, 1)), np.arange(300) // 4
    first, second = evidence(np.arange(300), group, truth), evidence(np.arange(300), group, truth)
    digests = second.confidential.copy()
    digests[rng.choice(300, n_corrected, replace=False)] += 10_000
    corrected = Evidence(second.group, second.means, second.sizes, digests, digests, second.keys)
    report = attacked([first, corrected, corrected], k=4).report
    assert report.is_safe and report.smallest_trace == 4


def test_blocking_values_tell_records_apart_whose_confidential_values_do_not() -> None:
    truth = np.random.default_rng(2).normal(size=(6, 1))
    same = np.zeros((6, 2), dtype=np.uint64)
    apart = np.column_stack([np.arange(6)] * 2).astype(np.uint64)
    first = evidence(np.arange(6), np.array([0, 0, 0, 1, 1, 1]), truth)
    second = evidence(np.arange(6), np.array([0, 0, 1, 1, 1, 1]), truth)

    def solved(labelled: NDArray[np.uint64]) -> int:
        given = [Evidence(of.group, of.means, of.sizes, same, labelled, of.keys) for of in (first, second)]
        return attacked(given).report.records_solved

    assert (solved(same), solved(apart)) == (0, 1)


@each("seed", range(200))
def test_bridges_are_those_of_networkx(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 30)), int(rng.integers(0, 40))
    one = rng.integers(0, n, size=m)
    other = (one + rng.integers(1, n, size=m)) % n
    charges = rng.normal(size=(n, 2))
    root = int(rng.integers(n))
    cut = bridges(one, other, charges, root)
    graph = nx.MultiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(zip(one.tolist(), other.tolist(), range(m), strict=True))
    n_components = nx.number_connected_components(graph)
    expected = {}
    for edge in range(m):
        rest = graph.copy()
        rest.remove_edge(int(one[edge]), int(other[edge]), edge)
        if nx.number_connected_components(rest) > n_components:
            expected[edge] = rest
    assert sorted(cut.edges.tolist()) == sorted(expected)
    for edge, end, total in zip(cut.edges.tolist(), cut.far_ends.tolist(), cut.charges, strict=True):
        beyond = nx.node_connected_component(expected[edge], end)
        assert root not in beyond and end in (one[edge], other[edge])
        assert np.allclose(total, charges[sorted(beyond)].sum(axis=0))


@each("seed", range(100))
def test_elimination_over_the_prime_field_is_that_in_fractions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 2, size=rng.integers(1, 9, size=2))
    assert determined(matrix).tolist() == in_row_space(matrix.tolist(), matrix.shape[1])


def test_a_long_chain_is_solved_from_end_to_end() -> None:
    """Groups of two that overlap by one, as a path of 20,000 edges: one lonely record gives them all."""
    n = 20_001
    truth = np.random.default_rng(3).normal(size=(n, 1))
    first = evidence(np.arange(n), (np.arange(n) + 1) // 2, truth)
    second = evidence(np.arange(n - 1), np.arange(n - 1) // 2, truth)
    outcome = attacked([first, second])
    assert outcome.report.records_solved == n
    assert np.allclose(outcome.solved[0][1], truth, atol=1e-6)


def test_many_releases_of_whole_groups_are_safe_and_soon_attacked() -> None:
    """Twelve nights on which groups come and go whole: pairs are those of neighbours, and nobody is solved."""
    rng = np.random.default_rng(4)
    truth, groups = rng.normal(size=(900, 1)), np.arange(900) // 3
    nights = [np.flatnonzero(np.isin(groups, rng.choice(300, size=200, replace=False))) for _ in range(12)]
    report = attacked([evidence(who, groups[who], truth) for who in nights]).report
    assert report.is_safe and report.smallest_trace == 3
    assert [(pair.first, pair.second) for pair in report.pairs] == [(i, i + 1) for i in range(1, 12)]


def test_one_moved_record_is_seen_among_many_releases() -> None:
    rng = np.random.default_rng(5)
    truth, groups = rng.normal(size=(30, 1)), np.arange(30) // 3
    moved = np.where(np.arange(30) == 4, 0, groups)
    nights = [moved if night == 7 else groups for night in range(12)]
    report = attacked([evidence(np.arange(30), of, truth) for of in nights]).report
    assert (report.records_solved, report.below_k, report.smallest_trace) == (1, 3, 1)
