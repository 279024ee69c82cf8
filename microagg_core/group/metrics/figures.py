"""The figures of a release's information loss, as they are published: what the manifest and the reports have of them.

A figure that was not given is not there, neither here nor in JSON: small releases withhold some, and earlier versions
knew fewer. ``None`` is a figure that exists and has no value that JSON could hold.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class _Given(BaseModel):
    """Model that writes only what was given, and keeps what another version knows besides."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _only_given(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if name in self.model_fields_set}

    def n_unknown(self) -> int:
        """Count the figures that this version does not know, in it and in its parts."""
        held = [value for name in type(self).model_fields for value in _parts(getattr(self, name))]
        return len(self.model_extra or ()) + sum(part.n_unknown() for part in held)


def _parts(value: Any) -> list[_Given]:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
    return [part for part in values if isinstance(part, _Given)]


class CategoryFigures(_Given):
    """Shares of records that have a category, in percent of those that have one: as released, and as they came.

    The share before is at most ``within`` off; both are not there where it would tell of few records.
    """

    category: str
    share: float
    share_before: float | None = None
    within: float | None = None


class AttributeFigures(_Given):
    """Loss of one quasi-identifier; mean and variance are of what is released, in ``unit`` and its square.

    ``l_sse`` and ``variance_kept`` are percentages of the variance; ``mean`` is a text for dates and timestamps, and so
    are quantiles. ``..._before`` is of the input, all else of what is released. Of categories are ``mismatches``,
    records with neither the one that they had nor a parent of it, in percent of those that have one;
    ``rank_displacement``, how far released levels are from records' own on average, in percent of all ranks; and
    ``margins``, half of what all shares of categories changed together, in percent.
    """

    unit: str | None = None
    l_sse: float | None = None
    il1s: float | None = None
    mean: float | str | None = None
    variance: float | None = None
    variance_kept: float | None = None
    mismatches: float | None = None
    rank_displacement: float | None = None
    #: Categories that records had, and those that are released.
    categories: int | None = None
    categories_kept: int | None = None
    #: Percent of the records that got a parent of their category, and how general records are told on average, in
    #: percent: a parent of n of the N leaves of its hierarchy is (n - 1) / (N - 1), a category itself 0.
    generalized: float | None = None
    generality: float | None = None
    margins: float | None = None
    #: The most frequent categories, of ordinal ones in their order; and the released share of all others together.
    shares: tuple[CategoryFigures, ...] | None = None
    other_shares: float | None = None
    #: Percent of the records that have a zero, and that have one of the five most frequent other values.
    zeros_before: float | None = None
    zeros: float | None = None
    heaps_before: float | None = None
    heaps: float | None = None
    #: By the percent of the records that lie below.
    quantiles_before: dict[str, float | str] | None = None
    quantiles: dict[str, float | str] | None = None


class WeightedFigures(_Given):
    """Weighted figures: the share of the weighted variance that is lost, in percent; released means."""

    l_sse: float | None = None
    means: dict[str, float | str] | None = None


class CorrelationChange(_Given):
    """By how much correlations change, over the pairs of quasi-identifiers that have one before and after."""

    pairs: int | None = None
    left_out: int | None = None
    mean: float | None = None
    largest: float | None = None


class CertificateFigures(_Given):
    """How far from the least possible the loss is at most: ``ratio`` times, since ``optimum_at_least`` is proved."""

    sse: float
    weight: float
    bound: float
    optimum_at_least: float
    ratio: float | None


class Figures(_Given):
    """Information loss of a release: totals, what is proved of them, and figures by attribute.

    Where a night of a series carries records as earlier releases grouped them, ``records`` and ``attributes`` are of
    the whole file, without any loss, and ``arrivals`` has the figures of the records that the night itself grouped.

    >>> Figures(records=7, sse=0.5).model_dump()
    {'records': 7, 'sse': 0.5}
    >>> Figures.model_validate({"gap": None, "of a later version": 2}).model_dump()
    {'gap': None, 'of a later version': 2}
    """

    records: int | None = None
    sse: float | None = None
    sst: float | None = None
    l_sse: float | None = None
    sde: float | None = None
    sdt: float | None = None
    l_e: float | None = None
    #: Proved: no partition of the blocks has a smaller ``sse``; and the share of ``sse`` above it, in percent.
    lower_bound: float | None = None
    gap: float | None = None
    #: Algorithms, where the choice was left to the blocks: all that were tried, and those that lost least somewhere; or
    #: without any tried, those from whose groups refinement started.
    tried: tuple[str, ...] | None = None
    chosen: tuple[str, ...] | None = None
    #: Whether refinement gained anything.
    refined: bool | None = None
    certificate: CertificateFigures | None = None
    attributes: dict[str, AttributeFigures] | None = None
    correlation_change: CorrelationChange | None = None
    weighted: WeightedFigures | None = None
    #: Records that shares of zeros and heaps and quantiles are of, where these are not all.
    drawn: int | None = None
    #: Figures with fewer than six digits, by their names, and how far from each the true one is at most.
    coarser: dict[str, float] | None = None
    #: Which figures are not published, and why.
    withheld: str | None = None
    arrivals: Figures | None = None

    @property
    def of_grouped(self) -> Figures:
        """Figures of the records that this release grouped: all records, but in a night that carries others."""
        return self if self.arrivals is None else self.arrivals

    def shown(self, name: str) -> str:
        """Write a percentage of the losses, or of a part of them, in words, with how far off it may be.

        >>> Figures(l_sse=1.8, coarser={"l_sse": 0.4}).shown("l_sse"), Figures(l_e=2.5).shown("l_e")
        ('1.8 % (within 0.4)', '2.5 %')
        >>> Figures().shown("gap")
        'not published'
        """
        *parts, last = name.split(".")
        of = reduce(getattr, parts, self)
        if of is None or last not in of.model_fields_set:
            return "not published"
        within = (self.coarser or {}).get(name)
        return f"{getattr(of, last)} %" + (f" (within {within:g})" if within else "")

    def __or__(self, other: Figures) -> Figures:
        return self.model_copy(update={name: getattr(other, name) for name in other.model_fields_set})

    def __repr_args__(self) -> Any:
        return [(name, value) for name, value in super().__repr_args__() if name in self.model_fields_set]
