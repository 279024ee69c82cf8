"""Measure: what the release lost, and what it might give away, combined from the blocks.

Losses are published: over the whole release, to six significant digits, and only where they cannot be solved for
single records. Risk figures are for the operator alone.
"""

from __future__ import annotations

import decimal
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from microagg_core.grouping.bounds import gap_percent
from microagg_core.kinds.encoding import QuasiType
from microagg_core.metrics.certificate import Certificate, combined
from microagg_core.metrics.moments import Moments, merge_all
from microagg_core.metrics.statistics import (
    LossStatistics,
    attribute_losses,
    correlation_change,
    losses_of,
    significant,
)
from microagg_core.privacy.checks.means import Means
from microagg_core.privacy.gate import notes_of
from microagg_core.steps.checking import file_notes
from microagg_core.steps.pieces import Pieces
from microagg_core.steps.work import Context
from microagg_core.storage.layout import RunLayout
from microagg_core.tables.slices import read_slice

#: A record's distance from its group's mean is unknown to a reader; there are as many free unknowns for each attribute
#: as records less groups. Figures are equations in them, so they are published only where unknowns abound.
_FREE_FOR_TOTALS = 7
_FREE_FOR_ATTRIBUTES = 50
#: Standardizing rounds nearby values by less than this takes from a bound.
_SHRINK = 1.0 - 2.0**-30


def rounded(value: float, direction: str, digits: int = 6) -> float:
    """A number to so many significant digits, rounded in one of decimal's directions, so that no claim gets stronger.

    >>> rounded(12.3456789, decimal.ROUND_FLOOR), rounded(12.3456712, decimal.ROUND_CEILING)
    (12.3456, 12.3457)
    """
    return float(decimal.Context(prec=digits, rounding=direction).plus(decimal.Decimal(value)))


def combine_blocks(anonymized: Pieces, layout: RunLayout, n_partitions: int) -> tuple[LossStatistics, pa.Table]:
    """The loss statistics of the whole release, and the table of block results."""
    numbers = range(n_partitions)
    statistics = anonymized.read_all(layout.loss_statistics(i) for i in numbers)
    blocks = [read_slice(data) for data in anonymized.read_all(layout.block_results(i) for i in numbers)]
    return reduce(add, (LossStatistics.from_json(json.loads(data)) for data in statistics)), pa.concat_tables(blocks)


def released_moments(checked: Pieces, layout: RunLayout, n_files: int, n_attributes: int) -> tuple[Moments, ...]:
    """Moments of the released quasi-identifiers, as the gate read them from the files."""
    files = notes_of(Means(), file_notes(checked, layout, n_files))
    return tuple(merge_all(file.moments[j] for file in files) for j in range(n_attributes))


def proved_figures(statistics: LossStatistics, blocks: pa.Table) -> dict[str, Any]:
    """What is proved of ``sse``: a lower bound, the gap to it in percent of the loss; and what made the groups.

    Blocks lose independently of each other, so their bounds add up. All refers to what is released, after
    rounding. Bounds are rounded down, by more than standardizing has rounded nearby values, and gap and ratio
    computed from them, so that none claims too much.
    """
    sse = losses_of(statistics)["sse"]
    total = math.fsum(np.asarray(blocks["lower_bound"]).tolist())
    bound = min(rounded(total * _SHRINK, decimal.ROUND_FLOOR), significant(sse))
    figures: dict[str, Any] = {"lower_bound": bound, "gap": significant(gap_percent(sse, bound)), **_choices(blocks)}
    figures["refined"] = bool(np.any(np.asarray(blocks["improved"])))
    if "bound" in blocks.column_names:
        figures["certificate"] = _certificate(blocks)
    return figures


def _certificate(blocks: pa.Table) -> dict[str, float | None]:
    """How far from the least possible the loss is at most, from bounds that the algorithm proved for every block."""
    columns = [blocks[name].to_pylist() for name in ("sse", "weight", "bound")]
    whole = combined(Certificate(*figures) for figures in zip(*columns, strict=True))
    whole = replace(whole, bound=whole.bound * _SHRINK)
    return {
        "sse": significant(whole.sse),
        "weight": significant(whole.weight),
        "bound": rounded(whole.bound, decimal.ROUND_FLOOR),
        "optimum_at_least": rounded(whole.optimum_at_least, decimal.ROUND_FLOOR),
        "ratio": rounded(whole.ratio, decimal.ROUND_CEILING) if math.isfinite(whole.ratio) else None,
    }


def _choices(blocks: pa.Table) -> dict[str, list[str]]:
    """What was tried, and what was chosen by some block, where the choice was left to the blocks."""
    tried = {name for names in blocks["tried"].to_pylist() for name in names.split(",") if name}
    return {"tried": sorted(tried), "chosen": sorted(set(blocks["algorithm"].to_pylist()))} if tried else {}


def published_losses(
    statistics: LossStatistics,
    n_groups: int,
    types: Sequence[QuasiType],
    moments: Sequence[Moments],
    proved: Mapping[str, Any],
) -> dict[str, Any]:
    """The figures that may be published; what is proved as :func:`proved_figures` gives it."""
    free = statistics.records - n_groups
    figures: dict[str, Any] = {"records": statistics.records}
    if free < _FREE_FOR_TOTALS:
        return {**figures, "withheld": "the release is too small for figures that do not tell of single records"}
    figures |= {name: _published(value) for name, value in losses_of(statistics).items()} | dict(proved)
    if free < _FREE_FOR_ATTRIBUTES:
        return {**figures, "withheld": "figures by attribute: the release is too small for them"}
    attributes = zip(types, attribute_losses(statistics), moments, strict=True)
    figures["attributes"] = {kind.name: _attribute(kind, losses, after) for kind, losses, after in attributes}
    if len(types) > 1:
        change = correlation_change(statistics)
        figures["correlation_change"] = {**change, **{n: _published(change[n]) for n in ("mean", "largest")}}
    return figures


def _attribute(kind: QuasiType, losses: dict[str, float], after: Moments) -> dict[str, Any]:
    unit = _unit(kind)
    return {
        "unit": unit.name,
        "l_sse": _published(losses["l_sse"]),
        "il1s": _published(losses["il1s"]),
        "mean": _mean(kind, after, unit) if after.n else None,  # nothing but missing values has none
        "variance": _squared(after.deviation / unit.ticks),
        "variance_kept": _published(losses["variance_kept"]),
    }


@dataclass(frozen=True)
class _Unit:
    """What mean and variance are in (the variance in its square), and how many ticks make one."""

    name: str
    ticks: float


_TICKS_OF_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _unit(kind: QuasiType) -> _Unit:
    source = kind.source_type
    if pa.types.is_date(source):
        return _Unit("days", 1.0 if pa.types.is_date32(source) else 86_400_000.0)
    if pa.types.is_timestamp(source):
        return _Unit("seconds", float(_TICKS_OF_A_SECOND[source.unit]))
    # What is released as a float has the column's own unit; ticks of decimals are units of their last digit.
    return _Unit("the column's", 10.0**kind.scale if kind.kind == "int" and kind.step else 1.0)


def _mean(kind: QuasiType, after: Moments, unit: _Unit) -> float | str:
    """The mean as a number; of dates and timestamps to the day or second, as ISO 8601 has them."""
    ticks = float(after.origin) + after.mean
    if unit.name == "days":  # numpy's calendar goes on where Python's ends, in the year 9999
        return str(np.datetime64(round(ticks / unit.ticks), "D"))
    if unit.name == "seconds":
        return str(np.datetime64(round(ticks / unit.ticks), "s")) + ("Z" if kind.source_type.tz else "")
    return significant(ticks / unit.ticks)


def _squared(deviation: float) -> float | None:
    """The variance; None where no float is large enough for it, since JSON has no infinity."""
    return _published(deviation * deviation)


def _published(value: float | None) -> float | None:
    """A figure to six significant digits; None where there is none that JSON could hold."""
    return significant(value) if value is not None and math.isfinite(value) else None


def risk_figures(context: Context, blocks: pa.Table) -> dict[str, Any]:
    """For the operator: group sizes, and the groups that disclose a confidential value because all share it."""
    n_groups = int(np.asarray(blocks["groups"]).sum())
    return {
        "groups": n_groups,
        "smallest_group": int(np.asarray(blocks["least"]).min()),
        "largest_group": int(np.asarray(blocks["most"]).max()),
        "groups_with_one_confidential_value": {
            column.name: int(np.asarray(blocks[f"constant_{j}"]).sum())
            for j, column in enumerate(context.schema.confidential)
        },
    }
