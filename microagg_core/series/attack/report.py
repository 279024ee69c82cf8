"""The attack: releases are read, matched and solved, and what comes of it is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.data.formats.released.csv import arrow_type
from microagg_core.errors import SpecError
from microagg_core.release.manifest import ColumnEntry, Manifest
from microagg_core.release.revisions import read_release
from microagg_core.series.attack.equations import Equations
from microagg_core.series.attack.evidence import (
    ABSENT,
    ColumnsOfAttack,
    Evidence,
    MatchedRows,
    comparable_type,
    match_records,
    read_evidence,
)
from microagg_core.series.digests import numbered_rows
from microagg_core.store.layout import MANIFEST
from microagg_core.store.urls import shown

#: With more releases than these, pairs are described of each release and the next; the totals are of all together.
MOST_WITH_ALL_PAIRS = 10


@dataclass(frozen=True)
class AttackedRelease:
    url: str
    id: str
    revision: str
    k: int
    rows: int
    groups: int


@dataclass(frozen=True)
class AttackedPair:
    """What two releases reveal by themselves; they are named by their places in the list, from 1."""

    first: int
    second: int
    #: Records found in both, in the first alone and in the second alone. Where confidential values do not tell which
    #: record is which, it counts as one of either.
    matched: int
    only_in_first: int
    only_in_second: int
    records_solved: int
    below_k: int
    smallest_trace: int | None


@dataclass(frozen=True)
class AttackReport:
    """Counts of an attack, and names of columns; never a value."""

    k: int
    columns: tuple[str, ...]
    #: Records whose quasi-identifiers follow exactly, but for what rounded means leave open.
    records_solved: int
    #: Records whose groups, taken together, fewer than k records can share; and the fewest that do.
    below_k: int
    smallest_trace: int | None
    #: Records that were too much to decide on; more of them may be solvable.
    undecided: int
    releases: tuple[AttackedRelease, ...]
    pairs: tuple[AttackedPair, ...]

    @property
    def is_safe(self) -> bool:
        return not self.records_solved and not self.below_k


@dataclass(frozen=True)
class Attack:
    report: AttackReport
    quasi_identifiers: tuple[str, ...]
    #: For each release the rows that are solved, and the values of these.
    solved: tuple[tuple[Ints, Floats], ...]


def attack(urls: Sequence[str], columns: Sequence[str] = (), storage_options: dict[str, Any] | None = None) -> Attack:
    """Attack two releases or more; ``columns`` tell which record is which: by default all that the releases share."""
    if len(urls) < 2:
        raise SpecError("an attack needs two releases or more; give the URL of another one")
    places = [read_release(url, storage_options) for url in urls]
    names = _shared_columns([r.manifest for r in places], [shown(r.folder.url) for r in places], columns)
    releases = [read_evidence(r.folder, r.manifest, names) for r in places]
    described = tuple(
        AttackedRelease(
            shown(place.folder.url_of(MANIFEST)),
            place.manifest.id,
            place.manifest.revision,
            place.manifest.k,
            place.manifest.rows,
            len(evidence.sizes),
        )
        for place, evidence in zip(places, releases, strict=True)
    )
    return attack_evidence(releases, described, names)


def attack_evidence(
    releases: Sequence[Evidence], described: tuple[AttackedRelease, ...], names: ColumnsOfAttack
) -> Attack:
    k = min(release.k for release in described)
    matching = match_records(releases)
    n = len(releases)
    places = combinations(range(n), 2) if n <= MOST_WITH_ALL_PAIRS else pairwise(range(n))
    pairs = [_attack_pair(releases, pair, k, matching) for pair in places]
    solution = Equations(releases, matching, [solved for _, of_pair in pairs for solved in of_pair])
    below_k, smallest = small_traces(matching, k)
    report = AttackReport(
        k=k,
        columns=names.confidential,
        records_solved=solution.n_solved,
        below_k=below_k,
        smallest_trace=smallest,
        undecided=solution.undecided,
        releases=described,
        pairs=tuple(pair for pair, _ in pairs),
    )
    solved = tuple(solution.of_rows(matching.record[matching.release == number]) for number in range(n))
    return Attack(report, names.quasi_identifiers, solved)


def _attack_pair(
    releases: Sequence[Evidence], places: tuple[int, int], k: int, matching: MatchedRows
) -> tuple[AttackedPair, list[tuple[Ints, Floats]]]:
    """Attack two releases by themselves; solved records have their numbers among those of all releases."""
    pair = [releases[place] for place in places]
    n_rows = [len(release.group) for release in pair]
    of_pair = match_records(pair)
    solution = Equations(pair, of_pair)
    below_k, smallest = small_traces(of_pair, k)
    matched = sum(n_rows) - of_pair.n_records
    report = AttackedPair(
        first=places[0] + 1,
        second=places[1] + 1,
        matched=matched,
        only_in_first=n_rows[0] - matched,
        only_in_second=n_rows[1] - matched,
        records_solved=solution.n_solved,
        below_k=below_k,
        smallest_trace=smallest,
    )
    solved = []
    for number, place in enumerate(places):
        rows, values = solution.of_rows(of_pair.record[of_pair.release == number])
        solved.append((matching.record[matching.release == place][rows], values))
    return report, solved


def _shared_columns(manifests: Sequence[Manifest], urls: Sequence[str], wanted: Sequence[str]) -> ColumnsOfAttack:
    quasi_identifiers = [_names(manifest, "quasi_identifier") for manifest in manifests]
    for url, manifest, names in zip(urls, manifests, quasi_identifiers, strict=True):
        if not manifest.rows:
            raise SpecError(f"{url} holds no record, so nothing can be computed from it; attack other releases")
        if _names(manifest, "weight"):
            raise SpecError(
                f"{url} has weighted means, and the attack solves equations of plain ones; attack releases without "
                "a weight"
            )
        if not names:
            raise SpecError(f"{url} has no quasi-identifiers, so nothing can be computed; attack releases with means")
        if sorted(names) != sorted(quasi_identifiers[0]):
            raise SpecError(
                f"{url} has other quasi-identifiers than {urls[0]}; attack releases with the same ones together"
            )
    means = [column.name for column in manifests[0].columns if column.is_mean]
    if not means:
        raise SpecError(
            f"{urls[0]} has no quasi-identifier that is a mean, so nothing can be solved for; attack others"
        )
    confidential = _shared(manifests, "confidential")
    missing = [name for name in wanted if name not in confidential]
    if missing:
        raise SpecError(
            f"--columns: {missing[0]!r} is no confidential column that all the releases have; "
            f"choose from {', '.join(confidential) or 'none'}"
        )
    if not confidential:
        raise SpecError(
            "the releases share no confidential column of one type, so that no record can be known again; "
            "attack releases that do"
        )
    return ColumnsOfAttack(tuple(means), _shared(manifests, "blocking"), tuple(wanted) or confidential)


def _names(manifest: Manifest, role: str) -> list[str]:
    return [column.name for column in manifest.columns if column.role == role]


def _shared(manifests: Sequence[Manifest], role: str) -> tuple[str, ...]:
    comparable = [
        {(column.name, _type_of(column)) for column in manifest.columns if column.role == role}
        for manifest in manifests
    ]
    everywhere = set.intersection(*comparable)
    return tuple(c.name for c in manifests[0].columns if c.role == role and (c.name, _type_of(c)) in everywhere)


def _type_of(column: ColumnEntry) -> str:
    values = column.type.removeprefix("dictionary<values=").split(", indices=")[0]
    try:
        return str(comparable_type(arrow_type(values)))
    except ValueError:
        return values


def small_traces(matching: MatchedRows, k: int) -> tuple[int, int | None]:
    """Count the records whose trace fewer than k records can share; and the fewest that share any, if any is certain.

    A trace is a group or absence for each release. Only records of which all of it is certain are counted. Others that
    may have the same trace, because their confidential values do not tell which is which, are given the benefit.
    """
    traces = matching.traces()[matching.certain]
    if not len(traces):
        return 0, None
    numbers, _ = numbered_rows(traces)
    _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    small = np.flatnonzero(counts < k)
    candidates = counts.copy()
    candidates[small] += _possible_others(traces[first[small]], matching)
    return int(counts[candidates < k].sum()), int(candidates.min())


def _possible_others(traces: Ints, matching: MatchedRows) -> Ints:
    """Bound for each trace the records without a certain match that can have it.

    Of each combination of confidential values, no more than the group has of it that has the fewest.
    """
    rows = np.flatnonzero(~matching.certain[matching.record])
    n_combinations = int(matching.combination.max()) + 1
    keys, counts = np.unique(matching.group[rows] * n_combinations + matching.combination[rows], return_counts=True)
    anchor = traces[np.arange(len(traces)), np.argmax(traces != ABSENT, axis=1)]
    start, end = (np.searchsorted(keys, (anchor + step) * n_combinations) for step in (0, 1))
    trace = np.repeat(np.arange(len(traces)), end - start)
    place = np.arange(len(trace)) - np.repeat(np.cumsum(end - start) - (end - start), end - start) + start[trace]
    fewest = counts[place]
    for column in traces.T:
        group = column[trace]
        wanted = group * n_combinations + keys[place] % n_combinations
        fewest = np.where(group == ABSENT, fewest, np.minimum(fewest, _looked_up(wanted, keys, counts)))
    return np.bincount(trace, weights=fewest, minlength=len(traces)).astype(np.int64)


def _looked_up(wanted: Ints, keys: Ints, counts: Ints) -> Ints:
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, counts[places], 0)
