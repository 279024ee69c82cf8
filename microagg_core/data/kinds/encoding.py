"""Quasi-identifiers as points of the metric in which groups are made, and groups' means as columns again."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.data.kinds.contract import UNDECLARED, Declaration, Kind, Ticks
from microagg_core.data.kinds.nominal import NominalKind, are_numbers
from microagg_core.data.kinds.registry import completed, unrounded_kind
from microagg_core.data.kinds.scales import Scale
from microagg_core.data.kinds.weights import weight_kind
from microagg_core.data.tables.types import is_ordered, plain
from microagg_core.errors import DataError
from microagg_core.group.bounds import Certificate
from microagg_core.group.metrics.moments import Groups, Moments, Origin, middle, standardized, steadied
from microagg_core.group.metrics.statistics import Categories
from microagg_core.group.points import Points


@dataclass(frozen=True)
class Encoding:
    """The whole file's standardization: per quasi-identifier its kind, origin, mean and deviation."""

    kinds: tuple[Kind, ...]
    origins: tuple[Origin, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    #: Of codes, the share of records that has each; empty for numbers.
    shares: tuple[tuple[float, ...], ...] = ()
    #: Where groups are made, other coordinates of some attributes; None, and where there is none: their values.
    scales: tuple[Scale | None, ...] = ()
    #: Attributes whose zeros are grouped apart, by their places.
    zeros_apart: tuple[int, ...] = ()

    @classmethod
    def from_moments(cls, kinds: tuple[Kind, ...], moments: tuple[Moments, ...]) -> Encoding:
        """Standardize with these moments: mean 0, population variance 1; a constant attribute becomes 0."""
        columns = list(zip(kinds, moments, strict=True))
        origins = tuple(0 if kind.is_coded else middle(m.least, m.greatest) for kind, m in columns)
        return cls(kinds, origins, (), ()).with_scale(moments)

    def with_scale(self, moments: Sequence[Moments]) -> Encoding:
        """Standardize with other moments of the same columns, offsets being from the same origins."""
        means = tuple(m.mean_from(o) if m.n else 0.0 for m, o in zip(moments, self.origins, strict=True))
        shares = tuple(tuple(count / max(m.n, 1) for count in m.counts) for m in moments)
        return replace(self, means=means, deviations=tuple(m.deviation for m in moments), shares=shares)

    @property
    def of_values(self) -> Encoding:
        """The scale of losses and risks: of values, all of which count alike, whatever groups are made by."""
        kinds = self.kinds
        if any(kind.importance != 1.0 for kind in kinds):
            kinds = tuple(replace(kind, importance=1.0) for kind in kinds)
        return replace(self, kinds=kinds, scales=(), zeros_apart=())

    def steadied(self) -> Encoding:
        """Round means and deviations to 24 bits: the scale on which groups are made, of moments merged from parts."""
        pairs = [steadied(*of) for of in zip(self.origins, self.means, self.deviations, strict=True)]
        return replace(self, means=tuple(m for m, _ in pairs), deviations=tuple(d for _, d in pairs))

    def least_stretch(self, other: Encoding) -> float:
        """Bound from below how many times a squared distance on this scale is that on another of the same attributes.

        >>> from microagg_core.data.kinds.floats import FloatKind
        >>> kind = FloatKind("x", pa.float64())
        >>> Encoding((kind,), (0.0,), (0.0,), (2.0,)).least_stretch(Encoding((kind,), (0.0,), (0.0,), (4.0,)))
        0.2499999999999991
        """
        pairs = zip(self.deviations, other.deviations, strict=True)
        return min(((mine / its) ** 2 for mine, its in pairs if its > 0), default=1.0) * (1.0 - 2.0**-48)

    def ticks(self, columns: list[pa.ChunkedArray | pa.Array]) -> tuple[list[Ticks], Bools]:
        """Exact ticks of each quasi-identifier, and which values are missing (n x p)."""
        ticks = []
        missing = np.zeros((len(columns[0]), len(self.kinds)), dtype=np.bool_)
        for j, kind in enumerate(self.kinds):
            values, missing[:, j] = kind.ticks(columns[j])
            ticks.append(values)
        return ticks, missing

    def without_weight(self) -> Encoding:
        """Leave the survey weight out of the metric."""
        return replace(self, kinds=tuple(replace(k, importance=0.0) if k.is_weight else k for k in self.kinds))

    def weights_of(self, ticks: Sequence[Ticks]) -> Floats | None:
        """Find the survey weights of records among the ticks of their columns; None where there are none."""
        return next((values for kind, values in zip(self.kinds, ticks, strict=True) if kind.is_weight), None)

    def offsets_of(self, ticks: Sequence[Ticks]) -> Floats:
        offsets = np.empty((len(ticks[0]), len(self.kinds)))
        for j, (kind, values, origin) in enumerate(zip(self.kinds, ticks, self.origins, strict=True)):
            offsets[:, j] = kind.offsets(values, origin)
        return offsets

    @cached_property
    def categories(self) -> Categories | None:
        """Say which attributes are no numbers, for losses; None where all are."""
        coded, ranked = (np.array(of) for of in zip(*((k.is_coded, k.is_ranked) for k in self.kinds), strict=True))
        return Categories(coded, ranked, self.costs, self.shares) if (coded | ranked).any() else None

    @property
    def costs(self) -> Floats:
        """Cost of a mismatch in the metric; 0 of numbers, and where all have one category."""
        columns = zip(self.kinds, self.deviations, strict=True)
        return np.array([kind.importance / d**2 if kind.is_coded and d > 0 else 0.0 for kind, d in columns])

    def points(self, offsets: Floats, missing: Bools | None = None) -> Points:
        return Points(self.standardize(offsets, missing), self.costs)

    def standardize(self, offsets: Floats, missing: Bools | None = None) -> Floats:
        """Standardize offsets, and leave codes as they are; missing values become 0 and take no part in anything."""
        columns = zip(self.kinds, self.deviations, strict=True)
        deviations = np.array([1.0 if kind.is_coded else _stretched(d, kind.importance) for kind, d in columns])
        z = standardized(offsets, np.array(self.means), deviations)
        for j, scale in enumerate(self.scales):
            if scale is not None:
                values = (offsets[:, j] + float(self.origins[j])) / scale.unit
                z[:, j] = scale.of(values) * math.sqrt(self.kinds[j].importance)
        if missing is not None and missing.any():
            z[missing] = 0.0
        return z

    def for_cuts(self, offsets: Floats, missing: Bools) -> Floats:
        """Standardize for cuts at thresholds: codes are numbers here, by which frequent ones are parted from rarer."""
        z = self.standardize(offsets, missing)
        for j in np.flatnonzero(self.costs):
            code, share = np.arange(len(self.shares[j])), np.array(self.shares[j])
            variance = share @ code**2 - (share @ code) ** 2
            z[:, j] *= math.sqrt(self.kinds[j].importance / variance)
        return z


def _stretched(deviation: float, importance: float) -> float:
    return deviation / math.sqrt(importance) if importance > 0 else math.inf


@dataclass(frozen=True)
class QuasiIdentifiers:
    """The quasi-identifiers of a table: exact ticks of each, and how they become numbers and values again.

    ``missing``, of (records, quasi-identifiers), are the missing values, whose ticks are 0.
    """

    names: tuple[Hashable, ...]
    ticks: tuple[Ticks, ...]
    missing: Bools
    encoding: Encoding

    @classmethod
    def of(
        cls,
        columns: Mapping[Hashable, pa.Array],
        *,
        may_be_missing: bool = False,
        weight: Hashable | None = None,
        declared: Mapping[Hashable, Declaration] = MappingProxyType({}),
    ) -> QuasiIdentifiers:
        """Read columns, by name, some of which are declared; one of them may be that of survey weights."""
        kinds, ticks, missing = [], [], []
        for name, array in columns.items():
            said = declared.get(name, UNDECLARED)
            is_category = pa.types.is_dictionary(array.type) or said.kind is not None
            array, levels = _without_dictionary(array)
            if levels is not None and (said.kind, said.levels) in ((None, None), ("ordinal", None)):
                said = replace(said, kind="ordinal", levels=levels)
            if name == weight:
                kind: Kind = weight_kind(str(name), array.type)
            else:
                kind = unrounded_kind(name, array.type, said)
            if kind.needs_all_values:
                kind = completed(kind, array)
            if isinstance(kind, NominalKind) and not is_category and are_numbers(kind.categories):
                raise DataError(
                    f"quasi-identifier {name!r} is text, and most of its values are numbers or dates; convert it to "
                    "their type, or, if they are codes, to a category"
                )
            if isinstance(kind, NominalKind):
                kind.refuse_names()
            values, gaps = kind.ticks(array)
            if kind.is_weight and (n_wrong := int(np.sum(gaps | ~kind.finite(values)))):
                raise DataError(
                    f"weight {name!r} has {n_wrong} values that are missing, infinite or not above 0; every record "
                    "needs a weight: correct it, or leave such records out"
                )
            if not kind.finite(values).all():
                raise DataError(f"quasi-identifier {name!r} has {kind.unusable[0]}; remove or replace them first")
            if gaps.any() and not may_be_missing:
                raise DataError(
                    f"quasi-identifier {name!r} has missing values; remove or replace them first, or mask the table "
                    'with missing="blank"'
                )
            kinds.append(kind)
            ticks.append(values)
            missing.append(gaps)
        there = [values[~gaps] for values, gaps in zip(ticks, missing, strict=True)]
        moments = tuple(kind.moments(values) for kind, values in zip(kinds, there, strict=True))
        return cls(
            tuple(columns), tuple(ticks), np.stack(missing, axis=1), Encoding.from_moments(tuple(kinds), moments)
        )

    def standardized(self) -> Points:
        """The records on the scale on which groups are made: columns of mean 0 and variance 1, to 24 bits."""
        return self.encoding.steadied().points(self.encoding.offsets_of(self.ticks))

    def measured(self) -> Points:
        """The same on the scale of losses: columns of mean 0 and population variance 1; a constant one at 0."""
        return self.encoding.points(self.encoding.offsets_of(self.ticks))

    def certified(self, certificate: Certificate) -> Certificate:
        """Turn a certificate about :meth:`standardized` into one about :meth:`measured`; the bound claims no more."""
        stretch = self.encoding.steadied().least_stretch(self.encoding)
        return replace(certificate, bound=certificate.bound * min(stretch, 1.0))

    def as_given(self) -> Floats:
        """The values as an (n, p) array of floats; dates in days, timestamps in their unit, from about 0."""
        columns = zip(self.encoding.kinds, self.ticks, self.encoding.origins, strict=True)
        return np.stack([kind.plain_numbers(ticks, origin) for kind, ticks, origin in columns], axis=1)

    def means(self, labels: Ints) -> dict[Hashable, pa.Array]:
        """Give each record its group's mean of each quasi-identifier.

        The labels are one a record, or an (n, p) array of one a record and quasi-identifier.
        """
        groups = Groups.of(labels) if labels.ndim == 1 else None
        columns = {}
        for j, (name, kind) in enumerate(zip(self.names, self.encoding.kinds, strict=True)):
            own = labels if labels.ndim == 1 else labels[:, j]
            representatives = kind.representatives(self.ticks[j], groups or Groups.of(own))
            columns[name] = kind.to_arrow(representatives[own])
        return columns


def _without_dictionary(array: pa.Array) -> tuple[pa.Array, tuple[str, ...] | None]:
    """Decode a column; and the levels of an ordered dictionary, as text."""
    return plain(array), tuple(map(str, array.dictionary.to_pylist())) if is_ordered(array.type) else None
