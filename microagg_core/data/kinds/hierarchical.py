"""Nominal categories with a hierarchy: a group gets its most frequent value, or the least common parent of its values.

It gets the parent where that loses less. A record loses 1 where the most frequent value is not its own, and under a
parent how general that is: the leaves below it but one, as a share of all leaves but one, whether its own value is
among them or not. With survey weights records count by them. Where both lose the same, the group gets the value. The
root is as general as 1, so no group gets it. Losses, and what is proved of them, stay those of groups.

The gate knows no groups, only classes: all records of one released combination, which may be those of several groups.
A value is the most frequent of a class because it is that of each of its groups (see :mod:`.nominal`), whichever of
them might have had a parent. If each group's least common parent is P, so is that of the class: P has all values of all
groups below it, and what has all of the class below it has all of any one group, so that it is P or above it. Whether
the value or the parent loses less is not the gate's to say: in a class that can differ from what it is in each group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Ints
from microagg_core.data.hierarchies import Hierarchy
from microagg_core.data.kinds.categories import EQUAL_WEIGHTS, groups_in_order
from microagg_core.data.kinds.contract import EXAMPLES, MODE_OR_PARENT, Claim, Declaration, Kind, Ticks
from microagg_core.data.kinds.nominal import NominalKind
from microagg_core.data.tables.types import is_text
from microagg_core.data.trees import CodedTree
from microagg_core.errors import SpecError
from microagg_core.group.metrics.moments import Groups

#: Examples below the root alone, as text and as whole numbers are written.
_FLAT = Hierarchy.of((text, "", "") for text in {form for n in EXAMPLES for form in (str(n), f"{n:02}")})


@dataclass(frozen=True)
class HierarchicalKind(NominalKind):
    """Texts and whole numbers that are leaves of a hierarchy; codes of parents come after those of values.

    >>> jobs = Hierarchy.of([("Craft", "Manual", ""), ("Farming", "Manual", ""), ("Sales", "", ""), ("Trade", "", "")])
    >>> kind = HierarchicalKind("job", pa.string(), categories=jobs.leaves, counts=(3, 3, 2, 2), hierarchy=jobs)
    >>> groups = Groups.of(np.array([0, 0, 1, 1, 1, 2, 2]))
    >>> kind.to_arrow(kind.representatives(np.array([0, 1, 0, 1, 1, 0, 2]), groups)).to_pylist()
    ['Manual', 'Farming', 'Sales']
    """

    hierarchy: Hierarchy = _FLAT
    #: By code, what released values and parents are read as; None: they are as they are.
    read_as: tuple[str | None, ...] | None = None

    claims: ClassVar[frozenset[Claim]] = frozenset({Claim.MODE_OR_PARENT})
    released_as: ClassVar[str] = MODE_OR_PARENT
    released_words: ClassVar[str] = "the most frequent value of the group, or the least common parent of its values"

    @classmethod
    def takes(cls, arrow_type: pa.DataType, declared: Declaration) -> bool:
        is_nominal = NominalKind.takes(arrow_type, replace(declared, hierarchy=None))
        return declared.hierarchy is not None and is_nominal and not pa.types.is_boolean(arrow_type)

    @classmethod
    def of(cls, declared: Declaration, arrow_type: pa.DataType) -> HierarchicalKind:
        hierarchy = declared.hierarchy or _FLAT
        whole = pa.int64() if pa.types.is_floating(arrow_type) else arrow_type
        texts = pa.array(hierarchy.leaves, pa.string())
        try:
            values = texts.cast(whole)
            is_same = values.cast(pa.string()).equals(texts)  # 010 is a whole number, and no value is written so
        except pa.ArrowInvalid:
            is_same = False
        if not is_same:
            raise SpecError(
                f"hierarchies: a leaf of {declared.name!r} is no {whole}, as the column's values are; write leaves as "
                "these are written"
            )
        may_lack = declared.null_is_category
        own = (*values.cast(arrow_type).to_pylist(), *([None] if may_lack else []))
        kind = cls(declared.name, arrow_type, declared.rule, declared.importance, may_lack, own)
        return replace(kind, hierarchy=hierarchy)

    @property
    def unusable(self) -> tuple[str, str]:
        return "values that are no leaves of its hierarchy", "add or correct them"

    @property
    def is_coded(self) -> bool:
        return bool(self.counts)

    @property
    def tree(self) -> CodedTree:
        return self._tree

    @cached_property
    def _tree(self) -> CodedTree:
        return CodedTree.of(self.hierarchy, self._texts)

    @property
    def _texts(self) -> list[str | None]:
        return [None if v is None else str(int(v) if self.holds_floats else v) for v in self.categories]

    @property
    def released_type(self) -> pa.DataType:
        """Text, as parents are."""
        return self.source_type if is_text(self.source_type) else pa.string()

    @cached_property
    def _values(self) -> pa.Array:
        """Values and, once all that the file has are known, parents."""
        names = map(self.hierarchy.name, self.hierarchy.parents if self.counts else ())
        return pa.array(self.read_as or [*self._texts, *names], self.released_type)

    def _ticks_of(self, array: pa.Array) -> Ticks:
        """Look values up; and released ones, which are text, among parents, too."""
        if is_text(array.type) or not self.categories:
            return super()._ticks_of(array)
        found = pc.index_in(self.with_nulls(array), value_set=pa.array(self.categories, self.source_type))
        return np.asarray(pc.fill_null(found, -1)).astype(np.int64)

    def with_nulls(self, array: pa.Array) -> pa.Array:
        return array if is_text(array.type) else super().with_nulls(array)

    @property
    def reader(self) -> Kind:
        return self if self.written is None else replace(self, read_as=self.written, written=None)

    def shown(self, tick: float) -> str:
        value = self._values[round(tick)].as_py()
        return "(missing)" if value is None else str(value)

    def representatives(self, ticks: Ticks, groups: Groups) -> Ticks:
        mode, parent = super().representatives(ticks, groups), self._least_common(ticks, groups)
        counts = np.ones(len(ticks), dtype=np.int64) if groups.weights is None else groups.weights
        other = ticks[groups.order] != mode[groups_in_order(groups)]
        lost = np.add.reduceat(counts[groups.order] * other, groups.first)
        if groups.weights is not None:
            lost = lost * (1.0 - EQUAL_WEIGHTS)
        leaves = self.tree.leaves  # n g(P) < lost, in whole numbers where there are no weights
        return np.where(groups.sums(counts) * (leaves[parent] - 1) < lost * (leaves.max() - 1), parent, mode)

    def fits(self, before: Ticks, after: Ticks, groups: Groups) -> Bools:
        """Tell whether each group has a value that it may have, or all of it the least common parent of several."""
        is_parent = after >= self.tree.n_values
        may_be = super().fits(before, np.where(is_parent, 0, after), groups)
        is_least = after[groups.order] == self._least_common(before, groups)[groups_in_order(groups)]
        return np.where(is_parent[groups.order], is_least, may_be)

    def _least_common(self, ticks: Ticks, groups: Groups) -> Ints:
        return self.tree.least_common(ticks[groups.order], groups.first)
