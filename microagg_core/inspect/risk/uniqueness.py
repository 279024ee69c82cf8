"""Uniqueness: how many records stand alone with their quasi-identifiers, before masking and after.

Before, a record is compared with those that have its released label, in the same file. After, nobody stands alone: the
figure is there to be seen, and by what an intruder knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from microagg_core.arrays import UInt64s
from microagg_core.inspect.contract import RiskMeasure, share
from microagg_core.inspect.exposure import Exposure
from microagg_core.inspect.risk.linkage import knowledge
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.plain import PlainInts


@dataclass(frozen=True)
class Alone:
    """Records, and how many of them stand alone: before masking for each knowledge, and after."""

    records: int
    before: PlainInts
    #: Records whose originals were looked at.
    looked: int
    after: int


def count_alone(keys: UInt64s) -> int:
    """Count the keys that are there once.

    >>> count_alone(np.array([5, 7, 5], dtype=np.uint64))
    1
    """
    ordered, differs = np.sort(keys), np.ones(len(keys) + 1, dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=differs[1:-1])
    return int(np.count_nonzero(differs[1:] & differs[:-1]))


class Uniqueness(RiskMeasure[Alone]):
    name = "uniqueness"
    notes = Alone

    def measure(self, exposure: Exposure) -> Alone:
        n, after, known = len(exposure.groups), int(np.sum(exposure.sizes == 1)), knowledge(len(exposure.names))
        if exposure.originals is None:
            return Alone(n, np.zeros(len(known), dtype=np.int64), 0, after)
        label = mix_words(exposure.labels[exposure.groups].astype(np.uint64))
        before = []
        for attributes in known:
            keys = label.copy()
            for j in attributes:
                keys += exposure.originals[j]  # each attribute's hashes are of another seed
            before.append(count_alone(keys))
        return Alone(n, np.array(before), n, after)

    def figures(self, total: Alone, names: tuple[str, ...]) -> dict[str, Any]:
        after = share(total.after, total.records)
        if not total.looked:
            return {"before": None, "after": after}
        knows = [[names[j] for j in attributes] for attributes in knowledge(len(names))]
        shares = [share(n, total.looked) for n in total.before.tolist()]
        by_knowledge = [
            {"knows": names_known, "before": alone} for names_known, alone in zip(knows, shares, strict=True)
        ]
        return {"before": shares[0], "after": after, "by_knowledge": by_knowledge}
