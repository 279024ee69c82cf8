"""Hierarchies by codes, for many records at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from microagg_core.arrays import Floats, Ints
from microagg_core.data.hierarchies import ROOT, Hierarchy


@dataclass(frozen=True, eq=False)
class CodedTree:
    """A hierarchy by codes: first those of values, then those of parents, of which the root's is the first.

    >>> jobs = Hierarchy.of([("Craft", "Manual", ""), ("Farming", "Manual", ""), ("Sales", "", ""), ("Manual", "", "")])
    >>> tree = CodedTree.of(jobs, ["Sales", "Craft", "Farming"])
    >>> tree.ancestors.tolist()
    [[3, 0, 0], [3, 4, 1], [3, 4, 2], [3, 3, 3], [3, 4, 4]]
    >>> tree.least_common(np.array([1, 2, 0, 1, 2, 2]), np.array([0, 2, 4])).tolist(), tree.generality.tolist()
    ([4, 3, 2], [0.0, 0.0, 0.0, 1.0, 0.5])
    """

    n_values: int
    #: By code and level: what it is below, from the root; its own code from its own level on.
    ancestors: Ints
    #: By code: how many leaves the hierarchy has there.
    leaves: Ints

    @classmethod
    def of(cls, hierarchy: Hierarchy, values: Sequence[str | None]) -> CodedTree:
        """Number values by their places, and behind them parents; a missing value is below the root alone."""
        number = {parent: place for place, parent in enumerate(hierarchy.parents, len(values))}
        above = [[ROOT] if code is None else hierarchy.path(code)[:-1] for code in (*values, *number)]
        levels = max(map(len, above)) + 1
        ancestors = [[number[code] for code in path] + [own] * (levels - len(path)) for own, path in enumerate(above)]
        leaves = Counter(parent for leaf in hierarchy.leaves for parent in hierarchy.path(leaf)[:-1])
        counted = [1] * len(values) + [leaves[parent] for parent in number]
        return cls(len(values), np.array(ancestors, dtype=np.int64), np.array(counted, dtype=np.int64))

    @cached_property
    def generality(self) -> Floats:
        """Compute how much less a code tells than a value: 0 of a value, 1 of the root."""
        return (self.leaves - 1) / max(int(self.leaves.max()) - 1, 1)

    @cached_property
    def level(self) -> Ints:
        """The level of each code; 0 is the root's."""
        return np.asarray(np.argmax(self.ancestors == np.arange(len(self.ancestors))[:, None], axis=1), dtype=np.int64)

    def least_common(self, codes: Ints, first: Ints) -> Ints:
        """Find the least common parent of each group of codes, or the code that all have; groups start at ``first``."""
        paths = self.ancestors[codes]
        ends = (extreme.reduceat(paths, first) for extreme in (np.minimum, np.maximum))
        agree = np.equal(*ends).sum(axis=1)  # from the root down to the last level
        least: Ints = paths[first, agree - 1]
        return least
