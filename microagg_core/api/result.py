"""What masking a table gives: the table, its groups and what that cost, and how this is shown without a record."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from microagg_core.arrays import Ints
from microagg_core.group.metrics.losses import Losses

if TYPE_CHECKING:
    from microagg_core.group.algorithms.best import Tried
    from microagg_core.group.bounds import Bound

#: Digits of a percentage that somebody reads.
_DIGITS = 4
#: Attributes that are shown one by one; of more, those that lose most.
_MOST_SHOWN = 30


@dataclass(frozen=True, repr=False)
class Microaggregated:
    """A masked table, the group of each of its records, and what the masking cost.

    ``groups`` holds one label a record; where each quasi-identifier was masked on its own (individual_ranking), it
    is an (n, p) array with one label a record and quasi-identifier, in the order in which they were named.
    """

    #: The masked table, as a frame of the kind that came in.
    data: Any
    groups: Ints
    losses: Losses
    #: With ``algorithm="best"``: every algorithm that was run, and what it lost, before and after refinement.
    tried: tuple[Tried, ...] = ()
    k: int = 0
    #: Of each quasi-identifier, its loss in percent of its variance.
    by_attribute: Mapping[Hashable, float] = field(default_factory=dict)
    #: What no groups could lose less than, if it was asked for; on the scale of ``losses``.
    bound: Bound | None = None
    #: Records that were withheld, by their places in the table that came in: they are not in ``data``.
    withheld: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __repr__(self) -> str:
        return f"Microaggregated({', '.join(f'{name}: {text}' for name, text in self._facts())})"

    def _repr_html_(self) -> str:
        """Show the same as tables, for notebooks: no value of a record is in it."""
        facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._facts())
        shown = sorted(self.by_attribute.items(), key=lambda item: -item[1])[:_MOST_SHOWN]
        rows = "".join(f"<tr><td>{escape(str(name))}</td><td>{_percent(loss)}</td></tr>" for name, loss in shown)
        rest = len(self.by_attribute) - len(shown)
        more = f"<tr><td colspan='2'>and {rest} that lose less</td></tr>" if rest else ""
        head = "<thead><tr><th>quasi-identifier</th><th>loss of its variance</th></tr></thead>"
        attributes = f"<table>{head}<tbody>{rows}{more}</tbody></table>" if rows else ""
        return f"<div><table><tbody>{facts}</tbody></table>{attributes}</div>"

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "k", str(self.k)
        yield "records", f"{len(self.groups):,}"
        yield "groups", self._groups_in_words()
        yield "loss", _percent(self.losses.l_sse)
        if self.bound is not None and self.losses.sst > 0:
            least = _percent(100.0 * self.bound.sse / self.losses.sst)
            yield "no groups lose less than", f"{least} (gap {_percent(self.bound.gap(self.losses.sse))})"
        if self.losses.certificate is not None:
            yield "at most so many times the least possible", f"{self.losses.certificate.ratio:.3f}"
        if len(self.withheld):
            yield "withheld", f"{len(self.withheld):,}"

    def _groups_in_words(self) -> str:
        if self.groups.ndim == 2:
            return "each quasi-identifier has groups of its own"
        sizes = np.bincount(self.groups)
        return f"{len(sizes):,} of {sizes.min():,} to {sizes.max():,}" if len(sizes) else "0"


def _percent(value: float) -> str:
    """A percentage with the digits that mean something.

    >>> _percent(12.34567), _percent(0.0)
    ('12.35 %', '0 %')
    """
    return f"{value:.{_DIGITS}g} %"
