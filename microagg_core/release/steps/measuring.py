"""Measure: what the release lost, combined from the blocks, and what it gives away, combined from its files.

Losses are published, as far as :mod:`microagg_core.inspect.published` lets them; risk is for the operator alone.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.blocks.masking import ZEROS_JOINED
from microagg_core.data.kinds.contract import Claim
from microagg_core.errors import MicroaggError, sanitized
from microagg_core.group.bounds import Certificate, combined, gap_percent
from microagg_core.group.metrics.figures import CertificateFigures, Figures
from microagg_core.group.metrics.losses import percent
from microagg_core.group.metrics.moments import Moments
from microagg_core.group.metrics.statistics import LossStatistics, losses_of, significant
from microagg_core.inspect.checks.edits import Edits
from microagg_core.inspect.checks.weights import Weights
from microagg_core.inspect.gate import Inspected, measures
from microagg_core.inspect.portrait.contract import Portrait, WeightedTotals
from microagg_core.inspect.portrait.pictures import category_tables
from microagg_core.inspect.portrait.portrait import Portraying, fewest_records, portrait_of
from microagg_core.inspect.published import (
    MOST_DIGITS,
    figures_of_few,
    figures_of_night,
    published_figures,
    to_digits,
    with_categories,
    with_summaries,
)
from microagg_core.inspect.risk.labels import Labels
from microagg_core.release.planned import Planned
from microagg_core.release.step import Pieces
from microagg_core.release.steps.anonymize import BLOCK_LINES, LOSSES
from microagg_core.release.steps.checking import CarriedFiles, moments_of_released, promise_of
from microagg_core.release.steps.demands import needs_protection

#: Of the document of risk; 1 and 2: counts of groups, as the algorithm made them.
RISK_FORMAT_VERSION = 3
#: Standardizing rounds nearby values by less than this takes from a bound.
_SHRINK = 1.0 - 2.0**-30


@dataclass(frozen=True)
class Risk:
    """Figures by measure, and a line for each label of each file."""

    figures: dict[str, Any]
    labels: pa.Table


@dataclass(frozen=True)
class Measured:
    """Loss and risk of a release, the lines of its blocks, and its portrait."""

    figures: Figures
    risk: Risk
    blocks: pa.Table
    portrait: Portrait
    #: What could not be portrayed, and zeros that could not be grouped apart, in sentences.
    troubles: tuple[str, ...] = ()


def measure_release(
    planned: Planned,
    anonymized: Pieces,
    files: Inspected,
    came: Sequence[Moments],
    carried: CarriedFiles | None = None,
) -> Measured:
    """Combine what the blocks lost with what the files give away; ``carried`` are those of survivors.

    ``came`` are the moments of the released records as they came.
    """
    spec, kinds, rows = planned.context.spec, planned.encoding.kinds, int(planned.outline.rows.sum())
    risk = combine_risk(planned, files)

    def of_file(arrivals: Figures) -> Figures:
        if carried is None or not carried.rows:
            return arrivals
        moments = moments_of_released(files.whole, len(kinds))
        return figures_of_night(rows + carried.rows, kinds, moments, arrivals)

    if not planned.outline.n_partitions:  # a night of a series in which no record was grouped
        return Measured(of_file(figures_of_few(0)), risk, pa.table({}), *_portrait(planned, files, carried, None))
    statistics = reduce(add, anonymized.read_all(LOSSES))
    blocks = pa.concat_tables(anonymized.read_all(BLOCK_LINES))
    n_groups = int(np.asarray(blocks["groups"]).sum())
    released = moments_of_released(files.arrivals, len(kinds))
    moments = list(zip(came, released, strict=True))
    weighed = files.arrivals.by_key.get(Weights().key) if planned.context.schema.weight is not None else None
    # What must not tell of k units must not tell of all of their rows.
    unit_rows = planned.outline.unit_rows
    k, fewest = spec.k * unit_rows, fewest_records(spec.k) * unit_rows
    proved = proved_figures(statistics, blocks, spec.algorithm.name)
    figures = published_figures(statistics, n_groups, kinds, moments, proved, fewest, weighed, unit_rows)
    portrait, troubles = _portrait(planned, files, carried, statistics)
    if carried is None or not carried.rows:
        figures = with_summaries(figures, portrait, k, fewest)
        figures = with_categories(figures, kinds, moments, k, fewest)
    portrait = replace(portrait, categories=tuple(category_tables(kinds, moments, fewest)))
    joined = _joined_zeros(blocks, spec.k, asks_more=needs_protection(planned.context))
    return Measured(of_file(figures), risk, blocks, portrait, (*troubles, *joined))


def combine_risk(planned: Planned, files: Inspected) -> Risk:
    """Turn what was noted of all files into the document of the audit, and its lines."""
    spec, names = planned.context.spec, tuple(kind.name for kind in planned.context.kinds)
    figures: dict[str, Any] = {"records": files.whole.rows}
    for measure in measures():
        noted = files.of_all(measure)
        figures[measure.name] = {} if noted is None else measure.figures(noted, names)
    document = {"measured": spec.risk, "k": spec.k, "unit": "row" if spec.unit == "row" else "units", **figures}
    if files.survivors.rows:  # of survivors the input's values are not at hand, so none of them is asked
        document["arrivals"] = files.arrivals.rows
    lines = files.of_all(Labels())
    return Risk(document, pa.table({}) if lines is None else lines)


def _portrait(
    planned: Planned, files: Inspected, carried: CarriedFiles | None, statistics: LossStatistics | None
) -> tuple[Portrait, tuple[str, ...]]:
    """Combine the portrait; where it cannot be made, an empty one and a sentence, as no page stops a release."""
    try:
        return combine_portrait(planned, files, carried, statistics), ()
    except MicroaggError:  # such as damaged work, which is made again
        raise
    except Exception as error:
        trouble = f"the operator's page has no pictures: {sanitized(error, 'portraying').message}"
        return Portrait(planned.survey.arrivals, 0, left_out=(trouble,)), (trouble,)


def combine_portrait(
    planned: Planned, files: Inspected, carried: CarriedFiles | None, statistics: LossStatistics | None
) -> Portrait:
    """Make the portrait from what was noted of all files, and say which records are in nothing of it."""
    noted, left_out = files.arrivals.by_key.get(Portraying().key), []
    if lacking := planned.outline.n_files - (noted.files if noted else 0):
        raise ValueError(f"{lacking} files were not portrayed")
    if carried is not None and carried.n_files:
        left_out.append("survivors are not in it: of them, the series keeps what was released, and not how they came")
    if planned.outline.withheld_rows:
        left_out.append("withheld records are not in it, neither before nor after")
    counted = files.arrivals.by_key.get(Edits().key, ())
    edits = {edit.rule: count for edit, count in zip(planned.context.spec.edits, counted, strict=False)}
    portrait = portrait_of(promise_of(planned), noted, statistics, left_out)
    return replace(portrait, edits=edits, weighted=_weighted_totals(planned, files))


def _weighted_totals(planned: Planned, files: Inspected) -> WeightedTotals | None:
    weighed, weight = files.arrivals.by_key.get(Weights().key), planned.context.schema.weight
    if weight is None or weighed is None or not weighed.off:
        return None
    of_columns = zip(planned.context.kinds, weighed.before.tolist(), weighed.after.tolist(), strict=True)
    totals = tuple(
        (kind.name, before, after)
        for kind, before, after in of_columns
        if kind.is_weight or Claim.MEAN_KEPT in kind.claims
    )
    loss = percent(weighed.lost, weighed.squares)
    return WeightedTotals(weight, totals, weighed.farthest, weighed.largest_share, loss)


def _joined_zeros(blocks: pa.Table, k: int, *, asks_more: bool) -> list[str]:
    """Say how many zeros that were to be grouped apart are in groups with other values."""
    counts = {name: int(np.asarray(blocks[name]).sum()) for name in blocks.column_names if ZEROS_JOINED in name}
    more = ", or groups would not hold what is asked of them besides k" if asks_more else ""
    return [
        f"{count:,} zeros of {name.removeprefix(ZEROS_JOINED)!r} are grouped with other values, as fewer than k={k} "
        f"records of their block have a zero there, or have none, among those alike in the columns before{more}"
        for name, count in counts.items()
        if count
    ]


def proved_figures(statistics: LossStatistics, blocks: pa.Table, algorithm: str) -> Figures:
    """Prove of ``sse`` a lower bound, and the gap to it in percent of the loss; and say what made the groups.

    Blocks lose independently of each other, so their bounds add up. All refers to what is released, after
    rounding. Bounds are rounded down, by more than standardizing has rounded nearby values, and gap and ratio
    computed from them, so that none claims too much. Nothing is proved where it is not of some block.
    """
    sse, made = losses_of(statistics).sse, Figures(refined=bool(np.any(np.asarray(blocks["improved"]))))
    made |= _choices(blocks, algorithm)
    total = math.fsum(np.asarray(blocks["lower_bound"]).tolist())
    if math.isnan(total):
        return made
    bound = min(to_digits(total * _SHRINK, MOST_DIGITS, decimal.ROUND_FLOOR), significant(sse))
    figures = made | Figures(lower_bound=bound, gap=significant(gap_percent(sse, bound)))
    return figures | Figures(certificate=_certificate(blocks)) if "bound" in blocks.column_names else figures


def _certificate(blocks: pa.Table) -> CertificateFigures:
    columns = [blocks[name].to_pylist() for name in ("sse", "weight", "bound")]
    whole = combined(Certificate(*figures) for figures in zip(*columns, strict=True))
    whole = replace(whole, bound=whole.bound * _SHRINK)
    return CertificateFigures(
        sse=significant(whole.sse),
        weight=significant(whole.weight),
        bound=to_digits(whole.bound, MOST_DIGITS, decimal.ROUND_FLOOR),
        optimum_at_least=to_digits(whole.optimum_at_least, MOST_DIGITS, decimal.ROUND_FLOOR),
        ratio=to_digits(whole.ratio, MOST_DIGITS, decimal.ROUND_CEILING) if math.isfinite(whole.ratio) else None,
    )


def _choices(blocks: pa.Table, algorithm: str) -> Figures:
    """Say what made the groups, where the spec's algorithm did not make all of them."""
    tried = {name for names in pc.unique(blocks["tried"]).to_pylist() for name in names.split(",") if name}
    chosen = tuple(sorted(pc.unique(blocks["algorithm"]).to_pylist()))
    return Figures() if chosen == (algorithm,) else Figures(tried=tuple(sorted(tried)) or None, chosen=chosen)
