"""The slow twin of what sketches add up, a value and an attribute at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def naive_sums_by_value(
    codes: list[int], n_values: int, Z: NDArray[np.float64], missing: NDArray[np.bool_]
) -> list[list[float]]:
    """Records of each value, and count, sum and sum of squares of each attribute (a row of Z) among them."""
    sums = []
    for value in range(n_values):
        records = [i for i, code in enumerate(codes) if code == value]
        of_value = [float(len(records))]
        for z, gone in zip(Z.tolist(), missing.tolist(), strict=True):
            there = [z[i] for i in records if not gone[i]]
            of_value += [float(len(there)), sum(there, 0.0), sum((one * one for one in there), 0.0)]
        sums.append(of_value)
    return sums
