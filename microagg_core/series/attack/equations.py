"""The groups' equations of several releases, solved for the quasi-identifiers of single records.

Each group is an equation: what its records have adds up to its size times its mean. Between two releases a record is an
edge from its group in one to its group in the other, or to ``absent``, a vertex without an equation, where it is in one
alone. What the equations determine are sums over cuts of that graph, so a record is solved where its edge is a bridge.
Solved records are taken out of all equations, until no pair of releases solves another. What three or more releases
determine beyond that is found by elimination, component by component, as long as these are small.

Bridges are found by a tree through every component. Each edge outside the tree gets random words, and each vertex the
exclusive or of those at its ends; over a vertex and all below it in the tree, that leaves the words of the edges that
cross from there to elsewhere. Only where none crosses they are zero, but for a chance of 2^-128, and the tree's edge is
a bridge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from microagg_core.arrays import Bools, Floats, Ints, UInt64s
from microagg_core.series.attack.evidence import Evidence, MatchedRows
from microagg_core.series.digests import numbered_rows


class Bridges(NamedTuple):
    edges: Ints
    #: The end of each that is further from the root, and the sum of charges of all vertices beyond the bridge.
    far_ends: Ints
    charges: Floats


def bridges(left: Ints, right: Ints, charges: Floats, root: int) -> Bridges:
    """Find the bridges among the edges from ``left[i]`` to ``right[i]``; vertices are the rows of ``charges``.

    What is beyond a bridge never contains the root.

    >>> ends = np.array([0, 0, 1, 2]), np.array([1, 1, 2, 3])
    >>> bridges(*ends, np.array([[1.0], [2.0], [4.0], [8.0]]), root=0).charges.ravel().tolist()
    [12.0, 8.0]
    """
    order, parent = _tree(left, right, len(charges), root)
    edge_above = _edges_above(left, right, parent)
    words = _cycle_words(left, right, edge_above, len(parent))
    totals = np.vstack([charges, np.zeros_like(charges[:1])])
    for level in _levels(order, parent):
        np.bitwise_xor.at(words, parent[level], words[level])
        np.add.at(totals, parent[level], totals[level])
    far = np.flatnonzero((edge_above >= 0) & (words == 0).all(axis=1))
    return Bridges(edge_above[far], far, totals[far])


def _tree(left: Ints, right: Ints, n: int, root: int) -> tuple[Ints, Ints]:
    """Span every component by a tree below the vertex ``n``: vertices level by level, and each one's parent.

    The root is the top of its own component.
    """
    n_components, component = connected_components(_graph(left, right, n), directed=False)
    tops = np.empty(n_components, dtype=np.int64)
    tops[component[::-1]] = np.arange(n)[::-1]
    tops[component[root]] = root
    whole = _graph(np.r_[left, np.full(n_components, n)], np.r_[right, tops], n + 1)
    order, above = breadth_first_order(whole, n, directed=False)
    return order.astype(np.int64), above.astype(np.int64)


def _levels(order: Ints, parent: Ints) -> Iterator[Ints]:
    """Yield the vertices of each level below the first, the lowest level first."""
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    place_of_parent = position[parent[order[1:]]]  # ascends, as vertices come level by level
    ends = [0, 1]
    while ends[-1] < len(order):
        ends.append(1 + int(np.searchsorted(place_of_parent, ends[-1])))
    for start, end in zip(ends[-2:0:-1], ends[:1:-1], strict=True):
        yield order[start:end]


def _graph(left: Ints, right: Ints, n: int) -> csr_array:
    return csr_array(coo_array((np.ones(len(left), dtype=np.int32), (left, right)), shape=(n, n)))


def _edges_above(left: Ints, right: Ints, parent: Ints) -> Ints:
    """Find the edge from each vertex to its parent, any of parallel ones; -1 where there is none."""
    n = len(parent)
    ends, first = np.unique(np.minimum(left, right) * n + np.maximum(left, right), return_index=True)
    edges = np.full(n, -1, dtype=np.int64)
    hung = np.flatnonzero((parent >= 0) & (parent < n - 1))
    above = parent[hung]
    edges[hung] = first[np.searchsorted(ends, np.minimum(hung, above) * n + np.maximum(hung, above))]
    return edges


def _cycle_words(left: Ints, right: Ints, edge_above: Ints, n: int) -> UInt64s:
    outside = np.ones(len(left), dtype=np.bool_)
    outside[edge_above[edge_above >= 0]] = False
    # From the operating system's chance: nobody can make a graph that deceives it.
    drawn = np.random.default_rng().integers(0, 2**64, size=(int(outside.sum()), 2), dtype=np.uint64)
    words = np.zeros((n, 2), dtype=np.uint64)
    np.bitwise_xor.at(words, left[outside], drawn)
    np.bitwise_xor.at(words, right[outside], drawn)
    return words


#: The largest prime below 2^31, so that products fit into 64 bits.
_PRIME = 2**31 - 1


def determined(matrix: Ints) -> Bools:
    """Decide for each column whether the rows' equations determine its unknown.

    It is where its unit vector lies in the row space, that is, where a row of the reduced echelon form is that vector.

    >>> determined(np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])).tolist()
    [True, True, False, False]
    """
    rows = matrix.astype(np.int64) % _PRIME
    n_reduced = 0
    for column in range(rows.shape[1]):
        if n_reduced == len(rows):
            break
        n_reduced += _reduce(rows, n_reduced, column)
    units = rows[np.count_nonzero(rows, axis=1) == 1]
    return np.asarray((units != 0).any(axis=0))


def _reduce(rows: Ints, n_reduced: int, column: int) -> bool:
    """Clear a column but for its pivot row; False where it has no pivot."""
    candidates = np.flatnonzero(rows[n_reduced:, column])
    if not len(candidates):
        return False
    pivot = n_reduced + int(candidates[0])
    rows[[n_reduced, pivot]] = rows[[pivot, n_reduced]]
    row = rows[n_reduced] = rows[n_reduced] * pow(int(rows[n_reduced, column]), -1, _PRIME) % _PRIME
    others = np.flatnonzero(rows[:, column])
    others = others[others != n_reduced]
    rows[others] = (rows[others] - rows[others, column][:, None] * row) % _PRIME
    return True


#: Steps of elimination that one component may take, and all of them together: seconds each.
MOST_STEPS, MOST_STEPS_IN_ALL = 10**9, 10**10


class Equations:
    """The groups of several releases, and what is solved of their records."""

    def __init__(
        self,
        releases: Sequence[Evidence],
        matching: MatchedRows,
        solved: Iterable[tuple[Ints, Floats]] = (),
    ) -> None:
        """Solve for as many records as the releases determine, starting from ``solved`` records and values."""
        self._group, self._record, self._release = matching.group, matching.record, matching.release
        self._n_releases = len(releases)
        self._rest = np.concatenate([of.means * of.sizes[:, None] for of in releases])
        self._release_of_group = np.repeat(np.arange(len(releases)), [len(of.sizes) for of in releases])
        self.solved = np.zeros(matching.n_records, dtype=np.bool_)
        # Records that share all their groups stand in the same equations, and none of them is ever solved.
        _, first, trace, n_alike = np.unique(
            numbered_rows(matching.traces())[0], return_index=True, return_inverse=True, return_counts=True
        )
        self._n_alike = n_alike[trace]
        self._stands_for_alike = np.zeros_like(self.solved)
        self._stands_for_alike[first] = True
        #: The quasi-identifiers of solved records (n x p), as exact as rounded means let them be; NaN for the others.
        self.values = np.full((matching.n_records, self._rest.shape[1]), np.nan)
        for records, values in solved:
            self._settle(records, values)
        self._settle_by_pairs()
        #: Records of components that were too large for elimination: some of them may be solvable too.
        self.undecided = self._settle_by_elimination() if len(releases) > 2 else 0

    @property
    def n_solved(self) -> int:
        return int(self.solved.sum())

    def of_rows(self, record: Ints) -> tuple[Ints, Floats]:
        """Select the solved ones of rows, given by their records, and their values."""
        rows = np.flatnonzero(self.solved[record])
        return rows, self.values[record[rows]]

    def _settle_by_pairs(self) -> None:
        """Settle the bridges of each pair of releases, until no pair solves anything more."""
        n_before = -1
        while n_before < (n_before := int(self.solved.sum())) and (self._n_alike == 1).any():
            for left, right in combinations(range(self._n_releases), 2):
                self._settle_bridges(left, right)
                self._settle_lonely()

    def _settle(self, records: Ints, values: Floats) -> None:
        """Take solved records out of all equations, once."""
        is_open = ~self.solved[records]
        records, values = records[is_open], values[is_open]
        self.solved[records] = True
        self.values[records] = values
        is_new = np.zeros_like(self.solved)
        is_new[records] = True
        rows = np.flatnonzero(is_new[self._record])
        np.subtract.at(self._rest, self._group[rows], self.values[self._record[rows]])

    def _settle_bridges(self, left: int, right: int) -> None:
        absent = len(self._rest)
        groups = [self._group_in(release, absent) for release in (left, right)]
        edges = np.flatnonzero(~self.solved & ((groups[0] < absent) | (groups[1] < absent)))
        sign = np.where(self._release_of_group == left, 1.0, -1.0)
        in_pair = (self._release_of_group == left) | (self._release_of_group == right)
        charges = np.vstack([np.where(in_pair, sign, 0.0)[:, None] * self._rest, np.zeros_like(self._rest[:1])])
        cut = bridges(groups[0][edges], groups[1][edges], charges, root=absent)
        # Beyond a bridge every other record stands in one equation of either release, and cancels.
        self._settle(edges[cut.edges], sign[cut.far_ends][:, None] * cut.charges)

    def _group_in(self, release: int, absent: int) -> Ints:
        groups = np.full(len(self.solved), absent, dtype=np.int64)
        rows = self._release == release
        groups[self._record[rows]] = self._group[rows]
        return groups

    def _settle_lonely(self) -> None:
        while True:
            rows = np.flatnonzero(~self.solved[self._record])
            lonely = np.bincount(self._group[rows], minlength=len(self._rest)) == 1
            records, first = np.unique(self._record[rows[lonely[self._group[rows]]]], return_index=True)
            if not len(records):
                return
            self._settle(records, self._rest[self._group[rows[lonely[self._group[rows]]][first]]])

    def _settle_by_elimination(self) -> int:
        """Solve what only several releases together determine; count the records in components too large for it."""
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
            self._settle(records[which], values[which])

    def _components(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield connected equations: groups and records, one record for all that share their groups."""
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
