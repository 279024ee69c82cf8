"""Blocks above ``max_records`` are cut at medians of their quasi-identifiers.

A tree of cuts is grown on a sample of the stratum (all of it where that is small enough), always along the attribute
with the greatest variance among the node's records; where every attribute is constant the record number serves, so
that any block can be split. Each cut sends ``x <= threshold`` to the left. The same tree routes all records later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats, Ints


@dataclass(frozen=True)
class Cut:
    """A node of the tree: records with ``x[attribute] <= threshold`` go left, the others right."""

    attribute: int
    threshold: float
    left: Tree
    right: Tree


#: A cut, or a leaf (None).
Tree = Cut | None


def with_record_numbers(Z: Floats, records: Ints) -> Floats:
    """Append the record number as a last attribute, which cuts where nothing else can."""
    return np.column_stack([Z, records.astype(np.float64)])


def grow(Z: Floats, max_records: float, least: int) -> Tree:
    """Cut until no leaf holds more than ``max_records``, never below ``least``.

    ``Z`` has the record number as its last column; counts are those of ``Z``'s rows (scale both limits for a sample).

    >>> tree = grow(with_record_numbers(np.array([[1.0], [2.0], [3.0], [9.0]]), np.arange(4)), 2, 1)
    >>> tree.attribute, tree.threshold
    (0, 2.0)
    """
    cut = next_cut(Z, max_records, least)
    if cut is None:
        return None
    attribute, threshold = cut
    goes_left = Z[:, attribute] <= threshold
    return Cut(attribute, threshold, grow(Z[goes_left], max_records, least), grow(Z[~goes_left], max_records, least))


def next_cut(Z: Floats, max_records: float, least: int) -> tuple[int, float] | None:
    """Find where :func:`grow` cuts these records: attribute and threshold; None where it leaves them together."""
    if len(Z) <= max_records or len(Z) < 2 * least:
        return None
    for attribute in _by_variance(Z):
        threshold = _median_cut(Z[:, attribute], least)
        if threshold is not None:
            return attribute, threshold
    return None


def _by_variance(Z: Floats) -> list[int]:
    """List attributes from the greatest variance down, the record number last."""
    variance = Z[:, :-1].var(axis=0)
    order = np.argsort(-variance, kind="stable")
    return [int(j) for j in order if variance[j] > 0] + [Z.shape[1] - 1]


def _median_cut(values: Floats, least: int) -> float | None:
    """Find the value that halves the records best, parting no equal values; None where a side would be too small."""
    ordered = np.sort(values)
    ends = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1  # sizes of the possible left sides
    ends = ends[(ends >= least) & (ends <= len(values) - least)]
    if len(ends) == 0:
        return None
    best = ends[np.argmin(np.abs(2 * ends - len(values)))]
    return float(ordered[best - 1])


def count_leaves(tree: Tree) -> int:
    return 1 if tree is None else count_leaves(tree.left) + count_leaves(tree.right)


def route(tree: Tree, Z: Floats) -> Ints:
    """Find the leaf of each record; leaves are numbered from left to right."""
    leaf = np.zeros(len(Z), dtype=np.int64)
    _route(tree, Z, np.arange(len(Z)), 0, leaf)
    return leaf


def _route(tree: Tree, Z: Floats, rows: Ints, first: int, leaf: Ints) -> None:
    if tree is None:
        leaf[rows] = first
        return
    goes_left = Z[rows, tree.attribute] <= tree.threshold
    _route(tree.left, Z, rows[goes_left], first, leaf)
    _route(tree.right, Z, rows[~goes_left], first + count_leaves(tree.left), leaf)


def give_back_small(tree: Tree, sizes: Ints, least: int) -> Tree:
    """Undo the cut above each leaf with fewer than ``least`` records, so that they go to the sibling's side.

    ``sizes`` are the exact counts of the leaves, left to right. Where a leaf returns to a sibling that is itself cut,
    the sizes of the sibling's leaves change and have to be counted again.
    """
    pruned, _ = _give_back(tree, list(sizes), least)
    return pruned


def _give_back(tree: Tree, sizes: list[int], least: int) -> tuple[Tree, list[int]]:
    if tree is None:
        return None, [sizes.pop(0)]
    left, left_sizes = _give_back(tree.left, sizes, least)
    right, right_sizes = _give_back(tree.right, sizes, least)
    if left is None and left_sizes[0] < least:
        return right, [right_sizes[0] + left_sizes[0], *right_sizes[1:]] if right is None else right_sizes
    if right is None and right_sizes[0] < least:
        return left, [left_sizes[0] + right_sizes[0]] if left is None else left_sizes
    return Cut(tree.attribute, tree.threshold, left, right), left_sizes + right_sizes
