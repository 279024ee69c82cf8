"""Linkage: how often somebody who knows a record's quasi-identifiers finds it among those that are released.

He knows the blocking values, and some or all of the quasi-identifiers, exactly or nearly, and which of them are
missing. He takes the released combination that is nearest, and one of its records at random; of combinations that are
equally near, any of their records. His candidates are the released combinations of the label in the same file: there
are many fewer of them than records, so that all of them are tried. Where a label's rows lie in several files, he has
more of them than that, and finds less: the figure is an upper bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microagg_core.inspect.contract import RiskMeasure, share
from microagg_core.inspect.exposure import Exposure, noise
from microagg_core.plain import PlainFloats

#: What is known is off by so many deviations: not at all, about as much as a rounded number, as an old one.
NOISES = (0.0, 0.1, 0.5)
#: Instead of a sum: nobody knows categories alone nearly.
_NOT_ASKED = -1.0


def knowledge(p: int) -> tuple[tuple[int, ...], ...]:
    """List which of p quasi-identifiers an intruder may know: all, each half, each one.

    >>> knowledge(3)
    ((0, 1, 2), (0, 1), (2,), (0,), (1,))
    """
    every, half = tuple(range(p)), (p + 1) // 2
    sets = [every, every[:half], every[half:], *((j,) for j in every)]
    return tuple(dict.fromkeys(attributes for attributes in sets if attributes))


@dataclass(frozen=True)
class Links:
    """Sum links over the records that were asked: for each knowledge and noise, and for who takes any record."""

    asked: int
    chance: float
    nearest: PlainFloats
    correct: PlainFloats


class Linkage(RiskMeasure[Links]):
    name = "linkage"
    notes = Links

    def measure(self, exposure: Exposure) -> Links:
        """Look for the records that are asked with every knowledge and every noise."""
        asked = exposure.asked
        errors = noise(asked.records, len(exposure.names), exposure.seed)
        if exposure.costs is not None:
            errors[:, exposure.costs > 0] = 0.0  # somebody knows a category, or he does not
        sums: list[tuple[float, float]] = []
        for attributes in knowledge(len(exposure.names)):
            columns, knows_all = list(attributes), len(attributes) == len(exposure.names)
            candidates = exposure.all_candidates if knows_all else exposure.candidates(attributes)
            is_category = exposure.costs is not None and bool((exposure.costs[columns] > 0).all())
            for size in NOISES:
                if size and is_category:
                    sums.append((_NOT_ASKED, _NOT_ASKED))
                    continue
                near, right = candidates.link(asked.values[:, columns] + size * errors[:, columns], exposure.own)
                sums.append((float(near.sum()), float(right.sum())))
        nearest, correct = np.array(sums).T
        chance = float(exposure.all_candidates.by_chance(exposure.own).sum())
        return Links(len(asked.rows), chance, nearest, correct)

    def figures(self, total: Links, names: tuple[str, ...]) -> dict[str, Any]:
        if not total.asked:
            return {"asked": 0}
        intruders = [(known, size) for known in knowledge(len(names)) for size in NOISES]
        asked = [of for of in zip(intruders, total.nearest, total.correct, strict=True) if of[1] >= 0]
        by_intruder = [
            {
                "knows": [names[j] for j in known],
                "noise": size,
                "own_nearest": share(nearest, total.asked),
                "expected_correct": share(correct, total.asked),
            }
            for (known, size), nearest, correct in asked
        ]
        first = {name: by_intruder[0][name] for name in ("own_nearest", "expected_correct")}
        return {"asked": total.asked, **first, "by_chance": share(total.chance, total.asked), "intruders": by_intruder}

    def of_labels(self, exposure: Exposure) -> Mapping[str, NDArray[Any]]:
        asked = exposure.asked
        if exposure.originals is None:
            return {}
        near, right = exposure.all_candidates.link(asked.values, exposure.own)
        label = exposure.labels[exposure.groups[asked.rows]]
        n = exposure.n_labels
        return {
            "asked": np.bincount(label, minlength=n),
            "own_nearest": np.bincount(label, near, n),
            "expected_correct": np.bincount(label, right, n),
        }
