"""Disclosure risk of a release, for the operator alone: it stays in the audit and is never published.

A measure notes something of every block, from its groups, and says something of all blocks. A new one is a class here
and a line in ``MEASURES``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Ints, UInt64s
from microagg_core.spec.columns import FileSchema

#: What a measure says of a release: a count, or one for each of some columns.
RiskFigure: TypeAlias = int | dict[str, int]
#: The figures of all measures, by name.
Risk: TypeAlias = dict[str, RiskFigure]


@dataclass(frozen=True)
class BlockGroups:
    """What measures know of a block: each record's group (0, 1, ...), and hashes of its confidential values."""

    labels: Ints
    confidential: Sequence[UInt64s]

    @property
    def sizes(self) -> Ints:
        """Records of each group."""
        return np.bincount(self.labels)


class RiskMeasure(ABC):
    """One measure of disclosure risk."""

    name: str

    @abstractmethod
    def of_block(self, block: BlockGroups) -> dict[str, int]:
        """What to note of a block: columns of its line in the audit."""

    @abstractmethod
    def of_release(self, blocks: pa.Table, schema: FileSchema) -> RiskFigure:
        """What the lines of all blocks come to."""


class GroupCount(RiskMeasure):
    """How many groups there are."""

    name = "groups"

    def of_block(self, block: BlockGroups) -> dict[str, int]:
        """Those of the block."""
        return {"groups": len(block.sizes)}

    def of_release(self, blocks: pa.Table, schema: FileSchema) -> int:
        """Their sum."""
        return int(np.asarray(blocks["groups"]).sum())


class SmallestGroup(RiskMeasure):
    """Records of the smallest group."""

    name = "smallest_group"

    def of_block(self, block: BlockGroups) -> dict[str, int]:
        """Those of the block's smallest."""
        return {"least": int(block.sizes.min())}

    def of_release(self, blocks: pa.Table, schema: FileSchema) -> int:
        """The least of them."""
        return int(np.asarray(blocks["least"]).min())


class LargestGroup(RiskMeasure):
    """Records of the largest group."""

    name = "largest_group"

    def of_block(self, block: BlockGroups) -> dict[str, int]:
        """Those of the block's largest."""
        return {"most": int(block.sizes.max())}

    def of_release(self, blocks: pa.Table, schema: FileSchema) -> int:
        """The greatest of them."""
        return int(np.asarray(blocks["most"]).max())


class GroupsWithOneValue(RiskMeasure):
    """Groups that disclose a confidential value because all of their records share it."""

    name = "groups_with_one_confidential_value"

    def of_block(self, block: BlockGroups) -> dict[str, int]:
        """How many of the block's groups disclose each confidential column."""
        order = np.argsort(block.labels, kind="stable")
        first = np.cumsum(block.sizes) - block.sizes
        columns = [hashes[order] for hashes in block.confidential]
        return {
            f"constant_{j}": int(np.sum(np.minimum.reduceat(h, first) == np.maximum.reduceat(h, first)))
            for j, h in enumerate(columns)
        }

    def of_release(self, blocks: pa.Table, schema: FileSchema) -> dict[str, int]:
        """The sums, by column."""
        columns = enumerate(schema.confidential)
        return {column.name: int(np.asarray(blocks[f"constant_{j}"]).sum()) for j, column in columns}


MEASURES: tuple[RiskMeasure, ...] = (GroupCount(), SmallestGroup(), LargestGroup(), GroupsWithOneValue())


def note_block(block: BlockGroups) -> dict[str, int]:
    """What all measures note of a block.

    >>> hashes = np.array([7, 7, 8, 9, 9], dtype=np.uint64)
    >>> note_block(BlockGroups(np.array([0, 0, 1, 1, 1]), [hashes]))
    {'groups': 2, 'least': 2, 'most': 3, 'constant_0': 1}
    """
    return {name: n for measure in MEASURES for name, n in measure.of_block(block).items()}


def risk_of(blocks: pa.Table, schema: FileSchema) -> Risk:
    """What all measures say of a release, from the lines of its blocks."""
    return {measure.name: measure.of_release(blocks, schema) for measure in MEASURES}
