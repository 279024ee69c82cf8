"""In which groups a record has been, release by release, and how many others may have been in the same ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.series.attack.evidence import numbered
from microagg_core.series.attack.matching import ABSENT, MatchedRows


@dataclass(frozen=True)
class SmallTraces:
    """Records of which an outsider can tell in which groups they were, where too few others can have been."""

    below_k: int
    #: The fewest records that can have been in the same groups; None where no record's groups are certain.
    smallest: int | None


def small_traces(matching: MatchedRows, k: int) -> SmallTraces:
    """Count the records whose trace fewer than k records can share.

    A trace is a group or absence for each release. Only records of which all of it is certain are counted. Others that
    may have the same trace, because their confidential values do not tell which is which, are given the benefit.
    """
    traces = matching.traces()[matching.certain]
    if not len(traces):
        return SmallTraces(0, None)
    numbers = numbered(traces)
    _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    small = np.flatnonzero(counts < k)
    candidates = counts.copy()
    candidates[small] += _possible_others(traces[first[small]], matching)
    return SmallTraces(int(counts[candidates < k].sum()), int(candidates.min()))


def _possible_others(traces: Ints, matching: MatchedRows) -> Ints:
    """For each trace, at most how many of the records that are not matched for certain can have it.

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
    """The count of each key that is wanted; 0 where there is none."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, counts[places], 0)
