"""Disclosure risk from groups alone: block by block, and what the blocks come to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from microagg_core.kinds.registry import kind_of
from microagg_core.privacy.risk import MEASURES, BlockGroups, RiskMeasure, note_block, risk_of
from microagg_core.spec.columns import Column, FileSchema

SCHEMA = FileSchema(
    (Column("x", pa.int64(), "quasi_identifiers"), Column("ill", pa.bool_(), "confidential")),
    (kind_of("x", pa.int64()),),
    (pa.int64(), pa.bool_()),
)
#: Groups in no order; the first block's group 1 shares a value, the second block's groups both do.
BLOCKS = [
    BlockGroups(np.array([1, 0, 1, 0, 0]), [np.array([5, 5, 5, 8, 5], dtype=np.uint64)]),
    BlockGroups(np.array([0, 0, 1, 1, 1, 1]), [np.array([5, 5, 8, 8, 8, 8], dtype=np.uint64)]),
]


def lines() -> pa.Table:
    return pa.Table.from_pylist([note_block(block) for block in BLOCKS])


def test_risk_is_that_of_all_blocks() -> None:
    assert risk_of(lines(), SCHEMA) == {
        "groups": 4,
        "smallest_group": 2,
        "largest_group": 4,
        "groups_with_one_confidential_value": {"ill": 3},
    }


class SmallGroups(RiskMeasure):
    """A measure that nobody has thought of yet: groups that are less than half of their block."""

    name = "small_groups"

    def of_block(self, block: BlockGroups) -> dict[str, int]:
        return {"small": int(np.sum(2 * block.sizes < len(block.labels)))}

    def of_release(self, blocks: pa.Table, schema: FileSchema) -> int:
        return int(np.asarray(blocks["small"]).sum())


def test_a_new_measure_is_a_class_and_a_line_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microagg_core.privacy.risk.MEASURES", (*MEASURES, SmallGroups()))
    assert risk_of(lines(), SCHEMA)["small_groups"] == 2
