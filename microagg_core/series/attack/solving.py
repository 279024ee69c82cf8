"""Solving for the quasi-identifiers of single records, from the means of all groups of several releases.

Each group is an equation: what its records have adds up to its size times its mean. Between two releases a record is an
edge from its group in one to its group in the other, or to ``absent``, a vertex without an equation, where it is in one
alone. What the equations determine are sums over cuts of that graph, so a record is solved where its edge is a bridge.
Solved records are taken out of all equations, until no pair of releases solves another. What three or more releases
determine beyond that is found by elimination, component by component, as long as these are small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.series.attack.bridges import bridges
from microagg_core.series.attack.elimination import determined
from microagg_core.series.attack.evidence import Evidence, numbered
from microagg_core.series.attack.matching import MatchedRows

#: Steps of elimination that one component may take, and all of them together: seconds each.
MOST_STEPS, MOST_STEPS_IN_ALL = 10**9, 10**10


@dataclass(frozen=True)
class Solution:
    """What the equations tell of each record."""

    solved: Bools
    #: The quasi-identifiers of solved records (n x p), as exact as rounded means let them be; NaN for the others.
    values: Floats
    #: Records of components that were too large for elimination: some of them may be solvable too.
    undecided: int

    @property
    def n_solved(self) -> int:
        """How many records are solved."""
        return int(self.solved.sum())


def solve_records(
    releases: Sequence[Evidence], matching: MatchedRows, solved: Sequence[tuple[Ints, Floats]] = ()
) -> Solution:
    """Solve for as many records as the releases determine; ``solved`` are records and values to start from."""
    equations = _Equations(releases, matching)
    for records, values in solved:
        equations.settle(records, values)
    equations.settle_by_pairs()
    undecided = equations.settle_by_elimination() if len(releases) > 2 else 0
    return Solution(equations.solved, equations.values, undecided)


class _Equations:
    """The groups' equations, and the records that are solved so far."""

    def __init__(self, releases: Sequence[Evidence], matching: MatchedRows) -> None:
        self._group, self._record, self._release = matching.group, matching.record, matching.release
        self._n_releases = len(releases)
        self._rest = np.concatenate([of.sums for of in releases])
        self._release_of_group = np.repeat(np.arange(len(releases)), [len(of.sizes) for of in releases])
        self.solved = np.zeros(matching.n_records, dtype=np.bool_)
        # Records that share all their groups stand in the same equations, and none of them is ever solved.
        _, first, trace, n_alike = np.unique(
            numbered(matching.traces()), return_index=True, return_inverse=True, return_counts=True
        )
        self._n_alike = n_alike[trace]
        self._stands_for_alike = np.zeros_like(self.solved)
        self._stands_for_alike[first] = True
        self.values = np.full((matching.n_records, self._rest.shape[1]), np.nan)

    def settle_by_pairs(self) -> None:
        """Bridges of each pair of releases; with more than two releases, until they solve nothing more."""
        n_before = -1
        while n_before < (n_before := int(self.solved.sum())) and (self._n_alike == 1).any():
            for one, other in combinations(range(self._n_releases), 2):
                self._settle_bridges(one, other)
                self._settle_lonely()

    def settle(self, records: Ints, values: Floats) -> None:
        """Take solved records out of all equations, once."""
        is_open = ~self.solved[records]
        records, values = records[is_open], values[is_open]
        self.solved[records] = True
        self.values[records] = values
        is_new = np.zeros_like(self.solved)
        is_new[records] = True
        rows = np.flatnonzero(is_new[self._record])
        np.subtract.at(self._rest, self._group[rows], self.values[self._record[rows]])

    def _settle_bridges(self, one: int, other: int) -> None:
        absent = len(self._rest)
        groups = [self._group_in(release, absent) for release in (one, other)]
        edges = np.flatnonzero(~self.solved & ((groups[0] < absent) | (groups[1] < absent)))
        sign = np.where(self._release_of_group == one, 1.0, -1.0)
        in_pair = (self._release_of_group == one) | (self._release_of_group == other)
        charges = np.vstack([np.where(in_pair, sign, 0.0)[:, None] * self._rest, np.zeros_like(self._rest[:1])])
        cut = bridges(groups[0][edges], groups[1][edges], charges, root=absent)
        # Beyond a bridge every other record stands in one equation of either release, and cancels.
        self.settle(edges[cut.edges], sign[cut.far_ends][:, None] * cut.charges)

    def _group_in(self, release: int, absent: int) -> Ints:
        groups = np.full(len(self.solved), absent, dtype=np.int64)
        rows = self._release == release
        groups[self._record[rows]] = self._group[rows]
        return groups

    def _settle_lonely(self) -> None:
        """Equations with one unknown left, until there are none."""
        while True:
            rows = np.flatnonzero(~self.solved[self._record])
            lonely = np.bincount(self._group[rows], minlength=len(self._rest)) == 1
            records, first = np.unique(self._record[rows[lonely[self._group[rows]]]], return_index=True)
            if not len(records):
                return
            self.settle(records, self._rest[self._group[rows[lonely[self._group[rows]]][first]]])

    def settle_by_elimination(self) -> int:
        """What only several releases together determine; how many records are in components too large for it."""
        undecided, left = 0, MOST_STEPS_IN_ALL
        for group, record in self._components():
            groups, row = np.unique(group, return_inverse=True)
            records, column = np.unique(record, return_inverse=True)
            is_alone = self._n_alike[records] == 1
            steps = len(groups) ** 2 * len(records)
            if steps > min(MOST_STEPS, left):
                undecided += int(is_alone.sum())
            elif is_alone.any():
                left -= steps
                matrix = np.zeros((len(groups), len(records)), dtype=np.int64)
                matrix[row, column] = 1
                self._settle_determined(matrix, groups, records, is_alone)
        return undecided

    def _settle_determined(self, matrix: Ints, groups: Ints, records: Ints, is_alone: Bools) -> None:
        which = np.flatnonzero(determined(matrix) & is_alone)
        if len(which):
            values = np.linalg.lstsq(matrix.astype(np.float64), self._rest[groups], rcond=None)[0]
            self.settle(records[which], values[which])

    def _components(self) -> Iterator[tuple[Ints, Ints]]:
        """Groups and records of equations that hang together; one record stands for all that share their groups."""
        n_groups = len(self._rest)
        rows = np.flatnonzero(~self.solved[self._record] & self._stands_for_alike[self._record])
        group, record = self._group[rows], self._record[rows]
        size = n_groups + len(self.solved)
        graph = coo_array((np.ones(len(rows), dtype=np.int32), (group, n_groups + record)), shape=(size, size))
        component = connected_components(csr_array(graph), directed=False)[1][group]
        order = np.argsort(component, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
            if len(part):
                yield group[part], record[part]
