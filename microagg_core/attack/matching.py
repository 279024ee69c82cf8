"""Which records of different releases are one record: those whose confidential values occur once in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Bools, Ints
from microagg_core.attack.evidence import Evidence, numbered

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
    n_releases_with = (counts > 0).sum(axis=0)[combination[first]]
    return MatchedRows(release, _groups(releases), combination, record, n_rows == n_releases_with)


def _counts(release: Ints, numbers: Ints) -> Ints:
    """How often each release has each number."""
    n, n_releases = int(numbers.max(initial=-1)) + 1, int(release.max(initial=0)) + 1
    return np.bincount(release * n + numbers, minlength=n_releases * n).reshape(n_releases, n)


def _groups(releases: Sequence[Evidence]) -> Ints:
    starts = np.cumsum([0, *(len(of.sizes) for of in releases)])
    return np.concatenate([of.group + start for of, start in zip(releases, starts, strict=False)])
