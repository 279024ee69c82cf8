"""Portraits: what is noted of records as they came and as they are released, and the pictures made of all of it.

Drawn records stay in the private work area; what becomes of them in the flow are counts of many. Nothing of it decides
what is released, and no picture stops a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from microagg_core.arrays import Floats
from microagg_core.data.kinds.contract import Claim
from microagg_core.group.metrics.statistics import LossStatistics
from microagg_core.inspect.contract import Inspection, Promise, ReleasedFile
from microagg_core.inspect.exposure import is_asked
from microagg_core.inspect.notes import PlainTable
from microagg_core.inspect.portrait.contract import Correlations, Portrait
from microagg_core.inspect.portrait.models import NO_RECORDS, AnalysisSums, regressions_of, sums_of
from microagg_core.inspect.portrait.pictures import correlations_of, distributions_of, pictures_of, telling_pairs
from microagg_core.inspect.portrait.scales import FEWEST, DrawnColumn, ShownColumn
from microagg_core.inspect.portrait.summaries import summaries_of

#: Records that pictures are of: a share of them is off by a third of a percent at most, mostly.
DRAWN = 100_000
#: And fewer where there are many columns: this many values, before and after, are what the flow can hold (32 MB).
_DRAWN_VALUES = 4_000_000


@dataclass(frozen=True)
class Portrayed:
    """Drawn records of files, in their units: columns b0, b1, ... as they came and a0, a1, ... as they are released.

    Only of quasi-identifiers whose kind claims that means are kept: what has no mean has no place in a picture.
    """

    files: int
    rows: int
    drawn: PlainTable
    #: Of all records: the sums of each formula.
    analyses: tuple[AnalysisSums, ...]


class Portraying(Inspection[Portrayed]):
    family = name = "portrait"
    notes = Portrayed

    def note(self, file: ReleasedFile) -> Portrayed | None:
        """Draw records and sum over all; nothing where that fails, and the portrait then misses the file."""
        try:
            sums = tuple(sums_of(file, text) for text in file.promise.analyses)
            return Portrayed(1, file.table.num_rows, _drawn(file), sums)
        except (ArithmeticError, LookupError, TypeError, ValueError):  # pyarrow's are among them
            return None


def _drawn(file: ReleasedFile) -> pa.Table:
    promise, table, origins = file.promise, file.table, file.origins
    share = drawing_share(promise.rows, len(promise.kinds))
    if share < 1.0:
        drawn = pa.array(is_asked(file.records, share, promise.seed))
        table, origins = table.filter(drawn), origins.filter(drawn)
    columns: dict[str, Floats] = {}
    for j in _with_mean(promise):
        shown = ShownColumn(promise.kinds[j])
        columns |= {f"b{j}": shown.before(origins[f"q{j}"]), f"a{j}": shown.after(table[shown.kind.name])}
    return pa.table(columns)


def _with_mean(promise: Promise) -> list[int]:
    return [j for j, kind in enumerate(promise.kinds) if Claim.MEAN_KEPT in kind.claims]


def drawing_share(records: int, p: int) -> float:
    """Share of a release's records that pictures are made of, where it has ``p`` quasi-identifiers.

    >>> drawing_share(50_000, 4), drawing_share(10**6, 4), drawing_share(10**6, 200)
    (1.0, 0.1, 0.01)
    """
    return min(1.0, min(DRAWN, _DRAWN_VALUES // (2 * max(p, 1))) / max(records, 1))


def fewest_records(k: int) -> int:
    """Least number of records of an interval, a cell or a level.

    >>> fewest_records(3), fewest_records(25)
    (10, 25)
    """
    return max(k, FEWEST)


def portrait_of(
    promise: Promise, noted: Portrayed | None, statistics: LossStatistics | None, left_out: Sequence[str] = ()
) -> Portrait:
    """Make the portrait of a release; of no file of arrivals, or of no grouped record, there is little to show."""
    fewest, shown = fewest_records(promise.k), _with_mean(promise)
    if noted is None:
        none = pa.table({f"{side}{j}": np.zeros(0) for side in "ba" for j in shown})
        noted = Portrayed(0, 0, none, (AnalysisSums(NO_RECORDS, NO_RECORDS),) * len(promise.analyses))
    regressions, remarks = regressions_of(promise, noted.analyses, fewest)
    remarks += [
        f"{kind.name!r} is in no picture, as it has no mean"
        for j, kind in enumerate(promise.kinds)
        if j not in shown and not (kind.is_coded or kind.is_ranked or kind.is_weight)
    ]
    columns = [
        DrawnColumn(ShownColumn(promise.kinds[j]), np.asarray(noted.drawn[f"b{j}"]), np.asarray(noted.drawn[f"a{j}"]))
        for j in shown
    ]
    correlations = None if statistics is None else correlations_of(promise.kinds, statistics, fewest)
    whole = Portrait(noted.rows, 0, regressions=tuple(regressions), left_out=(*left_out, *remarks))
    return with_pictures(whole, columns, fewest, correlations)


def with_pictures(
    portrait: Portrait, columns: Sequence[DrawnColumn], fewest: int, correlations: Correlations | None
) -> Portrait:
    """Add pictures of the drawn records, and correlations of all; nothing is shown where no record was grouped."""
    drawn = len(columns[0].before) if columns else 0
    if correlations is None or not drawn:
        return replace(portrait, drawn=drawn, regressions=())
    distributions, left_out = distributions_of(columns, fewest)
    return replace(
        portrait,
        drawn=drawn,
        distributions=tuple(distributions),
        pairs=tuple(pictures_of(columns, telling_pairs(correlations), fewest)),
        correlations=correlations,
        left_out=(*portrait.left_out, *left_out),
        summaries=tuple(summaries_of(columns, fewest)),
    )
