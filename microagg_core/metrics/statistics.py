"""Loss of a release as sums over its records: a block's statistics, and how blocks combine.

Everything is measured on the released records' standardized quasi-identifiers (mean 0, population variance 1), so
plain sums lose no digits. Missing values take no part; a correlation is over the records that have both attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LossStatistics:
    """Sums over some records; two sets combine by addition.

    Arrays over attributes: ``sse`` (squared differences), ``absolute`` (absolute differences). Arrays over pairs of
    attributes, over the records that have both: ``n``, sums of the first attribute before and after, and sums of
    products before and after. ``sde`` and ``sdt`` are sums of distances.
    """

    records: int
    sse: Floats
    absolute: Floats
    n: Floats
    sum_before: Floats
    sum_after: Floats
    product_before: Floats
    product_after: Floats
    sde: float
    sdt: float

    def __add__(self, other: LossStatistics) -> LossStatistics:
        sums: dict[str, Any] = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return LossStatistics(**sums)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {f.name: np.asarray(getattr(self, f.name)).tolist() for f in fields(self)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LossStatistics:
        """Inverse of :meth:`to_json`."""
        values: dict[str, Any] = {name: np.array(v) if isinstance(v, list) else v for name, v in value.items()}
        return cls(**values)


def loss_statistics(before: Floats, after: Floats, missing: NDArray[np.bool_]) -> LossStatistics:
    """The statistics of some records: standardized values before and after, zero where missing.

    >>> s = loss_statistics(np.array([[1.0], [-1.0]]), np.zeros((2, 1)), np.zeros((2, 1), dtype=bool))
    >>> losses_of(s)["l_sse"]
    100.0
    """
    there = (~missing).astype(np.float64)
    before, after = before * there, after * there
    difference = before - after
    squares = difference * difference
    return LossStatistics(
        records=len(before),
        sse=squares.sum(axis=0),
        absolute=np.abs(difference).sum(axis=0),
        n=_products(there, there),
        sum_before=_products(before, there),
        sum_after=_products(after, there),
        product_before=_products(before, before),
        product_after=_products(after, after),
        sde=float(np.sqrt(squares.sum(axis=1)).sum()),
        sdt=float(np.sqrt((before * before).sum(axis=1)).sum()),
    )


def _products(a: Floats, b: Floats) -> Floats:
    """Sums of products of every pair of columns; a BLAS would add in an order that depends on its threads."""
    sums: Floats = np.einsum("ij,ik->jk", a, b)
    return sums


def losses_of(s: LossStatistics) -> dict[str, float]:
    """SSE, SST, L_SSE, SDE, SDT and L_E as the literature defines them; 0/0 is no loss."""
    sse, sst = float(s.sse.sum()), float(_squares(s.product_before, s.sum_before, s.n).sum())
    return {
        "sse": sse,
        "sst": sst,
        "l_sse": _percent(sse, sst),
        "sde": s.sde,
        "sdt": s.sdt,
        "l_e": _percent(s.sde, s.sdt),
    }


def attribute_losses(s: LossStatistics) -> list[dict[str, float]]:
    """Per attribute: loss in percent of its variance, the share of variance kept, and IL1s."""
    sst = _squares(s.product_before, s.sum_before, s.n)
    kept = _squares(s.product_after, s.sum_after, s.n)
    n = np.maximum(np.diag(s.n), 1.0)
    return [
        {
            "l_sse": _percent(float(s.sse[j]), float(sst[j])),
            "variance_kept": _percent(float(kept[j]), float(sst[j])) if sst[j] > 0 else 100.0,
            "il1s": float(s.absolute[j] / n[j] / np.sqrt(2.0)),
        }
        for j in range(len(sst))
    ]


def correlations(s: LossStatistics) -> tuple[Floats, Floats]:
    """Correlation matrices before and after; 0 where an attribute is constant."""
    return (
        _correlation(s.product_before, s.sum_before, s.n),
        _correlation(s.product_after, s.sum_after, s.n),
    )


def _squares(product: Floats, total: Floats, n: Floats) -> Floats:
    """Sums of squared deviations of each attribute."""
    counts = np.maximum(np.diag(n), 1.0)
    squares: Floats = np.maximum(np.diag(product) - np.diag(total) ** 2 / counts, 0.0)
    return squares


def _correlation(product: Floats, total: Floats, n: Floats) -> Floats:
    counts = np.maximum(n, 1.0)
    covariance = product - total * total.T / counts
    # The variance of each attribute over the records that it shares with the other is not stored: over all its own
    # records it differs only where values are missing, and the same definition serves before and after.
    squares = _squares(product, total, n) / np.maximum(np.diag(n), 1.0)
    scale = np.sqrt(np.outer(squares, squares)) * counts
    correlation: Floats = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 1e-300)
    return correlation


def _percent(part: float, whole: float) -> float:
    if whole > 0:
        return 100.0 * part / whole
    return 0.0 if part == 0 else float("inf")
