"""Which records of different releases are one record: those whose confidential values occur once in each.

Or that are in a group which is released again, and are all of it that is not known by its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Bools, Ints
from microagg_core.series.attack.evidence import Evidence, numbered

ABSENT = -1


@dataclass(frozen=True)
class MatchedRows:
    """The rows of all releases, one release after another, and whose they are as far as an outsider can tell."""

    #: Of each row: its release, its group (numbered through all releases), its combination of confidential values, and
    #: its record. A row that is not matched is a record of its own.
    release: Ints
    group: Ints
    combination: Ints
    record: Ints
    #: Of each record: whether it is certain in which releases it is, and in which it is not.
    certain: Bools

    @property
    def n_records(self) -> int:
        """How many records there are, each matched one once."""
        return len(self.certain)

    def traces(self) -> Ints:
        """The group of each record in each release, ``ABSENT`` where it was not seen."""
        groups = np.full((self.n_records, int(self.release.max(initial=0)) + 1), ABSENT, dtype=np.int64)
        groups[self.record, self.release] = self.group
        return groups


def match_records(releases: Sequence[Evidence]) -> MatchedRows:
    """Match the records of releases.

    A combination of confidential values that no release has twice is one record. Of the others, blocking values tell
    rows apart: a combination with them that a release has once is the same record as that of another release. Labels
    of merged blocks may differ, so that a combination that is wanting under its labels is not certainly absent.
    """
    release = np.repeat(np.arange(len(releases)), [len(of.group) for of in releases])
    combination = numbered(np.concatenate([of.confidential for of in releases]))
    labelled = numbered(np.concatenate([of.labelled for of in releases]))
    counts, counts_labelled = _counts(release, combination), _counts(release, labelled)
    n_combinations, n_labelled = counts.shape[1], counts_labelled.shape[1]
    alone = np.arange(len(release)) + n_combinations + n_labelled
    told_apart = np.where(counts_labelled[release, labelled] == 1, n_combinations + labelled, alone)
    is_single = np.asarray((counts <= 1).all(axis=0))
    key = np.where(is_single[combination], combination, told_apart)
    _, first, record, n_rows = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    is_certain = n_rows == (counts > 0).sum(axis=0)[combination[first]]
    record, is_certain = _with_corrected(releases, release, np.asarray(record), is_certain)
    return MatchedRows(release, _groups(releases), combination, record, is_certain)


def _with_corrected(releases: Sequence[Evidence], release: Ints, record: Ints, is_certain: Bools) -> tuple[Ints, Bools]:
    """The records, those among them made one that are known again by their group alone.

    The mean of a group tells it to the last digit: where a later release has the very group, of as many, its records
    are the same people, and who is not known again by his confidential values is one of those whose values were
    corrected. Which of these is which makes no difference to what follows.
    """
    keys = numbered(np.concatenate([of.keys[of.group] for of in releases]))
    follows = np.arange(len(is_certain))
    for number in range(1, len(releases)):
        now = np.flatnonzero(release == number)
        for before in range(number - 1, -1, -1):
            then = np.flatnonzero(release == before)
            for olds, news in _unmatched(keys, record, follows, then, now):
                follows[record[news]] = follows[record[olds]]
                now = np.setdiff1d(now, news, assume_unique=True)
    _, renumbered = np.unique(follows[record], return_inverse=True)
    certain = np.ones(int(renumbered.max(initial=-1)) + 1, dtype=np.bool_)
    np.logical_and.at(certain, renumbered, is_certain[record])
    # Who is in all of them is nowhere absent.
    is_in_all = np.bincount(renumbered, minlength=len(certain)) == len(releases)
    return np.asarray(renumbered), certain | is_in_all


def _unmatched(keys: Ints, record: Ints, follows: Ints, then: Ints, now: Ints) -> Iterator[tuple[Ints, Ints]]:
    """By group that two releases have with as many records: the rows of each that no row of the other is known by."""
    n = int(keys.max(initial=-1)) + 1
    same_size = np.bincount(keys[then], minlength=n) == np.bincount(keys[now], minlength=n)
    old = then[same_size[keys[then]] & ~np.isin(follows[record[then]], follows[record[now]])]
    new = now[same_size[keys[now]] & ~np.isin(follows[record[now]], follows[record[then]])]
    n_old, n_new = np.bincount(keys[old], minlength=n), np.bincount(keys[new], minlength=n)
    for key in np.flatnonzero((n_old == n_new) & (n_old > 0)):
        yield old[keys[old] == key], new[keys[new] == key]


def _counts(release: Ints, numbers: Ints) -> Ints:
    """How often each release has each number."""
    n, n_releases = int(numbers.max(initial=-1)) + 1, int(release.max(initial=0)) + 1
    return np.bincount(release * n + numbers, minlength=n_releases * n).reshape(n_releases, n)


def _groups(releases: Sequence[Evidence]) -> Ints:
    starts = np.cumsum([0, *(len(of.sizes) for of in releases)])
    return np.concatenate([of.group + start for of, start in zip(releases, starts, strict=False)])
