"""Linkage: at most a share of the records is expected to be linked rightly by who knows all quasi-identifiers."""

from __future__ import annotations

import numpy as np

from microagg_core.inspect.candidates import Candidates
from microagg_core.inspect.contract import Limit, ReleasedFile
from microagg_core.inspect.demand import Protection
from microagg_core.inspect.exposure import Exposure

#: It is demanded of all columns together.
EVERY_COLUMN = "*"


class RightLinks(Limit):
    name = "linkage"
    how = "sum"

    def limits(self, protection: Protection) -> dict[str, float]:
        return {} if protection.linkage is None else {EVERY_COLUMN: protection.linkage}

    def show(self, exposure: Exposure, column: str) -> None:
        """Nothing: only some records are asked for the figures of risk."""

    def shown(self, file: ReleasedFile) -> dict[str, float | None]:
        return {column: self._links(file) for column in self.limits(file.promise.protection)}

    def _links(self, file: ReleasedFile) -> float | None:
        shown, encoding = file.exposure, file.promise.encoding
        if file.is_carried or not np.isfinite(shown.means).all():  # of which another check says more
            return None
        ticks, missing = encoding.ticks(file.came)
        values = encoding.standardize(encoding.offsets_of(ticks), missing)
        candidates = Candidates(shown.means, shown.missing, shown.labels, shown.sizes, shown.costs)
        return float(candidates.link(values, shown.groups)[1].sum())

    def holds(self, figure: float, limit: float) -> bool:
        return figure <= limit

    def breach(self, column: str, limit: float) -> str:
        return f"more than the allowed share of {limit:g} of the records are expected to be linked rightly"
